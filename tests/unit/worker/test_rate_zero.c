/* SPDX-License-Identifier: BSD-3-Clause
 * Steps with the learning rate 0: they change no parameter and no residual, so the training
 * continues as if they had not happened; without a residual, momentum is as in torch's SGD; rates
 * that differ, and recipes that cannot have such steps, are refused by name. */
#include "base/error.h"
#include "four_tensors.h"
#include "ranks.h"
#include "shard/state.h"
#include "thinned.h"
#include "model/compressor.h"
#include "model/kept.h"
#include "worker/state.h"
#include "cases.h"
#include <math.h>
#include <string.h>

enum { STEPS = 6, WORKERS = 2 };

/* again: the choices of a step do not depend on its number. */
static const struct {
	const char *recipe;
	int again;
} recipes[] = {
	{ "up=topk(0.01) down=topk(0.05)", 1 },
	{ "up=topk(0.01) down=topk(0.05) memory=residual(outside)", 1 },
	{ "up=topk(0.02) down=topk(0.1) signal=momentum(0.9)", 1 },
	{ "up=topk(0.02) down=all signal=momentum(0.9),nomask memory=residual(outside)", 1 },
	{ "up=topk(0.02) down=topk(0.1) update=momentum(0.9)", 1 },
	{ "up=topk(0.02) down=all update=nesterov(0.9) memory=residual(outside) decay=0.1", 1 },
	{ "up=all down=all memory=residual", 1 },
	{ "up=all down=topk(0.02) memory=residual(outside)", 1 },
	{ "up=topk(0.02) down=topk(0.1) memory=lowpass(0.5)", 1 },
	{ "up=threshold(0.002) down=threshold(0.001)", 1 },
	{ "up=gaussiank(0.05) down=topk(0.05)", 1 },
	{ "up=topk(0.02),grid(4) down=topk(0.1) clip=1", 1 },
	{ "up=topk(0.05) down=topk(0.05) reset=2", 0 },
	{ "up=topk(0.02),uniform(4) down=topk(0.1) warmup=4", 0 },
	{ "up=randk(0.05) down=all memory=residual", 0 },
	{ "up=cyclic(0.02) down=all", 0 },
	{ "up=global(0.02) down=global(0.02)", 0 },
	{ "up=topk(0.02) down=all nonfinite=skip-all", 1 },
};
enum { RECIPES = sizeof(recipes) / sizeof(*recipes), WAYS = 3 };

static uint64_t digest_of(const float *vector, uint64_t n)
{
	return vector ? sluice_digest(vector, n * sizeof(*vector)) : 0;
}

/* Returns a digest of all that this rank keeps from step to step. */
static uint64_t kept_here(const sluice_model *model)
{
	uint64_t digest = digest_of(worker_residual(model->worker), COUNT);

	digest ^= 3 * digest_of(compressor_velocity(model->worker->compressor), COUNT);
	for (uint32_t i = 0; i < model->n_own; i++) {
		const struct shard *shard = &model->shards[i];

		digest = 5 * digest ^ digest_of(shard->copy, shard->at->span);
		digest = 7 * digest ^ digest_of(shard_residual(shard), shard->at->span);
		digest = 11 * digest ^ digest_of(shard->averages.velocity, shard->at->span);
	}
	return digest;
}

/* Pushes the whole gradient, ranges of it, or the accumulator if the recipe allows it. */
static void push(sluice_model *model, int way, const float *grad)
{
	if (way == 1 && !plan_why_not(PATH_RANGES, model->plan.traits)) {
		CHECK_OK(sluice_push_range(model, grad + 700, 700, COUNT - 700));
		CHECK_OK(sluice_push_range(model, grad, 0, 700));
	} else if (way == 2 && !plan_why_not(PATH_ACCUMULATOR, model->plan.traits)) {
		float *sum = NULL, scale = 1;

		CHECK_OK(sluice_accumulator(model, &sum, &scale));
		for (size_t i = 0; i < COUNT; i++)
			sum[i] += scale * grad[i];
		CHECK_OK(sluice_push(model, sum));
	} else {
		CHECK_OK(sluice_push(model, grad));
	}
}

