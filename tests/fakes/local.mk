# SPDX-License-Identifier: BSD-3-Clause
# Fakes of what a test machine lacks: a network, its connection manager, a launcher, CUDA's driver.
fake_ofi = tests/fakes/ofi/fake_ofi.c tests/fakes/ofi/fake_ofi_moves.c tests/fakes/ofi/fake_ofi.h \
	tests/fakes/ofi/fake_ofi_parts.h
# The verbs transport over a card and a connection manager made of memory: their symbols come first.
fake_fabric = tests/fakes/verbs/fake_verbs.c tests/fakes/verbs/fake_completions.c \
	tests/fakes/verbs/fake_wires.c tests/fakes/verbs/fake_placing.c \
	tests/fakes/verbs/fake_datagrams.c tests/fakes/verbs/fake_cm.c \
	tests/fakes/verbs/fake_fabric.h
fake_pmix = tests/fakes/pmix/fake_pmix.c tests/fakes/pmix/fake_pmix.h

# Its name and version give it the soname of CUDA's driver.
check_LTLIBRARIES += tests/unit/libcuda.la
tests_unit_libcuda_la_SOURCES = tests/fakes/cuda/fake_driver.c
tests_unit_libcuda_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:0 -shared -rpath /nowhere
