/* SPDX-License-Identifier: BSD-3-Clause
 * Ranks on InfiniBand ports without IP connect by datagrams (rdma/carrier_ud.c, rdma/datagrams.c),
 * which the fabric loses, repeats and delays, and which strangers send as well. */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "rdma/card_facts.h"
#include "rdma/carrier.h"
#include "rdma/datagrams.h"
#include "rdma/path.h"
#include "rdma/retry.h"
#include "sluice.h"
#include "verbs_two.h"
#include "cases.h"
#include "thinned.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 64, SENT_MOST = 256, LINK_LOST_MS = 750 };

/* ---- what is sent ------------------------------------------------------------------ */

static struct sent {
	uint8_t bytes[DATAGRAM_BYTES];
	size_t n;
	uint32_t from, to;
} sent[SENT_MOST];
static int n_sent;
static enum fake_fate (*fate)(int number, enum frame_kind kind);

/* Called under the fake's lock. */
static enum fake_fate record_sent(const uint8_t *bytes, size_t n, uint32_t from, uint32_t to)
{
	struct sent *s = &sent[n_sent % SENT_MOST];

	assert_in_range(n, 8, sizeof(s->bytes));
	*s = (struct sent){ .n = n, .from = from, .to = to };
	memcpy(s->bytes, bytes, n);
	n_sent++;
	return fate ? fate(n_sent, (enum frame_kind)bytes[2]) : FAKE_PASSES;
}

static int n_of(enum frame_kind kind)
{
	int n = 0;

	for (int i = 0; i < n_sent && i < SENT_MOST; i++)
		n += sent[i].bytes[2] == kind;
	return n;
}

/* The number-th that was sent of a kind, from 0. */
static const struct sent *find_sent(enum frame_kind kind, int number)
{
	for (int i = 0; i < n_sent && i < SENT_MOST; i++)
		if (sent[i].bytes[2] == kind && !number--)
			return &sent[i];
	fail_msg("no frame of kind %d", (int)kind);
	return NULL;
}

static void new_fabric(void)
{
	fake_reset();
	logged[0] = '\0';
	n_sent = 0;
	fate = NULL;
	fake.link_layer = IBV_LINK_LAYER_INFINIBAND;
	fake.no_ip = 1;
	fake.tap = record_sent;
}

static int setup(void **state)
{
	pair_gid_index = pair_traffic_class = pair_service_level = NULL;
	pair_no_manager = 0;
	pair_mtu[0] = pair_mtu[1] = 0;
	pair_link_lost_ms = PAIR_LINK_LOST_MS;
	fabric_setup(state);
	log_configure("rdma+debug");
	new_fabric();
	return 0;
}
#define CASE(name) TEST_WITH(name, setup, NULL)

/* The connection works in both directions. number: of the notifies before. */
static void check_works(struct two *x, uint32_t number)
{
	const int done = pair_count(&pair, 0, EVENT_DONE);

	fill(x->near->base, BYTES, number);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x->to_inbox, x->near, 0, BYTES, number), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, (int)number + 1), 0);
	assert_memory_equal(x->inbox->base, x->near->base, BYTES);
	fill(x->log->base, BYTES, number + 7);
	assert_int_equal(post(0, TRANSFER_GET, x->to_log, x->near, 0, BYTES, number), 0);
	assert_int_equal(pair_wait(&pair, 0, EVENT_DONE, done + 1), 0);
	assert_memory_equal(x->log->base, x->near->base, BYTES);
}

static uint32_t qkey_of(int rank)
{
	struct verbs_record record;

	assert_int_equal(
		verbs_record_decode(pair.record[rank], pair.record_bytes[rank], rank, &record), 0);
	return record.qkey;
}

static int times(const char *text)
{
	int n = 0;

	for (const char *at = logged; (at = strstr(at, text)); at++)
		n++;
	return n;
}

static void poll_for(unsigned ms)
{
	const uint64_t until = now_ns() + (uint64_t)ms * 1000000;

	do {
		pair_poll(&pair);
		sched_yield();
	} while (now_ns() < until);
}

