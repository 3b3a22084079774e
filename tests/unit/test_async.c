/* SPDX-License-Identifier: BSD-3-Clause
 * Asynchronous steps: the bound on staleness holds whoever is late, workers in collectives hold up nobody, what is
 * too late or of another anchor is counted and not used; anchors reach the exact minimum in few bits. */
#include "base/error.h"
#include "shard/shard.h"
#include "worker/worker.h"
#include "ranks.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { COUNT = 60, ROWS = 12, WORKERS_MOST = 8 };

/* ---- a problem: row r of worker i has the gradient a x - b at each coordinate --------------------------------- */

static float factor(int worker, uint64_t row, uint64_t i)
{
	return 1 + 0.8f * noise(1, row, (uint64_t)worker, i);
}

static float offset(int worker, uint64_t row, uint64_t i)
{
	return noise(2, row, (uint64_t)worker, i);
}

static void row_gradient(int worker, uint64_t row, const float *x, float *grad)
{
	for (int i = 0; i < COUNT; i++)
		grad[i] = factor(worker, row, (uint64_t)i) * x[i] - offset(worker, row, (uint64_t)i);
}

static void full_gradient(int worker, const float *x, float *grad)
{
	for (int i = 0; i < COUNT; i++) {
		double sum = 0;

		for (uint64_t r = 0; r < ROWS; r++)
			sum += (double)(factor(worker, r, (uint64_t)i) * x[i] - offset(worker, r, (uint64_t)i));
		grad[i] = (float)(sum / ROWS);
	}
}

/* Squared distance from the minimum over all workers. */
static double distance(int workers, const float *x)
{
	double sum = 0;

	for (int i = 0; i < COUNT; i++) {
		double a = 0, b = 0;

		for (int w = 0; w < workers; w++)
			for (uint64_t r = 0; r < ROWS; r++) {
				a += (double)factor(w, r, (uint64_t)i);
				b += (double)offset(w, r, (uint64_t)i);
			}
		sum += ((double)x[i] - b / a) * ((double)x[i] - b / a);
	}
	return sum;
}

/* ---- a worker ------------------------------------------------------------------------------------------------ */

struct plan {
	const char *recipe;
	uint64_t steps;
	float lr;
	uint32_t shards;
	int apart;                   /* ranks are processes */
	/* What came of it, of all ranks. */
	double distance;
	uint64_t staleness_most, counted, refused, up_bytes;
	int different;               /* at an anchor, from rank 0's */
	float x[WORKERS_MOST][COUNT];
};

static sluice_model *open_model(sluice_job *job, const struct plan *plan, float *params)
{
	sluice_model *model = NULL;
	sluice_model_attr attr = { .size = sizeof attr, .count = COUNT, .recipe = plan->recipe, .lr = plan->lr,
				   .shards = plan->shards ? plan->shards : 2 };

	memset(params, 0, COUNT * sizeof *params);
	sluice_model_open(job, &attr, params, &model);
	return model;
}

/* A gradient as the recipe wants it, pushed. */
static int push_step(sluice_model *model, int rank, const float *params)
{
	static const uint64_t stride = 7;
	float grad[COUNT], before[COUNT], point[COUNT];
	uint64_t row = (sluice_step(model) * stride + (uint64_t)rank) % ROWS;
	int rc;

	if (sluice_anchor_due(model)) {
		full_gradient(rank, params, grad);
		return sluice_push(model, grad);
	}
	row_gradient(rank, row, params, grad);
	if (!recipe_pairs(&model->recipe))
		return sluice_push(model, grad);
	if ((rc = sluice_point(model, params, point)))
		return rc;
	row_gradient(rank, row, point, before);
	return sluice_push_pair(model, grad, before);
}

static int step_once(sluice_model *model, int rank, float *params)
{
	int rc = push_step(model, rank, params);

	return rc ? rc : sluice_pull(model, params);
}

