/* SPDX-License-Identifier: BSD-3-Clause
 * The conclusions that all ranks draw from the records: which transport goes between two ranks, and
 * whether a last resort, a second card or a trial is needed. A job is written as a text per rank:
 * the letter of its kernel, then a letter per transport, upper case where it is open, lower case
 * where it can be opened. V is verbs with a card in network 1; the digits after it are the networks
 * of its cards, and I stands for an InfiniBand card in network 1. */
#include "base/bytes.h"
#include "job/reach.h"
#include "rdma/transport.h"
#ifdef HAVE_VERBS
#include "rdma/verbs_record.h"
#include <arpa/inet.h>
#endif
#include "sluice.h"
#include "cases.h"
#include <stdio.h>
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
	case 'v': return "verbs";
	case 'O':
	case 'o': return "ofi";
	default: fail_msg("no transport %c", letter); return NULL;
	}
}

static uint8_t *add_entry(struct rank_record *record, const char *name, size_t n)
{
	uint8_t *at = record->payload + record->payload_bytes;

	memset(at, 0, 8);
	memcpy(at, name, strlen(name));
	put_le32(at + 8, (uint32_t)n);
	memset(at + 12, 0xaa, n);
	record->payload_bytes += (uint32_t)(12 + n);
	return at + 12;
}

static void add(struct rank_record *record, const char *name, int open)
{
	add_entry(record, name, open ? 5 : 0);
}

#ifdef HAVE_VERBS
static void add_cards(struct rank_record *record, const char *networks)
{
	struct verbs_record cards = { .port = 1 };
	uint8_t bytes[TRANSPORT_RECORD_BYTES];
	size_t n;

	do {
		struct verbs_card *card = &cards.cards[cards.n_cards++];
		struct sockaddr_in *in = (void *)&card->address;

		*card = (struct verbs_card){ .device = "card",
					     .link_layer = *networks == 'I' ?
								   IBV_LINK_LAYER_INFINIBAND :
								   IBV_LINK_LAYER_ETHERNET,
					     .port = 1,
					     .mtu = IBV_MTU_4096,
					     .prefix = 24 };
		in->sin_family = AF_INET;
		in->sin_addr.s_addr = htonl(
			0x0a000001 |
			(uint32_t)(*networks == 'I' || !*networks ? 1 : *networks - '0') << 8);
	} while (*networks && *++networks && strchr("123456I", *networks));
	n = verbs_record_encode(&cards, bytes);
	memcpy(add_entry(record, "verbs", n), bytes, n);
}
#else
static void add_cards(struct rank_record *record, const char *networks)
{
	(void)networks;
	add(record, "verbs", 1);
}
#endif

static struct rank_record *records_of(const char *const *ranks, int size)
{
	struct rank_record *records = calloc((size_t)size, sizeof(*records));

	for (int i = 0; i < size; i++) {
		memset(records[i].boot_id, ranks[i][0], sizeof(records[i].boot_id));
		records[i].payload_bytes = 4;
		add(&records[i], "self", 1);
		for (const char *c = ranks[i] + 1; *c; c++)
			if (*c == 'V')
				add_cards(&records[i], strchr("123456I", c[1]) ? c + 1 : "");
			else if (!strchr("123456I", *c))
				add(&records[i], name_of(*c), *c >= 'A' && *c <= 'Z');
	}
	return records;
}

static struct reach *reach_of(const char *const *ranks, int size)
{
	struct rank_record *records = records_of(ranks, size);
	struct reach *r = NULL;

	assert_int_equal(reach_open(size, 0, &r), 0);
	reach_fill(r, records);
	free(records);
	return r;
}

struct job {
	const char *ranks[RANKS_MAX];
	int incomplete;
	const char *missing_01; /* the transport that ranks 0 and 1 must open */
	const char *way_01;
	unsigned wants; /* bits: ranks that must open ofi */
	int first_on_ofi;
	const char *cut; /* "02": the first two ranks that no transport can connect */
};

