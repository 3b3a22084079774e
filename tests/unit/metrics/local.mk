# SPDX-License-Identifier: BSD-3-Clause
# Unit tests of runtime/metrics/.
check_PROGRAMS += \
	tests/unit/test_http \
	tests/unit/test_openmetrics \
	tests/unit/test_reporter \
	tests/unit/test_trace
tests_unit_test_http_SOURCES = tests/unit/metrics/test_http.c
tests_unit_test_openmetrics_SOURCES = tests/unit/metrics/test_openmetrics.c tests/unit/scratch.h
tests_unit_test_openmetrics_CPPFLAGS = $(AM_CPPFLAGS) -DSOURCE='"$(abs_top_srcdir)"'
tests_unit_test_reporter_SOURCES = tests/unit/metrics/test_reporter.c tests/unit/scratch.h $(ranks)
tests_unit_test_trace_SOURCES = tests/unit/metrics/test_trace.c
