/* SPDX-License-Identifier: BSD-3-Clause
 * Barrier, sum, gather and broadcast: rank order to the bit, all sizes, servers that mirror them,
 * and ranks that call different ones. */
#include "ranks.h"
#include "cases.h"
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static void meet(sluice_job *job, int rank, void *argument)
{
	atomic_int *arrived = argument;
	int size = sluice_size(job);
	for (int round = 1; round <= 20; round++) {
		if (rank == round % size)
			sleep_ms(5);
		atomic_fetch_add(arrived, 1);
		CHECK_OK(sluice_barrier(job));
		CHECK(atomic_load(arrived) >= size * round);
	}
}

TEST(barrier__one_rank_late__nobody_passes_before_it)
{
	for (int size = 1; size <= 4; size++)
		run_in_job(size, meet, shared_memory(sizeof(atomic_int)));
}

static void sum_in_order(sluice_job *job, int rank, void *argument)
{
	static const double terms[] = { 1e16, 1, -1e16, 1 };
	double values[1000];
	int size = sluice_size(job);
	/* ((1e16 + 1) - 1e16) + 1 is 1; in another order it is 0 or 2. */
	values[0] = terms[rank];
	CHECK_OK(sluice_sum(job, values, 1));
	CHECK(size < 4 || values[0] == 1);
	CHECK(size != 3 || values[0] == 0);
	for (size_t n = 0; n <= 1000; n = n * 3 + 1) {
		for (size_t i = 0; i < 1000; i++)
			values[i] = 1.0 / (double)(3 + i + (size_t)rank);
		CHECK_OK(sluice_sum(job, values, n));
		for (size_t i = 0; i < 1000; i++) {
			double want = i < n ? 0 : 1.0 / (double)(3 + i + (size_t)rank);
			for (size_t r = 0; r < (size_t)size && i < n; r++)
				want += 1.0 / (double)(3 + i + r);
			CHECK(values[i] == want);
		}
		check_same(job, values, n * sizeof *values);
	}
	log_capture();
	CHECK(sluice_sum(job, NULL, 3) == SLUICE_EINVAL);
	CHECK_OK(sluice_sum(job, NULL, 0));
}

TEST(sum__0_to_1000_values__are_added_in_rank_order)
{
	for (int size = 1; size <= 4; size++)
		run_in_job(size, sum_in_order, NULL);
}

static void gather_rows(sluice_job *job, int rank, void *argument)
{
	unsigned char mine[SLUICE_GATHER_MAX], all[4 * SLUICE_GATHER_MAX + 1];
	static const size_t sizes[] = { 0, 1, 3, 8, 100, SLUICE_GATHER_MAX };
	for (size_t s = 0; s < 6; s++) {
		size_t bytes = sizes[s], total = bytes * (size_t)sluice_size(job);
		memset(mine, 'a' + rank, sizeof mine);
		memset(all, '?', sizeof all);
		CHECK_OK(sluice_gather(job, mine, bytes, all));
		for (size_t i = 0; i < total; i++)
			CHECK(all[i] == 'a' + (int)(i / bytes));
		CHECK(all[total] == '?');
	}
	log_capture();
	CHECK(sluice_gather(job, mine, SLUICE_GATHER_MAX + 1, all) == SLUICE_EINVAL);
	CHECK(sluice_gather(job, NULL, 1, all) == SLUICE_EINVAL);
	CHECK(sluice_gather(job, mine, 1, NULL) == SLUICE_EINVAL);
	CHECK(sluice_gather(NULL, mine, 1, all) == SLUICE_EINVAL);
	CHECK(sluice_barrier(NULL) == SLUICE_EINVAL);
	CHECK_OK(sluice_barrier(job)); /* wrong arguments do not end the job */
}

TEST(gather__0_to_512_bytes__row_r_is_rank_rs)
{
	for (int size = 1; size <= 4; size++)
		run_in_job(size, gather_rows, NULL);
}

/* The bytes between two multiples of STRIDE are equal. */
enum { BROADCAST_MOST = 10 << 20, STRIDE = 127 };

