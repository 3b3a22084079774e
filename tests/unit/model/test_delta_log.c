/* SPDX-License-Identifier: BSD-3-Clause
 * The delta log compared with a model of it: entries of random sizes, and impossible notices. */
#include "model/delta_log.h"
#include "random.h"
#include "sluice.h"
#include "cases.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	KEPT = 2
}; /* LOG_ENTRIES: versions that stay readable in a ring with room for one entry
      more */

struct entry {
	uint64_t end;
	uint32_t bytes;
	uint8_t mark;
};

static uint64_t next_random(struct random *random)
{
	uint64_t high = random_bits(random);
	return high << 32 | random_bits(random);
}

static uint8_t *located(const struct delta_log *log, const struct entry *e)
{
	uint64_t offset = UINT64_MAX;
	assert_int_equal(delta_log_locate(e->end, e->bytes, log->ring_bytes, &offset), 0);
	assert_true(offset % 8 == 0);
	assert_true(offset + e->bytes <= log->ring_bytes);
	return log->ring + offset;
}

TEST(append__100000_random_entries__newest_two_are_located_whole)
{
	struct random random = { 3 };
	for (size_t max = 8; max <= 4096; max *= 8) {
		uint8_t *ring = malloc((KEPT + 1) * max);
		assert_non_null(ring);
		struct delta_log log = { .ring = ring, .ring_bytes = (KEPT + 1) * max };
		struct entry last[KEPT] = { { 0, 0, 0 } };
		for (unsigned i = 0; i < 25000; i++) {
			uint32_t bytes = 1 + (uint32_t)(next_random(&random) % max);
			uint8_t *at = delta_log_reserve(&log, max);
			assert_true(at >= ring && at + max <= ring + log.ring_bytes);
			for (int b = 0; b < 8; b++) /* the old bytes are no message any more */
				assert_int_equal(at[b], 0);
			memset(at, (int)(i & 0xff), bytes);
			uint64_t before = log.end;
			last[i % KEPT] = (struct entry){ delta_log_commit(&log, bytes), bytes,
							 (uint8_t)i };
			assert_true(last[i % KEPT].end == log.end && log.end > before &&
				    log.end % 8 == 0);
			for (unsigned k = 0; k < KEPT && k <= i; k++) {
				const struct entry *e = &last[(i - k) % KEPT];
				const uint8_t *p = located(&log, e);
				assert_int_equal(p[0], e->mark);
				assert_int_equal(p[e->bytes / 2], e->mark);
				assert_int_equal(p[e->bytes - 1], e->mark);
			}
		}
		free(ring);
	}
}

TEST(append__entry_that_would_wrap__starts_at_the_front)
{
	uint8_t ring[96];
	struct delta_log log = { .ring = ring, .ring_bytes = sizeof ring };
	uint64_t offset;
	assert_ptr_equal(delta_log_reserve(&log, 64), ring);
	assert_int_equal(delta_log_commit(&log, 36), 40);
	/* 56 bytes are left, and 64 may be needed. */
	assert_ptr_equal(delta_log_reserve(&log, 64), ring);
	assert_int_equal(delta_log_commit(&log, 60), 96 + 64);
	assert_int_equal(delta_log_locate(96 + 64, 60, sizeof ring, &offset), 0);
	assert_int_equal(offset, 0);
}

TEST(locate__impossible_notice__is_refused_and_writes_nothing)
{
	static const struct {
		uint64_t log_end;
		uint32_t last_bytes;
	} bad[] = {
		{ 64, 0 }, /* no entry */
		{ 0, 8 },  /* nothing was ever written */
		{ 8, 16 }, /* begins before the log */
		{ 65, 8 },
		{ 68, 8 },    /* not a multiple of 8 */
		{ 4096, 97 }, /* larger than the ring */
		{ 4096, UINT32_MAX },
		{ 96 + 8, 16 }, /* would wrap */
		{ UINT64_MAX, 8 },
		{ UINT64_MAX - 7, 97 },
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		uint64_t offset = 12345;
		assert_int_equal(delta_log_locate(bad[i].log_end, bad[i].last_bytes, 96, &offset),
				 SLUICE_EWIRE);
		assert_int_equal(offset, 12345);
	}
}

TEST(locate__any_numbers__never_reach_outside_the_ring)
{
	struct random random = { 4 };
	unsigned accepted = 0;
	for (unsigned i = 0; i < 200000; i++) {
		uint64_t end = next_random(&random) >> next_random(&random) % 64, offset = 0;
		uint32_t bytes = (uint32_t)(next_random(&random) >>
					    (32 + next_random(&random) % 32));
		size_t ring = 8 + next_random(&random) % 512 * 8;
		if (delta_log_locate(end & ~7ull, bytes, ring, &offset))
			continue;
		accepted++;
		assert_true(offset < ring && bytes <= ring - offset);
	}
	assert_true(accepted > 1000);
}