/* Fails if this takes too long. */
#define POLL_UNTIL(condition, poll)                                                                \
	for (const uint64_t until = now_ns() + 10 * (uint64_t)PAIR_LOST_MS * 1000000;              \
	     !(condition); poll)                                                                   \
		if (now_ns() > until)                                                              \
	fail_msg("never: %s\n%s", #condition, logged)

/* Breaks all connections. A rank notices it when it sends. */
static void cut(struct two *x, uint32_t number)
{
	fake_pairs_cut();
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x->to_inbox, x->near, 0, 100, number), 0);
}

/* ---- connecting -------------------------------------------------------------------- */

CASE(infiniband_without_ip__connects_by_one_proof_and_one_acceptance)
{
	struct two x = open_two(DEPTH);

	check_works(&x, 0);
	assert_int_equal(n_of(FRAME_PROOF), 1);
	assert_int_equal(n_of(FRAME_ACCEPT), 1);
	assert_int_equal(n_sent, 2);
	assert_int_equal(fake_counts.connects, 0);
	assert_int_equal(fake_counts.datagrams_vanished, 0);
	close_all(&x);
}

CASE(infiniband_without_rdma_cm__connects)
{
	pair_no_manager = 1;
	struct two x = open_two(DEPTH);

	check_works(&x, 0);
	close_all(&x);
}

/* The partition of which the fake's port is a full member has index 1. */
static void check_pairs(int is_global, unsigned level, unsigned class, enum ibv_mtu mtu)
{
	const int infiniband = fake.link_layer == IBV_LINK_LAYER_INFINIBAND;
	const struct fake_qp *qp[2] = { NULL, NULL };
	int n = 0, n_ud = 0;

	for (const struct fake_qp *q = fake_qps; q; q = q->next) {
		assert_int_equal(q->attr.pkey_index, 1);
		if (q->qp.qp_type == IBV_QPT_UD) {
			assert_int_equal(q->attr.qkey >> 31, 0);
			n_ud++;
			continue;
		}
		assert_in_range(n, 0, 1);
		qp[n++] = q;
		assert_int_equal(q->qp.state, IBV_QPS_RTS);
		assert_int_equal(q->attr.ah_attr.is_global, is_global);
		assert_int_equal(q->attr.ah_attr.dlid, fake.no_lid || !infiniband ? 0 : FAKE_LID);
		assert_int_equal(q->attr.ah_attr.sl, level);
		assert_int_equal(q->attr.ah_attr.port_num, 1);
		assert_int_equal(q->attr.path_mtu, mtu);
		if (is_global) {
			assert_memory_equal(q->attr.ah_attr.grh.dgid.raw, fake_gid(), 16);
			assert_int_equal(q->attr.ah_attr.grh.traffic_class, class);
			assert_true(q->attr.ah_attr.grh.hop_limit > 0);
		}
		assert_int_equal(q->attr.min_rnr_timer, PATH_RNR_TIMER);
		assert_int_equal(q->attr.timeout, RETRY_ACK_TIMEOUT);
		assert_in_range(q->attr.retry_cnt, 1, 6);
		assert_in_range(q->attr.rnr_retry, 1, 6);
		assert_in_range(q->attr.max_dest_rd_atomic, 1, 16);
		assert_int_equal(q->attr.max_dest_rd_atomic, q->max_reads);
	}
	assert_int_equal(n, 2);
	assert_int_equal(n_ud, 2);
	assert_int_equal(qp[0]->attr.rq_psn, qp[1]->attr.sq_psn);
	assert_int_equal(qp[1]->attr.rq_psn, qp[0]->attr.sq_psn);
	assert_int_not_equal(qp[0]->attr.sq_psn, qp[1]->attr.sq_psn);
}

CASE(queue_pairs__have_what_record_and_frame_say_and_what_the_user_chose)
{
	struct two x = open_two(DEPTH);

	check_pairs(0, 0, 0, IBV_MTU_4096);
	close_all(&x);

	new_fabric();
	fake.no_lid = 1;
	pair_traffic_class = "96";
	pair_service_level = "5";
	x = open_two(DEPTH);
	check_pairs(1, 5, 96, IBV_MTU_4096);
	check_works(&x, 0);
	close_all(&x);
}

