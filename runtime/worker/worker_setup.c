/* SPDX-License-Identifier: BSD-3-Clause
 * Memory of the worker half: allocated once at open, none per step. */
#include "worker/worker.h"
#include "base/error.h"
#include <stdlib.h>
#include <string.h>

/* Vectors of the whole model may be large: say how large when there is no room. */
static void *vector(size_t n, size_t bytes, int *rc)
{
	void *p = n ? calloc(n, bytes) : NULL;
	if (n && !p && !*rc)
		*rc = fail(SLUICE_ENOMEM, "no memory for a worker's vector of %zu bytes",
			   n * bytes);
	return p;
}

/* Values beside the selection, where one pass adds and selects. */
static uint64_t selected_of(const struct layout *l, const struct recipe *recipe)
{
	return recipe->up.select == SELECT_TOPK && recipe->memory == MEMORY_RESIDUAL ?
		       l->selected_most :
		       0;
}

int worker_open(sluice_model *model)
{
	const struct layout *l = &model->layout;
	const struct recipe *recipe = &model->recipe;
	struct worker *w = model->worker;
	size_t staging_bytes = 0, room = 0, capacity = 0;
	for (uint32_t s = 0; s < l->n_shards; s++) {
		const struct shard_layout *at = &l->shards[s];
		staging_bytes += at->slot_depth * at->slot_bytes + at->delta_bytes;
		room = at->room > room ? at->room : room;
		capacity = at->up_capacity > capacity ? at->up_capacity : capacity;
	}
	int rc = 0, sparse = recipe->up.select != SELECT_ALL;
	w->residual = vector_open(l->count);
	if (!w->residual)
		rc = fail(SLUICE_ENOMEM, "no memory for a worker's vector of %llu elements",
			  (unsigned long long)l->count);
	w->velocity = vector(recipe->signal == SIGNAL_MOMENTUM ? l->count : 0, sizeof(float), &rc);
	w->memory = vector(
		recipe->memory == MEMORY_LOWPASS || recipe->memory == MEMORY_TWOSTEP ? l->count : 0,
		sizeof(float), &rc);
	w->filter = vector(recipe->memory == MEMORY_TWOSTEP && recipe->memory_beta < 1 ? l->count :
											 0,
			   sizeof(float), &rc);
	int local = recipe->period > 1 && recipe->update != UPDATE_AVERAGE;
	w->base = vector(local ? l->count : 0, sizeof(float), &rc);
	w->local = !local                        ? NULL :
		   recipe->memory == MEMORY_NONE ? w->residual :
						   vector(l->count, sizeof(float), &rc);
	w->reference = vector(recipe->signal == SIGNAL_INNOVATION ? l->count : 0, sizeof(float),
			      &rc);
	w->since = vector(recipe->when == WHEN_LAZY_SERVER ? l->count : 0, sizeof(float), &rc);
	w->lazy = (struct lazy){ .window = recipe->lazy_window,
				 .weight = (double)recipe->lazy_weight,
				 .longest = recipe->lazy_longest };
	w->anchor = vector(recipe->when == WHEN_ASYNC ? l->count : 0, sizeof(float), &rc);
	w->previous = vector(recipe_looks_back(recipe) ? l->count : 0, sizeof(float), &rc);
	w->index = vector(l->selected_most, sizeof(uint32_t), &rc);
	w->selected = vector(selected_of(l, recipe), sizeof(float), &rc);
	w->relative = vector(room, sizeof(uint32_t), &rc);
	w->value = vector(room, sizeof(float), &rc);
	w->fitting = vector(sparse ? capacity : 0, sizeof(uint32_t), &rc);
	w->shard_spans = vector(selection_kinds[recipe->up.select].seeded ? l->n_shards : 0,
				sizeof *w->shard_spans, &rc);
	w->support = vector(l->support_most, sizeof(uint32_t), &rc);
	w->spans = vector(sparse && selection_kinds[recipe->up.select].by_coordinate ? l->n_spans :
										       0,
			  sizeof *w->spans, &rc);
	w->up = vector(l->n_shards, sizeof *w->up, &rc);
	w->down = vector(l->n_shards, sizeof *w->down, &rc);
	if (!rc && sparse)
		rc = selector_open(l->count, &w->selector);
	if (!rc)
		rc = worker_census_open(model);
	if (!rc)
		rc = region_open(staging_bytes, 0, "staging", &w->staging);
	if (rc)
		return rc;
	for (uint32_t s = 0; s < l->n_shards && w->shard_spans; s++)
		w->shard_spans[s] = (struct span){ l->shards[s].begin,
						   l->shards[s].begin + l->shards[s].span, 0 };
	uint8_t *at = w->staging->base;
	uint32_t *support = w->support;
	for (uint32_t s = 0; s < l->n_shards; s++) {
		w->up[s].staging = at;
		at += l->shards[s].slot_depth * l->shards[s].slot_bytes;
		w->down[s].buffer = at;
		at += l->shards[s].delta_bytes;
		w->down[s].support = support;
		if (support)
			support += l->shards[s].support_capacity;
	}
	worker_restart(model, 0);
	return 0;
}

