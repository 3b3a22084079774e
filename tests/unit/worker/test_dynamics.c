/* SPDX-License-Identifier: BSD-3-Clause
 * Memories and signals that reach over several steps: each against its recursion written out here,
 * the conservation of two-step memory, and what a checkpoint must bring back. Ranks are
 * simulated. */
#include "worker/state.h"
#include "base/bytes.h"
#include "scratch.h"
#include "sent.h"
#include "cases.h"
#include <math.h>

enum { W = 3, D = 210 };

static sluice_model *open_model(sluice_job *job, const char *recipe, float *params)
{
	sluice_model *model = NULL;
	sluice_model_attr attr = {
		.size = sizeof attr, .count = D, .recipe = recipe, .lr = 0.25f, .shards = 2
	};
	for (int i = 0; i < D; i++)
		params[i] = noise(1, 0, 0, (uint64_t)i);
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	return model;
}

/* Makes a noisy gradient at x. The noise differs between ranks and steps, and is the same when a
 * step is repeated. */
static void gradient(sluice_job *job, uint64_t step, const float *x, float *grad)
{
	uint64_t rank = (uint64_t)sluice_rank(job);
	for (int i = 0; i < D; i++)
		grad[i] = 0.3f * x[i] * (1 + 0.3f * noise(2, step, rank, (uint64_t)i)) +
			  noise(3, step, rank, (uint64_t)i);
}

static void run_simulated(int (*rank_main)(sluice_job *job, void *context), void *context)
{
	assert_int_equal(sluice_simulate(NULL, W, rank_main, context), 0);
}

/* ---- memories -------------------------------------------------------------- */

static int lowpass(sluice_job *job, void *context)
{
	const float beta = 0.3f;
	float params[D], grad[D], sent[D], memory[D] = { 0 };
	sluice_model *model = open_model(job, context, params);
	for (uint64_t step = 1; step <= 40; step++) {
		gradient(job, step, params, grad);
		CHECK_OK(sluice_push(model, grad));
		CHECK(last_sent(model, sent) > 0);
		const float *left = worker_residual(model->worker);
		for (int i = 0; i < D; i++) {
			float p = memory[i] + 0.25f * grad[i];
			CHECK(fabsf(sent[i] + left[i] - p) <= 1e-6f * (fabsf(sent[i]) + fabsf(p)));
			memory[i] = (1 - beta) * memory[i] + beta * left[i];
		}
		CHECK_OK(sluice_pull(model, params));
	}
	sluice_model_close(&model);
	return 0;
}

TEST(push__lowpass__memory_takes_beta_of_what_is_left)
{
	char sparse[] = "up=topk(0.1) down=all memory=lowpass(0.3)";
	char coded[] = "up=all,uniform(2,32) down=topk(0.1) memory=lowpass(0.3),inside";
	run_simulated(lowpass, sparse);
	run_simulated(lowpass, coded);
}

static int lowpass_of_one(sluice_job *job, void *context)
{
	float params[2][D], grad[D];
	sluice_model *model[2] = {
		open_model(job, "up=topk(0.1) down=all memory=lowpass(1)", params[0]),
		open_model(job, "up=topk(0.1) down=all memory=residual", params[1])
	};
	for (uint64_t step = 1; step <= 20; step++)
		for (int m = 0; m < 2; m++) {
			gradient(job, step, params[m], grad);
			CHECK_OK(sluice_push(model[m], grad));
			CHECK_OK(sluice_pull(model[m], params[m]));
		}
	CHECK(!memcmp(params[0], params[1], sizeof params[0]));
	sluice_model_close(&model[0]);
	sluice_model_close(&model[1]);
	return 0;
}

TEST(train__lowpass_1__is_the_residual)
{
	run_simulated(lowpass_of_one, NULL);
}

struct books {
	const char *recipe;
	float alpha, beta; /* alpha 0: 1/t */
	double average[D]; /* v of the recursion without compression */
	double signal[W][D], moved[D], size[D], error[W][D];
};

static double alpha_of(const struct books *b, int64_t step)
{
	return step <= 1 ? 1 : b->alpha > 0 ? (double)b->alpha : 1 / (double)step;
}

/* x - lr alpha mean(error) = x_0 - lr sum of v, v the average without compression (beta = 1); and
 * the worker's errors are those of the filter written out (any beta). */
