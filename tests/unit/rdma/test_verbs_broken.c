/* SPDX-License-Identifier: BSD-3-Clause
 * The verbs transport over a fake card and connection manager: broken connections are made again,
 * once and in order, or their peer is lost in time; and a broken connection leaves nothing
 * behind. */
#include "verbs_two.h"
#include "base/clock.h"
#include "base/log.h"
#include "rdma/card_facts.h"
#include "sluice.h"
#include "cases.h"
#include "thinned.h"
#include <sched.h>
#include <string.h>

enum { DEPTH = 64, LINK_LOST_MS = 750 };

static int lost_soon(void **state)
{
	pair_link_lost_ms = LINK_LOST_MS;
	return fabric_setup(state);
}

static int lost_late(void **state)
{
	pair_link_lost_ms = PAIR_LINK_LOST_MS;
	return 0;
}
#define LOST_SOON(name) TEST_WITH(name, lost_soon, lost_late)

/* kind 0: both sides get an event; 1: no event, the next work request fails; 2: an event, but no
 * completion. */
static void flap(int kind)
{
	int sent = 0;

	struct two x = open_two(DEPTH);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 7; i++, sent++) {
			fill((uint8_t *)x.near->base + sent * 1000, 1000, (unsigned)sent);
			fake.held = i >= 3;
			fake.silent = kind == 2 && i >= 3;
			assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near,
					      (size_t)sent * 1000, 1000, (uint32_t)sent),
					 0);
		}
		assert_int_equal(post(0, TRANSFER_GET, x.to_inbox, x.near, 0, 0, 0), 0);
		fake.held = 0;
		fake_cm_cut(kind != 1);
		fake.silent = 0;
		assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, sent), 0);
	}
	check_numbers(1, sent);
	assert_memory_equal(x.inbox->base, x.near->base, (size_t)sent * 1000);
	assert_int_equal(pair_count(&pair, 0, EVENT_GONE), 0);
	assert_non_null(strstr(logged, "connected again"));
	close_all(&x);
}

FRESH(flap__disconnect_told__every_notify_arrives_once_and_in_order)
{
	flap(0);
}

FRESH(flap__completion_errors_only__every_notify_arrives_once_and_in_order)
{
	flap(1);
}

FRESH(flap__disconnected_without_completions__every_notify_arrives_once_and_in_order)
{
	flap(2);
}

FRESH(flap__card_without_shared_receive_queues__every_notify_arrives_once_and_in_order)
{
	for (int kind = 0; kind < 3; kind++) {
		fabric_setup(state);
		fake_be(FAKE_IRDMA, 1);
		flap(kind);
	}
}

/* The queue pair of rank 0 executes nothing any more, but fails nothing either. */
FRESH(renew__queue_pair_hangs__every_notify_and_get_ends_once_and_in_order)
{
	int sent = 0;

	struct two x = open_two(DEPTH);
	for (int round = 0; round < 3; round++) {
		fake.held = 1;
		for (int i = 0; i < 7; i++, sent++) {
			fill((uint8_t *)x.near->base + sent * 1000, 1000, (unsigned)sent);
			assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near,
					      (size_t)sent * 1000, 1000, (uint32_t)sent),
					 0);
		}
		assert_int_equal(post(0, TRANSFER_GET, x.to_inbox, x.near, 0, 0, 0), 0);
		pair_poll(&pair);
		fake.held = 0;
		pair.t[round % 2]->ops->renew(pair.e[round % 2], "it hangs");
		assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, sent), 0);
		assert_int_equal(pair_wait(&pair, 0, EVENT_DONE, round + 1), 0);
	}
	check_numbers(1, sent);
	assert_memory_equal(x.inbox->base, x.near->base, (size_t)sent * 1000);
	assert_int_equal(pair_count(&pair, 0, EVENT_GONE), 0);
	assert_non_null(strstr(logged, "connected again"));
	close_all(&x);
}

/* The card refuses one of the receives that replace used ones: those after it miss a receive, and
 * those before it do not. */
