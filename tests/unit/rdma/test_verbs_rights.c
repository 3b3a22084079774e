/* SPDX-License-Identifier: BSD-3-Clause
 * The verbs transport over a fake card: the access of a peer to memory that was offered to it, and
 * that an attempt at more ends the attacker's connection and moves nothing. */
#include "base/log.h"
#include "verbs_two.h"
#include "sluice.h"
#include "cases.h"
#include <string.h>

enum { DEPTH = 64 };

/* Posts by hand what the library would refuse to post, as an attacker could. */
static void steal(struct remote *remote, uint64_t offset, size_t bytes, unsigned access)
{
	remote->bytes = offset + bytes;
	remote->access |= access;
}

FRESH(illegal_access__each_kind__ends_the_offender_and_moves_nothing)
{
	for (int i = 0; i < 3; i++) {
		uint8_t before[64];

		fake_reset();
		struct two x = open_two(DEPTH);
		fill(x.log->base, BYTES, 6);
		memcpy(before, x.log->base, sizeof(before));
		if (i == 0) { /* writes a region that is read-only */
			steal(x.to_log, 0, BYTES, REGION_WRITE);
			assert_int_equal(post(0, TRANSFER_PUT, x.to_log, x.near, 0, 64, 1), 0);
		} else if (i == 1) { /* one byte beyond the end */
			steal(x.to_inbox, 0, BYTES + 1, 0);
			assert_int_equal(
				verbs_transport.post(pair.e[0],
						     &(struct transfer){ .kind = TRANSFER_PUT,
									 .remote = x.to_inbox,
									 .offset = BYTES - 99,
									 .bytes = 100,
									 .local_region = x.near,
									 .local = x.near->base }),
				0);
		} else { /* reads a region that is write-only */
			steal(x.to_inbox, 0, BYTES, REGION_READ);
			assert_int_equal(post(0, TRANSFER_GET, x.to_inbox, x.near, 0, 64, 1), 0);
		}
		assert_int_equal(pair_wait(&pair, 0, EVENT_GONE, 1), 0);
		assert_int_equal(fake_counts.access_errors, 1);
		assert_non_null(strstr(pair.events[0][0].text, "remote access error"));
		assert_memory_equal(before, x.log->base, sizeof(before));
		close_all(&x);
	}
}

FRESH(model_memory__shared_for_reading__no_registration_lets_it_be_written)
{
	struct two x = open_two(DEPTH);
	assert_int_equal(post(0, TRANSFER_GET, x.to_log, x.near, 0, 64, 1), 0);
	assert_int_equal(pair_wait(&pair, 0, EVENT_DONE, 1), 0);
	assert_int_equal(fake_remote_writable(x.log->base, BYTES), 0);
	assert_int_equal(fake_remote_writable(x.near->base, BYTES), 0);
	assert_int_equal(fake_remote_writable(x.inbox->base, BYTES), 1);
	close_all(&x);
}

FRESH(key__used_after_its_peer_was_dropped__remote_access_error)
{
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
	struct region *notice;
	struct remote *to_notice;

	struct two x = open_two(DEPTH);
	assert_int_equal(region_open(4096, REGION_WRITE, "notice", &notice), 0);
	assert_int_equal(pair_share(&pair, 0, notice, &to_notice), 0);
	fill(x.near->base, BYTES, 8);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 1000, 1), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 1), 0);

	verbs_transport.revoke(pair.e[1]);
	assert_int_equal(fake_remote_writable(x.inbox->base, BYTES), 0);
	assert_int_equal(fake_remote_writable(pair.control[1]->base, 2 * PAIR_LINE), 0);
	assert_int_equal(verbs_transport.describe(pair.e[1], x.inbox, descriptor), SLUICE_EPEER);
	/* The status of the job still arrives. */
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
	close_all(&x);
}

FRESH(dropped_peer__connects_again__refused)
{
	open_pair(DEPTH);
	verbs_transport.revoke(pair.e[1]);
	fake_cm_cut(1);
	assert_int_equal(pair_wait(&pair, 0, EVENT_GONE, 1), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_GONE, 1), 0);
	assert_non_null(strstr(pair.events[0][0].text, "given this rank up"));
	close_pair();
}

/* Only the log has relaxed ordering, not the inbox or the memory of puts. */
FRESH(relaxed_ordering__by_setting_and_card__only_where_it_may_be)
{
	static const struct {
		const char *setting;
		int refused, marked, others;
		const char *says;
	} cases[] = { { "auto", 0, 1, 0,
			"relaxed ordering is requested for inboxes, staging and logs" },
		      { "no", 0, 0, 0, "relaxed ordering is requested for no region" },
		      { "all", 0, 1, 1, "relaxed ordering is requested for all regions" },
		      { "all", 1, 0, 0, "relaxed ordering is requested for no region" } };
	const int windows = strcmp(pair_memory_windows, "no") != 0;

	log_configure("rdma+info");

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct two x = { 0 };

		fake_reset();
		logged[0] = '\0';
		fake.no_relaxed = cases[i].refused;
		pair_relaxed_ordering = cases[i].setting;
		open_pair(DEPTH);
		pair_relaxed_ordering = "auto";
		assert_int_equal(region_open(BYTES, REGION_WRITE, "inbox", &x.inbox), 0);
		assert_int_equal(region_open(BYTES, REGION_READ, "log", &x.log), 0);
		assert_int_equal(region_open(BYTES, 0, "near", &x.near), 0);
		region_relax(x.log);
		assert_int_equal(pair_share(&pair, 1, x.inbox, &x.to_inbox), 0);
		assert_int_equal(pair_share(&pair, 1, x.log, &x.to_log), 0);
		assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, 1000, 1), 0);
		assert_int_equal(post(0, TRANSFER_GET, x.to_log, x.near, 0, 1000, 1), 0);
		assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 1), 0);
		assert_int_equal(pair_wait(&pair, 0, EVENT_DONE, 1), 0);
		assert_int_equal(fake_relaxed(x.log->base, BYTES), cases[i].marked);
		assert_int_equal(fake_relaxed(x.inbox->base, BYTES), cases[i].others);
		assert_int_equal(fake_relaxed(x.near->base, BYTES), cases[i].others);
		for (int side = 0; side < 2; side++) /* heartbeats and sums are polled */
			assert_int_equal(fake_relaxed(pair.control[side]->base, 2 * PAIR_LINE), 0);
		close_all(&x);
		assert_non_null(strstr(logged, windows || !cases[i].refused ?
						       cases[i].says :
						       "are registered without"));
		assert_int_equal(!!strstr(logged, "SLUICE_RELAXED_ORDERING=all has no effect"),
				 windows && cases[i].refused);
	}
}

int main(void)
{
	int failed = run_cases(NULL, NULL);

	pair_memory_windows = "no";
	return failed + run_cases(NULL, NULL);
}
