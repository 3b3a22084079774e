/* SPDX-License-Identifier: BSD-3-Clause
 * See local.h. Called by step.c. */
#include "worker/local.h"
#include "worker/worker.h"
#include <stdlib.h>
#include <string.h>

struct local {
	float *base; /* the common model */
	float *sum;  /* what this worker's steps took off it since */
	int owned;   /* sum is not the residual */
};

static int is_local(const struct recipe *recipe)
{
	return recipe->period > 1 && recipe->update != UPDATE_AVERAGE;
}

uint64_t local_memory(const struct recipe *recipe, uint64_t count)
{
	return is_local(recipe) ? (1u + (recipe->memory != MEMORY_NONE)) * count * sizeof(float) :
				  0;
}

int local_open(const sluice_model *model, float *residual, struct local **out)
{
	const uint64_t count = model->layout.count;

	if (!is_local(&model->recipe))
		return 0;
	struct local *local = *out = calloc(1, sizeof(*local));
	if (local) {
		local->owned = model->recipe.memory != MEMORY_NONE;
		local->base = calloc(count, sizeof(*local->base));
		local->sum = local->owned ? calloc(count, sizeof(*local->sum)) : residual;
	}
	return local && local->base && local->sum ?
		       0 :
		       fail(SLUICE_ENOMEM, "no memory for a worker's own model of %llu elements",
			    (unsigned long long)count);
}

void local_close(struct local **local)
{
	if (!*local)
		return;
	free((*local)->base);
	if ((*local)->owned)
		free((*local)->sum);
	free(*local);
	*local = NULL;
}

float *local_sum(const struct local *local)
{
	return local ? local->sum : NULL;
}

float *local_base(const struct local *local)
{
	return local ? local->base : NULL;
}

int local_step(const sluice_model *model)
{
	return (model->step + 1) % model->recipe.period != 0;
}

void local_begin(sluice_model *model, const float *params)
{
	if (model->worker->local)
		memcpy(model->worker->local->base, params, model->layout.count * sizeof(*params));
}

void local_gather(sluice_model *model)
{
	struct worker *w = model->worker;

	if (!w->local)
		return;
	w->skip = 0; /* the last step's gradient was left out, not the steps before it */
	if (w->local->owned)
		sparse_add(w->residual, NULL, w->local->sum, (uint32_t)model->layout.count);
}

void local_restart(sluice_model *model)
{
	struct worker *w = model->worker;

	if (!w->local)
		return;
	memset(w->local->sum, 0, model->layout.count * sizeof(*w->local->sum));
	if (w->velocity)
		memset(w->velocity, 0, model->layout.count * sizeof(*w->velocity));
}

void local_pull(sluice_model *model, float *params)
{
	const struct local *local = model->worker->local;

	for (uint64_t i = 0; i < model->layout.count && local; i++)
		params[i] = local->base[i] - local->sum[i];
}

int sluice_in_sync(const sluice_model *model)
{
	return model && model->worker->in_step == STEP_DONE &&
	       model->step % model->recipe.period == 0 &&
	       !selection_kinds[model->recipe.up.select].contiguous &&
	       (!model_async(model) || !model->step ||
		schedule_before_anchor(&model->schedule, model->step));
}