/* Makes a training in which steps of rate 0 precede each other step, or do not occur. */
static uint64_t train(sluice_job *job, const char *recipe, int way, int zeros)
{
	const int rank = sluice_rank(job);
	float params[COUNT], grad[COUNT], before[COUNT];

	for (int i = 0; i < COUNT; i++)
		params[i] = noise(2, 0, 0, (uint64_t)i);
	sluice_model *model = rank_open(job, params, attributes(recipe, 3));
	for (uint64_t step = 1; step <= STEPS; step++) {
		for (int zero = 0; zero < zeros && step != 3; zero++) {
			const uint64_t kept = kept_here(model);

			memcpy(before, params, sizeof(params));
			fill_gradient(grad, rank, 1000 + step, params);
			CHECK_OK(sluice_set(model, SLUICE_LR, step % 2 ? 0.0f : -0.0f));
			push(model, way, grad);
			CHECK_OK(sluice_pull(model, params));
			CHECK(!memcmp(before, params, sizeof(params)));
			CHECK(kept == kept_here(model));
		}
		fill_gradient(grad, rank, step, params);
		CHECK_OK(sluice_set(model, SLUICE_LR, 0.05f / (float)step));
		push(model, way, grad);
		CHECK_OK(sluice_pull(model, params));
	}
	const uint64_t digest = check_same(job, params, sizeof(params));
	sluice_model_close(&model);
	return digest;
}

TEST_IN_JOB(rate_zero__with_a_residual__moves_nothing_and_loses_nothing, WORKERS)
{
	for (int i = 0; i < RECIPES * WAYS; i++) {
		if (thinned((size_t)i, 4))
			continue;
		check_of = recipes[i / WAYS].recipe;
		const uint64_t digest = train(job, check_of, i % WAYS, 2);
		CHECK(!recipes[i / WAYS].again || digest == train(job, check_of, i % WAYS, 0));
	}
}

/* ---- without a residual -------------------------------------------------------- */

TEST_IN_JOB(rate_zero__without_a_residual__updates_momentum_as_torch_does, 1)
{
	static const float rates[] = { 0, 0.5f, 0, 0.25f };
	float params[COUNT] = { 0 }, want[COUNT] = { 0 }, velocity[COUNT] = { 0 }, grad[COUNT];

	sluice_model *model = rank_open(job, params,
					attributes("up=all down=all update=momentum(0.5)", 2));
	for (size_t step = 0; step < sizeof(rates) / sizeof(*rates); step++) {
		fill_gradient(grad, 0, step, params);
		CHECK_OK(sluice_set(model, SLUICE_LR, rates[step]));
		CHECK_STEP(model, grad, params);
		for (int i = 0; i < COUNT; i++) {
			velocity[i] = 0.5f * velocity[i] + grad[i];
			want[i] -= rates[step] * velocity[i];
		}
		CHECK(!memcmp(params, want, sizeof(want)));
	}
	sluice_model_close(&model);
}

/* The moments count every step, also with a residual, which holds gradients. */
TEST_IN_JOB(rate_zero__with_adam__updates_the_moments_as_torch_does, 1)
{
	static const char *const adams[] = {
		"up=all down=all memory=none update=adam(0.5,0.75,1e-4)",
		"up=all down=all memory=residual update=adam(0.5,0.75,1e-4)",
	};
	static const float rates[] = { 0, 0.5f, 0, 0.25f };

	for (size_t r = 0; r < sizeof(adams) / sizeof(*adams); r++) {
		float params[COUNT] = { 0 }, before[COUNT], want[COUNT] = { 0 }, grad[COUNT];
		float m[COUNT] = { 0 }, v[COUNT] = { 0 };

		check_of = adams[r];
		sluice_model *model = rank_open(job, params, attributes(adams[r], 2));
		for (size_t step = 0; step < sizeof(rates) / sizeof(*rates); step++) {
			const float unbias1 = (float)(1 / (1 - pow(0.5, (double)step + 1))),
				    unbias2 = (float)(1 / sqrt(1 - pow(0.75, (double)step + 1)));

			fill_gradient(grad, 0, step, params);
			memcpy(before, params, sizeof(params));
			CHECK_OK(sluice_set(model, SLUICE_LR, rates[step]));
			CHECK_STEP(model, grad, params);
			for (int i = 0; i < COUNT; i++) {
				m[i] = 0.5f * m[i] + 0.5f * grad[i];
				v[i] = 0.75f * v[i] + 0.25f * (grad[i] * grad[i]);
				want[i] -= rates[step] * unbias1 *
					   (m[i] / (sqrtf(v[i]) * unbias2 + 1e-4f));
				CHECK(params[i] == want[i]);
			}
			CHECK(rates[step] > 0 || !memcmp(before, params, sizeof(params)));
		}
		sluice_model_close(&model);
	}
	check_of = NULL;
}

