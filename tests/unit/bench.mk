# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += \
	tests/unit/test_bench
tests_unit_test_bench_SOURCES = tests/unit/test_bench.c
tests_unit_test_bench_LDADD = libbench.la $(CMOCKA_LIBS) -lm
# Others' selections, for sluice-bench --rivals in tests/gpu/bench.sh.
check_LTLIBRARIES += tests/unit/rivals.la
tests_unit_rivals_la_SOURCES = tests/unit/fake_rivals.c
tests_unit_rivals_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
