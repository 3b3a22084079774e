# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += \
	tests/unit/test_info
tests_unit_test_info_SOURCES = tests/unit/test_info.c tests/unit/scratch.h tests/unit/two_gpus.h
tests_unit_test_info_CPPFLAGS = $(AM_CPPFLAGS) -DSOURCE='"$(abs_top_srcdir)"'
tests_unit_test_info_LDADD = libinfo.la $(CMOCKA_LIBS)