/* The sizes are near the limits of a message, of a chunk, and of two chunks. */
static void broadcast_sizes(sluice_job *job, int rank, void *argument)
{
	static const size_t sizes[] = {
		0, 1, 1007, 1008, 1009, 70001, 1008 + (4 << 20), 1009 + (4 << 20), BROADCAST_MOST
	};
	unsigned char *bytes = malloc(BROADCAST_MOST + 1);
	const int size = sluice_size(job);
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
		const int root = (int)(s + 1) % size;
		const size_t n = sizes[s];
		memset(bytes, 0xee, n + 1);
		for (size_t i = 0; i < n && rank == root; i += STRIDE)
			bytes[i] = (unsigned char)(i * 7 + i / 4096 + s);
		CHECK_OK(sluice_broadcast(job, n ? bytes : NULL, n, root));
		size_t wrong = 0;
		for (size_t i = 0; i < n; i += STRIDE)
			wrong += bytes[i] != (unsigned char)(i * 7 + i / 4096 + s);
		CHECK(!wrong);
		CHECK(rank == root || bytes[n] == 0xee);
	}
	CHECK_OK(sluice_barrier(job));
	free(bytes);
}

TEST(broadcast__of_any_size__arrives_on_all)
{
	for (int size = 1; size <= 4; size += 1 + (size == 2))
		run_in_job(size, broadcast_sizes, NULL);
}

/* The job continues after each of them. */
TEST_IN_JOB(broadcast__of_different_sizes_or_roots__names_two_ranks_on_all, 3)
{
	unsigned char bytes[64] = { 0 };
	double sum = 1;
	log_capture();
	CHECK(sluice_broadcast(job, bytes, rank == 2 ? 17 : 64, 1) == SLUICE_EINVAL);
	CHECK(error_says("rank 0 (node n1)", "rank 2 (node n2)") &&
	      error_says("64 bytes of root 1", "17 bytes of root 1"));
	CHECK(sluice_broadcast(job, bytes, 64, rank == 1 ? 1 : 0) == SLUICE_EINVAL);
	CHECK(error_says("64 bytes of root 0", "rank 1 (node n1) with 64 bytes of root 1"));
	CHECK(sluice_broadcast(job, bytes, 64, 3) == SLUICE_EINVAL);
	CHECK(error_says("root=3", "not a worker"));
	CHECK(sluice_broadcast(job, NULL, 64, 0) == SLUICE_EINVAL);
	CHECK_OK(sluice_sum(job, &sum, 1));
	CHECK(sum == 3);
}

/* Rank 1 ends while rank 0 still sends. It ends after all have left the first call, because a rank
 * that is still in it would fail there. The barrier fails if rank 1 is the first to leave it. */
TEST_IN_JOB(broadcast__to_a_rank_that_ended__fails_naming_it, 3)
{
	const size_t n = 64 << 20;
	unsigned char *bytes = calloc(1, n);
	log_capture();
	CHECK_OK(sluice_broadcast(job, bytes, 100, 0));
	const int rc = sluice_barrier(job);
	if (rank == 1)
		_exit(0);
	CHECK(rc == 0 || rc == SLUICE_EPEER);
	CHECK(sluice_broadcast(job, bytes, n, 0) == SLUICE_EPEER);
	CHECK(error_says("rank 1 (node n1)", NULL));
	free(bytes);
}

TEST_IN_JOB(collectives__hundreds_in_a_row__mails_are_never_mixed_up, 4)
{
	for (unsigned round = 0; round < 200; round++) {
		double value = rank + round;
		uint32_t mine = (uint32_t)rank * 1000 + round, all[4];
		CHECK_OK(sluice_gather(job, &mine, sizeof mine, all));
		for (unsigned r = 0; r < 4; r++)
			CHECK(all[r] == r * 1000 + round);
		CHECK_OK(sluice_sum(job, &value, 1));
		CHECK(value == 6 + 4.0 * round);
		if (round % 3 == 0)
			CHECK_OK(sluice_barrier(job));
	}
}

/* The rank that notices first informs the other one, so the code may be either of two. The message
 * names both. */
