/* SPDX-License-Identifier: BSD-3-Clause
 * What all ranks read out of the records: which transport goes between two ranks, and whether a
 * last resort must be opened. A job is written as a text per rank: the letter of its kernel, then a
 * letter per transport, upper case where it is open, lower case where it can be opened. */
#include "base/bytes.h"
#include "job/reach.h"
#include "rdma/transport.h"
#include "sluice.h"
#include "cases.h"
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 8 };

static int number_of(const char *name)
{
	for (int t = 0; transports[t]; t++)
		if (!strcmp(transports[t]->name, name))
			return t;
	return -1;
}

static const char *name_of(char letter)
{
	switch (letter) {
	case 'S': return "shm";
	case 'V':
	case 'v': return "verbs";
	case 'O':
	case 'o': return "ofi";
	default: fail_msg("no transport %c", letter); return NULL;
	}
}

static void add(struct rank_record *record, const char *name, int open)
{
	uint8_t *at = record->payload + record->payload_bytes;

	memset(at, 0, 8);
	memcpy(at, name, strlen(name));
	put_le32(at + 8, open ? 5 : 0);
	memset(at + 12, 0xaa, 5);
	record->payload_bytes += open ? 17 : 12;
}

static struct reach *reach_of(const char *const *ranks, int size)
{
	struct rank_record *records = calloc((size_t)size, sizeof(*records));
	struct reach *r = NULL;

	for (int i = 0; i < size; i++) {
		memset(records[i].boot_id, ranks[i][0], sizeof(records[i].boot_id));
		records[i].payload_bytes = 4;
		add(&records[i], "self", 1);
		for (const char *c = ranks[i] + 1; *c; c++)
			add(&records[i], name_of(*c), *c >= 'A' && *c <= 'Z');
	}
	assert_int_equal(reach_open(size, 0, &r), 0);
	reach_fill(r, records);
	free(records);
	return r;
}

struct job {
	const char *ranks[RANKS_MAX];
	int incomplete;
	const char *missing_01; /* the transport that ranks 0 and 1 miss */
	const char *way_01;
	unsigned wants; /* ranks that are to open ofi, as bits */
	int first_on_ofi;
	const char *cut; /* "02": the first two ranks without a way */
};

