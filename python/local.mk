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
	python/sluice/recipe.py \
	python/sluice/selftest.py
python_torch = \
	python/sluice/torch/__init__.py \
	python/sluice/torch/_change.py \
	python/sluice/torch/_ddp.py \
	python/sluice/torch/_flat.py \
	python/sluice/torch/_fsdp.py \
	python/sluice/torch/_group.py \
	python/sluice/torch/_local.py \
	python/sluice/torch/_monitor.py \
	python/sluice/torch/_named.py \
	python/sluice/torch/_optimizer.py \
	python/sluice/torch/_watch.py
python_integrations = \
	python/sluice/torch/integrations/__init__.py \
	python/sluice/torch/integrations/accelerate.py \
	python/sluice/torch/integrations/lightning.py \
	python/sluice/torch/integrations/transformers.py
python_examples = \
	python/bench/clipping.py \
	python/bench/convnet.py \
	python/bench/ddp.py \
	python/bench/equal.py \
	python/bench/fashion.py \
	python/bench/gpt_race.jsonl python/bench/gpt_race_large.jsonl \
	python/bench/gpt_race.py \
	python/bench/gpt_table.py \
	python/bench/late.py \
	python/bench/measure \
	python/bench/monitor.py \
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
	python/examples/hsdp.sbatch \
	python/examples/with_accelerate.py \
	python/examples/with_lightning.py \
	python/examples/with_trainer.py
wheel_files = \
	python/wheel/backend.py \
	python/wheel/libraries \
	python/wheel/loader.c \
	python/wheel/loader.h \
	python/wheel/loaders.awk \
	python/wheel/pack.py
EXTRA_DIST += $(python_package) $(python_torch) $(python_integrations) pyproject.toml $(python_examples) $(wheel_files) \
	python/tests/abi.py python/tests/ranks.py python/tests/run.sh python/tests/soak.py python/tests/test_change.py \
	python/tests/test_compile.py python/tests/test_cuda.py python/tests/test_gpt.py python/tests/test_group.py \
	python/tests/test_integrations.py python/tests/test_local.py python/tests/test_monitor.py \
	python/tests/test_named.py python/tests/test_sluice.py python/tests/test_table.py python/tests/test_torch.py \
	python/tests/without_cuda.py

if WITH_PYTHON
sluicepythondir = $(pythondir)/sluice
sluicepython_DATA = $(python_package)
sluicetorchdir = $(pythondir)/sluice/torch
sluicetorch_DATA = $(python_torch)
sluiceintegrationsdir = $(pythondir)/sluice/torch/integrations
sluiceintegrations_DATA = $(python_integrations)
endif

# A python without sanitizers cannot load a library that has them.
if !WITH_SANITIZER
TESTS += python/tests/abi.sh python/tests/local.sh python/tests/sluice.sh python/tests/torch.sh python/tests/wheel.sh
endif
dist_check_SCRIPTS += python/tests/abi.sh python/tests/local.sh python/tests/newer_torch python/tests/sluice.sh python/tests/soak python/tests/torch.sh python/tests/wheel.sh

# "make wheel" writes a file for pip to WHEEL_DIR. It carries the library and sluice-info, which are linked again from the
# objects of this build, but not with the libraries that a machine may lack: these are loaded when they are needed.
WHEEL_DIR = dist
carried = python/wheel/carried
carried_files = $(carried)/libsluice.so.0=lib/libsluice.so.0 $(carried)/sluice-info=bin/sluice-info
carried_loaders = $(carried)/loaders.o $(carried)/loader.o
carried_compile = $(CC) $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS) -fPIC -c
carried_link = $(CC) $(AM_CFLAGS) $(CFLAGS) $(AM_LDFLAGS) $(LDFLAGS)
if HAVE_CUDA
carried_module = libsluice_cuda.la
carried_files += .libs/libsluice_cuda.so=lib/sluice/libsluice_cuda.so
endif

$(carried)/loaders.c: libinfo.la python/wheel/libraries python/wheel/loaders.awk
	$(AM_V_GEN)$(MKDIR_P) $(carried) && needed=`$(NM) -u .libs/libinfo.a | sed -n 's/^ *U //p' | sort -u | tr '\n' ' '` && \
		$(AWK) -v NEEDED="$$needed" -f $(srcdir)/python/wheel/loaders.awk $(srcdir)/python/wheel/libraries >$@.part && \
		mv $@.part $@
$(carried)/loaders.o: $(carried)/loaders.c python/wheel/loader.h
	$(AM_V_CC)$(carried_compile) -o $@ $(carried)/loaders.c
$(carried)/loader.o: python/wheel/loader.c python/wheel/loader.h $(carried)/loaders.c
	$(AM_V_CC)$(carried_compile) -o $@ $(srcdir)/python/wheel/loader.c
$(carried)/libsluice.so.0: libinternal.la $(carried_loaders) runtime/libsluice.map
	$(AM_V_CCLD)$(carried_link) -shared -Wl,-soname,libsluice.so.0 -Wl,--whole-archive .libs/libinternal.a \
		-Wl,--no-whole-archive $(carried_loaders) -Wl,--version-script=$(srcdir)/runtime/libsluice.map -Wl,-z,defs \
		-Wl,-z,nodelete -o $@ -lm -ldl $(LIBS)
$(carried)/sluice-info: tools/info/main.o libinfo.la $(carried_loaders)
	$(AM_V_CCLD)$(carried_link) -o $@ tools/info/main.o .libs/libinfo.a $(carried_loaders) -lm -ldl $(LIBS)
.PHONY: wheel sdist check-wheel
check-wheel: all
	$(srcdir)/python/tests/wheel.sh all
wheel: $(carried)/libsluice.so.0 $(carried)/sluice-info $(carried_module)
	$(AM_V_GEN)STRIP="$(STRIP)" $(PACKER) $(srcdir)/python/wheel/pack.py wheel $(srcdir) $(WHEEL_DIR) $(carried_files)
sdist:
	$(AM_V_GEN)rm -rf $(carried).tree && $(MAKE) $(AM_MAKEFLAGS) -s distdir distdir=$(carried).tree && \
		$(PACKER) $(srcdir)/python/wheel/pack.py sdist $(srcdir) $(WHEEL_DIR) $(carried).tree && rm -rf $(carried).tree
clean-local: clean-wheel
.PHONY: clean-wheel
clean-wheel:
	rm -rf $(carried) $(carried).tree dist
