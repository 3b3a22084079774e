/* SPDX-License-Identifier: BSD-3-Clause
 * See async_problem.h. */
#include "base/error.h"
#include "async_problem.h"
#include "model/model.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

/* ---- a problem: row r of worker i has the gradient a x - b at each coordinate ---- */

float rows_factor(int worker, uint64_t row, uint64_t i)
{
	return 1 + 0.8f * noise(1, row, (uint64_t)worker, i);
}

float rows_offset(int worker, uint64_t row, uint64_t i)
{
	return noise(2, row, (uint64_t)worker, i);
}

static void row_gradient(int worker, uint64_t row, const float *x, float *grad)
{
	for (int i = 0; i < COUNT; i++)
		grad[i] = rows_factor(worker, row, (uint64_t)i) * x[i] -
			  rows_offset(worker, row, (uint64_t)i);
}

static void full_gradient(int worker, const float *x, float *grad)
{
	for (int i = 0; i < COUNT; i++) {
		double sum = 0;

		for (uint64_t r = 0; r < ROWS; r++)
			sum += (double)(rows_factor(worker, r, (uint64_t)i) * x[i] -
					rows_offset(worker, r, (uint64_t)i));
		grad[i] = (float)(sum / ROWS);
	}
}

/* Squared distance from the minimum over all workers. */
double rows_distance(int workers, const float *x)
{
	double sum = 0;

	for (int i = 0; i < COUNT; i++) {
		double a = 0, b = 0;

		for (int w = 0; w < workers; w++)
			for (uint64_t r = 0; r < ROWS; r++) {
				a += (double)rows_factor(w, r, (uint64_t)i);
				b += (double)rows_offset(w, r, (uint64_t)i);
			}
		sum += ((double)x[i] - b / a) * ((double)x[i] - b / a);
	}
	return sum;
}

/* ---- a worker -------------------------------------------------------------- */

sluice_model *async_problem_open(sluice_job *job, const struct plan *plan, float *params)
{
	sluice_model *model = NULL;
	sluice_model_attr attr = ATTR(.count = COUNT, .recipe = plan->recipe, .lr = plan->lr,
				      .shards = plan->shards ? plan->shards : 2);

	memset(params, 0, COUNT * sizeof *params);
	sluice_model_open(job, &attr, params, &model);
	return model;
}

/* Pushes a gradient as the recipe requires it. */
int async_push(sluice_model *model, int rank, const float *params)
{
	static const uint64_t stride = 7;
	float grad[COUNT], before[COUNT], point[COUNT];
	uint64_t row = (step_of(model).steps * stride + (uint64_t)rank) % ROWS;
	int rc;

	if (step_of(model).anchor_due) {
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

int async_step(sluice_model *model, int rank, float *params)
{
	int rc = async_push(model, rank, params);

	return rc ? rc : sluice_pull(model, params);
}

int async_collect(sluice_model *model, struct plan *plan)
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

int async_run(sluice_job *job, struct plan *plan, async_step_function step, int together)
{
	int rank = sluice_rank(job), rc = 0;
	float *params = plan->x[rank];
	sluice_model *model = async_problem_open(job, plan, params);

	if (!model)
		return SLUICE_EINVAL;
	for (uint64_t at = 0; at < plan->steps && !rc; at++)
		rc = step(job, model, at, params);
	if (!rc && together)
		rc = sluice_barrier(job);
	if (!rc)
		rc = async_collect(model, plan);
	if (!rc && together && step_of(model).in_sync && plan->apart)
		check_same(job, params, COUNT * sizeof *params);
	else if (!rc && together && step_of(model).in_sync)
		plan->different |= memcmp(params, plan->x[0], COUNT * sizeof *params) != 0;
	if (!rc && !rank)
		plan->distance = rows_distance(sluice_workers(job), params);
	sluice_model_close(&model);
	return rc;
}

static int plain_step(sluice_job *job, sluice_model *model, uint64_t at, float *params)
{
	(void)at;
	return async_step(model, sluice_rank(job), params);
}

int async_train(sluice_job *job, void *context)
{
	return async_run(job, context, plain_step, 1);
}

struct plan async_simulate(const char *recipe, int workers, uint64_t steps, float lr)
{
	struct plan plan = { .recipe = recipe, .steps = steps, .lr = lr };

	assert_int_equal(sluice_simulate(NULL, workers, async_train, &plan), 0);
	print_message("%s: distance %.3g, staleness at most %llu, %llu counted, %llu refused\n",
		      recipe, plan.distance, (unsigned long long)plan.staleness_most,
		      (unsigned long long)plan.counted, (unsigned long long)plan.refused);
	return plan;
}