static int collect(sluice_model *model, struct plan *plan)
{
	sluice_model_stats stats = { .size = sizeof stats };
	int rc = sluice_stats(model, &stats);

	if (stats.staleness_most > plan->staleness_most)
		plan->staleness_most = stats.staleness_most;
	for (int i = 0; i < 8; i++)
		plan->counted += stats.staleness[i];
	plan->refused += stats.refused_messages;
	plan->up_bytes += stats.pushed_bytes;
	return rc;
}

static int train(sluice_job *job, void *context)
{
	struct plan *plan = context;
	int rank = sluice_rank(job), rc = 0;
	float *params = plan->x[rank];
	sluice_model *model = open_model(job, plan, params);

	if (!model)
		return SLUICE_EINVAL;
	for (uint64_t step = 0; step < plan->steps && !rc; step++)
		rc = step_once(model, rank, params);
	if (!rc)
		rc = sluice_barrier(job);
	if (!rc)
		rc = collect(model, plan);
	if (!rc && sluice_in_sync(model) && plan->apart)
		check_same(job, params, COUNT * sizeof *params);
	else if (!rc && sluice_in_sync(model))
		plan->different |= memcmp(params, plan->x[0], COUNT * sizeof *params) != 0;
	if (!rc && !rank)
		plan->distance = distance(sluice_workers(job), params);
	sluice_model_close(&model);
	return rc;
}

static struct plan simulate(const char *recipe, int workers, uint64_t steps, float lr)
{
	struct plan plan = { .recipe = recipe, .steps = steps, .lr = lr };

	assert_int_equal(sluice_simulate(NULL, workers, train, &plan), 0);
	print_message("%s: distance %.3g, staleness at most %llu, %llu counted, %llu refused\n", recipe,
		      plan.distance, (unsigned long long)plan.staleness_most, (unsigned long long)plan.counted,
		      (unsigned long long)plan.refused);
	return plan;
}

/* ---- the bound ------------------------------------------------------------------------------------------------ */

static void async__four_workers__every_push_counts_within_the_bound(void **state)
{
	static const struct {
		const char *recipe;
		uint64_t bound;
	} cases[] = { { "up=all down=all when=async(3)", 3 },
		      { "up=all down=all when=async(6) update=momentum(0.5)", 6 },
		      { "up=topk(0.2) down=all,f16 when=async(20)", 20 } };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct plan plan = simulate(cases[i].recipe, 4, 50, 0.02f);

		assert_true(plan.staleness_most <= cases[i].bound);
		assert_int_equal(plan.counted, 4 * 50 * 2); /* at each of two shards */
		assert_int_equal(plan.refused, 0);
		assert_true(plan.distance < 0.5 * distance(4, (float[COUNT]){ 0 }));
	}
}

enum { LATE = 10 };

/* Rank 1 is late by LATE steps of rank 0, which then goes on at once: only the bound can stop it. */
static int delay_one(sluice_job *job, void *context)
{
	struct plan *plan = context;
	int rank = sluice_rank(job), rc;
	float params[COUNT];
	sluice_model *model = open_model(job, plan, params);
	sluice_region *region = NULL;

	if (!model || sluice_region_open(job, 8, &region) || sluice_pull(model, params))
		return SLUICE_EINVAL;
	rc = sluice_region_put(region, 1 - rank, 0, &rank, 4, 1); /* both hold version 0 */
	if (!rc)
		rc = sluice_region_wait(region, 1 - rank, 1);
	if (!rc && rank)
		rc = sluice_region_wait(region, 0, 1 + LATE);
	if (rank)
		sleep_ms((int)plan->steps); /* a real rank 0 would be far away by now */
	for (int step = 1; step <= (rank ? 3 : 40) && !rc; step++) {
		rc = step_once(model, rank, params);
		if (!rc && !rank)
			rc = sluice_region_put(region, 1, 0, &step, 4, 1);
	}
	if (!rc)
		rc = sluice_barrier(job);
	if (!rc)
		rc = collect(model, plan);
	sluice_region_close(&region);
	sluice_model_close(&model);
	return rc;
}