CASE(ports_of_different_mtu__the_smaller_one_on_both_sides)
{
	static const uint8_t mtus[][2] = { { IBV_MTU_4096, IBV_MTU_1024 },
					   { IBV_MTU_512, IBV_MTU_2048 } };

	for (size_t i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
		new_fabric();
		memcpy(pair_mtu, mtus[i], 2);
		struct two x = open_two(DEPTH);

		check_pairs(0, 0, 0, mtus[i][0] < mtus[i][1] ? mtus[i][0] : mtus[i][1]);
		close_all(&x);
	}
}

CASE(ethernet_with_a_link_local_address_only__connects_if_its_index_is_named)
{
	fake.link_layer = IBV_LINK_LAYER_ETHERNET;
	assert_int_equal(pair_open(&pair, DEPTH), SLUICE_ENOSUPP);
	assert_non_null(strstr(sluice_last_error(), "fake0 port 1 has no usable GID"));
	close_pair();
	pair_gid_index = "0";
	struct two x = open_two(DEPTH);

	check_pairs(1, 0, PATH_TRAFFIC_CLASS, IBV_MTU_4096);
	check_works(&x, 0);
	assert_int_equal(fake_counts.connects, 0);
	close_all(&x);
}

/* ---- a fabric that loses ----------------------------------------------------------- */

static int each, phase;

static enum fake_fate lose_each(int number, enum frame_kind kind)
{
	return number % each == phase ? FAKE_IS_LOST : FAKE_PASSES;
}

CASE(every_kth_datagram_is_lost__connects_and_connects_again)
{
	const int most = under_valgrind() ? 2 : 4;

	for (each = 2; each <= most; each++)
		for (phase = 0; phase < each; phase++) {
			new_fabric();
			fate = lose_each;
			struct two x = open_two(DEPTH);

			check_works(&x, 0);
			fake_pairs_cut();
			check_works(&x, 1);
			check_numbers(1, 2);
			close_all(&x);
		}
}

enum { ATTEMPT_AT = 8 + AUTH_NONCE_BYTES + AUTH_TAG_BYTES + 8 };

static uint32_t attempt_of(const struct sent *proof)
{
	return get_le32(proof->bytes + ATTEMPT_AT);
}

static int lost;

static enum fake_fate lose_first_acceptance(int number, enum frame_kind kind)
{
	return kind == FRAME_ACCEPT && !lost++ ? FAKE_IS_LOST : FAKE_PASSES;
}

/* The acceptance that was lost is sent again as it was, because the proof came again. */
CASE(acceptance_is_lost__proof_and_acceptance_are_repeated_and_no_queue_pair_is_made_for_it)
{
	int made;
	struct two x;

	open_pair(DEPTH);
	made = fake_counts.qps_made;
	close_pair();
	/* If the machine stands still meanwhile, the first attempt ends and another one begins. */
	for (int tries = 0; tries < 5; tries++) {
		new_fabric();
		lost = 0;
		fate = lose_first_acceptance;
		x = open_two(DEPTH);
		check_works(&x, 0);
		if (attempt_of(find_sent(FRAME_PROOF, n_of(FRAME_PROOF) - 1)) == 1)
			break;
		close_all(&x);
	}
	assert_int_equal(n_of(FRAME_ACCEPT), 2);
	assert_int_equal(n_of(FRAME_PROOF), 2);
	assert_memory_equal(find_sent(FRAME_PROOF, 0), find_sent(FRAME_PROOF, 1), sizeof(sent[0]));
	assert_memory_equal(find_sent(FRAME_ACCEPT, 0), find_sent(FRAME_ACCEPT, 1),
			    sizeof(sent[0]));
	assert_int_equal(fake_counts.qps_made, made);
	close_all(&x);
}

static enum fake_fate lose_acceptances_of_the_first_attempt(int number, enum frame_kind kind)
{
	const struct sent *last = find_sent(FRAME_PROOF, n_of(FRAME_PROOF) - 1);

	return kind == FRAME_ACCEPT && attempt_of(last) == 1 ? FAKE_IS_LOST : FAKE_PASSES;
}