TEST(jobs__of_many_kinds__all_get_the_cheapest_ways)
{
	static const struct job jobs[] = {
		/* one machine: no other transport is opened */
		{ { "aSo", "aSo", "aSo", "aSo" }, 0, NULL, "shm", 0, -1, NULL },
		{ { "aSVo", "aSVo" }, 0, NULL, "shm", 0, -1, NULL },
		/* RDMA everywhere */
		{ { "aSVo", "bSVo", "cSVo" }, 0, NULL, "verbs", 0, -1, NULL },
		{ { "aSVo", "aSVo", "bSVo" }, 0, NULL, "shm", 0, -1, NULL },
		/* two machines without RDMA */
		{ { "aSo", "bSo" }, 1, "ofi", NULL, 3, -1, NULL },
		{ { "aSo", "aSo", "bSo", "bSo" }, 1, NULL, "shm", 15, -1, NULL },
		/* only one of them has RDMA: pairs that RDMA connects keep it */
		{ { "aSVo", "bSVo", "cSo" }, 1, NULL, "verbs", 7, -1, NULL },
		{ { "aSVo", "bSo" }, 1, "ofi", NULL, 3, -1, NULL },
		/* the user has named ofi for both ranks or for one, so it is open */
		{ { "aSO", "bSO" }, 0, NULL, "ofi", 0, 0, NULL },
		{ { "aSO", "bSo" }, 1, "ofi", NULL, 2, -1, NULL },
		{ { "aSVO", "bSVO" }, 0, NULL, "verbs", 0, -1, NULL },
		{ { "aSV", "bSVo", "bSO", "cO" }, 1, NULL, "verbs", 2, 2, "02" },
		/* a user excludes ofi, so some pairs cannot be connected */
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

#ifdef HAVE_VERBS
/* A job after the first exchange, the work before the second exchange, and the ways afterwards. */
struct networked_job {
	const char *ranks[RANKS_MAX];
	const char *cards;        /* "01 10": number of peers that a rank reaches by its cards 1
				     and 2 */
	unsigned trials;          /* bits: ranks that make a trial */
	unsigned ofi;             /* bits: ranks that must open ofi */
	const char *way, *failed; /* transport of ranks 0 and 1 if the trials succeed, and if
				     they fail */
	enum reach_way counted;   /* the way of ranks 0 and 1 if the trials fail */
	uint64_t pairs;           /* number of pairs with that way */
};

/* Does the work of a job's ranks between the exchanges. */
static void do_missing(struct reach *r, struct rank_record *records, int size, int trials_fail)
{
	for (int a = 0; a < size; a++) {
		int peers[NETWORKS_MOST], others[RANKS_MAX], n;

		reach_cards(r, a, peers);
		for (int card = 1; card < NETWORKS_MOST; card++)
			if (peers[card])
				add_entry(&records[a], "verbs", 5)[-5] = (uint8_t)card;
		if (reach_wants(r, a, number_of("ofi")))
			add(&records[a], "ofi", 1);
		n = reach_trials(r, a, others);
		if (!n)
			continue;
		uint8_t *entry = add_entry(&records[a], "trial", 1 + 4 * (size_t)n);
		entry[0] = trials_fail ? (uint8_t)n : 0;
		for (int i = 0; i < n; i++)
			put_le32(entry + 1 + 4 * i, (uint32_t)others[i]);
	}
}

/* The first entries, which have no address, name the last resorts. */
static void forget_unopened(struct rank_record *records, int size)
{
	for (int i = 0; i < size; i++) {
		size_t bytes = 1;
		uint8_t *entry = (uint8_t *)record_find(&records[i], "ofi", 0, &bytes);

		if (entry && !bytes)
			entry[-12] = '-';
	}
}

static const char *way_after(const struct networked_job *j, int n, int trials_fail,
			     struct reach_count counts[WAYS])
{
	struct rank_record *records = records_of(j->ranks, n);
	struct reach *r = NULL;
	int way;

	assert_int_equal(reach_open(n, 0, &r), 0);
	reach_fill(r, records);
	forget_unopened(records, n);
	do_missing(r, records, n, trials_fail);
	reach_fill(r, records);
	assert_int_equal(reach_is_incomplete(r), 0);
	for (int a = 0; a < n; a++)
		for (int b = 0; b < n; b++)
			assert_int_equal(reach_transport(r, a, b), reach_transport(r, b, a));
	way = reach_transport(r, 0, 1);
	reach_count(r, counts);
	reach_close(&r);
	free(records);
	return way < 0 ? NULL : transports[way]->name;
}

TEST(jobs__of_cards_in_several_networks__open_cards_try_routes_or_take_ofi)
{
	static const struct networked_job jobs[] = {
		/* one network */
		{ { "aSV1o", "bSV1o" }, "00 00", 0, 0, "verbs", "verbs", WAY_OWN, 1 },
		{ { "aSV12o", "bSV12o" }, "00 00", 0, 0, "verbs", "verbs", WAY_OWN, 1 },
		/* rails: one of two ranks opens its other card, or both do */
		{ { "aSV12o", "bSV21o" }, "00 10", 0, 0, "verbs", "verbs", WAY_OTHER_CARD, 1 },
		{ { "aSV12o", "bSV2o" }, "10 00", 0, 0, "verbs", "verbs", WAY_OTHER_CARD, 1 },
		{ { "aSV13o", "bSV23o" }, "10 10", 0, 0, "verbs", "verbs", WAY_OTHER_CARD, 1 },
		{ { "aSV12o", "bSV21o", "bSV21o", "aSV12o" },
		  "00 20 20 00",
		  0,
		  0,
		  "verbs",
		  "verbs",
		  WAY_OTHER_CARD,
		  4 },
		/* ranks of one node need no network */
		{ { "aSV1o", "aSV2o" }, "00 00", 0, 0, "shm", "shm", WAY_OWN, 0 },
		/* no common network: a trial, and ofi in case it fails */
		{ { "aSV1o", "bSV2o" }, "00 00", 1, 3, "verbs", "ofi", WAY_NO_ROUTE, 1 },
		{ { "aSV1", "bSV2" }, "00 00", 1, 0, "verbs", NULL, WAY_NO_ROUTE, 1 },
		{ { "aSV1O", "bSV2O" }, "00 00", 1, 0, "verbs", "ofi", WAY_NO_ROUTE, 1 },
		{ { "aSV1o", "bSV2o", "cSV1o", "dSV2o", "eSV3o" },
		  "00 00 00 00 00",
		  19,
		  31,
		  "verbs",
		  "ofi",
		  WAY_NO_ROUTE,
		  8 },
		/* one rank has InfiniBand, the other RoCE: no trial */
		{ { "aSVIo", "bSV1o" }, "00 00", 0, 3, "ofi", "ofi", WAY_NO_NETWORK, 1 },
		{ { "aSVI1o", "bSV1o" }, "10 00", 0, 0, "verbs", "verbs", WAY_OTHER_CARD, 1 },
		/* one node has no usable card */
		{ { "aSV1o", "bSo", "cSV1o" }, "00 00 00", 0, 7, "ofi", "ofi", WAY_OWN, 1 },
	};

	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		const struct networked_job *j = &jobs[i];
		unsigned trials = 0, ofi = 0;
		struct reach_count counts[WAYS];
		char cards[64] = "";
		const char *way;
		struct reach *r;
		int n = 0;

		while (n < RANKS_MAX && j->ranks[n])
			n++;
		r = reach_of(j->ranks, n);
		for (int a = 0; a < n; a++) {
			int peers[NETWORKS_MOST], others[RANKS_MAX];

			trials |= (unsigned)!!reach_trials(r, a, others) << a;
			ofi |= (unsigned)reach_wants(r, a, number_of("ofi")) << a;
			reach_cards(r, a, peers);
			snprintf(cards + strlen(cards), sizeof(cards) - strlen(cards), "%s%d%d",
				 a ? " " : "", peers[1], peers[2]);
		}
		reach_close(&r);
		if (strcmp(cards, j->cards) || trials != j->trials || ofi != j->ofi)
			fail_msg("job %zu: cards %s, trials %u, ofi %u", i, cards, trials, ofi);
		way = way_after(j, n, 0, counts);
		if (!way || strcmp(way, j->way))
			fail_msg("job %zu: %s", i, way);
		way = way_after(j, n, 1, counts);
		if (!way != !j->failed || (way && strcmp(way, j->failed)))
			fail_msg("job %zu, failed: %s", i, way);
		if (counts[j->counted].pairs != j->pairs ||
		    (j->counted != WAY_OWN && counts[j->counted].a != 0))
			fail_msg("job %zu: %d pairs, first %d", i, (int)counts[j->counted].pairs,
				 counts[j->counted].a);
	}
}

/* A rank may write any result of its trials. */
TEST(trials__damaged_result__proves_nothing)
{
	static const uint8_t bad[][9] = { { TRIAL_ALL }, { 2, 0, 0, 0, 0 }, { 33 } };
	const char *const ranks[] = { "aV1", "bV2" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct rank_record *records = records_of(ranks, 2);
		struct reach *r;

		assert_int_equal(reach_open(2, 0, &r), 0);
		reach_fill(r, records);
		memcpy(add_entry(&records[0], "trial", 5), bad[i], 5);
		reach_fill(r, records);
		assert_int_equal(reach_transport(r, 0, 1), -1);
		reach_close(&r);
		free(records);
	}
}
#endif

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

/* For any record, nothing beyond its payload is read. */
TEST(card_find__damaged_lengths__finds_nothing)
{
	struct rank_record *record = calloc(1, sizeof(*record));
	size_t bytes = 0;

	record->payload_bytes = 4;
	add(record, "self", 1);
	add(record, "shm", 1);
	assert_ptr_equal(record_find(record, "shm", 0, &bytes), record->payload + 4 + 17 + 12);
	assert_int_equal(bytes, 5);
	assert_null(record_find(record, "ofi", 0, &bytes));
	assert_null(record_find(record, "sh", 0, &bytes));
	assert_null(record_find(record, "shm", 1, &bytes));
	for (uint32_t n = record->payload_bytes - 1; n > 0; n--) {
		record->payload_bytes = n;
		assert_null(record_find(record, "shm", 0, &bytes));
	}
	record->payload_bytes = 38;
	for (uint32_t wrong = 1; wrong; wrong <<= 1) {
		put_le32(record->payload + 4 + 8, 5 + wrong);
		assert_null(record_find(record, "shm", 0, &bytes));
	}
	memset(record->payload, 0xff, sizeof(record->payload));
	record->payload_bytes = sizeof(record->payload);
	assert_null(record_find(record, "shm", 0, &bytes));
	free(record);
}