TEST_IN_JOB(collectives__different_ones__fail_on_both_naming_both, 2)
{
	double values[3] = { 1, 2, 3 };
	log_capture();
	int rc = rank ? sluice_sum(job, values, 3) : sluice_barrier(job);
	CHECK(rc == SLUICE_EINVAL || rc == SLUICE_EPEER);
	CHECK(error_says("sluice_barrier", "sluice_sum"));
	CHECK(error_says(rank ? "rank 0 (node n1)" : "rank 1 (node n1)", "collectives differ"));
	CHECK(values[0] == 1 && values[2] == 3);
	CHECK(sluice_barrier(job) == rc); /* the job has failed for good */
}

TEST_IN_JOB(gather__of_different_lengths__fails_on_all, 3)
{
	char mine[24] = "abc", all[3 * 24];
	log_capture();
	int rc = sluice_gather(job, mine, rank == 2 ? 24 : 8, all);
	CHECK(rc == SLUICE_EINVAL || rc == SLUICE_EPEER);
	CHECK(error_says("8 bytes", "24 bytes") && error_says("sluice_gather", NULL));
}

TEST_IN_RANKS(collectives__with_dedicated_servers__count_workers_only, 4)
{
	enum { BIG_BYTES = 100000 };
	static unsigned char big[BIG_BYTES];
	float params[100] = { 0 }, grad[100] = { 0 };
	sluice_job_attr where = { .size = sizeof where, .servers = 2 };
	sluice_job *job = rank_join(&where);
	CHECK(sluice_workers(job) == 2 && sluice_is_worker(job) == (rank < 2));
	sluice_model *model = OPEN(job, rank < 2 ? params : NULL, .count = 100, .shards = 2);
	if (rank >= 2) {
		log_capture();
		CHECK(sluice_push(model, grad) == SLUICE_EINVAL &&
		      error_says("sluice_serve", NULL));
		CHECK_OK(sluice_serve(model));
	} else {
		log_capture();
		CHECK(sluice_serve(model) == SLUICE_EINVAL && error_says("is a worker", NULL));
		for (int round = 0; round < 50; round++) {
			double values[300];
			uint64_t mine[64] = { (uint64_t)rank + 1 }, all[128];
			for (int i = 0; i < 300; i++)
				values[i] = i + rank;
			CHECK_OK(sluice_barrier(job));
			CHECK_OK(sluice_push(model, grad));
			CHECK_OK(sluice_sum(job, values, 300)); /* also between push and pull */
			CHECK_OK(sluice_pull(model, params));
			CHECK_OK(sluice_gather(job, mine, sizeof mine, all));
			CHECK(values[0] == 1 && values[299] == 2 * 299 + 1);
			CHECK(all[0] == 1 && all[64] == 2);
			if (round % 10)
				continue;
			/* The servers continue. */
			CHECK(sluice_broadcast(job, big, rank ? 10 : 20, 0) == SLUICE_EINVAL);
			CHECK(error_says("20 bytes of root 0", "10 bytes of root 0"));
			memset(big, rank == 1 ? round + 1 : 0, BIG_BYTES);
			CHECK_OK(sluice_broadcast(job, big, round ? BIG_BYTES : 10, 1));
			CHECK(big[9] == round + 1 && (!round || big[BIG_BYTES - 1] == round + 1));
		}
	}
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

TEST_IN_RANKS(init__servers_impossible_or_different__is_refused_by_name, 2)
{
	sluice_job_attr attr = { .size = sizeof attr, .servers = 2, .wait_timeout_ms = 60000 };
	sluice_job *job = NULL;
	log_capture();
	CHECK(sluice_init(&attr, &job) == SLUICE_EINVAL && !job);
	CHECK(error_says("servers=2", "2 ranks"));
	attr.servers = 1 - rank; /* they differ */
	CHECK(sluice_init(&attr, &job) == SLUICE_EPEER && !job);
	CHECK(error_says("rank 0 (node n1)", "rank 1 (node n1)") &&
	      error_says("servers=1", "servers=0"));
	attr.servers = 0;
	CHECK_OK(sluice_init(&attr, &job)); /* the process can join after all */
	sluice_finalize(&job);
	CHECK(!job);
	sluice_finalize(&job);
	sluice_finalize(NULL);
	return 0;
}
