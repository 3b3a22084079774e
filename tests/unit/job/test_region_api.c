/* SPDX-License-Identifier: BSD-3-Clause
 * Public regions between ranks: put, get, notify, wait; all sizes; what is refused. */
#include "ranks.h"
#include "job/window_state.h"
#include "cases.h"
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, WINDOW = 3 * MIB + 100, RANKS = 3 };

static const size_t sizes[] = { 1, 7, 64, 65, 4096, MIB - 1, MIB, MIB + 1, 3 * MIB };
enum { SIZES = sizeof sizes / sizeof *sizes };

static void fill(uint8_t *bytes, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)((i * 2654435761u >> 7) + seed);
}

static int is_filled(const uint8_t *bytes, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		if (bytes[i] != (uint8_t)((i * 2654435761u >> 7) + seed))
			return 0;
	return 1;
}

TEST_IN_JOB(put_and_get__0_bytes_to_3_MiB__arrive_before_the_notify, RANKS)
{
	sluice_region *region = NULL;
	int next = (rank + 1) % RANKS, previous = (rank + RANKS - 1) % RANKS;
	uint8_t *buffer = malloc(3 * MIB);
	CHECK(buffer != NULL);
	CHECK_OK(sluice_region_open(job, WINDOW, &region));
	uint8_t *own = sluice_region_base(region);
	for (size_t i = 0; i < WINDOW; i++)
		CHECK(!own[i]);
	CHECK_OK(sluice_barrier(job)); /* all have looked before the first put */
	for (unsigned s = 0; s < SIZES; s++) {
		size_t n = sizes[s], offset = s * 7;
		fill(buffer, n, s * 10 + (unsigned)rank);
		CHECK_OK(sluice_region_put(region, next, offset, buffer, n, 1));
		memset(buffer, 0, n); /* the put has returned, so the buffer may be reused */
		CHECK_OK(sluice_region_wait(region, previous, s + 1));
		CHECK(is_filled(own + offset, n, s * 10 + (unsigned)previous));
		CHECK(!own[offset + n] || s > 0);
		/* The next rank's window has the bytes that this rank put there. */
		CHECK_OK(sluice_region_get(region, next, offset, buffer, n, 0));
		CHECK(is_filled(buffer, n, s * 10 + (unsigned)rank));
		CHECK_OK(sluice_barrier(job));
	}
	/* With zero bytes nothing moves, but a notify does, also at the very end of the window. */
	memset(buffer, 0xee, 8);
	CHECK_OK(sluice_region_put(region, next, 0, NULL, 0, 0));
	CHECK_OK(sluice_region_put(region, next, WINDOW, buffer, 0, 1));
	CHECK_OK(sluice_region_get(region, next, WINDOW, buffer, 0, 0));
	CHECK_OK(sluice_region_wait(region, previous, SIZES + 1));
	CHECK(buffer[0] == 0xee);
	/* Transfers to this rank itself work in the same way. */
	fill(buffer, 1000, 99);
	CHECK_OK(sluice_region_put(region, rank, WINDOW - 1000, buffer, 1000, 1));
	CHECK_OK(sluice_region_wait(region, rank, 1));
	CHECK(is_filled(own + WINDOW - 1000, 1000, 99));
	sluice_region_close(&region);
	CHECK(!region);
	sluice_region_close(&region);
	free(buffer);
}

