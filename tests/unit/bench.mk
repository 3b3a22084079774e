# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += \
	tests/unit/test_bench
tests_unit_test_bench_SOURCES = tests/unit/test_bench.c
tests_unit_test_bench_LDADD = libbench.la $(CMOCKA_LIBS) -lm
