/* SPDX-License-Identifier: BSD-3-Clause
 * Allocates the memory of the worker half once, at open, so that steps allocate none. Lists the
 * methods that take part in the steps of a model. */
#include "model/compressor.h"
#include "model/kept.h"
#include "model/model.h"
#include "worker/agree.h"
#include "worker/async.h"
#include "worker/compressor_ops.h"
#include "worker/device.h"
#include "worker/guard.h"
#include "worker/hooks.h"
#include "worker/lane.h"
#include "worker/lazy.h"
#include "worker/local.h"
#include "worker/parts.h"
#include "worker/quorum.h"
#include "worker/state.h"
#include "worker/target.h"
#include "worker/worker_bits.h"
#include "worker/worker_census.h"
#include "worker/worker_measure.h"
#include "worker/worker_setup.h"
#include "base/error.h"
#include <stdlib.h>
#include <string.h>

/* ---- methods ----------------------------------------------------------------- */

/* A step calls their hooks in this order. */
static const struct step_hooks *const methods[WORKER_HOOKS] = {
	&local_hooks, &measure_hooks, &bits_hooks,   &census_hooks, &agree_hooks, &lazy_hooks,
	&async_hooks, &quorum_hooks,  &target_hooks, &parts_hooks,  &guard_hooks
};

void worker_list_methods(struct worker *w)
{
	const struct step_hooks **list = w->hooks;

	for (int i = 0; i < WORKER_HOOKS; i++)
		if (!methods[i]->used || methods[i]->used(w))
			*list++ = methods[i];
	*list = NULL;
}

static int open_methods(struct worker *w)
{
	int rc = 0;

	worker_list_methods(w);
	for (const struct step_hooks **row = w->hooks; *row && !rc; row++)
		rc = (*row)->open ? (*row)->open(w) : 0;
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
					 .ends = l->transform ? transform_ends(l->transform) : NULL,
					 .remembers = recipe->memory.kind != MEMORY_NONE,
					 .picked = l->selected_most,
					 /* set for selectors that add and select in one pass */
					 .beside = recipe->up.select == SELECT_TOPK &&
						   recipe->memory.kind == MEMORY_RESIDUAL,
					 .fitted = sparse ? layout_largest(l, -1).up_capacity : 0 };
}

/* Allocates the spans of a seeded selector, and those of a selector that works shard by shard or
 * fragment by fragment. */
static int open_spans(struct worker *w)
{
	const struct layout *l = w->layout;
	const struct selection_kind *kind = &selection_kinds[w->rules.recipe->up.select];
	const int by_part = kind->by_coordinate || l->n_fragments > 1;

	w->shard_spans = kind->seeded ? calloc(l->n_shards, sizeof(*w->shard_spans)) : NULL;
	w->spans = by_part ? calloc(l->n_spans, sizeof(*w->spans)) : NULL;
	if ((kind->seeded && !w->shard_spans) || (by_part && !w->spans))
		return fail(SLUICE_ENOMEM, "no memory for the spans of %u shards", l->n_shards);
	for (uint32_t s = 0; s < l->n_shards && w->shard_spans; s++)
		w->shard_spans[s] = (struct span){ l->shards[s].begin,
						   l->shards[s].begin + l->shards[s].span, 0 };
	return 0;
}

static int open_compressor(struct worker *w)
{
	struct compressor_attr attr = compressor_of(w->layout, w->rules.recipe);

	attr.number = (uint32_t)w->job->rank;
	attr.shards = w->shard_spans;
	attr.residual = w->kept.of[KEPT_RESIDUAL];
	attr.velocity = w->kept.of[KEPT_VELOCITY];
	attr.scratch = w->scratch;
	return compressor_open(&attr, &w->compressor);
}

/* Returns the length of the longest vector from which a worker selects, or 0 if it selects from
 * none. */
static uint64_t selects_from(const struct layout *l, const struct recipe *recipe)
{
	return recipe->up.select == SELECT_ALL ? 0 : l->count;
}

void worker_stand_on(struct worker *w, sluice_model *model)
{
	w->job = model->job;
	w->rules = model_rules(model);
	w->model = model_parts(model);
	w->layout = &model->layout;
}

int worker_make(sluice_model *model, void *stream)
{
	struct worker *w = model->worker = calloc(1, sizeof(*w));

	if (!w)
		return fail(SLUICE_ENOMEM, "sluice_model_open: no memory");
	worker_stand_on(w, model);
	return on_device_open(w, stream);
}

int worker_open(sluice_model *model)
{
	const struct layout *l = &model->layout;
	const struct recipe *recipe = &model->recipe;
	struct worker *w = model->worker;

	worker_stand_on(w, model); /* only now does the model have its tensors and its home */
	int rc = vectors_open(&w->kept, recipe, HALF_WORKER, l->count);

	if (!rc)
		rc = scratch_open(0, layout_largest(l, -1).room, selects_from(l, recipe),
				  model_team(model), &w->scratch);
	if (!rc)
		rc = open_spans(w);
	if (!rc)
		rc = open_compressor(w);
	if (!rc)
		rc = open_methods(w);
	if (!rc)
		rc = lanes_open(&(struct lanes_attr){ .job = w->job,
						      .id = w->model.id,
						      .channel = w->model.channel,
						      .layout = l,
						      .home = w->model.home,
						      .step = &w->step,
						      .n_phases = w->rules.schedule->n_phases,
						      .stats = w->model.stats,
						      .stopwatch = w->model.stopwatch,
						      .team = scratch_team(w->scratch) },
				&w->lanes);
	if (!rc)
		worker_restart(w, 0);
	return rc;
}

void worker_restart(struct worker *w, uint64_t steps)
{
	const struct recipe *recipe = w->rules.recipe;
	const uint64_t exchanges = steps / recipe_interval(recipe);
	const uint64_t last = exchanges ? exchanges - 1 : 0;

	w->rules.first_step = exchanges / recipe->every.fragments;
	step_resume(&w->step, steps);
	const struct step_rule next = rulebook_step(&w->rules, w->rules.first_step + 1, 0);
	step_restart(&w->step, exchanges ? last / recipe->every.fragments + 1 : 0,
		     (uint32_t)(last % recipe->every.fragments), &next);
	if (exchanges && steps % recipe_interval(recipe) < recipe->every.late)
		step_resume_late(&w->step,
				 exchanges * recipe_interval(recipe) + recipe->every.late);
	memset(w->model.worth->least, 0, sizeof w->model.worth->least);
	hooks_restart(w);
	worker_renewed(w);
	lanes_restart(w->lanes, recipe, steps, w->rules.schedule->n_downs);
}

void worker_close(struct worker *w)
{
	hooks_close(w);
	lanes_close(&w->lanes);
	compressor_close(&w->compressor);
	scratch_close(&w->scratch);
	vectors_close(&w->kept);
	target_close(w);
	free(w->shard_spans);
	free(w->spans);
	free(w);
}

uint64_t worker_memory(const struct layout *l, const struct recipe *recipe)
{
	const struct compressor_attr attr = compressor_of(l, recipe);

	return vectors_bytes(recipe, HALF_WORKER, l->count) +
	       scratch_bytes(0, layout_largest(l, -1).room, selects_from(l, recipe)) +
	       compressor_bytes(&attr) + methods_memory(l, recipe) + lanes_memory(l) +
	       transform_bytes(l->transform);
}

void worker_begin(struct worker *w, const float *params)
{
	target_remember(w, params);
	hooks_begin(w, params);
}