static void async__one_worker_ten_steps_late__its_push_is_ten_versions_behind_and_none_is_more(void **state)
{
	struct plan plan = { .recipe = "up=all down=all when=async(10)", .lr = 0.05f };

	(void)state;
	assert_int_equal(sluice_simulate(NULL, 2, delay_one, &plan), 0);
	assert_int_equal(plan.staleness_most, LATE);
	assert_int_equal(plan.refused, 0);
	assert_int_equal(plan.counted, 2 * (40 + 3));
}

static int delayed_process(int rank, void *argument)
{
	struct plan plan = { .recipe = "up=all down=all when=async(10)", .lr = 0.05f, .steps = 100 };
	sluice_job *job = rank_join(NULL);

	(void)argument;
	CHECK_OK(delay_one(job, &plan));
	CHECK(plan.staleness_most <= LATE && plan.refused == 0);
	CHECK(rank || plan.staleness_most == LATE); /* shard 0 is rank 0's */
	CHECK(plan.counted == 40 + 3);
	sluice_finalize(&job);
	return 0;
}

static void async__processes_and_one_late__bound_holds(void **state)
{
	(void)state;
	run_ranks(2, delayed_process, NULL);
}

static int racing_process(int rank, void *argument)
{
	const struct plan *given = argument;
	struct plan plan = *given;
	sluice_job *job = rank_join(NULL);

	(void)rank;
	plan.apart = 1;
	CHECK_OK(train(job, &plan));
	CHECK(plan.staleness_most <= 5 && plan.refused == 0);
	sluice_finalize(&job);
	return 0;
}

static void async__four_processes__bound_holds(void **state)
{
	struct plan plain = { .recipe = "up=all down=all when=async(5)", .steps = 200, .lr = 0.02f, .shards = 3 };
	struct plan anchors = { .recipe = "up=all,uniform(4) down=all,uniform(4) signal=svrg(36) when=async(5)",
				.steps = 100, .lr = 0.05f, .shards = 3 };

	(void)state;
	run_ranks(4, racing_process, &plain);
	run_ranks(4, racing_process, &anchors);
}

/* ---- collectives ---------------------------------------------------------------------------------------------- */

struct parking {
	int pulls;                   /* whether rank 1 pulls before it pushes again */
	uint64_t refused, asked_bytes;
	float newest;
};

/* Rank 1 waits in a barrier while rank 0 takes far more steps than the bound, then goes on. */
static int park_one(sluice_job *job, void *context)
{
	struct parking *p = context;
	struct plan plan = { .recipe = "up=all down=all when=async(4)", .lr = 0.05f, .shards = 1 };
	int rank = sluice_rank(job), rc = 0;
	float params[COUNT];
	sluice_model *model = open_model(job, &plan, params);

	if (!model)
		return SLUICE_EINVAL;
	for (int step = 0; step < (rank ? 1 : 30) && !rc; step++)
		rc = step_once(model, rank, params);
	if (!rc)
		rc = sluice_barrier(job);
	if (!rc && rank && p->pulls)
		rc = sluice_pull(model, params);
	if (!rc && rank)
		rc = step_once(model, rank, params);
	if (!rc)
		rc = sluice_barrier(job);
	if (!rc)
		rc = collect(model, &plan);
	p->refused += plan.refused;
	sluice_model_close(&model);
	return rc;
}

static void async__worker_in_a_barrier__others_go_on_and_its_old_push_is_refused_and_counted(void **state)
{
	struct parking late = { .pulls = 0 }, fresh = { .pulls = 1 };

	(void)state;
	assert_int_equal(sluice_simulate(NULL, 2, park_one, &late), 0);
	assert_int_equal(late.refused, 1);
	assert_int_equal(sluice_simulate(NULL, 2, park_one, &fresh), 0);
	assert_int_equal(fresh.refused, 0);
}