/* The server accepts the second attempt in place of the first. */
CASE(acceptance_never_arrives__second_attempt_connects)
{
	fate = lose_acceptances_of_the_first_attempt;
	struct two x = open_two(DEPTH);

	check_works(&x, 0);
	assert_true(n_of(FRAME_ACCEPT) > 2);
	assert_int_equal(attempt_of(find_sent(FRAME_PROOF, n_of(FRAME_PROOF) - 1)), 2);
	close_all(&x);
}

static enum fake_fate twice(int number, enum frame_kind kind)
{
	return FAKE_COMES_TWICE;
}

/* Each third comes after the one that was sent after it. */
static enum fake_fate shuffle(int number, enum frame_kind kind)
{
	if (number % 3 == 0)
		fake_deliver_late();
	return number % 3 == 1 ? FAKE_COMES_LATE : FAKE_PASSES;
}

CASE(datagrams_come_twice_or_late__one_connection_each_time)
{
	static enum fake_fate (*const fates[])(int, enum frame_kind) = { twice, shuffle };

	for (size_t i = 0; i < 2; i++) {
		new_fabric();
		fate = fates[i];
		struct two x = open_two(DEPTH);

		for (uint32_t round = 0; round < 4; round++) {
			check_works(&x, round);
			if (round < 3)
				fake_pairs_cut();
		}
		fake_deliver_late();
		poll_for(50);
		check_works(&x, 4);
		check_numbers(1, 5);
		/* Each side logs it once for each of the three breaks. */
		assert_int_equal(times("connected again to rank 0"), 3);
		assert_int_equal(times("connected again to rank 1"), 3);
		assert_null(strstr(logged, "refused a connection"));
		close_all(&x);
	}
}

/* ---- breaks ------------------------------------------------------------------------ */

CASE(break_of_both_sides__every_notify_arrives_once_and_in_order)
{
	struct two x = open_two(DEPTH);
	uint32_t number = 0;

	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 7; i++, number++) {
			fake.held = i >= 3;
			assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near,
					      (size_t)number * 1000, 1000, number),
					 0);
		}
		fake.held = 0;
		fake_pairs_cut();
		assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, (int)number), 0);
	}
	check_numbers(1, (int)number);
	assert_int_equal(pair_count(&pair, 0, EVENT_GONE), 0);
	assert_int_equal(fake_counts.connects, 0);
	close_all(&x);
}

static enum fake_fate lose_everything(int number, enum frame_kind kind)
{
	return FAKE_IS_LOST;
}

CASE(fabric_is_away_longer_than_a_process_may_be__resumes_and_nobody_is_lost)
{
	struct two x = open_two(DEPTH);

	fate = lose_everything;
	cut(&x, 0);
	poll_for(PAIR_LOST_MS);
	assert_true(n_of(FRAME_PROOF) > 2);
	assert_int_equal(pair_count(&pair, 0, EVENT_GONE) + pair_count(&pair, 1, EVENT_GONE), 0);
	fate = NULL;
	check_works(&x, 1);
	close_all(&x);
}

CASE(fabric_is_away_for_longer_than_a_link_may_be__peer_is_lost_with_the_reason)
{
	pair_link_lost_ms = LINK_LOST_MS;
	struct two x = open_two(DEPTH);

	fate = lose_everything;
	cut(&x, 0);
	assert_int_equal(pair_wait(&pair, 0, EVENT_GONE, 1), 0);
	assert_non_null(strstr(logged, "no answer to the proof"));
	close_all(&x);
}

static enum fake_fate lose_ends(int number, enum frame_kind kind)
{
	return kind == FRAME_END ? FAKE_IS_LOST : FAKE_PASSES;
}

/* The server asks whether the client lives, and the client notices the break when it sends. */
CASE(break_that_only_the_server_sees__client_answers_its_hello_and_connects_again_when_it_sends)
{
	struct two x = open_two(DEPTH);
	struct remote *to_near;
	struct region *theirs;

	assert_int_equal(region_open(BYTES, REGION_WRITE, "theirs", &theirs), 0);
	assert_int_equal(pair_share(&pair, 0, theirs, &to_near), 0);
	fate = lose_ends;
	fake_lock();
	fake_qp_error(fake_qp_of(verbs_parts_of(pair.e[1]).qp));
	fake_unlock();
	assert_int_equal(post(1, TRANSFER_PUT_NOTIFY, to_near, x.inbox, 0, 100, 0), 0);
	POLL_UNTIL(n_of(FRAME_ALIVE), pair_poll(&pair));
	assert_int_equal(n_of(FRAME_HELLO), 1);
	assert_int_equal(n_of(FRAME_PROOF), 1);
	check_works(&x, 0);
	assert_int_equal(pair_wait(&pair, 0, EVENT_IMM, 1), 0);
	verbs_transport.remote_close(&to_near);
	region_close(&theirs);
	close_all(&x);
}