FRESH(receives__card_refuses_some_once__connection_is_made_again_and_every_notify_arrives)
{
	const uint64_t until = now_ns() + 10 * (uint64_t)PAIR_LOST_MS * 1000000;
	int sent = 0;

	fake_be(FAKE_IRDMA, 1);
	struct two x = open_two(DEPTH);
	fake.refused_receive = 20;
	for (; sent < 10 * DEPTH; sent++)
		while (post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 8, (uint32_t)sent)) {
			pair_poll(&pair);
			if (now_ns() > until)
				fail_msg("%d were sent: %s", sent, logged);
		}
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, sent), 0);
	check_numbers(1, sent);
	assert_int_equal(fake.refused_receive, 0);
	assert_int_equal(fake_counts.no_receive, 0);
	assert_non_null(strstr(logged, "verbs: fake0 refuses a receive: ENOMEM"));
	assert_non_null(strstr(logged, "connected again to rank 0"));
	close_all(&x);
}

/* The connection breaks among them (2), or before them (1), or the card refuses the chain (0). */
FRESH(gathered__connection_breaks__every_notify_and_get_ends_once_and_in_order)
{
	int sent = 0, gets = 0;

	struct two x = open_two(DEPTH);
	fill(x.log->base, BYTES, 3);
	for (int round = 0; round < 9; round++) {
		if (round % 3 == 1)
			fake_cm_cut(1);
		verbs_transport.gather(pair.t[0], 1);
		for (int i = 0; i < 3; i++, sent++) {
			if (round % 3 == 2 && i == 1)
				fake_cm_cut(1);
			assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 0,
					      (uint32_t)sent),
					 0);
			const int rc = post(0, TRANSFER_GET, x.to_log, x.near, (size_t)sent * 2000,
					    2000, 1);
			assert_true(rc == 0 || rc == SLUICE_EAGAIN);
			gets += rc == 0;
		}
		fake.fail_call = round % 3 == 0 ? fake_counts.calls + 1 : 0;
		verbs_transport.gather(pair.t[0], 0);
		assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, sent), 0);
		assert_int_equal(pair_wait(&pair, 0, EVENT_DONE, gets), 0);
		if (round % 3 == 0)
			assert_string_equal(fake_counts.failed, "ibv_post_send");
		assert_int_equal(pair_connect(&pair), 0);
	}
	assert_int_equal(gets, sent);
	check_numbers(1, sent);
	assert_memory_equal(x.log->base, x.near->base, (size_t)sent * 2000);
	assert_int_equal(pair_count(&pair, 0, EVENT_GONE), 0);
	close_all(&x);
}

FRESH(completion_fails__status_of_the_link__resumes)
{
	static const enum ibv_wc_status statuses[] = { IBV_WC_RETRY_EXC_ERR,
						       IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_GENERAL_ERR,
						       IBV_WC_FATAL_ERR };

	open_pair(DEPTH);
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		struct two x = share_two();

		fake.fail_status = statuses[i];
		fake.fail_opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		assert_int_equal(
			post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 100, (uint32_t)i), 0);
		assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, (int)i + 1), 0);
		assert_int_equal(pair_connect(&pair), 0);
		close_two(&x);
	}
	check_numbers(1, 4);
	close_pair();
}

LOST_SOON(connect__never_ends__peer_is_lost_within_its_time)
{
	struct two x = open_two(DEPTH);
	fake.cm = FAKE_CM_SILENT;
	fake_cm_cut(1);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 100, 1), 0);
	assert_int_equal(pair_wait(&pair, 0, EVENT_GONE, 1), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_GONE, 1), 0);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 100, 1), SLUICE_EPEER);
	close_all(&x);
}

/* The connection manager stays silent for longer than the limit for a silent process. */
FRESH(link__away_longer_than_a_process_may_be__resumes_and_nobody_is_lost)
{
	struct two x = open_two(DEPTH);
	fake.cm = FAKE_CM_SILENT;
	fake_cm_cut(1);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 100, 0), 0);
	for (const uint64_t until = now_ns() + (uint64_t)PAIR_LOST_MS * 1000000; now_ns() < until;
	     sched_yield())
		pair_poll(&pair);
	assert_int_equal(pair_count(&pair, 0, EVENT_GONE) + pair_count(&pair, 1, EVENT_GONE), 0);
	fake.cm = FAKE_CM_ANSWERS;
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 1), 0);
	check_numbers(1, 1);
	close_all(&x);
}

