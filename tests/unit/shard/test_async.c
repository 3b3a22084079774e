/* SPDX-License-Identifier: BSD-3-Clause
 * Asynchronous steps: the bound on staleness holds whichever worker is late, workers in collectives
 * delay no other, and late pushes are counted and not used. */
#include "base/error.h"
#include "async_problem.h"
#include "recipe/recipe.h"
#include "sluice_region.h"
#include "cases.h"
#include <string.h>

/* ---- the bound ------------------------------------------------------------- */

TEST(async__four_workers__every_push_counts_within_the_bound)
{
	static const struct {
		const char *recipe;
		uint64_t bound;
	} cases[] = { { "up=all down=all when=async(3)", 3 },
		      { "up=all down=all when=async(6) update=momentum(0.5)", 6 },
		      { "up=topk(0.2) down=all,f16 when=async(20)", 20 } };

	for (size_t i = 0; i < 3; i++) {
		struct plan plan = async_simulate(cases[i].recipe, 4, 50, 0.02f);

		assert_true(plan.staleness_most <= cases[i].bound);
		assert_int_equal(plan.counted, 4 * 50 * 2); /* on each of two shards */
		assert_int_equal(plan.refused, 0);
		assert_true(plan.distance < 0.5 * rows_distance(4, (float[COUNT]){ 0 }));
	}
}

enum { LATE = 10 };

/* Rank 1 is LATE steps of rank 0 late, and rank 0 continues at once, so that only the bound can
 * stop it. */
static int delay_one(sluice_job *job, void *context)
{
	struct plan *plan = context;
	int rank = sluice_rank(job), rc;
	float params[COUNT];
	sluice_model *model = async_problem_open(job, plan, params);
	sluice_region *region = NULL;

	if (!model || sluice_region_open(job, 8, &region) || sluice_pull(model, params))
		return SLUICE_EINVAL;
	rc = sluice_region_put(region, 1 - rank, 0, &rank, 4, 1); /* both ranks have version 0 */
	if (!rc)
		rc = sluice_region_wait(region, 1 - rank, 1);
	if (!rc && rank)
		rc = sluice_region_wait(region, 0, 1 + LATE);
	if (rank)
		sleep_ms((int)plan->steps); /* without the bound, rank 0 would be far ahead now */
	for (int step = 1; step <= (rank ? 3 : 40) && !rc; step++) {
		rc = async_step(model, rank, params);
		if (!rc && !rank)
			rc = sluice_region_put(region, 1, 0, &step, 4, 1);
	}
	if (!rc)
		rc = sluice_barrier(job);
	if (!rc)
		rc = async_collect(model, plan);
	sluice_region_close(&region);
	sluice_model_close(&model);
	return rc;
}

TEST(async__one_worker_ten_steps_late__its_push_is_ten_versions_behind_and_none_is_more)
{
	struct plan plan = { .recipe = "up=all down=all when=async(10)", .lr = 0.05f };

	assert_int_equal(sluice_simulate(NULL, 2, delay_one, &plan), 0);
	assert_int_equal(plan.staleness_most, LATE);
	assert_int_equal(plan.refused, 0);
	assert_int_equal(plan.counted, 2 * (40 + 3));
}

TEST_IN_JOB(async__processes_and_one_late__bound_holds, 2)
{
	struct plan plan = { .recipe = "up=all down=all when=async(10)",
			     .lr = 0.05f,
			     .steps = 100 };

	CHECK_OK(delay_one(job, &plan));
	CHECK(plan.staleness_most <= LATE && plan.refused == 0);
	CHECK(rank || plan.staleness_most == LATE); /* rank 0 owns shard 0 */
	CHECK(plan.counted == 40 + 3);
}

