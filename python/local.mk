# SPDX-License-Identifier: BSD-3-Clause
# The Python package: pure Python over the library's ABI, so nothing is built.
python_package = \
	python/sluice/__init__.py \
	python/sluice/_abi.py \
	python/sluice/_library.py \
	python/sluice/_vector.py \
	python/sluice/_version.py \
	python/sluice/bootstrap.py \
	python/sluice/errors.py \
	python/sluice/info.py \
	python/sluice/job.py \
	python/sluice/model.py \
	python/sluice/py.typed \
	python/sluice/recipe.py
python_torch = \
	python/sluice/torch/__init__.py \
	python/sluice/torch/_ddp.py \
	python/sluice/torch/_flat.py \
	python/sluice/torch/_fsdp.py \
	python/sluice/torch/_group.py \
	python/sluice/torch/_local.py \
	python/sluice/torch/_named.py \
	python/sluice/torch/_optimizer.py \
	python/sluice/torch/_watch.py
python_examples = \
	python/bench/clipping.py \
	python/bench/convnet.py \
	python/bench/ddp.py \
	python/bench/fashion.py \
	python/bench/gpt_race.jsonl \
	python/bench/gpt_race.py \
	python/bench/gpt_table.py \
	python/bench/measure \
	python/bench/simulated_gpt.py \
	python/bench/simulated_table.jsonl \
	python/bench/simulated_table.py \
	python/bench/ways.py \
	python/examples/fashion.py \
	python/examples/fashion.sbatch \
	python/examples/fashion_gloo.py \
	python/examples/gpt.py \
	python/examples/gpt.sbatch \
	python/examples/hsdp.py \
	python/examples/hsdp.sbatch
EXTRA_DIST += $(python_package) $(python_torch) python/pyproject.toml $(python_examples) \
	python/tests/abi.py python/tests/ranks.py python/tests/run.sh python/tests/test_cuda.py python/tests/test_gpt.py python/tests/test_local.py \
	python/tests/test_named.py python/tests/test_sluice.py python/tests/test_torch.py

if WITH_PYTHON
sluicepythondir = $(pythondir)/sluice
sluicepython_DATA = $(python_package)
sluicetorchdir = $(pythondir)/sluice/torch
sluicetorch_DATA = $(python_torch)
endif

# A python without sanitizers cannot load a library that has them.
if !WITH_SANITIZER
TESTS += python/tests/abi.sh python/tests/local.sh python/tests/sluice.sh python/tests/torch.sh
endif
dist_check_SCRIPTS += python/tests/abi.sh python/tests/local.sh python/tests/sluice.sh python/tests/torch.sh
