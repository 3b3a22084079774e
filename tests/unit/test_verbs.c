/* SPDX-License-Identifier: BSD-3-Clause
 * The verbs transport over a fake card and connection manager: what arrives, what is posted, what a
 * device may lack, what is refused, and what a broken connection leaves behind. */
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "sluice.h"
#include "verbs_pair.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { DEPTH = 64, BYTES = 65536 };

static struct verbs_pair pair;
static char logged[65536];

static void take_line(int level, const char *line, void *context)
{
	size_t used = strlen(logged);

	(void)level;
	(void)context;
	snprintf(logged + used, sizeof(logged) - used, "%s\n", line);
}

static int setup(void **state)
{
	(void)state;
	logged[0] = '\0';
	log_set_sink(take_line, NULL);
	fake_reset();
	return 0;
}

static void open_pair(void)
{
	int rc = pair_open(&pair, DEPTH);

	if (rc != 0)
		print_message("%s\n%s", sluice_last_error(), logged);
	assert_int_equal(rc, 0);
}

static void close_pair(void)
{
	const char *leak;

	pair_close(&pair);
	leak = fake_leak();
	if (leak != NULL)
		fail_msg("%s", leak);
}

static void fill(void *bytes, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)bytes)[i] = (uint8_t)(i * 31 + seed + i / 251);
}

static int post(int side, enum transfer_kind kind, struct remote *to, const struct region *from, size_t at,
		size_t n, uint32_t imm)
{
	return verbs_transport.post(pair.e[side], &(struct transfer){
		.kind = kind, .remote = to, .offset = at, .local_region = from,
		.local = (uint8_t *)from->base + at, .bytes = n, .imm = imm, .cookie = imm});
}

struct two {
	struct region *inbox, *log, *near;
	struct remote *to_inbox, *to_log;
};

/* Rank 1 offers an inbox and a log to rank 0, which has memory of its own. */
static struct two share_two(void)
{
	struct two x = {0};

	assert_int_equal(region_open(BYTES, REGION_WRITE, "inbox", &x.inbox), 0);
	assert_int_equal(region_open(BYTES, REGION_READ, "log", &x.log), 0);
	assert_int_equal(region_open(BYTES, 0, "near", &x.near), 0);
	assert_int_equal(pair_share(&pair, 1, x.inbox, &x.to_inbox), 0);
	assert_int_equal(pair_share(&pair, 1, x.log, &x.to_log), 0);
	return x;
}

static void close_two(struct two *x)
{
	verbs_transport.remote_close(&x->to_inbox);
	verbs_transport.remote_close(&x->to_log);
	region_close(&x->inbox);
	region_close(&x->log);
	region_close(&x->near);
}

static void put_get_notify__two_ranks__bytes_and_immediate_arrive(void **state)
{
	struct two x;

	(void)state;
	open_pair();
	x = share_two();
	fill(x.near->base, BYTES, 1);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, BYTES, 0xabcdef01), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 1), 0);
	assert_int_equal(pair.events[1][0].imm, 0xabcdef01);
	assert_memory_equal(x.inbox->base, x.near->base, BYTES);
	fill(x.log->base, BYTES, 2);
	assert_int_equal(post(0, TRANSFER_GET, x.to_log, x.near, 0, BYTES, 5), 0);
	assert_int_equal(pair_wait(&pair, 0, EVENT_DONE, 1), 0);
	assert_int_equal(pair.events[0][0].cookie, 5);
	assert_memory_equal(x.log->base, x.near->base, BYTES);
	close_two(&x);
	close_pair();
}

/* What the transport adds of its own (credits) is rare; a put, a get and a notice cost one each. */
static void steady_step__push_pull_notice__one_work_request_each(void **state)
{
	struct fake_counts before;
	struct region *notice;
	struct remote *to_notice;
	struct two x;

	(void)state;
	open_pair();
	x = share_two();
	assert_int_equal(region_open(4096, REGION_WRITE, "notice", &notice), 0);
	assert_int_equal(pair_share(&pair, 0, notice, &to_notice), 0);
	before = fake_counts;
	for (int step = 1; step <= 10; step++) {
		assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 4000, 1), 0);
		assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, step), 0);
		assert_int_equal(post(1, TRANSFER_PUT_NOTIFY, to_notice, x.inbox, 0, 32, 2), 0);
		assert_int_equal(pair_wait(&pair, 0, EVENT_IMM, step), 0);
		assert_int_equal(post(0, TRANSFER_GET, x.to_log, x.near, 0, 4000, 3), 0);
		assert_int_equal(pair_wait(&pair, 0, EVENT_DONE, step), 0);
	}
	assert_int_equal(fake_counts.writes_with_imm - before.writes_with_imm, 20);
	assert_int_equal(fake_counts.reads - before.reads, 10);
	assert_int_equal(fake_counts.writes - before.writes, 0);
	verbs_transport.remote_close(&to_notice);
	region_close(&notice);
	close_two(&x);
	close_pair();
}