CASE(peer_closes__other_side_learns_it_at_once)
{
	struct two x = open_two(DEPTH);

	verbs_transport.remote_close(&x.to_inbox);
	verbs_transport.remote_close(&x.to_log);
	verbs_transport.close(&pair.t[0]);
	assert_int_equal(n_of(FRAME_END), 1);
	for (uint64_t until = now_ns() + 100000000; now_ns() < until;)
		pair_poll_side(&pair, 1);
	assert_non_null(strstr(logged, "lost the connection to rank 0: it was disconnected by the "
				       "other side"));
	close_two(&x);
	close_pair();
}

CASE(rank_closes_before_its_last_datagram_has_left__datagram_leaves)
{
	open_pair(DEPTH);
	fake.lazy = 1;
	verbs_transport.close(&pair.t[0]);
	assert_int_equal(n_of(FRAME_END), 1);
	close_pair();
}

static uint32_t flood_to, flood_qkey;

/* The flood comes after the queue was found empty, and before the next event was requested. */
static void flood_once(void)
{
	static const uint8_t junk[64] = "no frame";

	fake.arming = NULL;
	for (int i = 0; i < 150; i++)
		fake_inject(junk, sizeof(junk), 4711, flood_to, flood_qkey);
}

CASE(datagrams_come_faster_than_they_are_taken__rank_does_not_sleep_before_it_has_taken_all)
{
	const struct sleep_ops *sleep = &verbs_transport.sleep;

	open_pair(DEPTH);
	poll_for(20);
	flood_to = find_sent(FRAME_PROOF, 0)->to;
	flood_qkey = qkey_of(1);
	fake.arming = flood_once;
	fake_inject("one", 3, 4711, flood_to, flood_qkey);
	POLL_UNTIL(!fake.arming, pair_poll_side(&pair, 1));
	assert_int_equal(sleep->arm(pair.t[1]), 1);
	poll_for(20);
	assert_int_equal(sleep->arm(pair.t[1]), 0);
	sleep->disarm(pair.t[1]);
	close_pair();
}

/* Soft-RoCE stops it when its interface is down, for example. */
CASE(queue_pair_for_datagrams_stops__works_again)
{
	struct two x = open_two(DEPTH);

	fake_lock();
	for (struct fake_qp *q = fake_qps; q; q = q->next)
		if (q->qp.qp_type == IBV_QPT_UD)
			fake_qp_error(q);
	fake_unlock();
	fake_pairs_cut();
	check_works(&x, 0);
	assert_true(times("the queue pair for datagrams of fake0 stopped") >= 2);
	close_all(&x);
}

/* A queue pair for datagrams, and an address that leads to itself. */
struct alone {
	struct ibv_device **list;
	struct ibv_context *context;
	struct verbs_device devices[VERBS_DEVICES_MOST];
	struct datagrams *d;
};

static struct ibv_ah *address_here(struct datagrams *d)
{
	struct ibv_ah_attr here = { .dlid = FAKE_LID, .port_num = 1 };
	struct ibv_ah *ah = datagrams_address(d, &here);

	assert_non_null(ah);
	return ah;
}

static void open_alone(struct alone *a)
{
	const struct verbs_wanted wanted = { 0 };
	int n;

	fake.tap = NULL;
	a->list = ibv_get_device_list(NULL);
	a->context = ibv_open_device(a->list[0]);
	assert_int_equal(verbs_devices_find(&wanted, a->devices, &n), 0);
	assert_int_equal(datagrams_open(a->context, a->devices, &a->d), 0);
}

static void close_alone(struct alone *a)
{
	datagrams_close(&a->d);
	ibv_close_device(a->context);
	ibv_free_device_list(a->list);
}