static int push_then_barrier(sluice_job *job, void *context)
{
	struct plan *plan = context;
	int rank = sluice_rank(job), rc = 0;
	float *params = plan->x[rank];
	sluice_model *model = open_model(job, plan, params);

	if (!model)
		return SLUICE_EINVAL;
	for (uint64_t step = 0; step < plan->steps && !rc; step++) {
		if (!(rc = push_step(model, rank, params)))
			rc = sluice_barrier(job);
		if (!rc)
			rc = sluice_pull(model, params);
		if (!rc && step % 3 == 0)
			rc = sluice_barrier(job);
		if (!rc && step % 2 == 0)
			rc = sluice_pull(model, params);
	}
	if (!rc)
		rc = collect(model, plan);
	sluice_model_close(&model);
	return rc;
}

static void async__collective_between_push_and_pull__nobody_is_stuck(void **state)
{
	struct plan plain = { .recipe = "up=all down=all when=async(3)", .lr = 0.05f, .steps = 13 };
	struct plan anchors = { .recipe = "up=all down=all signal=svrg(12) when=async(3)", .lr = 0.05f, .steps = 13 };

	(void)state;
	assert_int_equal(sluice_simulate(NULL, 4, push_then_barrier, &plain), 0);
	assert_int_equal(sluice_simulate(NULL, 4, push_then_barrier, &anchors), 0);
}

/* A worker parks before its push and behind it, and its shards may not have run in between: there are two slots. */
static int park_on_both_sides(sluice_job *job, void *context)
{
	struct plan *plan = context;
	int rank = sluice_rank(job), rc = 0;
	float *params = plan->x[rank];
	sluice_model *model = open_model(job, plan, params);

	if (!model)
		return SLUICE_EINVAL;
	for (uint64_t step = 0; step < plan->steps && !rc; step++) {
		if (!(rc = step_once(model, rank, params)))
			rc = sluice_barrier(job);
		if (!rc)
			rc = push_step(model, rank, params);
		if (!rc)
			rc = sluice_barrier(job);
		if (!rc)
			rc = sluice_pull(model, params);
	}
	if (!rc)
		rc = collect(model, plan);
	sluice_model_close(&model);
	return rc;
}

static void async__collectives_around_a_push__no_slot_is_overwritten(void **state)
{
	struct plan plan = { .recipe = "up=all down=all when=async(3)", .lr = 0.05f, .steps = 13 };

	(void)state;
	assert_int_equal(sluice_simulate(NULL, 4, park_on_both_sides, &plan), 0);
	assert_int_equal(plan.counted + plan.refused, 4 * 2 * 13 * 2);
}

/* ---- anchors -------------------------------------------------------------------------------------------------- */

/* One worker, full precision: the rounds of the paper, in double. */
static void follow_by_hand(double *x, int anchors, int steps, double lr, int accelerated)
{
	double anchor[COUNT], mean[COUNT], y[COUNT] = { 0 }, sum[COUNT];
	uint64_t taken = 0;

	for (int s = 0; s < anchors; s++) {
		double theta = accelerated ? 2.0 / (s + 4) : 1;

		taken++;
		memcpy(anchor, x, sizeof anchor);
		memset(sum, 0, sizeof sum);
		for (int i = 0; i < COUNT; i++) {
			mean[i] = 0;
			for (uint64_t r = 0; r < ROWS; r++)
				mean[i] += ((double)factor(0, r, (uint64_t)i) * x[i] -
					    (double)offset(0, r, (uint64_t)i)) / ROWS;
			if (accelerated)
				x[i] = theta * y[i] + (1 - theta) * anchor[i];
		}
		for (int t = 0; t < steps; t++, taken++) {
			uint64_t row = taken * 7 % ROWS;

			for (int i = 0; i < COUNT; i++) {
				double u = (double)factor(0, row, (uint64_t)i) * (x[i] - anchor[i]) + mean[i];

				if (accelerated) {
					y[i] -= lr / theta * u;
					x[i] = theta * y[i] + (1 - theta) * anchor[i];
				} else {
					x[i] -= lr * u;
				}
				sum[i] += x[i];
			}
		}
		for (int i = 0; i < COUNT && accelerated; i++)
			x[i] = sum[i] / steps;
	}
}

