/* SPDX-License-Identifier: BSD-3-Clause
 * Skipped uploads, and steps that workers make alone: the rules computed by hand, equal parameters
 * on all workers, and fewer uploads for a problem with unequal workers. */
#include "base/error.h"
#include "worker/lazy.h"
#include "shard/lazy_sum.h"
#include "shard/state.h"
#include "model/kept.h"
#include "worker/state.h"
#include "ranks.h"
#include "thinned.h"
#include "scratch.h"
#include "cases.h"
#include <math.h>
#include <string.h>

/* ---- the rules ------------------------------------------------------------- */

TEST(lazy__window_of_two__allowance_is_weighted_sum_over_lr_squared)
{
	struct lazy_rule l = { .window = 2, .weight = 0.5 };

	assert_true(lazy_allowance(&l, 0.5f) == 0);
	lazy_moved(&l, 4);
	assert_true(lazy_allowance(&l, 0.5f) == 0.5 * 4 / 0.25);
	lazy_moved(&l, 1);
	lazy_moved(&l, 2); /* the first one leaves the window */
	assert_true(lazy_allowance(&l, 0.5f) == 0.5 * 3 / 0.25);
}

TEST(lazy__equal_counts_as_skippable_but_not_the_first_nor_after_the_longest)
{
	struct lazy_rule l = { .window = 1, .weight = 1, .longest = 2 };

	lazy_moved(&l, 9);
	assert_false(lazy_skips(&l, 1, 0, 0)); /* never uploaded */
	lazy_uploaded(&l, 2);
	assert_true(lazy_skips(&l, 1, 9 + 3 * 2, 0));
	assert_false(lazy_skips(&l, 1, 9 + 3 * 2 + 0.5, 0));
	assert_true(lazy_skips(&l, 1, 9 + 3 * 2 + 0.5, 1)); /* its rounding error also counts */
	lazy_skipped(&l);
	assert_true(lazy_skips(&l, 1, 0, 0));
	lazy_skipped(&l);
	assert_false(lazy_skips(&l, 1, 0, 0));
	lazy_uploaded(&l, 0);
	assert_true(lazy_skips_unseen(&l, 1, 3, 1));
	assert_false(lazy_skips_unseen(&l, 1, 3, 1.1));
}

/* ---- runs ------------------------------------------------------------------ */

enum { D = 60, W = 5 };

struct run {
	const char *recipe;
	int steps, period;
	uint64_t uploads, skipped, elements;
	double gap, worst_sum; /* distance from the optimum; difference between the references
				  and the shards' sum */
	float params[W][D], sent[W][D];
	int apart, apart_between;
	int damage; /* step after which the damage happens; 0: never */
	enum {
		FORGETS,
		DOUBLES,
		ALONE
	} how;            /* shard 0 loses an upload of rank 1; rank 1 alone begins again */
	double sum_after; /* worst_sum of the last step */
};

/* f_m = sum of h_m (x - c_m)^2 / 2 with unequal curvatures. The gradient is exact. */
static float curvature(int m)
{
	return 0.02f + 0.2f * (float)(m * m) / (W * W);
}
static float centre(int m, int i)
{
	return noise(31, (uint64_t)m, 0, (uint64_t)i);
}

static double gap_of(const float *x)
{
	double gap = 0;
	for (int i = 0; i < D; i++) {
		double h = 0, hc = 0;
		for (int m = 0; m < W; m++) {
			h += (double)curvature(m);
			hc += (double)curvature(m) * (double)centre(m, i);
		}
		gap += fabs((double)x[i] - hc / h);
	}
	return gap / D;
}

static void follow_references(sluice_model *model, struct run *run)
{
	const float *reference = lazy_reference(model->worker->lazy);
	if (!reference)
		return;
	memcpy(run->sent[sluice_rank(model->job)], reference, sizeof run->sent[0]);
}

