/* SPDX-License-Identifier: BSD-3-Clause
 * The check of the limit on locked memory, on cards whose drivers pin as in fake_fabric.h: the
 * message names as many bytes as connecting needs. The test replaces the kernel's files and
 * limits. */
#include "base/bytes.h"
#include "rdma/auth.h"
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

	/* The limit grows until the pair opens. The last refusal then comes from the check that
	 * knows how many bytes the driver pins for a queue pair. */
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

/* ---- a job of many ranks, of which few connect ------------------------------------ */

enum { MANY = 512, FEW = 8, MANY_DEPTH = 4096, LINE = 256 };

/* A rank of a large job, and what its card holds for it. */
struct member {
	struct transport *t;
	struct region *control;
	uint8_t record[TRANSPORT_RECORD_BYTES];
	size_t record_bytes;
	int connected;
};

/* expected 0: all peers connect at the start. */
static int open_member(struct member *m, int expected)
{
	static uint8_t key[MANY][AUTH_KEY_BYTES];
	struct transport_config config = { .rank = 0,
					   .size = MANY,
					   .queue_depth = MANY_DEPTH,
					   .lost_after_ms = 5000,
					   .link_lost_after_ms = 60000,
					   .control_line_bytes = LINE,
					   .memory_windows = "auto",
					   .relaxed_ordering = "auto",
					   .expected = expected };
	const struct peer_keys keys = {
		.rank = 0, .size = MANY, .wire_version = 1, .key = (const uint8_t(*)[32])key
	};
	int rc;

	memset(m, 0, sizeof(*m));
	assert_int_equal(region_open((size_t)MANY * LINE, REGION_WRITE, "control", &m->control), 0);
	config.control = m->control;
	rc = verbs_transport.open(&config, &m->t);
	if (rc)
		return rc;
	assert_int_equal(verbs_transport.admit(m->t, &keys), 0);
	assert_int_equal(verbs_transport.record(m->t, m->record, &m->record_bytes), 0);
	return 0;
}

/* Begins to connect with the next peers, until this number of peers is reached. */
static int connect_up_to(struct member *m, int peers)
{
	struct endpoint *e;
	int rc = 0;

	for (; m->connected < peers && !rc; m->connected += !rc) {
		put_le32(m->record + 4, (uint32_t)m->connected + 1); /* the record of that rank */
		rc = verbs_transport.connect(m->t, m->connected + 1, m->record, m->record_bytes,
					     &e);
	}
	return rc;
}

static void close_member(struct member *m)
{
	verbs_transport.close(&m->t);
	region_close(&m->control);
	assert_null(fake_leak());
}

static void be_mlx5(void)
{
	fake_be(FAKE_MLX5, 1);
	fake.attr.max_cqe = 4194303;
	fake.attr.max_srq_wr = 32767;
	fake.cm = FAKE_CM_SILENT;
	memlock = RLIM_INFINITY;
}

struct holdings {
	int completions, receives;
	uint64_t pinned;
};

static struct holdings holdings_now(void)
{
	return (struct holdings){ fake_counts.most_completions, fake_counts.receives_posted,
				  fake_counts.pinned };
}

static struct holdings holdings_with(int expected, int peers)
{
	struct holdings now;
	struct member m;

	fabric_setup(NULL);
	be_mlx5();
	assert_int_equal(open_member(&m, expected), 0);
	assert_int_equal(connect_up_to(&m, peers), 0);
	now = holdings_now();
	print_message("%d ranks, %d expected, %d connecting: %d completions, %d receives, %" PRIu64
		      " bytes pinned\n",
		      MANY, expected, peers, now.completions, now.receives, now.pinned);
	close_member(&m);
	return now;
}

FRESH(member_of_512_ranks__has_queues_and_memory_for_the_peers_that_connect)
{
	enum { LOG = 512 };
	const struct holdings mesh = holdings_with(0, 0), few = holdings_with(FEW, FEW),
			      more = holdings_with(FEW, 100), all = holdings_with(FEW, MANY - 1);

	assert_int_equal(mesh.receives, 32767);
	assert_true(mesh.completions >= 32767 + (MANY - 1) * LOG);
	assert_in_range(few.completions, few.receives + FEW * LOG, few.receives + FEW * LOG + 64);
	assert_in_range(few.receives, FEW * 2000, 32767 / 2);
	/* More peers than asked for get room, so that the queues seldom grow. */
	assert_in_range(more.completions, more.receives + 100 * LOG, more.receives + 160 * LOG);
	assert_in_range(more.receives, few.receives + 92 * 10, few.receives + 152 * 33);
	assert_in_range(all.completions, all.receives + (MANY - 1) * LOG, mesh.completions);
	assert_in_range(all.receives, few.receives + (MANY - 1 - FEW) * 10, 32767);
	assert_true(few.pinned < all.pinned / 20);
}