TEST_IN_JOB(posted_transfers__200_both_ways__are_in_place_after_the_flush, 2)
{
	enum { BLOCK = 5000, BLOCKS = 200, OUT = BLOCK * BLOCKS, WHOLE = 3 * OUT };
	sluice_region *region = NULL;
	int peer = 1 - rank;
	log_capture();
	CHECK_OK(sluice_region_open(job, WHOLE, &region));
	uint8_t *own = sluice_region_base(region);
	/* This rank's window has a part that the peer writes, a part that is put to it, and a part
	 * that is read back from it. */
	fill(own + OUT, OUT, (unsigned)rank);
	CHECK_OK(sluice_region_flush(region)); /* of nothing */
	for (size_t b = 0; b < BLOCKS; b++)
		CHECK_OK(sluice_region_put(region, peer, b * BLOCK, own + OUT + b * BLOCK, BLOCK,
					   SLUICE_POSTED | (b == BLOCKS - 1 ? SLUICE_NOTIFY : 0)));
	CHECK_OK(sluice_region_flush(region));
	CHECK_OK(sluice_region_wait(region, peer, 1));
	CHECK(is_filled(own, OUT, (unsigned)peer));
	for (size_t b = 0; b < BLOCKS; b++)
		CHECK_OK(sluice_region_get(region, peer, b * BLOCK, own + 2 * OUT + b * BLOCK,
					   BLOCK, SLUICE_POSTED));
	CHECK_OK(sluice_region_flush(region));
	CHECK(is_filled(own + 2 * OUT, OUT, (unsigned)rank));
	/* Blocking transfers from and to this rank's window, of more than one piece. */
	memset(own + 2 * OUT, 0, OUT);
	CHECK_OK(sluice_region_get(region, peer, OUT, own + 2 * OUT, OUT, 0));
	CHECK(is_filled(own + 2 * OUT, OUT, (unsigned)peer));
	CHECK_OK(sluice_barrier(job));
	memset(own, 0, OUT);
	CHECK_OK(sluice_barrier(job));
	CHECK_OK(sluice_region_put(region, peer, 0, own + OUT, OUT, 1));
	CHECK_OK(sluice_region_wait(region, peer, 2));
	CHECK(is_filled(own, OUT, (unsigned)peer));
	/* Transfers of nothing, and transfers that do not fit into either window. */
	CHECK_OK(sluice_region_put(region, peer, 0, own + WHOLE, 0, SLUICE_POSTED | SLUICE_NOTIFY));
	CHECK_OK(sluice_region_wait(region, peer, 3));
	CHECK_OK(sluice_region_get(region, peer, WHOLE, own, 0, SLUICE_POSTED));
	CHECK(sluice_region_put(region, peer, WHOLE - 1, own, 2, SLUICE_POSTED) == SLUICE_EINVAL);
	CHECK(sluice_region_put(region, peer, 0, own + WHOLE - 1, 2, SLUICE_POSTED) ==
	      SLUICE_EINVAL);
	CHECK(sluice_region_get(region, peer, 0, &peer, 2, SLUICE_POSTED) == SLUICE_EINVAL);
	CHECK(error_says("not inside this rank's window", "SLUICE_POSTED"));
	CHECK(sluice_region_get(region, peer, 0, own, 2, SLUICE_NOTIFY) == SLUICE_EINVAL);
	CHECK(sluice_region_put(region, peer, 0, own, 2, 4) == SLUICE_EINVAL);
	CHECK(sluice_region_get(region, 2, 0, own, 2, SLUICE_POSTED) == SLUICE_EINVAL);
	CHECK(sluice_region_flush(NULL) == SLUICE_EINVAL);
	CHECK_OK(sluice_region_flush(region));
	CHECK_OK(sluice_barrier(job));
	sluice_region_close(&region);
}

/* Rank 0 puts faster than rank 1 polls, so the queue between them fills and drains again and
 * again. */
TEST_IN_JOB(put__to_a_queue_that_fills_and_drains__each_notify_counts_once, 2)
{
	enum { PUTS = 100000 };
	static const size_t bytes[] = { 0, 8, 64, 65 };
	sluice_region *region = NULL;
	uint8_t data[65] = "";
	CHECK_OK(sluice_region_open(job, 100, &region));
	for (uint64_t i = 0; !rank && i < PUTS; i++) {
		size_t n = bytes[i % 4];
		CHECK_OK(sluice_region_put(region, 1, 0, n ? data : NULL, n, 1));
	}
	if (rank)
		CHECK_OK(sluice_region_wait(region, 0, PUTS));
	CHECK_OK(sluice_barrier(job));
	CHECK(region->notified[0] == (rank ? PUTS : 0));
	sluice_region_close(&region);
}

TEST_IN_JOB(open__64_regions__keep_their_notifies_apart_and_the_65th_is_refused, 2)
{
	enum { REGIONS = 64 }; /* JOB_REGIONS */
	sluice_region *regions[REGIONS], *one_more = NULL;
	log_capture();
	for (int i = 0; i < REGIONS; i++)
		CHECK_OK(sluice_region_open(job, 8, &regions[i]));
	CHECK(sluice_region_open(job, 8, &one_more) == SLUICE_EINVAL && !one_more);
	for (uint64_t i = 0; i < REGIONS; i++) {
		uint64_t value = i * 100 + (uint64_t)rank, got = 0;
		CHECK_OK(sluice_region_put(regions[i], 1 - rank, 0, &value, 8, 0));
		CHECK_OK(sluice_region_put(regions[i], 1 - rank, 0, NULL, 0, 1));
		CHECK_OK(sluice_region_put(regions[i], 1 - rank, 0, NULL, 0, 1));
		CHECK_OK(sluice_region_wait(regions[i], 1 - rank, 2));
		memcpy(&got, sluice_region_base(regions[i]), 8);
		CHECK(got == i * 100 + 1 - (uint64_t)rank);
	}
	for (int i = 0; i < REGIONS; i++)
		sluice_region_close(&regions[i]);
	CHECK_OK(sluice_region_open(job, 8, &one_more));
	sluice_region_close(&one_more);
}

