/* SPDX-License-Identifier: BSD-3-Clause
 * A least-squares problem of rows, and workers who solve it in asynchronous steps: of test_async.c
 * and test_svrg.c. Row r of worker i has the gradient a x - b at each coordinate. */
#ifndef TESTS_ASYNC_PROBLEM_H
#define TESTS_ASYNC_PROBLEM_H
#include "ranks.h"

enum { COUNT = 60, ROWS = 12, WORKERS_MOST = 8 };

struct plan {
	const char *recipe;
	uint64_t steps;
	float lr;
	uint32_t shards;
	int apart; /* ranks are processes */
	/* What came of it, of all ranks. */
	double distance;
	uint64_t staleness_most, counted, refused, up_bytes;
	int different; /* at an anchor, from rank 0's */
	float x[WORKERS_MOST][COUNT];
};

/* a and b. */
float rows_factor(int worker, uint64_t row, uint64_t i);
float rows_offset(int worker, uint64_t row, uint64_t i);
/* Squared distance from the minimum over all workers. */
double rows_distance(int workers, const float *x);

/* The plan's model, from parameters that are 0; NULL: sluice_last_error() says why. */
sluice_model *async_problem_open(sluice_job *job, const struct plan *plan, float *params);
/* A gradient as the recipe wants it, pushed. */
int async_push(sluice_model *model, int rank, const float *params);
/* The same, and a pull. */
int async_step(sluice_model *model, int rank, float *params);
/* Adds what this rank's shards and worker counted. */
int async_collect(sluice_model *model, struct plan *plan);
/* One step of this rank, the at-th from 0. */
typedef int (*async_step_function)(sluice_job *job, sluice_model *model, uint64_t at,
				   float *params);
/* All steps of the plan and what came of it. Together: a barrier in between, and who is in sync
 * must be the same. */
int async_run(sluice_job *job, struct plan *plan, async_step_function step, int together);
/* The same with plain steps, together; context is the plan. */
int async_train(sluice_job *job, void *context);
/* Solves the problem with so many workers in one process, and prints the result. */
struct plan async_simulate(const char *recipe, int workers, uint64_t steps, float lr);
#endif