FRESH(member_of_512_ranks__card_that_cannot_resize_a_queue__has_completions_for_all)
{
	struct member m;
	int completions;

	be_mlx5();
	fake.no_resize = 1;
	assert_int_equal(open_member(&m, FEW), 0);
	completions = holdings_now().completions;
	assert_true(completions >= holdings_now().receives + 511 * 512);
	assert_int_equal(connect_up_to(&m, MANY - 1), 0);
	assert_int_equal(holdings_now().completions, completions);
	close_member(&m);
}

/* 4 MiB are enough for eight queue pairs of 256 KiB and their memory, and not for 500. */
FRESH(member_of_512_ranks__memlock_for_few__refuses_only_the_peers_that_are_too_many)
{
	struct member m;

	be_mlx5();
	memlock = 4 << 20;
	assert_int_equal(open_member(&m, 0), SLUICE_ENOMEM);
	close_member(&m);
	assert_int_equal(open_member(&m, FEW), 0);
	assert_int_equal(connect_up_to(&m, FEW), 0);
	assert_int_equal(connect_up_to(&m, MANY - 1), SLUICE_ENOMEM);
	assert_in_range(m.connected, FEW, 16);
	assert_non_null(
		strstr(sluice_last_error(), "connecting one more of this job's ranks needs "));
	assert_non_null(strstr(sluice_last_error(), "4194304 bytes (RLIMIT_MEMLOCK"));
	close_member(&m);
}

/* Limits what the driver may pin. The check knows the same limit. */
static void limit(uint64_t bytes)
{
	memlock = fake.pinned_most = bytes;
}

/* Returns the bytes that the check needs to connect one more peer, or 0 if there is room for it in
 * the queues already. */
static uint64_t asked_for_one_more(struct member *m)
{
	uint64_t need = 0;
	const char *at;

	limit(fake_counts.pinned);
	assert_int_equal(connect_up_to(m, m->connected + 1), SLUICE_ENOMEM);
	at = strstr(sluice_last_error(), "connecting one more of this job's ranks needs ");
	if (at)
		sscanf(at, "connecting one more of this job's ranks needs %" SCNu64, &need);
	else if (!strstr(sluice_last_error(), "a peer's slot needs "))
		fail_msg("peer %d: %s", m->connected, sluice_last_error());
	return need;
}

static uint64_t no_bytes(const struct ibv_qp_cap *cap)
{
	return 0;
}

/* The driver pins the larger completion queue before it releases the old one. Returns how often it
 * grew. */
static int grow_as_allowed(int exact)
{
	enum { MORE = 100, QUEUE = 1 << 20 };
	int grown = 0;
	struct member m;

	be_mlx5();
	fake.cqe_bytes = 64;
	fake.cqe_exact = exact;
	fake.pair_bytes = no_bytes; /* the peers do not answer, so they get no queue pairs */
	assert_int_equal(open_member(&m, FEW), 0);
	assert_int_equal(connect_up_to(&m, FEW), 0);
	while (m.connected < MORE) {
		const uint64_t pinned = fake_counts.pinned, need = asked_for_one_more(&m);

		if (need > QUEUE) {
			grown++;
			memlock = RLIM_INFINITY;
			fake.pinned_most = pinned + need - need / 10;
			assert_int_equal(connect_up_to(&m, m.connected + 1), SLUICE_ENOMEM);
			assert_non_null(strstr(sluice_last_error(), "its completion queue room"));
		}
		limit(need ? pinned + need : RLIM_INFINITY);
		if (connect_up_to(&m, m.connected + 1))
			fail_msg("peer %d needs more than %" PRIu64 " bytes: %s", m.connected, need,
				 sluice_last_error());
	}
	close_member(&m);
	return grown;
}

FRESH(memlock__completion_queue_that_grows__the_need_is_right_within_a_tenth)
{
	assert_int_equal(grow_as_allowed(0), 2); /* to 65536 and 131072 places */
	fabric_setup(state);
	assert_in_range(grow_as_allowed(1), 3, 92);
}

FRESH(member_of_512_ranks__no_memory_to_grow__refused_with_the_reason)
{
	struct member m;

	be_mlx5();
	assert_int_equal(open_member(&m, FEW), 0);
	assert_int_equal(connect_up_to(&m, FEW), 0);
	fake.fail_call = fake_counts.calls + 1;
	assert_int_equal(connect_up_to(&m, FEW + 1), SLUICE_ENOMEM);
	assert_string_equal(fake_counts.failed, "ibv_resize_cq");
	assert_non_null(strstr(sluice_last_error(), "cannot give its completion queue room for 20 "
						    "peers"));
	fake.fail_call = 0;
	assert_int_equal(connect_up_to(&m, FEW + 1), 0);
	close_member(&m);
}

/* ---- a job of many ranks, of which one connects and its connection breaks ---------- */

enum { PAIR_DEPTH = 64, RECEIVES = PAIR_DEPTH + 2, LOG_ENTRIES = 512, SPARE = 64 };

static int many_setup(void **state)
{
	pair_ranks = MANY;
	fabric_setup(state);
	be_mlx5();
	fake.cm = FAKE_CM_ANSWERS;
	fake.no_last_wqe = 1;
	return 0;
}