static void compare_references(const sluice_model *model, struct run *run)
{
	double worst = 0;
	for (uint32_t s = 0; s < model->n_own && model->worker->lazy; s++)
		for (uint32_t i = 0; i < model->shards[s].at->span; i++) {
			double sum = 0;
			for (int m = 0; m < W; m++)
				sum += (double)run->sent[m][model->shards[s].at->begin + i];
			worst = fmax(worst,
				     fabs(sum - (double)lazy_sum_running(&model->shards[s])[i]));
		}
	run->worst_sum = fmax(run->worst_sum, worst);
	if (model->n_own)
		run->sum_after = worst;
}

static void damage(sluice_model *model, struct run *run, int step)
{
	if (step != run->damage)
		return;
	if (run->how == ALONE) {
		lazy_restore(model->worker, NULL, sluice_rank(model->job) == 1);
		return;
	}
	if (!model->n_own || model->shards[0].id)
		return;
	struct shard *shard = &model->shards[0];
	*lazy_sum_uploads(shard, 1) += run->how == DOUBLES ? 1u : -1u;
	for (uint32_t i = 0; i < shard->at->span; i++)
		lazy_sum_running(shard)[i] += run->how == DOUBLES ? 0.3f : -0.4f;
}

static int solve(sluice_job *job, void *context)
{
	struct run *run = context;
	int rank = sluice_rank(job), rc;
	float *x = run->params[rank], grad[D];
	sluice_model_attr attr = ATTR(.count = D, .recipe = run->recipe, .shards = 2, .lr = 1);
	sluice_model *model;
	memset(x, 0, sizeof run->params[0]);
	if ((rc = sluice_model_open(job, &attr, x, &model)))
		return rc;
	if (model->recipe.when == WHEN_LAZY_SERVER)
		rc = sluice_set(model, SLUICE_SMOOTHNESS, curvature(rank));
	for (int step = 1; step <= run->steps && !rc; step++) {
		int wanted = step_of(model).wanted;
		for (int i = 0; i < D; i++)
			grad[i] = wanted ? curvature(rank) * (x[i] - centre(rank, i)) : NAN;
		if (!(rc = sluice_push(model, wanted ? grad : NULL)))
			rc = sluice_pull(model, x);
		follow_references(model, run);
		if (!rc)
			rc = sluice_barrier(job);
		compare_references(model, run);
		damage(model, run, step);
		int apart = memcmp(x, run->params[0], sizeof run->params[0]) != 0;
		if (step % run->period)
			run->apart_between |= apart;
		else
			run->apart |= apart || !step_of(model).in_sync;
		if (!rc)
			rc = sluice_barrier(job);
	}
	sluice_model_stats stats = { .size = sizeof stats };
	if (!rc)
		rc = sluice_stats(model, &stats);
	run->skipped += stats.skipped_pushes;
	run->elements += stats.pushed_elements;
	run->gap = gap_of(x);
	sluice_model_close(&model);
	return rc;
}

static struct run run_of(const char *recipe, int steps, int period)
{
	struct run run = { .recipe = recipe, .steps = steps, .period = period };

	if (sluice_simulate(NULL, W, solve, &run))
		fail_msg("%s: %s", recipe, sluice_last_error());
	run.uploads = (uint64_t)(W * steps) - run.skipped;
	if (run.apart)
		fail_msg("%s: replicas differ", recipe);
	print_message("%-64s gap %.2e, %llu uploads, %llu elements\n", recipe, run.gap,
		      (unsigned long long)run.uploads, (unsigned long long)run.elements);
	return run;
}

TEST(push__innovation_of_everything__is_the_gradient_descent_it_stands_for)
{
	struct run plain = run_of("up=all down=all", 60, 1);
	struct run innovation = run_of("up=all down=all signal=innovation", 60, 1);

	assert_int_equal(innovation.skipped, 0);
	assert_true(fabs(plain.gap - innovation.gap) < 1e-5);
	assert_true(innovation.worst_sum < 1e-5);
}

