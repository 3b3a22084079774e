/* SPDX-License-Identifier: BSD-3-Clause
 * The check of the limit on locked memory, on cards whose drivers pin as in fake_fabric.h: the
 * message names as many bytes as connecting needs. The test replaces the kernel's files and
 * limits. */
#include "sluice.h"
#include "verbs_two.h"
#include "cases.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static rlim_t memlock;

FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__real_fopen(const char *path, const char *mode);
int __wrap_getrlimit(int resource, struct rlimit *limit);
int __real_getrlimit(int resource, struct rlimit *limit);

FILE *__wrap_fopen(const char *path, const char *mode)
{
	static char text[128];

	if (strcmp(path, "/proc/self/status") != 0)
		return __real_fopen(path, mode);
	snprintf(text, sizeof(text), "VmPin:\t%" PRIu64 " kB\nCapEff:\t0000000000000000\n",
		 fake_counts.pinned / 1024);
	return fmemopen(text, strlen(text), "r");
}

int __wrap_getrlimit(int resource, struct rlimit *limit)
{
	if (resource != RLIMIT_MEMLOCK)
		return __real_getrlimit(resource, limit);
	*limit = (struct rlimit){ memlock, memlock };
	return 0;
}

enum { DEPTH = 64 };

/* Returns the bytes that the check needs beyond those pinned, with a limit that is too small. */
static uint64_t asked(uint64_t *pinned_out)
{
	const char *at;
	uint64_t need = 0;
	int rc;

	/* The last refusal is that of the check that knows the driver. */
	for (memlock = 0; memlock < (rlim_t)1 << 30; memlock += 16384) {
		rc = pair_open(&pair, DEPTH);
		if (!rc)
			break;
		assert_int_equal(rc, SLUICE_ENOMEM);
		at = strstr(sluice_last_error(), "connecting this job's ranks needs ");
		if (at)
			assert_int_equal(sscanf(at,
						"connecting this job's ranks needs %" SCNu64
						" bytes more (%" SCNu64 " are pinned)",
						&need, pinned_out),
					 2);
		pair_close(&pair);
		assert_null(fake_leak());
	}
	pair_close(&pair);
	return need;
}

FRESH(memlock__drivers_of_three_cards__the_need_is_right_within_a_tenth)
{
	static const enum fake_card cards[] = { FAKE_MLX5, FAKE_BNXT_RE, FAKE_IRDMA };

	for (size_t i = 0; i < sizeof(cards) / sizeof(cards[0]); i++) {
		uint64_t need, taken, before = 0;

		fabric_setup(state);
		fake_be(cards[i], 1);
		need = asked(&before);
		assert_true(need > 0);
		memlock = RLIM_INFINITY;
		fake_counts.pinned = 0;
		open_pair(DEPTH);
		taken = fake_counts.pinned / 2; /* for each of the two ranks */
		close_pair();
		print_message("%s: asks for %" PRIu64 ", takes %" PRIu64 "\n",
			      fake_profiles[cards[i]].driver, need, taken);
		assert_in_range(need, taken - taken / 10, taken + taken / 10);
	}
}

FRESH(memlock__too_small_for_the_queues_of_a_card__refused_before_any_peer_connects)
{
	fake_be(FAKE_MLX5, 1);
	memlock = 128 << 10; /* enough for slots, copies and lines, but not for a queue pair of
				256 KiB */
	assert_int_equal(pair_open(&pair, DEPTH), SLUICE_ENOMEM);
	assert_non_null(strstr(sluice_last_error(), "connecting this job's ranks needs"));
	assert_non_null(strstr(sluice_last_error(), "131072 bytes (RLIMIT_MEMLOCK"));
	assert_int_equal(fake_counts.connects, 0);
	close_pair();
}

/* Soft-RoCE's queues are memory of the kernel, which does not count. */
FRESH(memlock__card_that_pins_no_queue__the_same_limit_suffices)
{
	fake_be(FAKE_RXE, 1);
	memlock = 256 << 10;
	open_pair(DEPTH);
	close_pair();
}
