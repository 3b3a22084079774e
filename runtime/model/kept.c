/* SPDX-License-Identifier: BSD-3-Clause
 * See kept.h. Called by worker_setup.c, shard_setup.c and plan_text.c. */
#include "model/kept.h"
#include "base/error.h"
#include "compress/sparse.h"
#include "sluice.h"
#include <stdlib.h>

/* ---- which recipes need a vector ----------------------------------------------- */

static int is_kept_always(const struct recipe *r)
{
	(void)r;
	return 1;
}

static int has_momentum(const struct recipe *r)
{
	return r->signal.kind == SIGNAL_MOMENTUM;
}

static int filters(const struct recipe *r)
{
	return r->memory.kind == MEMORY_LOWPASS || r->memory.kind == MEMORY_TWOSTEP;
}

static int filters_two_steps(const struct recipe *r)
{
	return r->memory.kind == MEMORY_TWOSTEP && r->memory.beta < 1;
}

static int sends_innovations(const struct recipe *r)
{
	return r->signal.kind == SIGNAL_INNOVATION;
}

static int is_lazy_unseen(const struct recipe *r)
{
	return r->when == WHEN_LAZY_SERVER;
}

/* Returns 1 if the library makes the workers' own steps between exchanges. */
static int steps_alone(const struct recipe *r)
{
	return r->every.period > 1 && !recipe_pushes_params(r);
}

/* Returns 1 if workers train their own models between exchanges. */
static int leaves_common(const struct recipe *r)
{
	return steps_alone(r) || recipe_drifts(r);
}

/* Without memory=, the residual itself holds the sum. */
static int sums_apart(const struct recipe *r)
{
	return steps_alone(r) && r->memory.kind != MEMORY_NONE;
}

static int keeps_anchors(const struct recipe *r)
{
	return r->when == WHEN_ASYNC;
}

/* With sketches, a worker's residual keeps the values that were not published. */
static int remembers_at_shard(const struct recipe *r)
{
	return r->memory.kind != MEMORY_NONE && !keeps_anchors(r) &&
	       selection_kinds[r->up.select].exchange != EXCHANGE_SKETCH;
}

static int has_anchors(const struct recipe *r)
{
	return keeps_anchors(r) && r->signal.kind == SIGNAL_SVRG;
}

static int accelerates(const struct recipe *r)
{
	return keeps_anchors(r) && r->update == UPDATE_ACCELERATED;
}

/* ---- the table -------------------------------------------------------------- */

const struct kept_row kept_rows[KEPTS] = {
	[KEPT_RESIDUAL] = { "residual", "the values not sent yet, plus the signal of this step",
			    HALF_WORKER, sizeof(float), 1, is_kept_always },
	[KEPT_VELOCITY] = { "velocity", "the momentum of signal=momentum", HALF_WORKER,
			    sizeof(float), 0, has_momentum },
	[KEPT_MEMORY] = { "memory", "lowpass: its average; twostep: the error before the last",
			  HALF_WORKER, sizeof(float), 0, filters },
	[KEPT_FILTER] = { "filter", "the values that twostep added last", HALF_WORKER,
			  sizeof(float), 0, filters_two_steps },
	[KEPT_PREVIOUS] = { "previous", "the parameters of the previous step, for storm and igt",
			    HALF_WORKER, sizeof(float), 0, recipe_looks_back },
	[KEPT_REFERENCE] = { "reference", "the sum that the shards hold of this worker",
			     HALF_WORKER, sizeof(float), 0, sends_innovations },
	[KEPT_SINCE] = { "since", "the model's change since the last upload", HALF_WORKER,
			 sizeof(float), 0, is_lazy_unseen },
	[KEPT_BASE] = { "base", "the common model between exchanges", HALF_WORKER, sizeof(float), 0,
			leaves_common },
	[KEPT_LOCAL] = { "local", "the sum of this period's own steps", HALF_WORKER, sizeof(float),
			 0, sums_apart },
	[KEPT_ANCHOR] = { "anchor", "the reference of asynchronous publications", HALF_WORKER,
			  sizeof(float), 0, keeps_anchors },
	[KEPT_SHARD_COPY] = { "copy", "the parameters that all workers hold", HALF_SHARD,
			      sizeof(float), 1, is_kept_always },
	[KEPT_SHARD_RESIDUAL] = { "residual", "the values not published yet", HALF_SHARD,
				  sizeof(float), 1, remembers_at_shard },
	[KEPT_SHARD_VELOCITY] = { "velocity", "the running average of the update rule", HALF_SHARD,
				  sizeof(float), 0, recipe_velocity },
	[KEPT_SHARD_VARIANCE] = { "variance", "the running average of squares of update=adam",
				  HALF_SHARD, sizeof(float), 0, recipe_variance },
	[KEPT_SHARD_RUNNING] = { "running", "the sum of the workers' references", HALF_SHARD,
				 sizeof(float), 0, sends_innovations },
	[KEPT_SHARD_ANCHOR] = { "anchor", "the reference of asynchronous publications", HALF_SHARD,
				sizeof(float), 0, keeps_anchors },
	[KEPT_SHARD_MEAN] = { "mean", "the full gradient at the anchor", HALF_SHARD, sizeof(float),
			      0, has_anchors },
	[KEPT_SHARD_LEADING] = { "leading", "the leading sequence of update=accelerated",
				 HALF_SHARD, sizeof(float), 0, accelerates },
	[KEPT_SHARD_ITERATES] = { "iterates", "the sum of this anchor's versions", HALF_SHARD,
				  sizeof(double), 0, accelerates },
};

/* ---- memory ----------------------------------------------------------------- */

int vectors_open(struct vectors *v, const struct recipe *recipe, enum half half, uint64_t count)
{
	v->count = count;
	for (int k = 0; k < KEPTS; k++) {
		const struct kept_row *row = &kept_rows[k];

		if (row->half != half || !row->needed(recipe))
			continue;
		v->of[k] = row->large ? vector_open(count) : calloc(count, row->element);
		if (!v->of[k])
			return fail(SLUICE_ENOMEM,
				    "no memory for the %s of a %s: %llu elements of %d bytes",
				    row->name, half == HALF_WORKER ? "worker" : "shard",
				    (unsigned long long)count, row->element);
	}
	return 0;
}

void vectors_close(struct vectors *v)
{
	for (int k = 0; k < KEPTS; k++) {
		if (kept_rows[k].large)
			vector_close(v->of[k], v->count);
		else
			free(v->of[k]);
		v->of[k] = NULL;
	}
}

uint64_t vectors_bytes(const struct recipe *recipe, enum half half, uint64_t count)
{
	uint64_t bytes = 0;

	for (int k = 0; k < KEPTS; k++)
		if (kept_rows[k].half == half && kept_rows[k].needed(recipe))
			bytes += count * kept_rows[k].element;
	return bytes;
}
