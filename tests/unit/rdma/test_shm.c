/* SPDX-License-Identifier: BSD-3-Clause
 * The shm transport between ranks that share this process: transfers, limits, and leftovers.
 * Hostile peers: test_shm_hostile.c; sleeping: test_shm_sleep.c; real processes:
 * test_shm_processes.c. */
#include "shm_trio.h"
#include "sluice.h"
#include "cases.h"
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- limits ---------------------------------------------------------------- */

TEST(open__impossible_configuration__is_EINVAL)
{
	static const struct transport_config bad[] = {
		{ .rank = -1, .size = 2, .queue_depth = 1 },
		{ .rank = 2, .size = 2, .queue_depth = 1 },
		{ .rank = 0, .size = 0, .queue_depth = 1 },
		{ .rank = 0, .size = 1, .queue_depth = 0 },
		{ .rank = 0, .size = 1, .queue_depth = UINT32_MAX },
		{ .rank = 0, .size = 1 << 30, .queue_depth = 1 },
	};
	struct transport *t = NULL;
	size_t i;

	quiet_log();
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(ops->open(&bad[i], &t), SLUICE_EINVAL);
	assert_null(t);
}

FRESH(post__out_of_bounds_or_not_permitted__is_EINVAL)
{
	struct endpoint *e = trio->to_0[1];
	struct transfer x;

	x = put(trio, 1, BYTES - 7, 8);
	assert_int_equal(ops->post(e, &x), SLUICE_EINVAL);
	assert_non_null(strstr(sluice_last_error(), "rank 0"));
	x = put(trio, 1, UINT64_MAX - 3, 8);
	assert_int_equal(ops->post(e, &x), SLUICE_EINVAL);
	x = get(trio, 1, BYTES, 1);
	assert_int_equal(ops->post(e, &x), SLUICE_EINVAL);
	x = put(trio, 1, 0, 8);
	x.remote = trio->to_log[1]; /* readable only */
	assert_int_equal(ops->post(e, &x), SLUICE_EINVAL);
	x = get(trio, 1, 0, 8);
	x.remote = trio->to_inbox[1]; /* writable only */
	assert_int_equal(ops->post(e, &x), SLUICE_EINVAL);
	x = put(trio, 2, 0, 8); /* another endpoint's */
	assert_int_equal(ops->post(e, &x), SLUICE_EINVAL);
	x = put(trio, 1, BYTES - 8, 8);
	assert_int_equal(ops->post(e, &x), 0);
}

FRESH(notify__ring_full__is_EAGAIN_and_nothing_is_copied)
{
	struct event event;
	uint32_t i;
	struct transfer x = put(trio, 1, 100, 1);

	for (i = 0; i < CAPACITY; i++)
		post_now(trio->to_0[1], notify(trio, 1, i));
	x.kind = TRANSFER_PUT_NOTIFY;
	*(uint8_t *)trio->local->base = 9;
	assert_int_equal(ops->post(trio->to_0[1], &x), SLUICE_EAGAIN);
	assert_int_equal(((uint8_t *)trio->inbox->base)[100], 0);
	post_now(trio->to_0[2], notify(trio, 2, 5)); /* the other sender has its own ring */
	for (i = 0; i < CAPACITY; i++) {
		do
			assert_int_equal(ops->poll(trio->t[0], &event, 1), 1);
		while (event.peer == 2);
		assert_int_equal(event.kind, EVENT_IMM);
		assert_int_equal(event.imm, i);
		assert_int_equal(ops->post(trio->to_0[1], &x), 0);
	}
	assert_int_equal(ops->post(trio->to_0[1], &x), SLUICE_EAGAIN);
	assert_int_equal(((uint8_t *)trio->inbox->base)[100], 9);
}

