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
	size_t room = 0, capacity = 0;
	for (uint32_t s = 0; s < l->n_shards; s++) {
		const struct shard_layout *at = &l->shards[s];
		room = at->room > room ? at->room : room;
		capacity = at->up_capacity > capacity ? at->up_capacity : capacity;
	}
	int rc = 0, sparse = recipe->up.select != SELECT_ALL;
	rc = vectors_open(&w->kept, recipe, HALF_WORKER, l->count);
	w->residual = w->kept.of[KEPT_RESIDUAL];
	w->velocity = w->kept.of[KEPT_VELOCITY];
	w->index = vector(l->selected_most, sizeof(uint32_t), &rc);
	w->selected = vector(selected_of(l, recipe), sizeof(float), &rc);
	w->relative = vector(room, sizeof(uint32_t), &rc);
	w->value = vector(room, sizeof(float), &rc);
	w->fitting = vector(sparse ? capacity : 0, sizeof(uint32_t), &rc);
	w->shard_spans = vector(selection_kinds[recipe->up.select].seeded ? l->n_shards : 0,
				sizeof *w->shard_spans, &rc);
	w->spans = vector(sparse && selection_kinds[recipe->up.select].by_coordinate ? l->n_spans :
										       0,
			  sizeof *w->spans, &rc);
	if (!rc && sparse)
		rc = selector_open(l->count, &w->selector);
	if (!rc)
		rc = agree_open(model, &w->agreed);
	if (!rc)
		rc = lazy_open(model, &w->lazy);
	if (!rc)
		rc = local_open(model, &w->local);
	if (!rc)
		rc = async_open(model, &w->async);
	if (!rc)
		rc = worker_census_open(model);
	if (!rc)
		rc = lanes_open(l, &w->lanes);
	if (rc)
		return rc;
	for (uint32_t s = 0; s < l->n_shards && w->shard_spans; s++)
		w->shard_spans[s] = (struct span){ l->shards[s].begin,
						   l->shards[s].begin + l->shards[s].span, 0 };
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
	w->rule = model_rule(model, version + 1, 0);
	memset(model->worth.least, 0, sizeof model->worth.least);
	w->in_step = STEP_DONE;
	lazy_restart(w->lazy);
	async_restart(w->async);
	tiling_clear(&w->pushed);
	w->phase = 0;
	on_device_renewed(model);
	lanes_restart(model, version * model->schedule.n_downs);
}

void worker_close(sluice_model *model)
{
	struct worker *w = model->worker;
	selector_close(&w->selector);
	vectors_close(&w->kept);
	free(w->index);
	free(w->selected);
	free(w->relative);
	free(w->value);
	free(w->fitting);
	free(w->shard_spans);
	free(w->spans);
	tiling_free(&w->pushed);
	worker_census_close(model);
	agree_close(&w->agreed);
	lazy_close(&w->lazy);
	local_close(&w->local);
	async_close(&w->async);
	lanes_close(&w->lanes);
}

void model_remember(sluice_model *model, const float *params)
{
	float *previous = model->worker->kept.of[KEPT_PREVIOUS];
	if (previous)
		memcpy(previous, params, model->layout.count * sizeof *params);
}

uint64_t worker_memory(const struct layout *l, const struct recipe *recipe)
{
	int sparse = recipe->up.select != SELECT_ALL;
	struct layout_largest any = layout_largest(l, -1);
	uint64_t bytes = vectors_bytes(recipe, HALF_WORKER, l->count) +
			 any.room * (sizeof(uint32_t) + sizeof(float));
	bytes += l->support_most * sizeof(uint32_t) + selected_of(l, recipe) * sizeof(float);
	if (sparse)
		bytes += (l->selected_most + any.up_capacity) * sizeof(uint32_t) +
			 selector_bytes(l->count);
	return bytes + lanes_memory(l) + worker_census_memory(recipe);
}
