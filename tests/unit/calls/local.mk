# SPDX-License-Identifier: BSD-3-Clause
# Unit tests of runtime/calls/.
check_PROGRAMS += \
	tests/unit/test_arguments \
	tests/unit/test_header \
	tests/unit/test_simulate \
	tests/unit/test_step \
	tests/unit/test_unload
tests_unit_test_arguments_SOURCES = tests/unit/calls/test_arguments.c $(ranks)
tests_unit_test_arguments_LDADD = libestimate.la $(LDADD)
tests_unit_test_header_SOURCES = tests/unit/calls/test_header.c
tests_unit_test_simulate_SOURCES = tests/unit/calls/test_simulate.c $(ranks)
tests_unit_test_step_SOURCES = tests/unit/calls/test_step.c tests/unit/four_tensors.h $(ranks)
# Loads the shared library at run time, and nothing else of it.
tests_unit_test_unload_SOURCES = tests/unit/calls/test_unload.c
tests_unit_test_unload_CPPFLAGS = $(AM_CPPFLAGS) -DLIBRARY=\"$(abs_top_builddir)/.libs/libsluice.so\"
tests_unit_test_unload_LDADD = $(cases) -ldl
tests_unit_test_unload_DEPENDENCIES = tests/unit/libcases.la libsluice.la
