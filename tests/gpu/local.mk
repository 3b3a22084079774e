# SPDX-License-Identifier: BSD-3-Clause
# The GPU module with its kernels run on the CPU (tests/gpu/emulation), for make check; and the ring for
# machines with a GPU (tests/gpu/run).
emulation = tests/gpu/emulation/coroutine.h tests/gpu/emulation/counts.h tests/gpu/emulation/cuda_runtime.h \
	tests/gpu/emulation/cuda_runtime_api.h tests/gpu/emulation/stream.h \
	tests/gpu/emulation/lag.h tests/gpu/emulation/runtime.h
# What nvcc made of the kernels, executed in their place (tests/gpu/ptx.sh).
ptx_machine = tests/gpu/ptx/compute.c tests/gpu/ptx/compute.h tests/gpu/ptx/machine.c tests/gpu/ptx/machine.h \
	tests/gpu/ptx/program.c tests/gpu/ptx/program.h tests/gpu/ptx/shared.c tests/gpu/ptx/shared.h
ptx = tests/gpu/ptx/run.c $(ptx_machine)
# The module asks the runtime in place of CUDA's driver.
emulated_CPPFLAGS = -I$(top_srcdir)/tests/gpu/emulation $(AM_CPPFLAGS) \
	-DDRIVER_FILE=\"libcudart_emulated.so\"
# -rpath makes libtool build a shared object also of what is never installed; -Wl,-rpath names where such objects find
# each other.
emulated_LDFLAGS = $(AM_LDFLAGS) -avoid-version -shared -rpath /nowhere -Wl,-rpath,$(abs_top_builddir)/.libs

# One runtime, and so one device memory, for all modules of a process.
check_LTLIBRARIES += libcudart_emulated.la
libcudart_emulated_la_SOURCES = tests/gpu/emulation/emulation.c tests/gpu/emulation/stream.c \
	tests/gpu/emulation/lag.c tests/gpu/emulation/runtime.c $(emulation) $(ptx)
libcudart_emulated_la_CPPFLAGS = $(emulated_CPPFLAGS)
libcudart_emulated_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
libcudart_emulated_la_LDFLAGS = $(emulated_LDFLAGS)
libcudart_emulated_la_LIBADD = -lm

check_LTLIBRARIES += libsluice_emulated.la
libsluice_emulated_la_SOURCES = $(gpu_c) $(gpu_headers) $(emulation) tests/gpu/emulation/kernels.c
libsluice_emulated_la_CPPFLAGS = $(emulated_CPPFLAGS)
libsluice_emulated_la_LDFLAGS = $(emulated_LDFLAGS) -module
libsluice_emulated_la_LIBADD = libcudart_emulated.la

# The same for the module of sluice-train, with a cuBLAS that hands its products to OpenBLAS.
EXTRA_DIST += tests/gpu/emulation/cublas.c tests/gpu/emulation/train_kernels.c $(emulation)
if BUILD_TRAIN
check_LTLIBRARIES += libcublas_emulated.la libsluice_train_emulated.la
libcublas_emulated_la_SOURCES = tests/gpu/emulation/cublas.c
libcublas_emulated_la_CPPFLAGS = $(emulated_CPPFLAGS) $(BLAS_CFLAGS)
libcublas_emulated_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
libcublas_emulated_la_LDFLAGS = $(emulated_LDFLAGS) -module
libcublas_emulated_la_LIBADD = libcudart_emulated.la $(BLAS_LIBS)
libsluice_train_emulated_la_SOURCES = $(train_cuda_c) $(emulation) tests/gpu/emulation/train_kernels.c
libsluice_train_emulated_la_CPPFLAGS = $(emulated_CPPFLAGS) \
	-DCUBLAS_FILE=\"$(abs_top_builddir)/.libs/libcublas_emulated.so\"
libsluice_train_emulated_la_LDFLAGS = $(emulated_LDFLAGS) -module
libsluice_train_emulated_la_LIBADD = libcudart_emulated.la -lm
endif

check_LTLIBRARIES += tests/gpu/preload.la
tests_gpu_preload_la_SOURCES = tests/gpu/preload.c
tests_gpu_preload_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere

# Others' selections, for sluice-bench --rivals in bench.sh.
check_LTLIBRARIES += tests/gpu/rivals.la
tests_gpu_rivals_la_SOURCES = tests/gpu/fake_rivals.c
tests_gpu_rivals_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere

dist_check_SCRIPTS += tests/gpu/bench.sh tests/gpu/digest.sh tests/gpu/resources.sh tests/gpu/train.sh
TESTS += tests/gpu/bench.sh tests/gpu/resources.sh tests/gpu/train.sh
# A preloaded library would need the sanitizers' own to come first.
if !WITH_SANITIZER
TESTS += tests/gpu/digest.sh
endif
EXTRA_DIST += tests/gpu/pack tests/gpu/ptx.sh tests/gpu/ptx.sum tests/gpu/ptx/faults.ptx tests/gpu/rivals.cu tests/gpu/run tests/gpu/silicon.cu tests/gpu/speed.cu tests/gpu/torch_step.py tests/gpu/torch_topk.py

.PHONY: check-gpu check-ptx
# The PTX of the kernels on the CPU takes minutes, so make check leaves it out: ./quickstart test runs it when the
# kernels have changed.
check-ptx: all
	$(MAKE) check TESTS=
	$(top_srcdir)/tests/gpu/ptx.sh -f
check-gpu: all
	$(top_srcdir)/tests/gpu/run -b $(abs_builddir)
