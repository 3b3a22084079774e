/* SPDX-License-Identifier: BSD-3-Clause
 * Runs a recipe on a problem: workers of a simulated job and one dedicated server that owns the
 * shards, so that every message crosses between ranks and is counted. Called by the sections. */
#ifndef REPRODUCE_HARNESS_H
#define REPRODUCE_HARNESS_H
#include "tools/step_of.h"
#include "tests/reproduce/problem.h"

struct seat;

struct run {
	const char *label; /* name in the page */
	const struct problem *problem;
	const char *recipe;
	int workers;
	uint32_t shards; /* 0: one */
	float lr;
	double decay; /* the rate of step t = 0, 1, ... is lr / (1 + t / decay); 0: constant */
	uint64_t steps;
	/* If not NULL, workers end before this step. In after(), a worker may set it to its own
	 * step + 2, which no worker can have passed with a synchronous recipe. */
	const uint64_t *stop;
	unsigned seed;
	/* Makes one step of a worker, and returns 0 or a negative code. NULL: gradient at x, push,
	 * pull. */
	int (*step)(struct seat *seat);
	/* Called after each step of a worker, with the same results. May be NULL. */
	int (*after)(struct seat *seat);
	/* Writes the parameters to measure, such as the common ones of workers that drift. NULL: x.
	 */
	int (*measured)(struct seat *seat, float *point);
	void *context;
	/* Directory for metrics in the format of sluice-train, which sluice-plot draws. NULL: none
	 * are written. */
	const char *curve;
	uint64_t curve_every; /* steps */
};

/* A worker during a step. */
struct seat {
	const struct run *run;
	sluice_job *job;
	sluice_model *model, *server; /* the server's is only read between barriers */
	int rank;
	uint64_t step; /* from 0 */
	float lr;
	float *x, *grad; /* problem->count */
	float *point;    /* scratch for run->measured; NULL without it */
};

struct counters {
	uint64_t up_bytes, down_bytes, up_elements, down_elements, deferred, control_bytes;
};

struct outcome {
	int rc;
	char why[512];       /* the reason if rc is not 0 */
	int offered;         /* 0: the recipe does not parse */
	char recipe[1024];   /* normalised */
	float *x;            /* parameters of worker 0 at the end, as measured */
	struct counters sum; /* sum over the workers */
	uint64_t steps;      /* steps of worker 0 */
	double seconds;
};

/* Returns outcome->rc. The caller frees outcome->x. */
int run_recipe(const struct run *run, struct outcome *out);
/* The default step of a worker, for steps that add to it. */
int step_push_pull(struct seat *seat);
/* Makes a local step. Then a part of the parameters becomes the mean over the workers. */
int step_average(struct seat *seat);
/* Computes the gradient of this worker's batch in this step, at a point. */
void seat_gradient(const struct seat *seat, const float *at, float *grad);
/* Runs, returns the objective and frees x. Returns NaN if the run failed. */
double objective_after(const struct run *run, struct outcome *out);
/* As objective_after(), but returns the share of test rows that are classified correctly. objective
 * may be NULL. */
double accuracy_after(const struct run *run, struct outcome *out, double *objective);
/* Returns 1 if the library accepts the recipe. Otherwise writes the reason to why[]. */
int recipe_offered(const char *recipe, char *why, size_t cap);

/* Return how many elements a worker sends and receives per step, on average over all steps and
 * workers. */
double up_per_step(const struct run *run, const struct outcome *out);
double down_per_step(const struct run *run, const struct outcome *out);
#endif
