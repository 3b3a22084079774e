/* SPDX-License-Identifier: BSD-3-Clause
 * Runs a recipe on a problem: workers of a simulated job and one dedicated server that owns the
 * shards, so that every message crosses between ranks and is counted. Called by the sections. */
#ifndef REPRODUCE_HARNESS_H
#define REPRODUCE_HARNESS_H
#include "tools/step_of.h"
#include "tests/reproduce/problem.h"

struct seat;

struct run {
	const char *label; /* for the page */
	const struct problem *problem;
	const char *recipe;
	int workers;
	uint32_t shards; /* 0: one */
	float lr;
	double decay; /* rate of step t = 0, 1, ...: lr / (1 + t / decay); 0: constant */
	uint64_t steps;
	/* Workers end before this step, if it is not NULL: any of them may set it to its own step +
	 * 2 in after(), which none can have passed in a synchronous recipe. */
	const uint64_t *stop;
	unsigned seed;
	/* One step of a worker; NULL: gradient at x, push, pull. 0, or a negative code. */
	int (*step)(struct seat *seat);
	/* After each step of a worker; may be NULL. As above. */
	int (*after)(struct seat *seat);
	void *context;
	/* Where the run is drawn: metrics as sluice-train writes them, for sluice-plot; NULL:
	 * nowhere. */
	const char *curve;
	uint64_t curve_every; /* steps */
};

/* A worker in its step. */
struct seat {
	const struct run *run;
	sluice_job *job;
	sluice_model *model, *server; /* the server's is read between barriers only */
	int rank;
	uint64_t step; /* from 0 */
	float lr;
	float *x, *grad; /* problem->count */
};

struct counters {
	uint64_t up_bytes, down_bytes, up_elements, down_elements, deferred, control_bytes;
};

struct outcome {
	int rc;
	char why[512];       /* where rc is not 0 */
	int offered;         /* 0: the recipe does not parse */
	char recipe[1024];   /* normalised */
	float *x;            /* of worker 0 at the end */
	struct counters sum; /* over the workers */
	uint64_t steps;      /* of worker 0 */
	double seconds;
};

/* Returns outcome->rc. The caller frees outcome->x. */
int run_recipe(const struct run *run, struct outcome *out);
/* What a worker does by default, for steps that add something. */
int step_push_pull(struct seat *seat);
/* The gradient of this worker's batch of this step, at a point. */
void seat_gradient(const struct seat *seat, const float *at, float *grad);
/* Runs, measures the objective, frees x. NaN where the run failed. */
double objective_after(const struct run *run, struct outcome *out);
/* The same with the share of test rows classified rightly; objective may be NULL. */
double accuracy_after(const struct run *run, struct outcome *out, double *objective);
/* 1 if the library knows these words. why[] says what not. */
int recipe_offered(const char *recipe, char *why, size_t cap);

/* Elements a worker sent or received in a step, on average over all steps and workers. */
double up_per_step(const struct run *run, const struct outcome *out);
double down_per_step(const struct run *run, const struct outcome *out);
#endif