static int two_again(void **state)
{
	(void)state;
	pair_ranks = 2;
	return 0;
}
#define MANY_RANKS(name) TEST_WITH(name, many_setup, two_again)

static void break_often(struct two *x, int *done, int more)
{
	for (const int most = *done + more; *done < most;) {
		fake_cm_cut(1);
		assert_int_equal(
			post(0, TRANSFER_PUT_NOTIFY, x->to_inbox, x->near, 0, 8, (uint32_t)*done),
			0);
		if (pair_wait(&pair, 1, EVENT_IMM, ++*done))
			fail_msg("break %d: %s", *done, logged);
		assert_int_equal(pair_connect(&pair), 0);
	}
}

/* Its other peers do not answer. */
static struct member first_of_pair(void)
{
	struct member m = { .t = pair.t[0], .record_bytes = pair.record_bytes[1], .connected = 1 };

	memcpy(m.record, pair.record[1], sizeof(m.record));
	fake.cm = FAKE_CM_SILENT;
	return m;
}

MANY_RANKS(break__in_a_job_of_512_ranks__completion_queue_grows_for_the_connected_peers_only)
{
	enum { BREAKS = 3 };
	struct two x = open_two(PAIR_DEPTH);
	int done = 0, completions;
	struct member m;

	assert_int_equal(fake_counts.most_completions, RECEIVES + LOG_ENTRIES + SPARE);
	break_often(&x, &done, BREAKS);
	completions = fake_counts.most_completions;
	assert_int_equal(completions, (BREAKS + 1) * RECEIVES + LOG_ENTRIES + SPARE);
	assert_true(fake_counts.receives_posted >= 2 * (BREAKS + 1) * RECEIVES);
	/* Room for more peers is added to that for replaced receives. */
	m = first_of_pair();
	assert_int_equal(connect_up_to(&m, 2), 0);
	assert_in_range(fake_counts.most_completions, completions + 8 * LOG_ENTRIES,
			completions + 8 * (LOG_ENTRIES + RECEIVES));
	close_all(&x);
	assert_int_equal(fake_counts.cq_overruns, 0);
}

/* Each lost connection keeps eight receives, so nine breaks without replacements leave none. */
MANY_RANKS(breaks__memlock_too_small_for_completions_of_all_ranks__peers_find_receives)
{
	int done = 0;

	fake.cqe_bytes = 64;
	fake.takes = 8;
	struct two x = open_two(PAIR_DEPTH);
	fake.pinned_most = fake_counts.pinned + (1 << 20);
	break_often(&x, &done, 20);
	/* The peer uses all its credit while this rank does not poll. */
	while (!post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 8, (uint32_t)done))
		done++;
	assert_true(done >= 20 + PAIR_DEPTH - 4);
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, done), 0);
	assert_int_equal(fake_counts.no_receive, 0);
	assert_null(strstr(logged, "has too few completions"));
	close_all(&x);
	assert_int_equal(fake_counts.cq_overruns, 0);
}

/* The kept receives of earlier breaks are replaced too. */
MANY_RANKS(breaks__memlock_refuses_any_growth_for_a_time__receives_are_replaced_later)
{
	enum { BREAKS = 6, AT_ONCE = 2 * PAIR_DEPTH - 4 };
	int done = 0, posted;

	fake.cqe_bytes = 64;
	fake.takes = 8;
	struct two x = open_two(PAIR_DEPTH);
	fake.pinned_most = 1;
	break_often(&x, &done, BREAKS);
	assert_non_null(strstr(logged, "has too few completions"));
	posted = fake_counts.receives_posted;
	fake.pinned_most = 0;
	break_often(&x, &done, 2);
	assert_true(fake_counts.receives_posted - posted >= 2 * 2 * AT_ONCE);
	close_all(&x);
	assert_int_equal(fake_counts.cq_overruns, 0);
}

/* Soft-RoCE gives the shared receive queue more places than the card has completions for. */
MANY_RANKS(breaks__card_with_few_completions__peers_that_connect_later_still_have_room)
{
	enum { BREAKS = 30, CQE = 32767, LOG_OF_ALL = 32 * (MANY - 1), OTHERS = 31 * (MANY - 2) };
	const int beyond = CQE - SPARE - LOG_OF_ALL - OTHERS - RECEIVES;
	int done = 0, posted;
	struct member m;

	fake_be(FAKE_RXE, 1);
	fake.attr.max_cqe = CQE;
	struct two x = open_two(PAIR_DEPTH);
	posted = fake_counts.receives_posted;
	break_often(&x, &done, BREAKS);
	/* Each break also uses and replaces a few receives of each rank. */
	assert_in_range(fake_counts.receives_posted - posted, 2 * beyond,
			2 * (beyond + 5 * BREAKS));
	assert_non_null(strstr(logged, "has too few completions"));
	m = first_of_pair();
	assert_int_equal(connect_up_to(&m, MANY - 1), 0);
	assert_int_equal(fake_counts.most_completions, CQE);
	close_all(&x);
	assert_int_equal(fake_counts.cq_overruns, 0);
}