static int twostep(sluice_job *job, void *context)
{
	struct books *b = context;
	const double lr = 0.25, beta = (double)b->beta;
	float params[D], start[D], grad[D], before[D], point[D], sent[D];
	double newest[D] = { 0 }, older[D] = { 0 }, filter[D] = { 0 };
	int rank = sluice_rank(job);
	sluice_model *model = open_model(job, b->recipe, params);
	int storm = model->recipe.signal.kind == SIGNAL_STORM;
	memcpy(start, params, sizeof start);
	for (int64_t step = 1; step <= 300; step++) {
		double a0 = alpha_of(b, step), a1 = alpha_of(b, step - 1),
		       a2 = alpha_of(b, step - 2);
		CHECK_OK(sluice_point(model, params, point));
		gradient(job, (uint64_t)step, params, grad);
		gradient(job, (uint64_t)step, point, before);
		CHECK_OK(storm ? sluice_push_pair(model, grad, before) : sluice_push(model, grad));
		last_sent(model, sent);
		for (int i = 0; i < D; i++) {
			double a = storm ? ((double)grad[i] - (1 - a0) * (double)before[i]) / a0 :
					   (double)grad[i];
			b->signal[rank][i] = a;
			filter[i] = (1 - beta) * filter[i] +
				    beta * (a1 / a0 * (2 - a0) * newest[i] -
					    a2 / a0 * (1 - a0) * older[i]);
			older[i] = newest[i];
			newest[i] = a + filter[i] - (double)sent[i];
			CHECK(fabs((double)worker_residual(model->worker)[i] - newest[i]) < 1e-3);
			newest[i] = (double)worker_residual(
				model->worker)[i]; /* roundings do not accumulate here */
			b->error[rank][i] = newest[i];
		}
		CHECK_OK(sluice_pull(model, params));
		CHECK_OK(sluice_barrier(job));
		for (int i = 0; i < D && rank == 0; i++) {
			double mean = 0;
			for (int w = 0; w < W; w++)
				mean += b->signal[w][i] / W;
			b->average[i] = (1 - a0) * b->average[i] + a0 * mean;
			b->moved[i] += lr * b->average[i];
			b->size[i] += lr * fabs(b->average[i]) + fabs(a0 * mean) * lr;
			double error = 0;
			for (int w = 0; w < W; w++)
				error += b->error[w][i] / W;
			double there = (double)params[i] - lr * a0 * error,
			       want = (double)start[i] - b->moved[i];
			CHECK(b->beta < 1 || fabs(there - want) <= 3e-6 * (1 + b->size[i]));
		}
		CHECK_OK(sluice_barrier(job));
	}
	sluice_model_close(&model);
	return 0;
}

static void twostep_with(const char *recipe, float alpha, float beta)
{
	struct books *b = calloc(1, sizeof *b);
	*b = (struct books){ .recipe = recipe, .alpha = alpha, .beta = beta };
	run_simulated(twostep, b);
	free(b);
}

TEST(train__300_noisy_steps_twostep__mass_is_conserved)
{
	twostep_with("up=all,round(1) down=all memory=twostep(1) update=ema(0.1)", 0.1f, 1);
	twostep_with("up=all,uniform(4,32) down=all memory=twostep(1) update=ema(0.2)", 0.2f, 1);
	twostep_with("up=all,round(0.5) down=all memory=twostep(1) update=ema(1/t)", 0, 1);
	twostep_with("up=topk(0.6) down=all memory=twostep(1) update=ema(0.2) signal=storm(0.2)",
		     0.2f, 1);
}

TEST(push__twostep_below_one__is_the_filter)
{
	twostep_with("up=topk(0.2) down=all memory=twostep(0.3) update=ema(0.1)", 0.1f, 0.3f);
	twostep_with(
		"up=all,uniform(2) down=all memory=twostep(0.3) update=ema(1/t) signal=storm(1/t)",
		0, 0.3f);
}

/* ---- signals --------------------------------------------------------------- */

static int look_back(sluice_job *job, void *context)
{
	float params[D], grad[D], point[D], before[D], last[D];
	sluice_model *model = open_model(job, context, params);
	int igt = model->recipe.signal.kind == SIGNAL_IGT;
	memcpy(last, params, sizeof last);
	for (uint64_t step = 1; step <= 12; step++) {
		const float alpha = step == 1 ? 1 : 0.25f;
		CHECK_OK(sluice_point(model, params, point));
		for (int i = 0; i < D; i++)
			CHECK(point[i] ==
			      (igt ? params[i] + (1 - alpha) / alpha * (params[i] - last[i]) :
			       model->worker->kept.of[KEPT_PREVIOUS] ? last[i] :
								       params[i]));
		gradient(job, step, igt ? point : params, grad);
		gradient(job, step, point, before);
		memcpy(last, params, sizeof last);
		if (model->recipe.signal.kind == SIGNAL_STORM)
			CHECK_OK(sluice_push_pair(model, grad, before));
		else
			CHECK_OK(sluice_push(model, grad));
		CHECK(sluice_point(model, params, point) == SLUICE_EINVAL &&
		      error_says("pulled", NULL));
		CHECK_OK(sluice_pull(model, params));
	}
	sluice_model_close(&model);
	return 0;
}

