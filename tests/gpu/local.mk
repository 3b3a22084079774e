# SPDX-License-Identifier: BSD-3-Clause
# The GPU module with its kernels run on the CPU (tests/gpu/emulation), for make check; and the ring for
# machines with a GPU (tests/gpu/run).
emulation = tests/gpu/emulation/coroutine.h tests/gpu/emulation/cuda_runtime.h \
	tests/gpu/emulation/cuda_runtime_api.h
check_LTLIBRARIES += libsluice_emulated.la
libsluice_emulated_la_SOURCES = $(gpu_c) $(gpu_headers) $(emulation) \
	tests/gpu/emulation/emulation.c tests/gpu/emulation/kernels.c
libsluice_emulated_la_CPPFLAGS = -I$(top_srcdir)/tests/gpu/emulation $(AM_CPPFLAGS)
# -rpath makes libtool build a shared object also of what is never installed.
libsluice_emulated_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere

check_LTLIBRARIES += tests/gpu/preload.la
tests_gpu_preload_la_SOURCES = tests/gpu/preload.c
tests_gpu_preload_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere

dist_check_SCRIPTS += tests/gpu/digest.sh tests/gpu/resources.sh
TESTS += tests/gpu/resources.sh
# A preloaded library would need the sanitizers' own to come first.
if !WITH_SANITIZER
TESTS += tests/gpu/digest.sh
endif
EXTRA_DIST += tests/gpu/run tests/gpu/speed.cu tests/gpu/torch_topk.py

.PHONY: check-gpu
check-gpu: all
	$(top_srcdir)/tests/gpu/run -b $(abs_builddir)
