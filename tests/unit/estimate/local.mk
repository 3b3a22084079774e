# SPDX-License-Identifier: BSD-3-Clause
# Unit tests of runtime/estimate/.
check_PROGRAMS += \
	tests/unit/test_estimate \
	tests/unit/test_histogram \
	tests/unit/test_histogram_messages
bins = tests/unit/estimate/bins.h tests/unit/quiet.h tests/unit/random.h
tests_unit_test_estimate_SOURCES = tests/unit/estimate/test_estimate.c tests/unit/random.h
tests_unit_test_estimate_LDADD = libestimate.la $(LDADD)
tests_unit_test_histogram_SOURCES = tests/unit/estimate/test_histogram.c $(bins)
tests_unit_test_histogram_LDADD = libestimate.la $(LDADD)
tests_unit_test_histogram_messages_SOURCES = tests/unit/estimate/test_histogram_messages.c $(bins)
tests_unit_test_histogram_messages_LDADD = libestimate.la $(LDADD)
