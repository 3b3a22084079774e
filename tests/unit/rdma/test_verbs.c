/* SPDX-License-Identifier: BSD-3-Clause
 * The verbs transport over a fake card and connection manager: transfers, the number of posts, and
 * devices that lack features. Rights: test_verbs_rights.c; broken connections:
 * test_verbs_broken.c. */
#include "verbs_two.h"
#include "sluice.h"
#include "cases.h"
#include <string.h>

enum { DEPTH = 64, MIB = 1 << 20 };

FRESH(put_get_notify__two_ranks__bytes_and_immediate_arrive)
{
	struct two x = open_two(DEPTH);
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
	close_all(&x);
}

/* The transport's own messages (credits) are rare. A put, a get and a notice take one work request
 * each. */
FRESH(steady_step__push_pull_notice__one_work_request_each)
{
	struct fake_counts before;
	struct region *notice;
	struct remote *to_notice;

	struct two x = open_two(DEPTH);
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
	close_all(&x);
}

FRESH(many_puts__unsignalled__send_queue_never_overflows)
{
	int posted = 0, tries = 0;

	fake.attr.max_qp_wr = 32;
	struct two x = open_two(DEPTH);
	fill(x.near->base, BYTES, 3);
	while (posted < 5000) {
		int rc = post(0, TRANSFER_PUT, x.to_inbox, x.near, (size_t)posted % 60 * 1000, 1000,
			      0);

		assert_true(rc == 0 || rc == SLUICE_EAGAIN);
		assert_true(++tries < 100000); /* a queue that is never polled stays full */
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
	close_all(&x);
}

static void notify_without_end(void)
{
	int sent = 0;

	struct two x = open_two(DEPTH);
	for (int i = 0; i < 3000; i++) {
		int rc = post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 8, (uint32_t)sent);

		sent += rc == 0;
		pair_poll_side(&pair, 0); /* polls only the sender */
		if (i % 500 == 499)
			pair_poll_side(&pair, 1);
	}
	pair_poll(&pair);
	assert_int_equal(fake_counts.no_receive, 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, sent), 0);
	for (int i = 0; i < sent; i++)
		assert_int_equal(pair.events[1][i].imm, i);
	assert_true(sent > DEPTH);
	close_all(&x);
}

FRESH(notifies_without_end__receiver_slow__no_receiver_not_ready)
{
	notify_without_end();
}

/* Each queue pair has its own receives there. */
FRESH(notifies_without_end__card_without_shared_receive_queues__no_receiver_not_ready)
{
	fake_be(FAKE_IRDMA, 1);
	notify_without_end();
	assert_int_equal(fake_counts.cq_overruns, 0);
}

FRESH(read_depth_of_one__eight_gets__one_at_a_time)
{
	int posted = 0;

	fake.attr.max_qp_init_rd_atom = 1;
	struct two x = open_two(DEPTH);
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
	close_all(&x);
}

FRESH(gathered__notify_and_gets_beyond_the_read_depth__one_doorbell_and_the_last_must_wait)
{
	enum { DEPTH_OF_READS = 4 };

	fake.attr.max_qp_init_rd_atom = DEPTH_OF_READS;
	struct two x = open_two(DEPTH);
	fill(x.log->base, BYTES, 6);
	fake.held = 1;
	const uint64_t before = fake_counts.doorbells;
	verbs_transport.gather(pair.t[0], 1);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 0, 0), 0);
	for (size_t i = 0; i < DEPTH_OF_READS; i++)
		assert_int_equal(post(0, TRANSFER_GET, x.to_log, x.near, i * 8000, 8000, 1), 0);
	assert_int_equal(post(0, TRANSFER_GET, x.to_log, x.near, 32000, 8000, 1), SLUICE_EAGAIN);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 0, 1), 0);
	assert_int_equal(fake_counts.doorbells, before);
	verbs_transport.gather(pair.t[0], 0);
	assert_int_equal(fake_counts.doorbells, before + 1);
	assert_int_equal(fake_counts.most_outstanding, DEPTH_OF_READS + 2);
	verbs_transport.gather(pair.t[0], 1);
	verbs_transport.gather(pair.t[0], 0);
	assert_int_equal(fake_counts.doorbells, before + 1);
	fake_release(0);
	assert_int_equal(pair_wait(&pair, 0, EVENT_DONE, DEPTH_OF_READS), 0);
	assert_int_equal(post(0, TRANSFER_GET, x.to_log, x.near, 32000, 8000, 1), 0);
	fake_release(0);
	fake.held = 0;
	assert_int_equal(pair_wait(&pair, 0, EVENT_DONE, DEPTH_OF_READS + 1), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 2), 0);
	check_numbers(1, 2);
	assert_memory_equal(x.log->base, x.near->base, 40000);
	close_all(&x);
}

/* Nothing that follows may wait behind its pieces in the log. */
FRESH(gathered__get_of_24_megabytes__goes_at_once_after_what_waits)
{
	struct large x = open_large(DEPTH);
	const struct fake_counts before = fake_counts;

	fake.held = 1;
	verbs_transport.gather(pair.t[0], 1);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to, x.near, 0, 8, 0), 0);
	assert_int_equal(fake_counts.doorbells, before.doorbells);
	assert_int_equal(post(0, TRANSFER_GET, x.to, x.near, 0, LARGE, 1), 0);
	assert_int_equal(fake_counts.doorbells, before.doorbells + 1);
	verbs_transport.gather(pair.t[0], 0);
	assert_int_equal(fake_counts.doorbells, before.doorbells + 1);
	while (!pair_count(&pair, 0, EVENT_DONE)) {
		fake_release(0);
		pair_poll(&pair);
	}
	fake.held = 0;
	check_numbers(1, 1);
	assert_memory_equal(x.far->base, x.near->base, LARGE);
	close_large(&x);
}

