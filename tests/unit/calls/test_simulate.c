/* SPDX-License-Identifier: BSD-3-Clause
 * Simulated ranks get the bits of real processes, count the same bytes, and report errors. */
#include "base/error.h"
#include "ranks.h"
#include "sluice_region.h"
#include "cases.h"
#include <math.h>
#include <string.h>

static const char *const recipes[] = {
	"up=all down=all",
	"up=topk(0.02) down=topk(0.05),f16",
	"up=randk(0.1) down=all signal=momentum(0.9)",
	"up=random(0.1) down=all memory=none",
};
enum { RECIPES = sizeof recipes / sizeof *recipes, COUNT = 900, STEPS = 4, RANKS = 4 };

struct outcome {
	uint64_t digest, pushed, pulled, elements;
};
struct run {
	int servers;
	struct outcome outcomes[RECIPES][RANKS];
};

/* The code of a rank, in a simulation or as a process. */
static int train(sluice_job *job, struct run *run)
{
	for (int i = 0; i < RECIPES; i++) {
		float params[COUNT], grad[COUNT];
		for (int j = 0; j < COUNT; j++)
			params[j] = noise(9, 0, 0, (uint64_t)j);
		sluice_model_attr attr = ATTR(.count = COUNT, .recipe = recipes[i], .shards = 3,
					      .lr = 0.1f);
		sluice_model *model;
		int rc = sluice_model_open(job, &attr, params, &model);
		if (!rc && !sluice_is_worker(job))
			rc = sluice_serve(model);
		for (uint64_t step = 0; step < STEPS && !rc && sluice_is_worker(job); step++) {
			for (int j = 0; j < COUNT; j++)
				grad[j] = params[j] +
					  noise(3, step, (uint64_t)sluice_rank(job), (uint64_t)j);
			rc = try_step(model, grad, params);
		}
		sluice_model_stats stats = { .size = sizeof stats };
		if (!rc && sluice_is_worker(job) && !(rc = sluice_stats(model, &stats)))
			run->outcomes[i][sluice_rank(job)] = (struct outcome){
				sluice_digest(params, sizeof params), stats.pushed_bytes,
				stats.pulled_bytes, stats.pushed_elements
			};
		if (rc)
			return rc;
		sluice_model_close(&model);
	}
	return 0;
}

static int simulated(sluice_job *job, void *context)
{
	return train(job, context);
}

static int forked(int rank, void *argument)
{
	struct run *run = argument;
	sluice_job_attr attr = { .size = sizeof attr, .servers = run->servers };
	sluice_job *job = rank_join(&attr);
	CHECK_OK(train(job, run));
	sluice_finalize(&job);
	return 0;
}

static void compare(int servers)
{
	struct run *processes = shared_memory(sizeof *processes), threads = { .servers = servers };
	sluice_job_attr attr = { .size = sizeof attr, .servers = servers };
	processes->servers = servers;
	run_ranks(RANKS, forked, processes);
	assert_int_equal(sluice_simulate(&attr, RANKS, simulated, &threads), 0);
	assert_memory_equal(&threads, processes, sizeof threads);
	assert_int_not_equal(threads.outcomes[1][0].pushed, 0);
	for (int i = 0; i < RECIPES; i++)
		assert_int_not_equal(threads.outcomes[i][0].digest, 0);
}

TEST(simulate__same_job__digests_and_bytes_of_processes)
{
	compare(0);
}

TEST(simulate__dedicated_server__digests_and_bytes_of_processes)
{
	compare(1);
}

static int many(sluice_job *job, void *context)
{
	double sum = sluice_rank(job);
	float params[64] = { 0 }, grad[64];
	sluice_model_attr attr = ATTR(.count = 64, .recipe = "up=topk(0.1) down=all", .lr = 1);
	sluice_model *model;
	int rc = sluice_sum(job, &sum, 1);
	if (!rc)
		rc = sluice_model_open(job, &attr, params, &model);
	for (int i = 0; i < 64; i++)
		grad[i] = i == sluice_rank(job) % 64 ? 1 : 0;
	for (int step = 0; step < 3 && !rc; step++)
		if (!(rc = sluice_push(model, grad)))
			rc = sluice_pull(model, params);
	if (rc)
		return rc;
	sluice_model_close(&model);
	((double *)context)[sluice_rank(job)] = sum + (double)params[5];
	return 0;
}

