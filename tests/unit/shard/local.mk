# SPDX-License-Identifier: BSD-3-Clause
# Unit tests of runtime/shard/.
check_PROGRAMS += \
	tests/unit/test_async \
	tests/unit/test_candidates \
	tests/unit/test_census \
	tests/unit/test_gpu_shard \
	tests/unit/test_median \
	tests/unit/test_quorum \
	tests/unit/test_reduce \
	tests/unit/test_waiting_messages
tests_unit_test_async_SOURCES = tests/unit/shard/test_async.c $(async_problem)
tests_unit_test_candidates_SOURCES = tests/unit/shard/test_candidates.c tests/unit/random.h tests/unit/thinned.h
tests_unit_test_census_SOURCES = tests/unit/shard/test_census.c tests/unit/scratch.h $(ranks)
tests_unit_test_gpu_shard_SOURCES = tests/unit/shard/test_gpu_shard.c tests/unit/scratch.h $(gpu_lag)
tests_unit_test_median_SOURCES = tests/unit/shard/test_median.c $(ranks)
tests_unit_test_quorum_SOURCES = tests/unit/shard/test_quorum.c tests/unit/scratch.h $(ranks)
tests_unit_test_quorum_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=upload_head -Wl,--wrap=gather_count -Wl,--wrap=upload_post
tests_unit_test_reduce_SOURCES = tests/unit/shard/test_reduce.c tests/unit/random.h tests/unit/thinned.h
tests_unit_test_waiting_messages_SOURCES = tests/unit/shard/test_waiting_messages.c $(same_bits)