TEST_IN_JOB(put_and_get__outside_the_window__fail_EINVAL_and_the_job_goes_on, 2)
{
	sluice_region *region = NULL;
	char bytes[64] = "";
	static const struct {
		int rank;
		size_t offset, bytes;
	} bad[] = {
		{ 0, 100, 1 },      { 1, 101, 0 },      { 0, 60, 41 },
		{ 1, SIZE_MAX, 1 }, { 0, 1, SIZE_MAX }, { 1, SIZE_MAX, SIZE_MAX },
		{ -1, 0, 1 },       { 2, 0, 1 },
	};
	log_capture();
	CHECK(sluice_region_open(job, 0, &region) == SLUICE_EINVAL);
	CHECK(sluice_region_open(job, 8, NULL) == SLUICE_EINVAL);
	CHECK(sluice_region_open(NULL, 8, &region) == SLUICE_EINVAL);
	CHECK_OK(sluice_region_open(job, 100, &region));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK(sluice_region_put(region, bad[i].rank, bad[i].offset, bytes, bad[i].bytes,
					1) == SLUICE_EINVAL);
		CHECK(sluice_region_get(region, bad[i].rank, bad[i].offset, bytes, bad[i].bytes,
					0) == SLUICE_EINVAL);
	}
	CHECK(error_says("there is no rank 2: ranks are 0 to 1", NULL));
	CHECK(sluice_region_put(region, 0, 0, NULL, 1, 0) == SLUICE_EINVAL);
	CHECK(sluice_region_get(NULL, 0, 0, bytes, 1, 0) == SLUICE_EINVAL);
	CHECK(sluice_region_wait(region, 2, 0) == SLUICE_EINVAL);
	CHECK(sluice_region_wait(NULL, 0, 0) == SLUICE_EINVAL);
	CHECK_OK(sluice_region_wait(region, 1 - rank, 0)); /* no refused put has notified */
	CHECK_OK(sluice_barrier(job));
	sluice_region_close(&region);
}

TEST_IN_JOB(open__of_unequal_sizes__fails_EPEER_on_both, 2)
{
	sluice_region *region = NULL;
	log_capture();
	CHECK(sluice_region_open(job, rank ? 200 : 100, &region) == SLUICE_EPEER && !region);
	CHECK(error_says("200", "100"));
	CHECK_OK(sluice_region_open(job, 100, &region));
	sluice_region_close(&region);
}

static int lose_one(int rank, void *argument)
{
	sluice_job *job = rank_join(NULL);
	sluice_region *region = NULL;
	log_capture();
	CHECK_OK(sluice_region_open(job, 100, &region));
	CHECK_OK(sluice_barrier(job));
	if (rank == 1)
		raise(SIGKILL);
	CHECK(sluice_region_wait(region, 1, 1) == SLUICE_EPEER &&
	      error_says("rank 1 (node n1)", "lost"));
	CHECK(sluice_region_put(region, 0, 0, "x", 1, 0) == SLUICE_EPEER);
	sluice_region_close(&region);
	sluice_finalize(&job);
	return 0;
}

/* Rank 1 kills itself. The others must end without failure. */
static void run_three_without_1(int (*body)(int rank, void *argument))
{
	int status[3];
	run_ranks_status(3, body, NULL, NULL, 60000, status);
	assert_true(WIFEXITED(status[0]) && !WEXITSTATUS(status[0]));
	assert_true(WIFSIGNALED(status[1]));
	assert_true(WIFEXITED(status[2]) && !WEXITSTATUS(status[2]));
}

TEST(wait__for_a_rank_that_dies__fails_EPEER_naming_it)
{
	run_three_without_1(lose_one);
}

/* In a job that continues without the rank, the short path and the long path of a put return the
 * same for a lost rank. */
static int put_to_one_that_is_lost(int rank, void *argument)
{
	static const size_t bytes[] = { 0, 8, 64, 65, 90 };
	enum { SERVER = 2 };
	sluice_job_attr attr = { .size = sizeof attr, .servers = 1, .on_failure = SLUICE_CONTINUE };
	sluice_job *job = rank_join(&attr);
	sluice_region *region = NULL;
	uint8_t data[90] = "";
	int rc = 0;
	log_capture();
	CHECK_OK(sluice_region_open(job, 100, &region));
	CHECK_OK(sluice_barrier(job));
	if (rank == 1)
		raise(SIGKILL);
	for (int i = 0; !rank && !rc && i < 100000000; i++)
		rc = sluice_region_put(region, 1, 0, data, 8, 1);
	CHECK(rc == (rank ? 0 : SLUICE_EPEER) && (rank || error_says("rank 1 (node n1)", "lost")));
	for (size_t i = 0; !rank && i < sizeof bytes / sizeof *bytes; i++) {
		CHECK(sluice_region_put(region, 1, 0, bytes[i] ? data : NULL, bytes[i], 1) ==
		      SLUICE_EPEER);
		CHECK(error_says("rank 1 (node n1)", "lost"));
		CHECK(sluice_region_put(region, 1, 0, sluice_region_base(region), bytes[i],
					SLUICE_POSTED | SLUICE_NOTIFY) == SLUICE_EPEER);
		CHECK_OK(sluice_region_put(region, SERVER, 0, bytes[i] ? data : NULL, bytes[i], 1));
	}
	if (rank)
		CHECK_OK(sluice_region_wait(region, 0, sizeof bytes / sizeof *bytes));
	CHECK_OK(sluice_barrier(job));
	CHECK(sluice_living(job) == 1);
	sluice_region_close(&region);
	sluice_finalize(&job);
	return 0;
}