static void many_puts__unsignalled__send_queue_never_overflows(void **state)
{
	struct two x;
	int posted = 0, tries = 0;

	(void)state;
	fake.attr.max_qp_wr = 32;
	open_pair();
	x = share_two();
	fill(x.near->base, BYTES, 3);
	while (posted < 5000) {
		int rc = post(0, TRANSFER_PUT, x.to_inbox, x.near, (size_t)posted % 60 * 1000, 1000, 0);

		assert_true(rc == 0 || rc == SLUICE_EAGAIN);
		assert_true(++tries < 100000); /* a queue that is never emptied stays full */
		posted += rc == 0;
		if (rc != 0)
			pair_poll(&pair);
	}
	assert_int_equal(post(0, TRANSFER_GET, x.to_log, x.near, 0, 8, 1), 0);
	assert_int_equal(pair_wait(&pair, 0, EVENT_DONE, 1), 0);
	assert_int_equal(fake_counts.overflows, 0);
	assert_int_equal(fake_counts.cq_overruns, 0);
	assert_in_range(fake_counts.most_outstanding, 1, 32);
	assert_memory_equal((uint8_t *)x.inbox->base + 8, (uint8_t *)x.near->base + 8, 59992);
	close_two(&x);
	close_pair();
}

static void notifies_without_end__receiver_slow__no_receiver_not_ready(void **state)
{
	struct two x;
	int sent = 0;

	(void)state;
	open_pair();
	x = share_two();
	for (int i = 0; i < 3000; i++) {
		int rc = post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 8, (uint32_t)sent);

		sent += rc == 0;
		pair_poll_side(&pair, 0); /* only the sender */
		if (i % 500 == 499)
			pair_poll_side(&pair, 1);
	}
	pair_poll(&pair);
	assert_int_equal(fake_counts.no_receive, 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, sent), 0);
	for (int i = 0; i < sent; i++)
		assert_int_equal(pair.events[1][i].imm, i);
	assert_true(sent > DEPTH);
	close_two(&x);
	close_pair();
}

static void read_depth_of_one__eight_gets__one_at_a_time(void **state)
{
	struct two x;
	int posted = 0;

	(void)state;
	fake.attr.max_qp_init_rd_atom = 1;
	open_pair();
	x = share_two();
	fill(x.log->base, BYTES, 4);
	fake.held = 1;
	while (posted < 8) {
		int rc = post(0, TRANSFER_GET, x.to_log, x.near, (size_t)posted * 8000, 8000, 1);

		assert_true(rc == 0 || rc == SLUICE_EAGAIN);
		posted += rc == 0;
		if (rc != 0) {
			fake_release(0);
			pair_poll(&pair);
		}
	}
	fake_release(0);
	fake.held = 0;
	assert_int_equal(pair_wait(&pair, 0, EVENT_DONE, 8), 0);
	assert_int_equal(fake_counts.reads_at_once, 1);
	assert_memory_equal(x.log->base, x.near->base, 64000);
	close_two(&x);
	close_pair();
}

static void small_put__late_execution__carries_the_bytes_of_its_post(void **state)
{
	static const uint32_t inlines[] = {220, 0};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct two x;

		fake_reset();
		fake.max_inline = inlines[i];
		open_pair();
		x = share_two();
		fill(x.near->base, 64, 9);
		fake.held = 1;
		assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 64, 1), 0);
		memset(x.near->base, 0xee, 64);
		fake_release(0);
		fake.held = 0;
		assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 1), 0);
		fill(x.near->base, 64, 9);
		assert_memory_equal(x.inbox->base, x.near->base, 64);
		close_two(&x);
		close_pair();
	}
}

