/* SPDX-License-Identifier: BSD-3-Clause
 * when=every(P): a worker trains on a model of its own for P steps, by plain SGD, and the workers
 * exchange what these steps did. The accumulator of the period and the common model are kept apart,
 * so that after an exchange all replicas have the same bits. Called by step.c. */
#include "worker/worker.h"
#include <string.h>

int local_step(const sluice_model *model)
{
	return (model->step + 1) % model->recipe.period != 0;
}

void local_begin(sluice_model *model, const float *params)
{
	if (model->worker->base)
		memcpy(model->worker->base, params, model->layout.count * sizeof *params);
}

void local_gather(sluice_model *model)
{
	struct worker *w = model->worker;
	if (w->local)
		w->skip = 0; /* what was left out is the last step's gradient, not the steps before
				it */
	if (w->local && w->local != w->residual)
		sparse_add(w->residual, NULL, w->local, (uint32_t)model->layout.count);
}

void local_restart(sluice_model *model)
{
	struct worker *w = model->worker;
	if (!w->local)
		return;
	memset(w->local, 0, model->layout.count * sizeof *w->local);
	if (w->velocity)
		memset(w->velocity, 0, model->layout.count * sizeof *w->velocity);
}

void local_pull(sluice_model *model, float *params)
{
	const struct worker *w = model->worker;
	for (uint64_t i = 0; i < model->layout.count && w->local; i++)
		params[i] = w->base[i] - w->local[i];
}

int sluice_in_sync(const sluice_model *model)
{
	return model && model->worker->in_step == STEP_DONE &&
	       model->step % model->recipe.period == 0 &&
	       !selection_kinds[model->recipe.up.select].contiguous &&
	       (!model_async(model) || !model->step ||
		schedule_before_anchor(&model->schedule, model->step));
}