TEST(push__lazy_with_unequal_workers__same_point_with_fewer_uploads)
{
	struct run all = run_of("up=all down=all", 400, 1);
	struct run lazy = run_of("up=all down=all signal=innovation when=lazy(10,0.1)", 400, 1);
	struct run served = run_of("up=all down=all signal=innovation when=lazy-server(10,1)", 400,
				   1);
	struct run quantised = run_of(
		"up=all,grid(4) down=all signal=innovation when=lazy(10,0.08,100)", 400, 1);

	assert_true(all.gap < 1e-5);
	assert_true(lazy.gap < 1e-4 && served.gap < 1e-4 && quantised.gap < 1e-3);
	assert_true((double)lazy.uploads < 0.6 * (double)all.uploads);
	assert_true((double)served.uploads < 0.9 * (double)all.uploads);
	assert_true((double)quantised.uploads < 0.6 * (double)all.uploads);
	assert_int_equal(lazy.elements, lazy.uploads * D);
	assert_int_equal(served.elements, served.uploads * D);
	assert_true(lazy.worst_sum < 1e-4 && served.worst_sum < 1e-4 && quantised.worst_sum < 1e-4);
}

TEST_IN_JOB(smoothness__that_no_function_has__is_refused, 1)
{
	static const double bad[] = { 0, -1, NAN, INFINITY, -INFINITY, 1e300, 1e-300 };
	float params[8] = { 0 };
	log_capture();
	sluice_model *model = OPEN(
		job, params, .count = 8,
		.recipe = "up=all down=all signal=innovation when=lazy-server(3,5)");
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK(sluice_set(model, SLUICE_SMOOTHNESS, bad[i]) == SLUICE_EINVAL);
		CHECK(error_says("sluice_set: SLUICE_SMOOTHNESS is ", NULL));
	}
	CHECK(sluice_set(NULL, SLUICE_SMOOTHNESS, 1) == SLUICE_EINVAL);
	CHECK_OK(sluice_set(model, SLUICE_SMOOTHNESS, 1e-30));
	sluice_model_close(&model);
	model = OPEN(job, params, .count = 8,
		     .recipe = "up=all down=all signal=innovation when=lazy(3,5)");
	CHECK(sluice_set(model, SLUICE_SMOOTHNESS, 1) == SLUICE_EINVAL);
	CHECK(error_says("SLUICE_SMOOTHNESS needs a recipe with when=lazy-server", NULL));
	sluice_model_close(&model);
}

TEST(push__every_fourth_step__replicas_part_and_meet_again)
{
	struct run local = run_of("up=all down=all when=every(4)", 200, 4);
	struct run coarse = run_of("up=all,uniform(4) down=all memory=none when=every(4)", 200, 4);
	struct run kept = run_of("up=topk(0.25) down=all when=every(2)", 200, 2);

	assert_true(local.apart_between && coarse.apart_between && kept.apart_between);
	assert_int_equal(local.elements, W * 50 * D);
	/* With unequal curvatures, the average of local models misses the optimum. */
	assert_true(local.gap < 0.1 && coarse.gap < 0.1 && kept.gap < 0.1);
}

enum { PERIOD = 4 };

/* The last gradient of rank 0 in the period is NaN. */
static int skip_the_exchange_step(sluice_job *job, void *recipe)
{
	float params[D] = { 0 }, grad[D];
	sluice_model *model = NULL;
	const sluice_model_attr attr = ATTR(.count = D, .recipe = recipe, .lr = 1);
	int rc = sluice_model_open(job, &attr, params, &model);

	for (int step = 1; step <= PERIOD && !rc; step++) {
		for (int i = 0; i < D; i++)
			grad[i] = 1;
		if (step == PERIOD && !sluice_rank(job))
			grad[D / 2] = NAN;
		rc = try_step(model, grad, params);
	}
	for (int i = 0; i < D && !rc; i++)
		rc = params[i] == -(PERIOD - 0.5f) ? 0 : SLUICE_ENUMERIC;
	sluice_model_close(&model);
	return rc;
}

