/* SPDX-License-Identifier: BSD-3-Clause
 * See local.h. Called by step.c. */
#include "worker/local.h"
#include "worker/worker.h"
#include <stdlib.h>
#include <string.h>

struct local {
	float *base; /* the common model */
	float *sum;  /* what this worker's steps took off it since */
	int apart;   /* sum is not the residual */
};

int local_open(const sluice_model *model, struct local **out)
{
	const struct vectors *kept = &model->worker->kept;

	if (!kept->of[KEPT_BASE])
		return 0;
	struct local *local = *out = calloc(1, sizeof(*local));
	if (!local)
		return fail(SLUICE_ENOMEM, "no memory for a worker's own steps");
	local->base = kept->of[KEPT_BASE];
	local->apart = kept->of[KEPT_LOCAL] != NULL;
	local->sum = local->apart ? kept->of[KEPT_LOCAL] : kept->of[KEPT_RESIDUAL];
	return 0;
}

void local_close(struct local **local)
{
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
	if (w->local->apart)
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