static void svrg__one_worker__follows_the_paper(void **state)
{
	static const char *const recipes[] = { "up=all down=all signal=svrg(9) when=async(1)",
					       "up=all down=all signal=svrg(9) update=accelerated when=async(1)" };

	(void)state;
	for (int accelerated = 0; accelerated < 2; accelerated++) {
		struct plan plan = simulate(recipes[accelerated], 1, 4 * 10, 0.05f);
		double x[COUNT] = { 0 };

		follow_by_hand(x, 4, 9, 0.05, accelerated);
		for (int i = 0; i < COUNT; i++)
			assert_true(fabs(x[i] - (double)plan.x[0][i]) < 1e-5);
	}
}

static void svrg__four_workers__same_anchor_everywhere_and_the_minimum(void **state)
{
	struct plan plan = simulate("up=all,uniform(4) down=all,uniform(4) signal=svrg(80) when=async(6)", 4, 21 * 15,
				    0.05f);

	(void)state;
	assert_int_equal(plan.different, 0);
	assert_int_equal(plan.counted, 2 * 4 * 20 * 15);
	assert_true(plan.staleness_most <= 6);
	assert_true(plan.distance < 1e-10);
}

static void svrg__parameters_quantised_themselves__stay_away_from_the_minimum(void **state)
{
	struct plan whole = simulate("up=all,uniform(8) down=all,uniform(8) signal=svrg(80) when=async(6,whole)", 4,
				     21 * 15, 0.05f);
	struct plan difference = simulate("up=all,uniform(4) down=all,uniform(4) signal=svrg(80) when=async(6)", 4,
					  21 * 15, 0.05f);
	(void)state;
	assert_true(difference.up_bytes < whole.up_bytes);
	assert_true(whole.distance > 100 * difference.distance);
}

static void svrg__same_job_twice_simulated__same_bits(void **state)
{
	static const char recipe[] = "up=random(0.3),uniform(6) down=all,uniform(6) signal=svrg(40) "
				     "update=accelerated when=async(9)";
	struct plan a = simulate(recipe, 5, 36, 0.05f), b = simulate(recipe, 5, 36, 0.05f);

	(void)state;
	assert_memory_equal(a.x, b.x, sizeof a.x);
}

enum { WRONG_STEP = 4 };

static int wrong_anchor(sluice_job *job, void *context)
{
	struct plan *plan = context;
	int rank = sluice_rank(job), rc = 0;
	float *params = plan->x[rank];
	sluice_model *model = open_model(job, plan, params);

	if (!model)
		return SLUICE_EINVAL;
	for (uint64_t step = 0; step < plan->steps && !rc; step++) {
		uint32_t wrong = rank == 1 && step == WRONG_STEP;

		model->worker->anchors += wrong;
		rc = push_step(model, rank, params);
		model->worker->anchors -= wrong;
		if (!rc)
			rc = sluice_pull(model, params);
	}
	if (!rc)
		rc = sluice_barrier(job);
	if (!rc)
		rc = collect(model, plan);
	if (!rc && !rank)
		plan->distance = distance(3, params);
	sluice_model_close(&model);
	return rc;
}