TEST(push__gradient_skipped_at_the_end_of_a_period__steps_before_it_count)
{
	static char plain[] = "up=all down=all memory=none when=every(4) nonfinite=skip",
		    kept[] = "up=topk(1) down=all when=every(4) nonfinite=skip";

	assert_int_equal(sluice_simulate(NULL, 2, skip_the_exchange_step, plain), 0);
	assert_int_equal(sluice_simulate(NULL, 2, skip_the_exchange_step, kept), 0);
}

TEST(push__every_step_of_one__is_plain_sgd_to_rounding)
{
	struct run plain = run_of("up=all down=all", 50, 1),
		   one = run_of("up=all down=all when=every(1)", 50, 1);

	assert_true(fabs(plain.gap - one.gap) < 1e-5);
}

TEST(push__lost_or_repeated_upload__is_noticed_and_healed)
{
	static const char *const recipes[] = {
		"up=all down=all signal=innovation when=lazy(10,0.1)",
		"up=all down=all signal=innovation when=lazy-server(10,1)",
		"up=all,grid(4) down=all signal=innovation when=lazy(10,0.08,100)",
		"up=topk(0.2) down=all signal=innovation"
	};

	log_capture();
	for (int i = 0; i < 12; i++) {
		if (thinned((size_t)i, 5)) /* one of each kind of damage */
			continue;
		struct run run = { .recipe = recipes[i / 3],
				   .steps = 500,
				   .period = 1,
				   .damage = 20,
				   .how = i % 3 };
		if (sluice_simulate(NULL, W, solve, &run))
			fail_msg("%s: %s", run.recipe, sluice_last_error());
		print_message("%-64s gap %.2e, sums differed by %.2e, at the end by %.1e\n",
			      run.recipe, run.gap, run.worst_sum, run.sum_after);
		assert_int_equal(run.apart, 0);
		assert_true(run.how == ALONE || run.worst_sum > 0.2); /* the damage had an effect */
		assert_true(run.sum_after < 1e-4 && run.gap < 2e-3);
	}
	assert_true(
		log_saw("rank 1", "lost or came twice", "send their whole gradients again", NULL));
	sluice_set_log(NULL, NULL);
}

/* A checkpoint between the detection of the damage and its repair must keep the pending repair. */
static int interrupt(sluice_job *job, void *context)
{
	float x[D] = { 0 }, grad[D];
	sluice_model_attr attr = ATTR(.count = D, .shards = 2, .lr = 0.5f,
				      .recipe = "up=topk(0.2) down=all signal=innovation");
	sluice_model *model;
	int rc = sluice_model_open(job, &attr, x, &model);
	for (int step = 1; step <= 3 && !rc; step++) {
		if (step == 3 && model->n_own)
			++*lazy_sum_uploads(&model->shards[0], 1);
		for (int i = 0; i < D; i++)
			grad[i] = x[i] - centre(sluice_rank(job), i);
		if (!(rc = sluice_push(model, grad)))
			rc = sluice_pull(model, x);
		if (!rc)
			rc = sluice_barrier(job);
	}
	if (!rc && !lazy_refreshes(model->worker->lazy))
		rc = 1;
	if (!rc)
		rc = sluice_checkpoint(model, context);
	sluice_model_close(&model);
	if (!rc)
		rc = sluice_model_open(job, &attr, x, &model);
	if (!rc && !(rc = sluice_restore(model, context, x, NULL)) &&
	    !lazy_refreshes(model->worker->lazy))
		rc = 2;
	sluice_model_close(&model);
	return rc;
}

TEST(restore__before_all_have_begun_anew__it_is_still_due)
{
	char dir[512];

	log_capture();
	assert_int_equal(scratch_make(dir), 0);
	assert_int_equal(sluice_simulate(NULL, 3, interrupt, dir), 0);
	scratch_remove(dir);
	sluice_set_log(NULL, NULL);
}