TEST(jobs__of_many_kinds__all_get_the_cheapest_ways)
{
	static const struct job jobs[] = {
		/* one machine: nothing is opened */
		{ { "aSo", "aSo", "aSo", "aSo" }, 0, NULL, "shm", 0, -1, NULL },
		{ { "aSVo", "aSVo" }, 0, NULL, "shm", 0, -1, NULL },
		/* RDMA everywhere */
		{ { "aSVo", "bSVo", "cSVo" }, 0, NULL, "verbs", 0, -1, NULL },
		{ { "aSVo", "aSVo", "bSVo" }, 0, NULL, "shm", 0, -1, NULL },
		/* two machines without */
		{ { "aSo", "bSo" }, 1, "ofi", NULL, 3, -1, NULL },
		{ { "aSo", "aSo", "bSo", "bSo" }, 1, NULL, "shm", 15, -1, NULL },
		/* only one of them has a record: who has RDMA to one keeps it */
		{ { "aSVo", "bSVo", "cSo" }, 1, NULL, "verbs", 7, -1, NULL },
		{ { "aSVo", "bSo" }, 1, "ofi", NULL, 3, -1, NULL },
		/* it was opened, in both cases or in one, as users named it */
		{ { "aSO", "bSO" }, 0, NULL, "ofi", 0, 0, NULL },
		{ { "aSO", "bSo" }, 1, "ofi", NULL, 2, -1, NULL },
		{ { "aSVO", "bSVO" }, 0, NULL, "verbs", 0, -1, NULL },
		{ { "aSV", "bSVo", "bSO", "cO" }, 1, NULL, "verbs", 2, 2, "02" },
		/* a user allows one too little: nothing can be done */
		{ { "aSo", "bS" }, 0, NULL, NULL, 0, -1, "01" },
		{ { "aSo", "bS", "cSo" }, 1, NULL, NULL, 5, -1, "01" },
		{ { "aSo", "aSo", "aSo", "bS" }, 0, NULL, "shm", 0, -1, "03" },
		{ { "aV", "aS" }, 0, NULL, NULL, 0, -1, "01" },
	};

	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		const struct job *j = &jobs[i];
		unsigned wants = 0;
		struct reach *r;
		int n = 0;

		while (n < RANKS_MAX && j->ranks[n])
			n++;
		r = reach_of(j->ranks, n);
		if (reach_is_incomplete(r) != j->incomplete)
			fail_msg("job %zu is %scomplete", i, j->incomplete ? "" : "in");
		assert_int_equal(reach_missing(r, 0, 1),
				 j->missing_01 ? number_of(j->missing_01) : -1);
		for (int a = 0; a < n; a++) {
			assert_int_equal(reach_transport(r, a, a), number_of("self"));
			for (int b = 0; b < n; b++) {
				assert_int_equal(reach_transport(r, a, b),
						 reach_transport(r, b, a));
				assert_int_equal(reach_missing(r, a, b), reach_missing(r, b, a));
			}
			wants |= (unsigned)reach_wants(r, a, number_of("ofi")) << a;
			assert_int_equal(reach_wants(r, a, number_of("shm")), 0);
		}
		assert_int_equal(reach_transport(r, 0, 1), j->way_01 ? number_of(j->way_01) : -1);
		assert_int_equal(wants, j->wants);
		for (int own = 0; own < n; own++) {
			int a, b;

			if (reach_cut(r, own, &a, &b) != (j->cut != NULL))
				fail_msg("job %zu is %scut", i, j->cut ? "" : "not ");
			if (!j->cut)
				continue;
			assert_true(reach_transport(r, a, b) < 0 && reach_missing(r, a, b) < 0);
			assert_true(a == own || (a == j->cut[0] - '0' && b == j->cut[1] - '0'));
		}
		assert_int_equal(reach_first_user(r, number_of("ofi")), j->first_on_ofi);
		reach_close(&r);
		assert_null(r);
	}
}

TEST(simulated_ranks__reach_each_other_by_self)
{
	struct rank_record records[3] = { { .payload_bytes = 4 },
					  { .payload_bytes = 4 },
					  { .payload_bytes = 4 } };
	struct reach *r;

	for (int i = 0; i < 3; i++)
		add(&records[i], "self", 1);
	for (int simulated = 0; simulated < 2; simulated++) {
		assert_int_equal(reach_open(3, simulated, &r), 0);
		reach_fill(r, records);
		assert_int_equal(reach_transport(r, 1, 1), 0);
		assert_int_equal(reach_transport(r, 0, 2), simulated ? 0 : -1);
		assert_int_equal(reach_is_incomplete(r), 0);
		reach_close(&r);
	}
}

/* Whatever a record says, nothing beyond its payload is read. */
TEST(card_find__damaged_lengths__finds_nothing)
{
	struct rank_record *record = calloc(1, sizeof(*record));
	size_t bytes = 0;

	record->payload_bytes = 4;
	add(record, "self", 1);
	add(record, "shm", 1);
	assert_ptr_equal(record_find(record, "shm", &bytes), record->payload + 4 + 17 + 12);
	assert_int_equal(bytes, 5);
	assert_null(record_find(record, "ofi", &bytes));
	assert_null(record_find(record, "sh", &bytes));
	for (uint32_t n = record->payload_bytes - 1; n > 0; n--) {
		record->payload_bytes = n;
		assert_null(record_find(record, "shm", &bytes));
	}
	record->payload_bytes = 38;
	for (uint32_t wrong = 1; wrong; wrong <<= 1) {
		put_le32(record->payload + 4 + 8, 5 + wrong);
		assert_null(record_find(record, "shm", &bytes));
	}
	memset(record->payload, 0xff, sizeof(record->payload));
	record->payload_bytes = sizeof(record->payload);
	assert_null(record_find(record, "shm", &bytes));
	free(record);
}
