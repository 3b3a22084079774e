# SPDX-License-Identifier: BSD-3-Clause
# Unit tests of runtime/job/.
check_PROGRAMS += \
	tests/unit/test_collective \
	tests/unit/test_continue \
	tests/unit/test_continue_refused \
	tests/unit/test_different_calls \
	tests/unit/test_failure \
	tests/unit/test_hostile_rank \
	tests/unit/test_hubs \
	tests/unit/test_join \
	tests/unit/test_last_error \
	tests/unit/test_lost_notice \
	tests/unit/test_many_processes \
	tests/unit/test_no_memory \
	tests/unit/test_place \
	tests/unit/test_reach \
	tests/unit/test_region_api \
	tests/unit/test_region_delayed \
	tests/unit/test_slow_rank \
	tests/unit/test_split \
	tests/unit/test_threads \
	tests/unit/test_token \
	tests/unit/test_transports
tests_unit_test_collective_SOURCES = tests/unit/job/test_collective.c $(ranks)
tests_unit_test_continue_SOURCES = tests/unit/job/test_continue.c $(survivors)
tests_unit_test_continue_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=reduction_change -Wl,--wrap=dense_take
tests_unit_test_continue_refused_SOURCES = tests/unit/job/test_continue_refused.c $(survivors)
tests_unit_test_continue_refused_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=reduction_change -Wl,--wrap=dense_take \
	-Wl,--wrap=reduction_add
tests_unit_test_different_calls_SOURCES = tests/unit/job/test_different_calls.c $(ranks)
tests_unit_test_failure_SOURCES = tests/unit/job/test_failure.c $(ranks)
tests_unit_test_hostile_rank_SOURCES = tests/unit/job/test_hostile_rank.c $(ranks)
tests_unit_test_hubs_SOURCES = tests/unit/job/test_hubs.c $(ranks)
tests_unit_test_join_SOURCES = tests/unit/job/test_join.c $(ranks)
tests_unit_test_last_error_SOURCES = tests/unit/job/test_last_error.c $(ranks)
tests_unit_test_link_away_SOURCES = tests/unit/job/test_link_away.c $(ranks)
tests_unit_test_lost_notice_SOURCES = tests/unit/job/test_lost_notice.c $(ranks)
tests_unit_test_many_processes_SOURCES = tests/unit/job/test_many_processes.c $(ranks)
tests_unit_test_no_memory_SOURCES = tests/unit/job/test_no_memory.c $(ranks)
tests_unit_test_no_memory_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=region_open
tests_unit_test_place_SOURCES = tests/unit/job/test_place.c tests/unit/scratch.h
tests_unit_test_place_LDADD = $(LDADD) $(HWLOC_LIBS)
tests_unit_test_probe_SOURCES = tests/unit/job/test_probe.c
tests_unit_test_reach_SOURCES = tests/unit/job/test_reach.c
tests_unit_test_region_api_SOURCES = tests/unit/job/test_region_api.c $(ranks)
# Defines the table of transports.
tests_unit_test_region_delayed_SOURCES = tests/unit/job/test_region_delayed.c $(ranks)
tests_unit_test_slow_rank_SOURCES = tests/unit/job/test_slow_rank.c $(ranks)
tests_unit_test_threads_SOURCES = tests/unit/job/test_threads.c $(ranks)
tests_unit_test_split_SOURCES = tests/unit/job/test_split.c $(ranks)
tests_unit_test_token_SOURCES = tests/unit/job/test_token.c
tests_unit_test_transports_SOURCES = tests/unit/job/test_transports.c $(ranks)
if HAVE_LIBFABRIC
# Only a rank with a network has keys.
check_PROGRAMS += tests/unit/test_link_away tests/unit/test_probe
else
EXTRA_DIST += tests/unit/job/test_link_away.c tests/unit/job/test_probe.c
endif