static void send_alone(struct alone *a, struct ibv_ah *ah, int i)
{
	char why[DATAGRAM_WHY_BYTES];

	if (datagrams_send(a->d, ah, datagrams_qpn(a->d), datagrams_qkey(a->d), &i, sizeof(i), why))
		fail_msg("datagram %d: %s", i, why);
}

/* A rank that leaves a job of many ends all its connections at once. */
CASE(more_datagrams_than_slots_are_sent_at_once__all_arrive)
{
	enum { SENDS = 200 };
	struct datagram got;
	struct ibv_ah *ah;
	struct alone a;

	open_alone(&a);
	ah = address_here(a.d);
	for (int i = 0; i < SENDS; i++)
		send_alone(&a, ah, i);
	for (int i = 0; i < SENDS; i++) {
		assert_int_equal(datagrams_next(a.d, &got), 1);
		assert_int_equal(got.n, sizeof(i));
		assert_memory_equal(got.bytes, &i, sizeof(i));
		assert_int_equal(got.qpn, datagrams_qpn(a.d));
	}
	assert_int_equal(datagrams_next(a.d, &got), 0);
	ibv_destroy_ah(ah);
	close_alone(&a);
	assert_null(fake_leak());
}

static int looks;

static int count_look(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	looks++;
	return fake_poll_cq(cq, n, wc);
}

CASE(peers_part_after_the_card_has_hung__only_the_first_is_waited_for)
{
	enum { PEERS = 5 };
	struct alone a;

	open_alone(&a);
	fake_context()->ops.poll_cq = count_look;
	fake.held = 1;
	for (int i = 0; i < PEERS; i++) {
		struct ibv_ah *ah = address_here(a.d);

		send_alone(&a, ah, i);
		looks = 0;
		datagrams_forget(a.d, ah);
		if (i > 0)
			assert_in_range(looks, 0, 2);
	}
	/* After the card has completed a datagram, this waits again. */
	fake_release(0);
	struct ibv_ah *ah = address_here(a.d);
	send_alone(&a, ah, PEERS);
	looks = 0;
	datagrams_forget(a.d, ah);
	assert_true(looks > 2);
	close_alone(&a);
}

/* A queue for receives, each of which fails as soon as the queue pair works again. */
static int fail_each_second_look(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	if (!cq->channel || ++looks > 1000 || looks % 2 == 0)
		return 0;
	*wc = (struct ibv_wc){ .status = IBV_WC_GENERAL_ERR };
	return 1;
}

CASE(queue_pair_for_datagrams_stops_again_at_once__rank_goes_on)
{
	struct datagram got;
	struct alone a;

	open_alone(&a);
	fake_context()->ops.poll_cq = fail_each_second_look;
	looks = 0;
	assert_int_equal(datagrams_next(a.d, &got), 0);
	assert_int_equal(times("the queue pair for datagrams of fake0 stopped"), 2);
	fake_context()->ops.poll_cq = fake_poll_cq;
	struct ibv_ah *ah = address_here(a.d);
	send_alone(&a, ah, 1);
	assert_int_equal(datagrams_next(a.d, &got), 1);
	ibv_destroy_ah(ah);
	close_alone(&a);
	assert_null(fake_leak());
}

/* ---- strangers --------------------------------------------------------------------- */

/* No rank answers, refuses or reconnects. */
static void check_nothing_happens(void)
{
	const int before = n_sent;

	poll_for(20);
	assert_int_equal(n_sent, before);
	assert_null(strstr(logged, "connected again"));
	assert_null(strstr(logged, "lost the connection"));
}