TEST(point__each_signal__is_where_its_gradient_is_due)
{
	char igt[] = "up=all down=all signal=igt(0.25) update=ema(0.25)";
	char storm[] = "up=all down=all signal=storm(0.25) update=ema(0.25)";
	char gradient_only[] = "up=topk(0.1) down=all";
	run_simulated(look_back, igt);
	run_simulated(look_back, storm);
	run_simulated(look_back, gradient_only);
}

static int wrong_calls(sluice_job *job, void *context)
{
	float params[D], grad[D] = { 0 };
	sluice_model *model = open_model(job, context, params);
	if (model->recipe.signal.kind == SIGNAL_STORM) {
		CHECK(sluice_push(model, grad) == SLUICE_EINVAL &&
		      error_says("sluice_push_pair", NULL));
		CHECK(sluice_push_pair(model, grad, NULL) == SLUICE_EINVAL);
		CHECK(sluice_push_pair(model, NULL, grad) == SLUICE_EINVAL);
		grad[7] = NAN;
		CHECK(sluice_point(model, NULL, grad) == SLUICE_EINVAL);
		CHECK(sluice_point(model, params, NULL) == SLUICE_EINVAL);
		CHECK(sluice_point(NULL, params, grad) == SLUICE_EINVAL);
	} else {
		CHECK(sluice_push_pair(model, grad, grad) == SLUICE_EINVAL &&
		      error_says("signal=storm", NULL));
	}
	sluice_model_close(&model);
	return 0;
}

TEST(calls__that_do_not_fit_the_signal__are_refused)
{
	char storm[] = "signal=storm(0.5) update=ema(0.5)", plain[] = "up=topk(0.1)";
	run_simulated(wrong_calls, storm);
	run_simulated(wrong_calls, plain);
}

/* Another rank, step or seed draws other noise, and a restarted run draws the same noise. */
static int noisy(sluice_job *job, void *context)
{
	float params[D], grad[D] = { 0 }, sent[3][D];
	double *sum = context, square = 0;
	for (int run = 0; run < 3; run++) {
		sluice_model *model = open_model(
			job,
			run == 2 ? "up=all signal=gradient,noise(0.5) seed=1" :
				   "up=all signal=gradient,noise(0.5)",
			params);
		CHECK_OK(sluice_push(model, grad));
		last_sent(model, sent[run]);
		CHECK_OK(sluice_pull(model, params));
		sluice_model_close(&model);
	}
	CHECK(!memcmp(sent[0], sent[1], sizeof sent[0]));
	CHECK(memcmp(sent[0], sent[2], sizeof sent[0]));
	for (int i = 0; i < D; i++)
		square += (double)sent[0][i] * (double)sent[0][i];
	CHECK(fabs(square / D / 0.25 - 1) < 5 * sqrt(2.0 / D));
	for (int i = 0; i < D; i++)
		sum[i] += (double)sent[0][i];
	return 0;
}

TEST(push__noise__has_its_deviation_and_differs_by_rank_and_seed)
{
	double sum[D] = { 0 }, square = 0;
	run_simulated(noisy, sum);
	for (int i = 0; i < D; i++)
		square += sum[i] * sum[i];
	assert_true(fabs(square / D / (W * 0.25) - 1) <
		    5 * sqrt(2.0 / D)); /* independent, so squares add up */
}

/* ---- shards ---------------------------------------------------------------- */

struct cuts {
	const char *recipe;
	uint32_t shards[2];
	uint64_t digest[2];
};

static int cut(sluice_job *job, void *context)
{
	enum { COUNT = 384 }; /* shards of 64 or 128 */
	struct cuts *c = context;
	for (int i = 0; i < 2; i++) {
		float params[COUNT] = { 0 }, grad[COUNT];
		sluice_model *model = NULL;
		sluice_model_attr attr = { .size = sizeof attr,
					   .count = COUNT,
					   .recipe = c->recipe,
					   .lr = 0.1f,
					   .shards = c->shards[i] };
		CHECK_OK(sluice_model_open(job, &attr, params, &model));
		for (uint64_t step = 1; step <= 10; step++) {
			for (int j = 0; j < COUNT; j++)
				grad[j] = params[j] +
					  noise(4, step, (uint64_t)sluice_rank(job), (uint64_t)j);
			CHECK_OK(sluice_push(model, grad));
			CHECK_OK(sluice_pull(model, params));
		}
		c->digest[i] = sluice_digest(params, sizeof params);
		sluice_model_close(&model);
	}
	return 0;
}