static void long_put__message_limit_4096__arrives_in_pieces_with_one_immediate(void **state)
{
	struct two x;

	(void)state;
	fake.max_message = 4096;
	open_pair();
	x = share_two();
	fill(x.near->base, BYTES, 5);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, BYTES, 1), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 1), 0);
	assert_memory_equal(x.inbox->base, x.near->base, BYTES);
	assert_int_equal(pair_count(&pair, 1, EVENT_IMM), 1);
	close_two(&x);
	close_pair();
}

static void open__device_too_small__refused_by_name_and_nothing_left(void **state)
{
	struct {int *limit, value; const char *says;} cases[] = {
		{&fake.attr.max_qp, 1, "too small"},
		{&fake.attr.max_cqe, 20, "too small"},
		{&fake.attr.max_qp_wr, 4, "too small"},
		{&fake.attr.max_srq_wr, 2, "too small"},
		{&fake.attr.max_qp_init_rd_atom, 0, "cannot read"},
		{&fake.attr.max_mr, 1, "ibv_reg_mr"},
		{&fake.port_down, 1, "not ACTIVE"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake_reset();
		*cases[i].limit = cases[i].value;
		assert_true(pair_open(&pair, DEPTH) < 0);
		if (strstr(sluice_last_error(), cases[i].says) == NULL)
			fail_msg("case %zu: %s", i, sluice_last_error());
		close_pair();
	}
}

static void open__too_few_domains__refused_where_each_peer_needs_one(void **state)
{
	(void)state;
	fake.attr.max_pd = 1;
	if (strcmp(pair_memory_windows, "no") == 0) {
		assert_int_equal(pair_open(&pair, DEPTH), SLUICE_ENOSUPP);
		assert_non_null(strstr(sluice_last_error(), "1 protection domains"));
	} else {
		open_pair();
	}
	close_pair();
}

/* ---- rights ---------------------------------------------------------------------------------- */

/* By hand: the library refuses to post such a thing, an attacker's does not. */
static void steal(struct remote *remote, uint64_t offset, size_t bytes, unsigned access)
{
	remote->bytes = offset + bytes;
	remote->access |= access;
}

static void illegal_access__each_kind__ends_the_offender_and_moves_nothing(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		uint8_t before[64];
		struct two x;

		fake_reset();
		open_pair();
		x = share_two();
		fill(x.log->base, BYTES, 6);
		memcpy(before, x.log->base, sizeof(before));
		if (i == 0) { /* write what may be read */
			steal(x.to_log, 0, BYTES, REGION_WRITE);
			assert_int_equal(post(0, TRANSFER_PUT, x.to_log, x.near, 0, 64, 1), 0);
		} else if (i == 1) { /* one byte too far */
			steal(x.to_inbox, 0, BYTES + 1, 0);
			assert_int_equal(verbs_transport.post(pair.e[0], &(struct transfer){
				.kind = TRANSFER_PUT, .remote = x.to_inbox, .offset = BYTES - 99, .bytes = 100,
				.local_region = x.near, .local = x.near->base}), 0);
		} else { /* read what may be written */
			steal(x.to_inbox, 0, BYTES, REGION_READ);
			assert_int_equal(post(0, TRANSFER_GET, x.to_inbox, x.near, 0, 64, 1), 0);
		}
		assert_int_equal(pair_wait(&pair, 0, EVENT_GONE, 1), 0);
		assert_int_equal(fake_counts.access_errors, 1);
		assert_non_null(strstr(pair.events[0][0].text, "remote access error"));
		assert_memory_equal(before, x.log->base, sizeof(before));
		close_two(&x);
		close_pair();
	}
}

static void model_memory__shared_for_reading__no_registration_lets_it_be_written(void **state)
{
	struct two x;

	(void)state;
	open_pair();
	x = share_two();
	assert_int_equal(post(0, TRANSFER_GET, x.to_log, x.near, 0, 64, 1), 0);
	assert_int_equal(pair_wait(&pair, 0, EVENT_DONE, 1), 0);
	assert_int_equal(fake_remote_writable(x.log->base, BYTES), 0);
	assert_int_equal(fake_remote_writable(x.near->base, BYTES), 0);
	assert_int_equal(fake_remote_writable(x.inbox->base, BYTES), 1);
	close_two(&x);
	close_pair();
}