CASE(stranger_repeats_all_that_was_sent__nothing_changes)
{
	struct two x = open_two(DEPTH);
	const int n = n_sent;

	poll_for(150);
	for (int i = 0; i < n; i++) {
		const int to = sent[i].bytes[2] == FRAME_PROOF;

		/* from its own queue pair, and with a wrong Q_Key */
		fake_inject(sent[i].bytes, sent[i].n, 4711, sent[i].to, qkey_of(to));
		fake_inject(sent[i].bytes, sent[i].n, sent[i].from, sent[i].to, qkey_of(to) ^ 1);
		check_nothing_happens();
	}
	/* The accepted proof, as if its sender had repeated it: the acceptance is repeated. */
	fake_inject(find_sent(FRAME_PROOF, 0)->bytes, find_sent(FRAME_PROOF, 0)->n,
		    find_sent(FRAME_PROOF, 0)->from, find_sent(FRAME_PROOF, 0)->to, qkey_of(1));
	POLL_UNTIL(n_sent > n, pair_poll(&pair));
	assert_int_equal(n_sent, n + 1);
	assert_memory_equal(find_sent(FRAME_ACCEPT, 0), find_sent(FRAME_ACCEPT, 1),
			    sizeof(sent[0]));
	check_nothing_happens();
	check_works(&x, 0);
	close_all(&x);
}

CASE(stranger_sends_parts_and_changed_copies_of_all_that_was_sent__nothing_changes)
{
	struct two x = open_two(DEPTH);
	const int n = n_sent;

	for (int i = 0; i < n; i++) {
		const struct sent s = sent[i];
		const uint32_t qkey = qkey_of(s.bytes[2] == FRAME_PROOF);

		for (size_t cut = 0; cut < s.n; cut++)
			fake_inject(s.bytes, cut, s.from, s.to, qkey);
		for (unsigned bit = 0; bit < 8 * s.n; bit++) {
			struct sent other = s;

			other.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			fake_inject(other.bytes, other.n, s.from, s.to, qkey);
			pair_poll(&pair); /* few receives are posted */
		}
		check_nothing_happens();
	}
	check_works(&x, 0);
	close_all(&x);
}

/* Nothing but the right end of this connection ends it: not that of an earlier one, and nothing
 * that was made without the key. */
CASE(stranger_repeats_or_forges_the_end_of_a_connection__connection_stays)
{
	static const enum frame_kind kinds[] = { FRAME_ALIVE, FRAME_REFUSAL, FRAME_END };
	struct two x = open_two(DEPTH);
	int n;

	cut(&x, 0);
	check_works(&x, 1);
	n = n_sent;
	assert_true(n_of(FRAME_END) > 0);
	logged[0] = '\0';
	for (int i = 0; i < n; i++)
		if (sent[i].bytes[2] == FRAME_END)
			fake_inject(sent[i].bytes, sent[i].n, sent[i].from, sent[i].to,
				    qkey_of((int)get_le32(sent[i].bytes + 4) ^ 1));
	check_nothing_happens();
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		for (unsigned rank = 0; rank < 2; rank++) {
			const struct frame frame = { .kind = kinds[k],
						     .rank = rank,
						     .reason = REFUSAL_GONE };
			const struct sent *s = find_sent(rank ? FRAME_ACCEPT : FRAME_PROOF, 0);
			struct sent forged;

			forged.n = frame_encode(&frame, forged.bytes);
			fake_inject(forged.bytes, forged.n, s->from, s->to, qkey_of((int)rank ^ 1));
			check_nothing_happens();
		}
	check_works(&x, 2);
	close_all(&x);
}

/* Some cards stop the queue pair then. It is started again, and the next break is mended. */
CASE(stranger_who_knows_the_q_key_sends_too_long_datagrams__connection_stays_and_can_be_restored)
{
	static const uint8_t junk[1024] = { 'S', 'L', FRAME_PROOF };
	struct two x = open_two(DEPTH);

	for (int i = 0; i < 3; i++)
		for (int to = 0; to < 2; to++) {
			const struct sent *s = find_sent(to ? FRAME_PROOF : FRAME_ACCEPT, 0);

			fake_inject(junk, sizeof(junk), 4711, s->to, qkey_of(to));
			fake_inject(junk, DATAGRAM_BYTES + 1, 4711, s->to, qkey_of(to));
			check_nothing_happens();
		}
	cut(&x, 0);
	check_works(&x, 1);
	close_all(&x);
}

static enum fake_fate lose_proofs_to_forge_answers(int number, enum frame_kind kind)
{
	return kind == FRAME_PROOF ? FAKE_IS_LOST : FAKE_PASSES;
}

