/* SPDX-License-Identifier: BSD-3-Clause
 * Memory of the worker half: allocated once at open, none per step. Lists the methods that take part
 * in the steps of a model. */
#include "model/compressor.h"
#include "model/kept.h"
#include "model/model.h"
#include "worker/agree.h"
#include "worker/async.h"
#include "worker/compressor_ops.h"
#include "worker/guard.h"
#include "worker/hooks.h"
#include "worker/lane.h"
#include "worker/lazy.h"
#include "worker/local.h"
#include "worker/parts.h"
#include "worker/state.h"
#include "worker/target.h"
#include "worker/worker_census.h"
#include "worker/worker_measure.h"
#include "worker/worker_setup.h"
#include "base/error.h"
#include <stdlib.h>
#include <string.h>

/* ---- methods ----------------------------------------------------------------- */

/* A step calls their hooks in this order. */
static const struct step_hooks *const methods[WORKER_HOOKS] = {
	&local_hooks, &measure_hooks, &census_hooks, &agree_hooks, &lazy_hooks,
	&async_hooks, &target_hooks,  &parts_hooks,  &guard_hooks
};

void worker_list_methods(sluice_model *model)
{
	const struct step_hooks **list = model->worker->hooks;

	for (int i = 0; i < WORKER_HOOKS; i++)
		if (!methods[i]->used || methods[i]->used(model))
			*list++ = methods[i];
	*list = NULL;
}

static int open_methods(sluice_model *model)
{
	int rc = 0;

	worker_list_methods(model);
	for (const struct step_hooks **row = model->worker->hooks; *row && !rc; row++)
		rc = (*row)->open ? (*row)->open(model) : 0;
	return rc;
}

static uint64_t methods_memory(const struct layout *l, const struct recipe *recipe)
{
	uint64_t bytes = 0;

	for (int i = 0; i < WORKER_HOOKS; i++)
		bytes += methods[i]->memory ? methods[i]->memory(l, recipe) : 0;
	return bytes;
}

/* ---- the half ---------------------------------------------------------------- */

/* Returns the attributes of the compressor of a worker's gradients, over the whole vector. */
static struct compressor_attr compressor_of(const struct layout *l, const struct recipe *recipe)
{
	const struct selection_kind *kind = &selection_kinds[recipe->up.select];
	const int sparse = recipe->up.select != SELECT_ALL;

	return (struct compressor_attr){ .direction = &recipe->up,
					 .seed = recipe->seed,
					 .spans = l->spans,
					 .n_spans = l->n_spans,
					 .n_shards = kind->seeded ? l->n_shards : 0,
					 .remembers = recipe->memory != MEMORY_NONE,
					 .picked = l->selected_most,
					 /* These selectors add and select in one pass. */
					 .beside = recipe->up.select == SELECT_TOPK &&
						   recipe->memory == MEMORY_RESIDUAL,
					 .fitted = sparse ? layout_largest(l, -1).up_capacity : 0 };
}

/* Allocates the spans in which a seeded selector draws, and those of a selector that works shard
 * by shard. */
static int open_spans(sluice_model *model)
{
	const struct layout *l = &model->layout;
	const struct selection_kind *kind = &selection_kinds[model->recipe.up.select];
	struct worker *w = model->worker;

	w->shard_spans = kind->seeded ? calloc(l->n_shards, sizeof(*w->shard_spans)) : NULL;
	w->spans = kind->by_coordinate ? calloc(l->n_spans, sizeof(*w->spans)) : NULL;
	if ((kind->seeded && !w->shard_spans) || (kind->by_coordinate && !w->spans))
		return fail(SLUICE_ENOMEM, "no memory for the spans of %u shards", l->n_shards);
	for (uint32_t s = 0; s < l->n_shards && w->shard_spans; s++)
		w->shard_spans[s] = (struct span){ l->shards[s].begin,
						   l->shards[s].begin + l->shards[s].span, 0 };
	return 0;
}

static int open_compressor(sluice_model *model)
{
	struct worker *w = model->worker;
	struct compressor_attr attr = compressor_of(&model->layout, &model->recipe);

	attr.number = (uint32_t)model->job->rank;
	attr.shards = w->shard_spans;
	attr.residual = w->kept.of[KEPT_RESIDUAL];
	attr.velocity = w->kept.of[KEPT_VELOCITY];
	attr.scratch = w->scratch;
	return compressor_open(&attr, &w->compressor);
}

/* Returns the length of the longest vector that a worker selects from, or 0 if it selects from
 * none. */
static uint64_t selects_from(const struct layout *l, const struct recipe *recipe)
{
	return recipe->up.select == SELECT_ALL ? 0 : l->count;
}

int worker_open(sluice_model *model)
{
	const struct layout *l = &model->layout;
	const struct recipe *recipe = &model->recipe;
	struct worker *w = model->worker;
	int rc = vectors_open(&w->kept, recipe, HALF_WORKER, l->count);

	if (!rc)
		rc = scratch_open(0, layout_largest(l, -1).room, selects_from(l, recipe),
				  &w->scratch);
	if (!rc)
		rc = open_spans(model);
	if (!rc)
		rc = open_compressor(model);
	if (!rc)
		rc = open_methods(model);
	if (!rc)
		rc = lanes_open(&(struct lanes_attr){ .job = model->job,
						      .id = model->id,
						      .channel = model->channel,
						      .layout = l,
						      .home = model->home,
						      .step = &w->step,
						      .n_phases = model->schedule.n_phases,
						      .stats = &model->stats,
						      .stopwatch = &model->stopwatch },
				&w->lanes);
	if (!rc)
		worker_restart(model, 0);
	return rc;
}

void worker_restart(sluice_model *model, uint64_t version)
{
	struct worker *w = model->worker;
	model->first_step = version;
	model->step = version * model->recipe.period;
	const struct step_rule next = model_rule(model, version + 1, 0);
	step_restart(&w->step, version, &next);
	memset(model->worth.least, 0, sizeof model->worth.least);
	hooks_restart(model);
	worker_renewed(model);
	lanes_restart(model->worker->lanes, version * model->schedule.n_downs);
}

void worker_close(sluice_model *model)
{
	struct worker *w = model->worker;

	hooks_close(model);
	lanes_close(&w->lanes);
	compressor_close(&w->compressor);
	scratch_close(&w->scratch);
	vectors_close(&w->kept);
	free(w->shard_spans);
	free(w->spans);
}

uint64_t worker_memory(const struct layout *l, const struct recipe *recipe)
{
	const struct compressor_attr attr = compressor_of(l, recipe);

	return vectors_bytes(recipe, HALF_WORKER, l->count) +
	       scratch_bytes(0, layout_largest(l, -1).room, selects_from(l, recipe)) +
	       compressor_bytes(&attr) + methods_memory(l, recipe) + lanes_memory(l);
}

void worker_begin(sluice_model *model, const float *params)
{
	target_remember(model, params);
	hooks_begin(model, params);
}
