/* SPDX-License-Identifier: BSD-3-Clause
 * A least-squares problem of rows, and workers who solve it in asynchronous steps: used by
 * test_async.c and test_svrg.c. Row r of worker i has the gradient a x - b at each coordinate. */
#ifndef TESTS_ASYNC_PROBLEM_H
#define TESTS_ASYNC_PROBLEM_H
#include "ranks.h"

enum { COUNT = 60, ROWS = 12, WORKERS_MOST = 8 };

struct plan {
	const char *recipe;
	uint64_t steps;
	float lr;
	uint32_t shards;
	int apart; /* 1: ranks are processes */
	/* The results, over all ranks. */
	double distance;
	uint64_t staleness_most, counted, refused, up_bytes;
	int different; /* number of differences from rank 0 at an anchor */
	float x[WORKERS_MOST][COUNT];
};

/* Return a and b of a row. */
float rows_factor(int worker, uint64_t row, uint64_t i);
float rows_offset(int worker, uint64_t row, uint64_t i);
/* Returns the squared distance from the minimum over all workers. */
double rows_distance(int workers, const float *x);

/* Opens the plan's model with zero parameters. Returns NULL after a failure, for which
 * sluice_last_error() has the reason. */
sluice_model *async_problem_open(sluice_job *job, const struct plan *plan, float *params);
/* Pushes a gradient as the recipe requires it. */
int async_push(sluice_model *model, int rank, const float *params);
/* As async_push(), followed by a pull. */
int async_step(sluice_model *model, int rank, float *params);
/* Adds the counters of this rank's shards and worker. */
int async_collect(sluice_model *model, struct plan *plan);
/* Makes step number `at` of this rank, counted from 0. */
typedef int (*async_step_function)(sluice_job *job, sluice_model *model, uint64_t at,
				   float *params);
/* Makes all steps of the plan and collects the results. together: a barrier separates steps, and
 * in_sync must be equal on all ranks. */
int async_run(sluice_job *job, struct plan *plan, async_step_function step, int together);
/* As async_run() with plain steps, together. context is the plan. */
int async_train(sluice_job *job, void *context);
/* Solves the problem with this number of workers in one process, and prints the result. */
struct plan async_simulate(const char *recipe, int workers, uint64_t steps, float lr);
#endif