void worker_restart(sluice_model *model, uint64_t version)
{
	struct worker *w = model->worker;
	w->step = version;
	model->first_step = version;
	model->step = version * model->recipe.period;
	w->chosen = model->worth.proposed = 0;
	memset(model->worth.least, 0, sizeof model->worth.least);
	w->in_step = STEP_DONE;
	w->uploads = 0;
	w->refresh = 0;
	tiling_clear(&w->pushed);
	w->phase = 0;
	on_device_renewed(model);
	w->parked = 1; /* until async_begin() */
	for (uint32_t s = 0; s < model->layout.n_shards; s++) {
		struct down_lane *down = &w->down[s];
		ring_writer_init(&w->up[s].ring, model->layout.shards[s].slot_depth,
				 model->layout.shards[s].slot_bytes);
		down->version = down->have_version = version * model->schedule.n_downs;
		w->up[s].posted = 1; /* nothing to post yet */
		down->log_end = 0;
		down->last_bytes = 0;
		down->read = READ_IDLE;
		down->torn = 0;
	}
}

void worker_close(sluice_model *model)
{
	struct worker *w = model->worker;
	region_close(&w->staging);
	selector_close(&w->selector);
	free(w->velocity);
	free(w->memory);
	free(w->filter);
	free(w->anchor);
	free(w->previous);
	free(w->base);
	if (w->local != w->residual)
		free(w->local);
	vector_close(w->residual, model->layout.count);
	free(w->reference);
	free(w->since);
	free(w->index);
	free(w->selected);
	free(w->relative);
	free(w->value);
	free(w->fitting);
	free(w->support);
	free(w->shard_spans);
	free(w->spans);
	tiling_free(&w->pushed);
	worker_census_close(model);
	free(w->up);
	free(w->down);
}

void model_remember(sluice_model *model, const float *params)
{
	if (model->worker->previous)
		memcpy(model->worker->previous, params, model->layout.count * sizeof *params);
}

/* Accumulator, velocity, memory and its filter, last parameters, selection, one shard's indices and
 * values, staging. */
uint64_t worker_memory(const struct layout *l, const struct recipe *recipe)
{
	int sparse = recipe->up.select != SELECT_ALL;
	struct layout_largest any = layout_largest(l, -1);
	uint64_t vectors = 1 + (recipe->signal == SIGNAL_MOMENTUM) + recipe_looks_back(recipe);
	vectors += recipe->memory == MEMORY_LOWPASS || recipe->memory == MEMORY_TWOSTEP;
	vectors += recipe->memory == MEMORY_TWOSTEP && recipe->memory_beta < 1;
	vectors += (recipe->signal == SIGNAL_INNOVATION) + (recipe->when == WHEN_LAZY_SERVER);
	vectors += recipe->when == WHEN_ASYNC;
	if (recipe->period > 1 && recipe->update != UPDATE_AVERAGE)
		vectors += 1 + (recipe->memory != MEMORY_NONE);
	uint64_t bytes = vectors * l->count * sizeof(float) +
			 any.room * (sizeof(uint32_t) + sizeof(float));
	bytes += l->support_most * sizeof(uint32_t) + selected_of(l, recipe) * sizeof(float);
	if (sparse)
		bytes += (l->selected_most + any.up_capacity) * sizeof(uint32_t) +
			 selector_bytes(l->count);
	for (uint32_t i = 0; i < l->n_shards; i++)
		bytes += l->shards[i].slot_depth * l->shards[i].slot_bytes +
			 l->shards[i].delta_bytes;
	return bytes + worker_census_memory(recipe);
}