static void key__used_after_its_peer_was_dropped__remote_access_error(void **state)
{
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
	struct region *notice;
	struct remote *to_notice;
	struct two x;

	(void)state;
	open_pair();
	x = share_two();
	assert_int_equal(region_open(4096, REGION_WRITE, "notice", &notice), 0);
	assert_int_equal(pair_share(&pair, 0, notice, &to_notice), 0);
	fill(x.near->base, BYTES, 8);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 1000, 1), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 1), 0);

	verbs_transport.revoke(pair.e[1]);
	assert_int_equal(fake_remote_writable(x.inbox->base, BYTES), 0);
	assert_int_equal(fake_remote_writable(pair.control[1]->base, 2 * PAIR_LINE), 0);
	assert_int_equal(verbs_transport.describe(pair.e[1], x.inbox, descriptor), SLUICE_EPEER);
	/* the last words to it still arrive */
	assert_int_equal(post(1, TRANSFER_PUT_NOTIFY, to_notice, x.near, 0, 200, 2), 0);
	assert_int_equal(pair_wait(&pair, 0, EVENT_IMM, 1), 0);
	assert_memory_equal(notice->base, x.near->base, 200);

	memset(x.inbox->base, 0x55, BYTES);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 1000, 3), 0);
	assert_int_equal(pair_wait(&pair, 0, EVENT_GONE, 1), 0);
	assert_non_null(strstr(pair.events[0][pair.n_events[0] - 1].text, "remote access error"));
	assert_int_equal(fake_counts.access_errors, 1);
	for (size_t i = 0; i < BYTES; i++)
		assert_int_equal(((uint8_t *)x.inbox->base)[i], 0x55);
	assert_int_equal(pair_wait(&pair, 1, EVENT_GONE, 1), 0);
	verbs_transport.remote_close(&to_notice);
	region_close(&notice);
	close_two(&x);
	close_pair();
}

static void dropped_peer__connects_again__refused(void **state)
{
	(void)state;
	open_pair();
	verbs_transport.revoke(pair.e[1]);
	fake_cm_cut(1);
	assert_int_equal(pair_wait(&pair, 0, EVENT_GONE, 1), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_GONE, 1), 0);
	assert_non_null(strstr(pair.events[0][0].text, "given this rank up"));
	close_pair();
}

/* ---- broken connections ---------------------------------------------------------------------- */

static void check_numbers(int side, int n)
{
	for (int i = 0, seen = 0; i < pair.n_events[side]; i++)
		if (pair.events[side][i].kind == EVENT_IMM)
			assert_int_equal(pair.events[side][i].imm, seen++);
	assert_int_equal(pair_count(&pair, side, EVENT_IMM), n);
}

/* kind 0: told; 1: nobody says a word, the next work request fails; 2: told, but nothing completes. */
static void flap(int kind)
{
	struct two x;
	int sent = 0;

	fake_reset();
	logged[0] = '\0';
	open_pair();
	x = share_two();
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 7; i++, sent++) {
			fill((uint8_t *)x.near->base + sent * 1000, 1000, (unsigned)sent);
			fake.held = i >= 3;
			fake.silent = kind == 2 && i >= 3;
			assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near,
					      (size_t)sent * 1000, 1000, (uint32_t)sent), 0);
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
	close_two(&x);
	close_pair();
}

static void flap__disconnect_told__every_notify_arrives_once_and_in_order(void **state)
{
	(void)state;
	flap(0);
}

static void flap__completion_errors_only__every_notify_arrives_once_and_in_order(void **state)
{
	(void)state;
	flap(1);
}

static void flap__disconnected_without_completions__every_notify_arrives_once_and_in_order(void **state)
{
	(void)state;
	flap(2);
}

static void completion_fails__status_of_the_link__resumes(void **state)
{
	static const enum ibv_wc_status statuses[] = {IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR,
						      IBV_WC_GENERAL_ERR, IBV_WC_FATAL_ERR};

	(void)state;
	open_pair();
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		struct two x = share_two();

		fake.fail_status = statuses[i];
		fake.fail_opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 100, (uint32_t)i), 0);
		assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, (int)i + 1), 0);
		assert_int_equal(pair_connect(&pair), 0);
		close_two(&x);
	}
	check_numbers(1, 4);
	close_pair();
}

static void connect__never_ends__peer_is_lost_within_its_time(void **state)
{
	struct two x;

	(void)state;
	open_pair();
	x = share_two();
	fake.cm = FAKE_CM_SILENT;
	fake_cm_cut(1);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 100, 1), 0);
	assert_int_equal(pair_wait(&pair, 0, EVENT_GONE, 1), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_GONE, 1), 0);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 100, 1), SLUICE_EPEER);
	close_two(&x);
	close_pair();
}