/* The workers make different numbers of steps, and have different parameters at the end. */
static void ending_process(sluice_job *job, int rank, void *argument)
{
	const struct plan plan = { .recipe = argument, .lr = 0.05f };
	float params[COUNT];
	sluice_model *model = async_problem_open(job, &plan, params);

	CHECK(model);
	for (int step = 0; step < 5 + 7 * rank; step++)
		CHECK_OK(async_step(model, rank, params));
	CHECK_OK(sluice_barrier(job));
	CHECK_OK(sluice_pull(model, params));
	check_same(job, params, sizeof(params));
	/* The last steps belong to one worker or the other, depending on time. So the distance from
	 * the optimum also varies. */
	CHECK(memcmp(params, (float[COUNT]){ 0 }, sizeof(params)) != 0);
	sluice_model_close(&model);
}

TEST(async__a_barrier_and_a_pull_without_push_at_the_end__equal_bits_on_all)
{
	run_in_job(3, ending_process, "up=all down=all when=async(10)");
	run_in_job(3, ending_process, "up=all down=all,uniform(4) when=async(10)");
	run_in_job(3, ending_process, "up=all down=all,uniform(4) when=async(10,whole)");
}

static void racing_process(sluice_job *job, int rank, void *argument)
{
	const struct plan *given = argument;
	struct plan plan = *given;

	plan.apart = 1;
	CHECK_OK(async_train(job, &plan));
	CHECK(plan.staleness_most <= 5 && plan.refused == 0);
}

TEST(async__four_processes__bound_holds)
{
	struct plan plain = {
		.recipe = "up=all down=all when=async(5)", .steps = 200, .lr = 0.02f, .shards = 3
	};
	struct plan anchors = {
		.recipe = "up=all,uniform(4) down=all,uniform(4) signal=svrg(36) when=async(5)",
		.steps = 100,
		.lr = 0.05f,
		.shards = 3
	};

	run_in_job(4, racing_process, &plain);
	run_in_job(4, racing_process, &anchors);
}

/* ---- collectives ----------------------------------------------------------- */

struct parking {
	int pulls; /* 1: rank 1 pulls before it pushes again */
	uint64_t refused;
};

/* Rank 1 waits in a barrier while rank 0 makes far more steps than the bound allows, and then
 * continues. */
static int park_one(sluice_job *job, void *context)
{
	struct parking *p = context;
	struct plan plan = { .recipe = "up=all down=all when=async(4)", .lr = 0.05f, .shards = 1 };
	int rank = sluice_rank(job), rc = 0;
	float params[COUNT];
	sluice_model *model = async_problem_open(job, &plan, params);

	if (!model)
		return SLUICE_EINVAL;
	for (int step = 0; step < (rank ? 1 : 30) && !rc; step++)
		rc = async_step(model, rank, params);
	if (!rc)
		rc = sluice_barrier(job);
	if (!rc && rank && p->pulls)
		rc = sluice_pull(model, params);
	if (!rc && rank)
		rc = async_step(model, rank, params);
	if (!rc)
		rc = sluice_barrier(job);
	if (!rc)
		rc = async_collect(model, &plan);
	p->refused += plan.refused;
	sluice_model_close(&model);
	return rc;
}

TEST(async__worker_in_a_barrier__others_go_on_and_its_old_push_is_refused_and_counted)
{
	struct parking late = { .pulls = 0 }, fresh = { .pulls = 1 };

	assert_int_equal(sluice_simulate(NULL, 2, park_one, &late), 0);
	assert_int_equal(late.refused, 1);
	assert_int_equal(sluice_simulate(NULL, 2, park_one, &fresh), 0);
	assert_int_equal(fresh.refused, 0);
}

static int barrier_before_a_pull(sluice_job *job, sluice_model *model, uint64_t at, float *params)
{
	int rc = async_push(model, sluice_rank(job), params);

	if (!rc)
		rc = sluice_barrier(job);
	if (!rc)
		rc = sluice_pull(model, params);
	if (!rc && at % 3 == 0)
		rc = sluice_barrier(job);
	if (!rc && at % 2 == 0)
		rc = sluice_pull(model, params);
	return rc;
}

static int push_then_barrier(sluice_job *job, void *context)
{
	return async_run(job, context, barrier_before_a_pull, 0);
}