/* The client notices the break first, is accepted again, and is then silent. */
LOST_SOON(connect__again_then_silence__peer_is_lost_within_its_time)
{
	const uint64_t most = now_ns() + 10 * (uint64_t)PAIR_LOST_MS * 1000000;

	log_configure("rdma+debug");
	struct two x = open_two(DEPTH);
	fake_cm_cut(0);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 100, 1), 0);
	while (!strstr(logged, "rank 0 reconnects"))
		pair_poll(&pair);
	while (!pair_count(&pair, 1, EVENT_GONE) && now_ns() < most) {
		pair_poll_side(&pair, 1);
		sched_yield();
	}
	assert_int_equal(pair_count(&pair, 1, EVENT_GONE), 1);
	assert_non_null(strstr(pair.events[1][0].text, "reconnecting failed"));
	close_all(&x);
}

static void break_amid(enum transfer_kind kind)
{
	struct large x = open_large(DEPTH);

	fake.held = 1;
	fake_counts.bytes_written = fake_counts.bytes_read = 0;
	assert_int_equal(post(0, kind, x.to, x.near, 0, LARGE, 0), 0);
	fake_release(0);
	pair_poll(&pair);
	fake_cm_cut(1);
	fake.held = 0;
	assert_int_equal(kind == TRANSFER_GET ? pair_wait(&pair, 0, EVENT_DONE, 1) :
						pair_wait(&pair, 1, EVENT_IMM, 1),
			 0);
	assert_memory_equal(x.far->base, x.near->base, LARGE);
	/* Greetings and tables of keys also count as written bytes. */
	assert_in_range(fake_counts.bytes_written + fake_counts.bytes_read, LARGE, LARGE + 100000);
	close_large(&x);
}

/* Otherwise a transfer that takes longer than the time between breaks would never end. */
FRESH(break__amid_a_large_transfer__pieces_that_ended_are_not_posted_again)
{
	break_amid(TRANSFER_PUT_NOTIFY);
	fake_reset();
	break_amid(TRANSFER_GET);
}

FRESH(cm_events__every_type_with_rubbish__connection_survives_or_is_made_again)
{
	uint8_t rubbish[200];
	int sent = 0;

	fill(rubbish, sizeof(rubbish), 77);
	struct two x = open_two(DEPTH);
	for (int type = RDMA_CM_EVENT_ADDR_RESOLVED; type <= RDMA_CM_EVENT_TIMEWAIT_EXIT; type++) {
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST || type == RDMA_CM_EVENT_DEVICE_REMOVAL)
			continue; /* the first makes an id, the second ends the device */
		for (size_t n = 0; n <= sizeof(rubbish); n += 100)
			fake_cm_event((enum rdma_cm_event_type)type, -5, rubbish, n);
		pair_poll(&pair);
		assert_int_equal(
			post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 100, (uint32_t)sent++),
			0);
		if (pair_wait(&pair, 1, EVENT_IMM, sent) != 0)
			fail_msg("%s: %s", rdma_event_str((enum rdma_cm_event_type)type), logged);
	}
	check_numbers(1, sent);
	close_all(&x);
}

FRESH(device_removed__both_ranks__peers_are_gone_and_nothing_is_left)
{
	open_pair(DEPTH);
	fake_cm_event(RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, 0);
	assert_int_equal(pair_wait(&pair, 0, EVENT_GONE, 1), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_GONE, 1), 0);
	close_pair();
}

/* After each of many reconnects, this rank may use all its credits. */
static void reconnect(void)
{
	const int short_run = thinned(1, 10) || !strcmp(pair_memory_windows, "no");
	const int times = short_run ? 100 : 1000;
	int sent = 0;

	struct two x = open_two(DEPTH);
	for (int round = 1; round <= times; round++) {
		fake_cm_cut(1);
		assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 8, 0), 0);
		assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 1), 0);
		pair.n_events[0] = pair.n_events[1] = 0;
	}
	while (!post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 8, 1))
		sent++;
	assert_in_range(sent, DEPTH / 2, DEPTH);
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, sent), 0);
	assert_int_equal(fake_counts.no_receive, 0);
	assert_int_equal(fake_counts.cq_overruns, 0);
	close_all(&x);
}