FRESH(small_put__late_execution__carries_the_bytes_of_its_post)
{
	static const uint32_t inlines[] = { 220, 0 };

	for (int i = 0; i < 2; i++) {
		fake_reset();
		fake.max_inline = inlines[i];
		struct two x = open_two(DEPTH);
		fill(x.near->base, 64, 9);
		fake.held = 1;
		assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 64, 1), 0);
		memset(x.near->base, 0xee, 64);
		fake_release(0);
		fake.held = 0;
		assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 1), 0);
		fill(x.near->base, 64, 9);
		assert_memory_equal(x.inbox->base, x.near->base, 64);
		close_all(&x);
	}
}

FRESH(long_put__message_limit_4096__arrives_in_pieces_with_one_immediate)
{
	fake.max_message = 4096;
	struct two x = open_two(DEPTH);
	fill(x.near->base, BYTES, 5);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, BYTES, 1), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 1), 0);
	assert_memory_equal(x.inbox->base, x.near->base, BYTES);
	assert_int_equal(pair_count(&pair, 1, EVENT_IMM), 1);
	close_all(&x);
}

/* Puts all bytes of a region with one notice, in many pieces of several packets each. Returns 1 if
 * all bytes had arrived when the notice did. */
static int put_is_whole(const struct two *x, unsigned seed)
{
	const int notices = pair_count(&pair, 1, EVENT_IMM) + 1;

	fill(x->near->base, BYTES, seed);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x->to_inbox, x->near, 0, BYTES, seed), 0);
	for (int i = 0; i < 100000 && pair_count(&pair, 1, EVENT_IMM) < notices; i++)
		pair_poll_side(&pair, i % 8 != 7);
	assert_int_equal(pair_count(&pair, 1, EVENT_IMM), notices);
	return memcmp(x->inbox->base, x->near->base, BYTES) == 0;
}

static int whole_puts(enum fake_placing placing)
{
	struct two x;
	int whole = 0;

	fake.max_message = 4096;
	fake.mtu = IBV_MTU_512;
	x = open_two(DEPTH);
	fake.placing = placing;
	for (unsigned i = 1; i <= 50; i++)
		whole += put_is_whole(&x, i);
	assert_true(fake_counts.overtakers > 1000);
	close_all(&x);
	return whole;
}

FRESH(put__packets_placed_in_any_order__all_bytes_before_the_notice)
{
	assert_int_equal(whole_puts(FAKE_IN_ANY_ORDER), 50);
}

/* No code can work with a card that breaks this rule. */
FRESH(put__completed_before_its_packets_are_placed__is_found_by_these_tests)
{
	assert_int_equal(whole_puts(FAKE_AFTER_COMPLETION), 0);
}

FRESH(open__device_too_small__refused_by_name_and_nothing_left)
{
	struct {
		int *limit, value;
		const char *says;
	} cases[] = {
		{ &fake.attr.max_qp, 1, "too small" },
		{ &fake.attr.max_cqe, 20, "too small" },
		{ &fake.attr.max_qp_wr, 4, "too small" },
		{ &fake.attr.max_srq_wr, 2, "too small" },
		{ &fake.attr.max_qp_init_rd_atom, 0, "cannot read" },
		{ &fake.attr.max_mr, 1, "ibv_reg_mr" },
		{ &fake.port_down, 1, "not ACTIVE" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake_reset();
		*cases[i].limit = cases[i].value;
		assert_true(pair_open(&pair, DEPTH) < 0);
		if (strstr(sluice_last_error(), cases[i].says) == NULL)
			fail_msg("case %zu: %s", i, sluice_last_error());
		close_pair();
	}
}

FRESH(open__too_few_domains__refused_where_each_peer_needs_one)
{
	fake.attr.max_pd = 1;
	if (strcmp(pair_memory_windows, "no") == 0) {
		assert_int_equal(pair_open(&pair, DEPTH), SLUICE_ENOSUPP);
		assert_non_null(strstr(sluice_last_error(), "1 protection domains"));
	} else {
		open_pair(DEPTH);
	}
	close_pair();
}

FRESH(sleep__armed__a_notify_makes_the_descriptor_readable)
{
	struct two x = open_two(DEPTH);
	while (verbs_transport.sleep.arm(pair.t[1]))
		pair_poll(&pair);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 8, 1), 0);
	verbs_transport.sleep.disarm(pair.t[1]);
	pair_poll_side(&pair, 1);
	assert_int_equal(pair_count(&pair, 1, EVENT_IMM), 1);
	assert_int_equal(fake_counts.unacked, 0);
	close_all(&x);
}

int main(void)
{
	int failed = run_cases(NULL, NULL);

	pair_memory_windows = "no";
	return failed + run_cases(NULL, NULL);
}

/* ---- large transfers -------------------------------------------------------------- */

FRESH(put__of_24_megabytes__only_a_few_pieces_are_in_the_queue_pair)
{
	struct large x = open_large(DEPTH);

	fake.held = 1;
	fake_counts.most_outstanding = 0;
	fake_counts.bytes_written = 0;
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to, x.near, 0, LARGE, 0), 0);
	assert_in_range(fake_counts.most_outstanding, 1, 8);
	fake_release(0);
	assert_in_range(fake_counts.bytes_written, 1, 8 * MIB);
	for (int i = 0; i < 1000 && !pair_count(&pair, 1, EVENT_IMM); i++) {
		pair_poll(&pair);
		fake_release(0);
	}
	check_numbers(1, 1);
	assert_memory_equal(x.far->base, x.near->base, LARGE);
	assert_int_equal(fake_counts.bytes_written, LARGE);
	close_large(&x);
}