/* ---- local steps ----------------------------------------------------------- */

static int flags_and_noise(sluice_job *job, void *context)
{
	float x[D] = { 0 }, before[D] = { 0 }, grad[D] = { 0 }, moved[4][D];
	sluice_model_attr attr =
		ATTR(.count = D, .lr = 1,
		     .recipe = "up=all down=all signal=gradient,noise(1) when=every(2)");
	sluice_model *model;
	unsigned raised[4];
	int rc = sluice_model_open(job, &attr, x, &model), same = 0;
	for (int step = 0; step < 4 && !rc; step++) {
		if (step == 0)
			sluice_raise(model, 4);
		if (!(rc = sluice_push(model, grad)))
			rc = sluice_pull(model, x);
		raised[step] = step_of(model).raised;
		for (int i = 0; i < D; i++)
			moved[step][i] = x[i] - before[i];
		memcpy(before, x, sizeof x);
	}
	sluice_model_close(&model);
	if (!rc && (raised[0] || raised[1] != 4 || raised[2] || raised[3]))
		rc = 1;
	for (int step = 1; step < 4 && !rc; step++)
		for (int i = 0; i < D; i++)
			same += fabsf(moved[step][i] - moved[step - 1][i]) < 1e-4f;
	return rc ? rc : same > 3 ? 2 : 0;
}

TEST(push__local_steps__flags_come_with_exchanges_and_noise_is_new_each_step)
{
	assert_int_equal(sluice_simulate(NULL, 1, flags_and_noise, NULL), 0);
}

/* ---- averages of models ---------------------------------------------------- */

static int average(sluice_job *job, void *context)
{
	struct run *run = context;
	int rank = sluice_rank(job), rc;
	float x[D] = { 0 };
	sluice_model_attr attr = ATTR(.count = D, .recipe = run->recipe, .shards = 2);
	sluice_model *model;
	if ((rc = sluice_model_open(job, &attr, x, &model)))
		return rc;
	log_capture();
	sluice_segment half[] = { { x, D / 2, SLUICE_F32, 0 },
				  { x + D / 2, D - D / 2, SLUICE_F32, 0 } };
	if (sluice_push_vector(model, IN_PIECES(half, 2)) != SLUICE_EINVAL ||
	    !error_says("the recipe has update=average", NULL))
		rc = -1;
	for (int step = 0; step < run->steps && !rc; step++) {
		for (int i = 0; i < D; i++)
			x[i] = (float)(i + 10 * rank + 100 * step); /* the means are exact */
		if (!(rc = sluice_push(model, x)))
			rc = sluice_pull(model, x);
		memcpy(run->params[rank], x, sizeof x);
		for (int i = 0; i < D && !rc; i++) {
			/* 2 shards of 30 coordinates; in each, the block step % 3. */
			int chosen = run->period == 1 || i % 30 / 10 == step % 3;
			int own = i + 10 * rank + 100 * step,
			    mean = i + 10 * (W - 1) / 2 + 100 * step;
			if (x[i] != (float)(chosen ? mean : own))
				rc = -2;
		}
	}
	sluice_model_stats stats = { .size = sizeof stats };
	if (!rc)
		rc = sluice_stats(model, &stats);
	run->elements = stats.pushed_elements;
	sluice_model_close(&model);
	return rc;
}

TEST(push_params__all__every_parameter_becomes_the_mean)
{
	struct run run = { .recipe = "up=all down=all update=average", .steps = 4, .period = 1 };

	assert_int_equal(sluice_simulate(NULL, W, average, &run), 0);
	assert_int_equal(run.elements, 4 * D);
}

TEST(push_params__blocks__one_in_three_becomes_the_mean_each_step)
{
	struct run run = { .recipe = "up=block(0.34) down=block(0.34) update=average",
			   .steps = 6,
			   .period = 3 };

	assert_int_equal(sluice_simulate(NULL, W, average, &run), 0);
	assert_int_equal(run.elements, 6 * D / 3);
}