FRESH(poll__one_peer_never_silent__other_is_heard)
{
	struct event event;
	int i, heard = 0;

	post_now(trio->to_0[2], notify(trio, 2, 1));
	for (i = 0; i < 4; i++) {
		post_now(trio->to_0[1], notify(trio, 1, 0));
		assert_int_equal(ops->poll(trio->t[0], &event, 1), 1);
		heard += event.peer == 2;
	}
	assert_int_equal(heard, 1);
}

FRESH(get__done_queue_full__is_EAGAIN_until_polled)
{
	struct transfer x = get(trio, 1, 8, 8);
	struct event events[16];
	int n = 0, taken = 0, got;

	while (ops->post(trio->to_0[1], &x) == 0)
		n++;
	assert_int_equal(ops->post(trio->to_0[1], &x), SLUICE_EAGAIN);
	assert_true(n >= CAPACITY);
	while ((got = ops->poll(trio->t[1], events, 16)) > 0)
		taken += got;
	assert_int_equal(taken, n);
	assert_int_equal(events[0].kind, EVENT_DONE);
	assert_int_equal(events[0].status, 0);
	assert_int_equal(events[0].cookie, 8);
	post_now(trio->to_0[1], x);
}

FRESH(get__quiet__is_filled_without_an_event)
{
	struct transfer x = get(trio, 1, 0, 8);
	struct event event;

	x.quiet = 1;
	memset(x.local, 0, 8);
	fill((uint8_t *)trio->log->base, 8, 77);
	post_now(trio->to_0[1], x);
	assert_true(filled(x.local, 8, 77));
	assert_int_equal(ops->poll(trio->t[1], &event, 1), 0);
	assert_int_equal(trio->t[1]->counters.gets, 1);
}

/* ---- leftovers ------------------------------------------------------------- */

TEST(close__after_use__leaves_no_file_and_no_mapping)
{
	void *trio = NULL;
	int files = open_files();

	trio_open(&trio);
	assert_true(open_files() > files);
	trio_close(&trio);
	assert_int_equal(open_files(), files);
	assert_int_equal(mappings_of("memfd:sluice-"), 0);
	ops->close(&((struct trio *)trio)->t[0]); /* already NULL */
}

/* Opens two ranks and connects them with at most `more` further files. Returns 1 if everything
 * worked, 0 if a step failed properly, otherwise -1. */
static int connect_with_files(int more)
{
	struct transport *t[2] = { NULL, NULL };
	struct endpoint *e = NULL;
	uint8_t record[TRANSPORT_RECORD_BYTES];
	int files = open_files(), rc = 0, r;
	struct rlimit old, low;
	size_t len;

	if (getrlimit(RLIMIT_NOFILE, &old) < 0)
		return -1;
	low = old;
	low.rlim_cur = (rlim_t)(dup(0) + more); /* dup() returns the lowest free number */
	close((int)low.rlim_cur - more);
	setrlimit(RLIMIT_NOFILE, &low);
	for (r = 0; r < 2 && rc == 0; r++) {
		struct transport_config config = { .rank = r, .size = 2, .queue_depth = 1 };

		rc = ops->open(&config, &t[r]);
	}
	if (rc == 0)
		rc = ops->record(t[1], record, &len);
	if (rc == 0)
		rc = ops->connect(t[0], 1, record, len, &e);
	setrlimit(RLIMIT_NOFILE, &old);
	ops->close(&t[0]);
	ops->close(&t[1]);
	if (open_files() != files || mappings_of("memfd:sluice-") != 0)
		return -1;
	if (rc == 0)
		return 1;
	return rc == SLUICE_ENOMEM || rc == SLUICE_ENOSUPP || rc == SLUICE_EDEVICE ? 0 : -1;
}

TEST(open__every_file_limit__fails_clean_or_works)
{
	int more, rc = 0;
	pid_t child;

	child = fork();
	if (child == 0) {
		for (more = 0; more < 20 && rc == 0; more++)
			rc = connect_with_files(more);
		_exit(rc == 1 && more > 5 ? 0 : 1);
	}
	assert_int_equal(child_status(child), 0);
}