TEST(train__other_shards__same_bits_where_blocks_begin_with_them)
{
	struct cuts cuts[] = {
		{ .recipe = "up=all,uniform(3,64) down=all,uniform(4,32)", .shards = { 1, 6 } },
		{ .recipe = "up=all,uniform(2,64) down=all memory=none", .shards = { 3, 6 } },
		{ .recipe = "up=all,grid(4) down=all", .shards = { 1, 5 } },
		{ .recipe = "up=all,round(0.25) down=all,round(0.001)", .shards = { 1, 7 } },
		{ .recipe = "up=topk(0.1) down=all signal=gradient,noise(1) memory=lowpass(0.5)",
		  .shards = { 1, 7 } },
	};
	for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
		run_simulated(cut, &cuts[i]);
		if (cuts[i].digest[0] != cuts[i].digest[1])
			fail_msg("%s: other bits with %u shards than with %u", cuts[i].recipe,
				 cuts[i].shards[0], cuts[i].shards[1]);
	}
}

/* ---- checkpoints ----------------------------------------------------------- */

struct interrupted {
	const char *recipe;
	char dir[512];
};

static void train(sluice_job *job, sluice_model *model, float *params, uint64_t from, uint64_t to)
{
	float grad[D], before[D], point[D];
	for (uint64_t step = from; step <= to; step++) {
		int igt = model->recipe.signal.kind == SIGNAL_IGT;
		CHECK_OK(sluice_point(model, params, point));
		gradient(job, step, igt ? point : params, grad);
		gradient(job, step, point, before);
		for (int i = 0; i < D && model->recipe.signal.kind == SIGNAL_DRIFT; i++)
			params[i] -= 0.1f * grad[i]; /* the program's own optimizer */
		if (model->recipe.signal.kind == SIGNAL_STORM)
			CHECK_OK(sluice_push_pair(model, grad, before));
		else
			CHECK_OK(sluice_push(
				model, model->recipe.signal.kind == SIGNAL_DRIFT ? params : grad));
		CHECK_OK(sluice_pull(model, params));
	}
}

static int interrupt(sluice_job *job, void *context)
{
	struct interrupted *c = context;
	float through[D], params[D];
	uint64_t step;
	sluice_model *model = open_model(job, c->recipe, through);
	train(job, model, through, 1, 14);
	sluice_model_close(&model);
	model = open_model(job, c->recipe, params);
	train(job, model, params, 1, 7);
	CHECK_OK(sluice_checkpoint(model, c->dir));
	sluice_model_close(&model);
	model = open_model(job, c->recipe, params);
	CHECK_OK(sluice_restore(model, c->dir, params, &step));
	CHECK(step == 7);
	train(job, model, params, 8, 14);
	sluice_model_close(&model);
	CHECK(!memcmp(params, through, sizeof params));
	return 0;
}

TEST(restore__each_memory_and_signal__goes_on_bit_by_bit)
{
	static const char *const recipes[] = {
		"up=topk(0.1) down=topk(0.2) memory=lowpass(0.3)",
		"up=topk(0.1) down=topk(0.2) memory=twostep(0.3) update=ema(0.1)",
		"up=all,round(1) down=all memory=twostep(1) update=ema(1/t)",
		"up=all,uniform(4) down=topk(0.2),uniform(2) signal=storm(0.2) update=ema(0.2)",
		"up=topk(0.1) down=all signal=igt(0.2) update=ema(0.2)",
		"up=topk(0.1) down=topk(0.1),grid(4) signal=momentum(0.5),noise(1) reset=5",
		"up=cyclic(0.1) down=all,f16",
		"up=sketch(0.05) down=all signal=momentum(0.5)",
		"up=topk(0.1) down=all signal=innovation",
		"up=all,grid(4) down=all signal=innovation when=lazy(3,5,4)",
		"up=all down=all signal=innovation when=lazy-server(3,5)",
		"up=all,uniform(3) down=topk(0.2) memory=none when=every(7)",
		"up=topk(0.1) down=all when=every(7) memory=residual",
		/* With a drift also in the middle of a period. */
		"up=topk(0.1) down=topk(0.2) signal=drift when=every(5) update=nesterov(0.5)",
		("up=topk(0.1),uniform(2) down=all signal=drift when=every(3) keep=0.7 "
		 "memory=residual(decay=0.9)"),
		"up=all down=all signal=drift when=every(10)",
		"up=topk(0.1) down=all signal=drift keep=1",
	};
	for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
		struct interrupted c = { .recipe = recipes[i] };
		assert_int_equal(scratch_make(c.dir), 0);
		run_simulated(interrupt, &c);
		scratch_remove(c.dir);
	}
}