TEST(put__to_a_rank_that_is_lost__fails_EPEER_at_any_size_and_the_job_goes_on)
{
	run_three_without_1(put_to_one_that_is_lost);
}

TEST_IN_JOB(wait__for_a_notify_that_never_comes__times_out_naming_the_rank, 2)
{
	sluice_region *region = NULL;
	log_capture();
	CHECK_OK(sluice_region_open(job, 100, &region));
	if (!rank)
		be_impatient(job, 200);
	int rc = sluice_region_wait(region, 1 - rank, 1);
	CHECK(rc == (rank ? SLUICE_EPEER : SLUICE_ETIMEDOUT));
	CHECK(error_says("SLUICE_WAIT_TIMEOUT", "notify 1 of rank 1 (node n1)"));
	sluice_region_close(&region);
}

enum { TURNS = 2000 };

/* Meanwhile the main thread uses another region. */
static void *put_on_and_on(void *argument)
{
	sluice_region *region = argument;
	for (uint64_t turn = 1; turn <= TURNS; turn++)
		CHECK_OK(
			sluice_region_put(region, 1 - region->job->rank, 0, &turn, sizeof turn, 0));
	return NULL;
}

TEST_IN_JOB(put__by_two_threads_on_a_region_each__all_arrive, 2)
{
	sluice_region *played = NULL, *other = NULL;
	uint64_t seen = 0;
	pthread_t thread;
	CHECK_OK(sluice_region_open(job, sizeof seen, &played));
	CHECK_OK(sluice_region_open(job, sizeof seen, &other));
	CHECK(!pthread_create(&thread, NULL, put_on_and_on, other));
	for (uint64_t turn = 1; turn <= TURNS; turn++) {
		if (!rank)
			CHECK_OK(sluice_region_put(played, 1, 0, &turn, sizeof turn, 1));
		CHECK_OK(sluice_region_wait(played, 1 - rank, turn));
		memcpy(&seen, sluice_region_base(played), sizeof seen);
		CHECK(seen == turn);
		if (rank)
			CHECK_OK(sluice_region_put(played, 0, 0, &turn, sizeof turn, 1));
	}
	CHECK(!pthread_join(thread, NULL));
	CHECK_OK(sluice_barrier(job));
	memcpy(&seen, sluice_region_base(other), sizeof seen);
	CHECK(seen == TURNS);
	sluice_region_close(&played);
	sluice_region_close(&other);
}

enum { HOPS = 100 };

static void *play(void *argument)
{
	sluice_region *region = argument;
	int rank = region->job->rank;
	for (uint64_t hop = 1; hop <= HOPS; hop++) {
		if (rank)
			CHECK_OK(sluice_region_wait(region, 0, hop));
		CHECK_OK(sluice_region_put(region, 1 - rank, 0, &hop, sizeof hop, 1));
		if (!rank)
			CHECK_OK(sluice_region_wait(region, 1, hop));
	}
	return NULL;
}

/* Neither thread of a rank may prevent the other from making the progress that the peer's threads
 * wait for. */
static void wait_in_two_threads(sluice_job *job, int rank, void *argument)
{
	sluice_region *played = NULL, *other = NULL;
	pthread_t thread;
	job->settings.spin_us = *(const int *)argument;
	CHECK_OK(sluice_region_open(job, sizeof(uint64_t), &played));
	CHECK_OK(sluice_region_open(job, sizeof(uint64_t), &other));
	CHECK(!pthread_create(&thread, NULL, play, other));
	play(played);
	CHECK(!pthread_join(thread, NULL));
	CHECK_OK(sluice_barrier(job));
	sluice_region_close(&played);
	sluice_region_close(&other);
}

TEST(wait__in_two_threads_on_a_region_each__both_go_on)
{
	int spin_us[] = { 50, 0 };
	for (int i = 0; i < 2; i++)
		run_in_job(2, wait_in_two_threads, &spin_us[i]);
}