/* A stranger who sees the running attempt, but holds no key, answers it in every way. */
CASE(stranger_answers_the_running_attempt__client_waits_for_the_right_answer)
{
	struct two x = open_two(DEPTH);
	const struct sent acceptance = *find_sent(FRAME_ACCEPT, 0);
	const struct sent *proof;
	struct frame frame = { .rank = 1 };
	const char *why;
	int before;

	fate = lose_proofs_to_forge_answers;
	before = n_of(FRAME_PROOF);
	cut(&x, 0);
	POLL_UNTIL(n_of(FRAME_PROOF) > before, pair_poll(&pair));
	proof = find_sent(FRAME_PROOF, before);
	for (int kind = FRAME_HELLO; kind <= FRAME_END; kind++)
		for (unsigned reason = 0; reason <= 5; reason++) {
			struct sent forged = { .from = proof->to, .to = proof->from };

			assert_int_equal(frame_decode(acceptance.bytes, acceptance.n, &frame, &why),
					 0);
			frame.kind = (enum frame_kind)kind;
			frame.reason = (reason + REFUSAL_GONE) % 6; /* the worst one first */
			frame.ends = kind == FRAME_PROOF || kind == FRAME_ACCEPT;
			memcpy(frame.nonce, proof->bytes + 8, sizeof(frame.nonce));
			forged.n = frame_encode(&frame, forged.bytes);
			fake_inject(forged.bytes, forged.n, forged.from, forged.to, qkey_of(0));
			pair_poll(&pair);
		}
	assert_int_equal(pair_count(&pair, 0, EVENT_GONE), 0);
	assert_null(strstr(logged, "it does not hold"));
	assert_null(strstr(logged, "it has given this rank up"));
	fate = NULL;
	check_works(&x, 1);
	assert_int_equal(times("connected again to rank 1"), 1);
	close_all(&x);
}

/* ---- refusals ---------------------------------------------------------------------- */

CASE(server_has_dropped_the_client__client_is_told_and_gives_up)
{
	struct two x = open_two(DEPTH);

	verbs_transport.revoke(pair.e[1]);
	fake_pairs_cut();
	assert_int_equal(post(0, TRANSFER_GET, x.to_inbox, x.near, 0, 0, 0), 0);
	assert_int_equal(pair_wait(&pair, 0, EVENT_GONE, 1), 0);
	for (int i = 0; i < pair.n_events[0]; i++)
		if (pair.events[0][i].kind == EVENT_GONE)
			assert_string_equal(pair.events[0][i].text, "it has given this rank up");
	assert_in_range(n_of(FRAME_REFUSAL), 1, 3);
	close_all(&x);
}

CASE(port_that_is_a_limited_member_only__is_refused_with_the_reason)
{
	memset(fake.pkeys, 0, sizeof(fake.pkeys));
	fake.pkeys[0] = 0x7fff;
	assert_int_equal(pair_open(&pair, DEPTH), SLUICE_ENOSUPP);
	assert_non_null(
		strstr(sluice_last_error(), "fake0 port 1 is a full member of no partition"));
	close_pair();
}

CASE(record_of_a_card_in_another_network__is_refused)
{
	struct verbs_record record;
	uint8_t bytes[TRANSPORT_RECORD_BYTES];
	struct endpoint *e;

	struct two x = open_two(DEPTH);
	assert_int_equal(verbs_record_decode(pair.record[0], pair.record_bytes[0], 0, &record), 0);
	record.cards[0].gid.raw[7] ^= 1;
	close_all(&x);
	new_fabric();
	record.rank = 0;
	{
		static uint8_t key[2][32];
		const struct peer_keys keys = {
			.rank = 1, .size = 2, .wire_version = 1, .key = (const uint8_t(*)[32])key
		};
		struct transport_config config = { .rank = 1, .size = 2, .queue_depth = DEPTH };
		struct transport *t;

		assert_int_equal(verbs_transport.open(&config, &t), 0);
		assert_int_equal(verbs_transport.admit(t, &keys), 0);
		assert_int_equal(verbs_transport.connect(t, 0, bytes,
							 verbs_record_encode(&record, bytes), &e),
				 SLUICE_EWIRE);
		assert_non_null(
			strstr(sluice_last_error(), "cannot connect to fake0 fe80::1:2:c903"));
		verbs_transport.close(&t);
	}
	assert_null(fake_leak());
}