static void cm_events__every_type_with_rubbish__connection_survives_or_is_made_again(void **state)
{
	uint8_t rubbish[200];
	struct two x;
	int sent = 0;

	(void)state;
	fill(rubbish, sizeof(rubbish), 77);
	open_pair();
	x = share_two();
	for (int type = RDMA_CM_EVENT_ADDR_RESOLVED; type <= RDMA_CM_EVENT_TIMEWAIT_EXIT; type++) {
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST || type == RDMA_CM_EVENT_DEVICE_REMOVAL)
			continue; /* makes an id; ends the device: not for an id that is there */
		for (size_t n = 0; n <= sizeof(rubbish); n += 100)
			fake_cm_event((enum rdma_cm_event_type)type, -5, rubbish, n);
		pair_poll(&pair);
		assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 100, (uint32_t)sent++), 0);
		if (pair_wait(&pair, 1, EVENT_IMM, sent) != 0)
			fail_msg("%s: %s", rdma_event_str((enum rdma_cm_event_type)type), logged);
	}
	check_numbers(1, sent);
	close_two(&x);
	close_pair();
}

static void device_removed__both_ranks__peers_are_gone_and_nothing_is_left(void **state)
{
	(void)state;
	open_pair();
	fake_cm_event(RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, 0);
	assert_int_equal(pair_wait(&pair, 0, EVENT_GONE, 1), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_GONE, 1), 0);
	close_pair();
}

static void sleep__armed__a_notify_makes_the_descriptor_readable(void **state)
{
	struct two x;

	(void)state;
	open_pair();
	x = share_two();
	while (verbs_transport.arm(pair.t[1]))
		pair_poll(&pair);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 8, 1), 0);
	verbs_transport.disarm(pair.t[1]);
	pair_poll_side(&pair, 1);
	assert_int_equal(pair_count(&pair, 1, EVENT_IMM), 1);
	assert_int_equal(fake_counts.unacked, 0);
	close_two(&x);
	close_pair();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(put_get_notify__two_ranks__bytes_and_immediate_arrive, setup),
		cmocka_unit_test_setup(steady_step__push_pull_notice__one_work_request_each, setup),
		cmocka_unit_test_setup(many_puts__unsignalled__send_queue_never_overflows, setup),
		cmocka_unit_test_setup(notifies_without_end__receiver_slow__no_receiver_not_ready, setup),
		cmocka_unit_test_setup(read_depth_of_one__eight_gets__one_at_a_time, setup),
		cmocka_unit_test_setup(small_put__late_execution__carries_the_bytes_of_its_post, setup),
		cmocka_unit_test_setup(long_put__message_limit_4096__arrives_in_pieces_with_one_immediate, setup),
		cmocka_unit_test_setup(open__device_too_small__refused_by_name_and_nothing_left, setup),
		cmocka_unit_test_setup(open__too_few_domains__refused_where_each_peer_needs_one, setup),
		cmocka_unit_test_setup(illegal_access__each_kind__ends_the_offender_and_moves_nothing, setup),
		cmocka_unit_test_setup(model_memory__shared_for_reading__no_registration_lets_it_be_written, setup),
		cmocka_unit_test_setup(key__used_after_its_peer_was_dropped__remote_access_error, setup),
		cmocka_unit_test_setup(dropped_peer__connects_again__refused, setup),
		cmocka_unit_test_setup(flap__disconnect_told__every_notify_arrives_once_and_in_order, setup),
		cmocka_unit_test_setup(flap__completion_errors_only__every_notify_arrives_once_and_in_order, setup),
		cmocka_unit_test_setup(
			flap__disconnected_without_completions__every_notify_arrives_once_and_in_order, setup),
		cmocka_unit_test_setup(completion_fails__status_of_the_link__resumes, setup),
		cmocka_unit_test_setup(connect__never_ends__peer_is_lost_within_its_time, setup),
		cmocka_unit_test_setup(cm_events__every_type_with_rubbish__connection_survives_or_is_made_again,
				       setup),
		cmocka_unit_test_setup(device_removed__both_ranks__peers_are_gone_and_nothing_is_left, setup),
		cmocka_unit_test_setup(sleep__armed__a_notify_makes_the_descriptor_readable, setup),
	};

	int failed = cmocka_run_group_tests_name("verbs", tests, NULL, NULL);

	pair_memory_windows = "no";
	return failed + cmocka_run_group_tests_name("verbs, a domain for each peer", tests, NULL, NULL);
}