TEST(async__collective_between_push_and_pull__nobody_is_stuck)
{
	struct plan plain = { .recipe = "up=all down=all when=async(3)", .lr = 0.05f, .steps = 13 };
	struct plan anchors = { .recipe = "up=all down=all signal=svrg(12) when=async(3)",
				.lr = 0.05f,
				.steps = 13 };

	assert_int_equal(sluice_simulate(NULL, 4, push_then_barrier, &plain), 0);
	assert_int_equal(sluice_simulate(NULL, 4, push_then_barrier, &anchors), 0);
}

/* A worker parks before its push and after it, and its shards may not have run in between, although
 * there are only two slots. */
static int barriers_around_a_push(sluice_job *job, sluice_model *model, uint64_t at, float *params)
{
	int rc = async_step(model, sluice_rank(job), params);

	if (!rc)
		rc = sluice_barrier(job);
	if (!rc)
		rc = async_push(model, sluice_rank(job), params);
	if (!rc)
		rc = sluice_barrier(job);
	return rc ? rc : sluice_pull(model, params);
}

static int park_on_both_sides(sluice_job *job, void *context)
{
	return async_run(job, context, barriers_around_a_push, 0);
}

TEST(async__collectives_around_a_push__no_slot_is_overwritten)
{
	struct plan plan = { .recipe = "up=all down=all when=async(3)", .lr = 0.05f, .steps = 13 };

	assert_int_equal(sluice_simulate(NULL, 4, park_on_both_sides, &plan), 0);
	assert_int_equal(plan.counted + plan.refused, 4 * 2 * 13 * 2);
}

/* ---- what is refused ------------------------------------------------------- */

static int open_only(sluice_job *job, void *context)
{
	struct plan *plan = context;
	float params[COUNT], grad[COUNT] = { 0 };
	sluice_model *model = async_problem_open(job, plan, params);

	if (!model)
		return SLUICE_EINVAL;
	if (sluice_checkpoint(model, "nowhere") != SLUICE_EINVAL ||
	    sluice_push_pair(model, grad, grad) != SLUICE_EINVAL)
		return -1;
	sluice_model_close(&model);
	return 0;
}

TEST(async__what_does_not_fit__is_refused)
{
	static const char *const wrong[] = {
		"when=async",
		"when=async(0)",
		"when=async(3,half)",
		"when=async(4) down=topk(0.1)",
		"when=async(4) update=none",
		"when=async(4) update=average",
		"when=async(4) up=cyclic(0.1)",
		"when=async(4) reset=5",
		"signal=svrg(10)",
		"signal=svrg(10) when=always",
		"signal=svrg(0) when=async(4)",
		"update=accelerated when=async(4)",
		"signal=svrg(10) when=async(4) memory=residual",
		"signal=svrg(10) when=async(4) up=topk(0.1)",
		"signal=svrg(10) when=async(4) update=momentum(0.9)",
		"signal=svrg(10) when=async(4) nonfinite=skip",
		"auto when=async(4)",
		"signal=storm(0.1) update=ema(0.1) when=async(4)",
	};
	struct recipe recipe;
	struct plan narrow = { .recipe = "up=all down=all when=async(2)" };
	struct plan fits = { .recipe = "up=all down=all signal=svrg(10) when=async(3)" };

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		char text[200];

		snprintf(text, sizeof text, "%s%s%s",
			 strstr(wrong[i], "auto") || strstr(wrong[i], "up=") ? "" : "up=all ",
			 strstr(wrong[i], "auto") || strstr(wrong[i], "down=") ? "" : "down=all ",
			 wrong[i]);
		if (recipe_parse(text, &recipe) != SLUICE_EINVAL)
			fail_msg("accepted: %s", text);
	}
	assert_int_equal(sluice_simulate(NULL, 4, open_only, &narrow), SLUICE_EINVAL);
	assert_non_null(strstr(sluice_last_error(), "async(3)"));
	assert_int_equal(sluice_simulate(NULL, 4, open_only, &fits), 0);
}