TEST(simulate__two_hundred_ranks__sum_and_step)
{
	enum { MANY = 200 };
	static double out[MANY];
	assert_int_equal(sluice_simulate(NULL, MANY, many, out), 0);
	for (int r = 1; r < MANY; r++)
		assert_true(out[r] == out[0]);
	/* Ranks 5, 69, 133 and 197 push a one at coordinate 5, three times. */
	assert_true(fabs(out[0] - (MANY * (MANY - 1) / 2 - 3 * 4 / 200.0)) < 1e-6);
}

static int fails_at_two(sluice_job *job, void *context)
{
	if (sluice_rank(job) == 2)
		return 7;
	return sluice_barrier(job);
}

TEST(simulate__one_rank_returns_seven__seven_and_its_name)
{
	log_capture();
	assert_int_equal(sluice_simulate(NULL, 4, fails_at_two, NULL), 7);
	assert_true(error_says("rank 2 (node simulated)", "returned 7"));
}

static int one_does_not_push(sluice_job *job, void *context)
{
	float params[8] = { 0 }, grad[8] = { 1 };
	sluice_model_attr attr = ATTR(.count = 8, .recipe = "up=all down=all");
	sluice_model *model;
	int rc = sluice_model_open(job, &attr, params, &model);
	if (!rc && sluice_rank(job) == 1)
		rc = sluice_barrier(job);
	else if (!rc && !(rc = sluice_push(model, grad)))
		rc = sluice_pull(model, params);
	sluice_model_close(&model);
	return rc;
}

TEST(simulate__ranks_wait_for_different_things__times_out_at_once_and_says_for_what)
{
	log_capture();
	assert_int_equal(sluice_simulate(NULL, 3, one_does_not_push, NULL), SLUICE_ETIMEDOUT);
	assert_true(error_says("no simulated rank can proceed", "waits for"));
}

static int joins_twice(sluice_job *job, void *context)
{
	sluice_job *another = NULL;
	int rc = sluice_init(NULL, &another);
	if (rc != SLUICE_EINVAL || another)
		return 1;
	return sluice_simulate(NULL, 1, joins_twice, context) == SLUICE_EINVAL ? 0 : 2;
}

TEST(simulate__within_a_simulated_rank__refused)
{
	log_capture();
	assert_int_equal(sluice_simulate(NULL, 2, joins_twice, NULL), 0);
	assert_int_equal(sluice_simulate(NULL, 0, joins_twice, NULL), SLUICE_EINVAL);
	assert_int_equal(sluice_simulate(NULL, 1, NULL, NULL), SLUICE_EINVAL);
}

static int exchange_regions(sluice_job *job, void *context)
{
	sluice_region *region;
	int rank = sluice_rank(job), next = (rank + 1) % sluice_size(job), rc;
	uint64_t given = 100 + (uint64_t)rank, got = 0;
	if ((rc = sluice_region_open(job, 4096, &region)))
		return rc;
	if (!(rc = sluice_region_put(region, next, 8, &given, sizeof given, 0)))
		rc = sluice_region_flush(region);
	if (!rc && !(rc = sluice_barrier(job)))
		rc = sluice_region_get(region, next, 8, &got, sizeof got, 0);
	if (!rc && got != given)
		rc = 1;
	if (!rc)
		rc = sluice_barrier(job);
	sluice_region_close(&region);
	return rc;
}

TEST(simulate__regions__put_and_get_between_ranks)
{
	assert_int_equal(sluice_simulate(NULL, 5, exchange_regions, NULL), 0);
}