FRESH(reconnect__1000_times_on_a_card_that_leaks_receives__each_credit_has_one)
{
	fake.takes = 2;
	fake.last_looks = 3;
	reconnect();
	assert_int_equal(fake_counts.receives_leaked, 0);
	assert_int_equal(fake_counts.srq_full, 0);
}

FRESH(reconnect__1000_times_without_last_wqe_reached__each_credit_has_a_receive)
{
	fake_be(FAKE_RXE, 1);
	fake.takes = 1;
	reconnect();
	assert_non_null(strstr(logged, "does not report when a queue pair has taken its last"));
}

FRESH(reconnect__1000_times_on_a_card_without_shared_receive_queues__each_credit_has_one)
{
	fake_be(FAKE_IRDMA, 1);
	reconnect();
	assert_null(strstr(logged, "does not report when a queue pair has taken its last"));
}

/* A peer that ignores its credit sends until this rank has no receive. Returns how many it sent. */
static int flood(void)
{
	struct ibv_qp *qp = verbs_parts_of(pair.e[0]).qp;
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };
	int n = 0;

	for (; wc.status == IBV_WC_SUCCESS; n++) {
		assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
		assert_int_equal(ibv_poll_cq(qp->send_cq, 1, &wc), 1);
	}
	return n - 1;
}

/* Soft-RoCE gives the shared receive queue 8191 places for 4098 receives. */
FRESH(flood__after_reconnects_without_last_wqe_reached__completion_queue_has_a_place_for_each)
{
	enum { MANY = 4096, PLACES = 8191, LOG = 512, SPARE = 64 };
	static const struct {
		int max_cqe, no_resize, least;
	} cases[] = {
		{ 32767, 0, PLACES },
		{ MANY + 2 + LOG + SPARE + 100, 0, MANY + 2 },
		{ 32767, 1, MANY + 2 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fabric_setup(state);
		fake_be(FAKE_RXE, 1);
		fake.attr.max_cqe = cases[i].max_cqe;
		fake.no_resize = cases[i].no_resize;
		struct two x = open_two(MANY);
		for (int round = 1; round <= 5; round++) {
			fake_cm_cut(1);
			assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 8, 0),
					 0);
			assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, round), 0);
			assert_int_equal(pair_connect(&pair), 0);
		}
		pair_poll(&pair);
		assert_in_range(flood(), cases[i].least - MANY / 2, PLACES);
		assert_int_equal(fake_counts.cq_overruns, 0);
		if (cases[i].least < PLACES)
			assert_non_null(strstr(logged, "has too few completions"));
		else
			assert_null(strstr(logged, "has too few completions"));
		close_all(&x);
	}
}

/* A bond fails over to the port of another card and back: its address follows. */
FRESH(address__moves_to_another_card_and_back__connection_is_made_again)
{
	log_configure("rdma+debug");
	struct two x = open_two(DEPTH);
	fake.moved = 1;
	fake_cm_cut(1);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 8, 0), 0);
	while (!strstr(logged, "leads through fake1"))
		pair_poll(&pair);
	fake.moved = 0;
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 1), 0);
	close_all(&x);
}

LOST_SOON(address__moves_to_another_card_for_good__peer_is_lost_and_the_bond_named)
{
	open_pair(DEPTH);
	fake.moved = 1;
	fake_cm_cut(1);
	assert_int_equal(pair_wait(&pair, 0, EVENT_GONE, 1), 0);
	assert_non_null(strstr(pair.events[0][0].text, "leads through fake1"));
	assert_int_equal(pair_wait(&pair, 1, EVENT_GONE, 1), 0);
	fake.moved = 0;
	close_pair();
}

int main(void)
{
	int failed = run_cases(NULL, NULL);

	pair_memory_windows = "no";
	return failed + run_cases(NULL, NULL);
}