/* ---- local steps ------------------------------------------------------ */

/* Makes four periods of three steps. In every fifth step either the rate or the gradient is 0. */
static uint64_t train_periods(sluice_job *job, const char *recipe, int rate_is_zero)
{
	float params[COUNT], grad[COUNT], before[COUNT];

	memset(params, 0, sizeof(params));
	sluice_model *model = rank_open(job, params, attributes(recipe, 3));
	for (uint64_t step = 1; step <= 12; step++) {
		const int zero = step % 5 == 0;

		memcpy(before, params, sizeof(params));
		fill_gradient(grad, sluice_rank(job), step, params);
		for (int i = 0; i < COUNT && zero && !rate_is_zero; i++)
			grad[i] = 0;
		CHECK_OK(sluice_set(model, SLUICE_LR,
				    zero && rate_is_zero ? 0 : 0.05f / (float)step));
		CHECK_STEP(model, grad, params);
		CHECK(!zero || !memcmp(before, params, sizeof(params)) || step % 3 == 0);
	}
	const uint64_t digest = check_same(job, params, sizeof(params));
	sluice_model_close(&model);
	return digest;
}

TEST_IN_JOB(rate_zero__within_a_period__adds_nothing_to_its_sum, WORKERS)
{
	static const char *const periods[] = {
		"up=all down=all when=every(3)",
		"up=topk(0.02) down=topk(0.1) when=every(3)",
		"up=topk(0.02) down=all memory=residual(inside) update=momentum(0.9) when=every(3)",
	};

	for (size_t i = 0; i < sizeof(periods) / sizeof(*periods); i++) {
		check_of = periods[i];
		CHECK(train_periods(job, periods[i], 1) == train_periods(job, periods[i], 0));
	}
}

/* ---- refusals -------------------------------------------------------------------- */

TEST_IN_JOB(rate_zero__of_recipes_that_cannot_stand_still__is_refused_with_the_reason, 1)
{
	static const char *const refused[][2] = {
		{ "up=all down=all signal=storm(0.1) update=ema(0.1)", "uses the previous step" },
		{ "up=all signal=innovation when=lazy(10,0.1)", "uses the previous step" },
		{ "up=all down=all when=async(4)", "one worker at a time" },
		{ "up=sketch(0.1)", "sketch" },
	};
	float params[COUNT] = { 0 };

	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		check_of = refused[i][0];
		sluice_model *model = rank_open(job, params, attributes(refused[i][0], 2));
		CHECK(sluice_set(model, SLUICE_LR, 0) == SLUICE_EINVAL &&
		      error_says("SLUICE_LR 0", refused[i][1]));
		CHECK(sluice_set(model, SLUICE_LR, -1) == SLUICE_EINVAL);
		CHECK(sluice_set(model, SLUICE_LR, INFINITY) == SLUICE_EINVAL);
		CHECK_OK(sluice_set(model, SLUICE_LR, 0.1f));
		sluice_model_close(&model);
	}
}

static void differ(sluice_job *job, int rank, void *argument)
{
	float params[COUNT] = { 0 }, grad[COUNT];
	int rc = 0;

	log_capture();
	sluice_model *model = rank_open(job, params, attributes("up=topk(0.1) down=topk(0.1)", 2));
	fill_gradient(grad, rank, 1, params);
	CHECK_OK(sluice_set(model, SLUICE_LR, rank ? 0.0f : 0.25f));
	for (int step = 0; step < 50 && !rc; step++) {
		rc = try_step(model, grad, params);
	}
	CHECK(rc == SLUICE_EINVAL || rc == SLUICE_EPEER);
	CHECK(error_says("learning rates differ", "rank 1 (node n1) pushed 0;"));
	sluice_model_close(&model);
}

TEST(rate_zero__on_one_worker_only__is_refused_by_name)
{
	run_in_job(WORKERS, differ, NULL);
}