static void svrg__push_of_another_anchor__refused_and_counted_and_the_others_go_on(void **state)
{
	struct plan plan = { .recipe = "up=all down=all signal=svrg(60) when=async(4)", .lr = 0.05f, .steps = 21 * 10 };

	(void)state;
	assert_int_equal(sluice_simulate(NULL, 3, wrong_anchor, &plan), 0);
	assert_int_equal(plan.refused, 2); /* at each of two shards */
	assert_int_equal(plan.counted, 2 * (3 * 20 * 10 - 1));
	assert_true(plan.distance < 1e-8);
}

/* ---- what is refused ------------------------------------------------------------------------------------------ */

static int open_only(sluice_job *job, void *context)
{
	struct plan *plan = context;
	float params[COUNT], grad[COUNT] = { 0 };
	sluice_model *model = open_model(job, plan, params);

	if (!model)
		return SLUICE_EINVAL;
	if (sluice_checkpoint(model, "nowhere") != SLUICE_EINVAL || sluice_push_pair(model, grad, grad) != SLUICE_EINVAL)
		return -1;
	sluice_model_close(&model);
	return 0;
}

static void async__what_does_not_fit__is_refused(void **state)
{
	static const char *const wrong[] = {
		"when=async", "when=async(0)", "when=async(3,half)", "when=async(4) down=topk(0.1)",
		"when=async(4) update=none", "when=async(4) up=cyclic(0.1)", "when=async(4) reset=5", "signal=svrg(10)",
		"signal=svrg(10) when=always", "signal=svrg(0) when=async(4)", "update=accelerated when=async(4)",
		"signal=svrg(10) when=async(4) memory=residual", "signal=svrg(10) when=async(4) up=topk(0.1)",
		"signal=svrg(10) when=async(4) update=momentum(0.9)", "signal=svrg(10) when=async(4) nonfinite=skip",
		"auto when=async(4)", "signal=storm(0.1) update=ema(0.1) when=async(4)",
	};
	struct recipe recipe;
	struct plan narrow = { .recipe = "up=all down=all when=async(2)" };
	struct plan fits = { .recipe = "up=all down=all signal=svrg(10) when=async(3)" };

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		char text[200];

		snprintf(text, sizeof text, "%s%s%s", strstr(wrong[i], "auto") || strstr(wrong[i], "up=") ? "" : "up=all ",
			 strstr(wrong[i], "auto") || strstr(wrong[i], "down=") ? "" : "down=all ", wrong[i]);
		if (recipe_parse(text, &recipe) != SLUICE_EINVAL)
			fail_msg("accepted: %s", text);
	}
	assert_int_equal(sluice_simulate(NULL, 4, open_only, &narrow), SLUICE_EINVAL);
	assert_non_null(strstr(sluice_last_error(), "async(3)"));
	assert_int_equal(sluice_simulate(NULL, 4, open_only, &fits), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(async__four_workers__every_push_counts_within_the_bound),
		cmocka_unit_test(async__one_worker_ten_steps_late__its_push_is_ten_versions_behind_and_none_is_more),
		cmocka_unit_test(async__processes_and_one_late__bound_holds),
		cmocka_unit_test(async__four_processes__bound_holds),
		cmocka_unit_test(async__worker_in_a_barrier__others_go_on_and_its_old_push_is_refused_and_counted),
		cmocka_unit_test(async__collective_between_push_and_pull__nobody_is_stuck),
		cmocka_unit_test(async__collectives_around_a_push__no_slot_is_overwritten),
		cmocka_unit_test(svrg__one_worker__follows_the_paper),
		cmocka_unit_test(svrg__four_workers__same_anchor_everywhere_and_the_minimum),
		cmocka_unit_test(svrg__parameters_quantised_themselves__stay_away_from_the_minimum),
		cmocka_unit_test(svrg__same_job_twice_simulated__same_bits),
		cmocka_unit_test(svrg__push_of_another_anchor__refused_and_counted_and_the_others_go_on),
		cmocka_unit_test(async__what_does_not_fit__is_refused),
	};
	return cmocka_run_group_tests_name("async", tests, NULL, NULL);
}
