/* SPDX-License-Identifier: BSD-3-Clause
 * What is done on the device to a gradient before it is compressed (on_device.h): the recipe's
 * momentum, which lives there with the residual, clip= and nonfinite=zero. The same launch does all
 * of it.
 *
 * Momentum is masked where a message was packed on the device. Of what the host encodes,
 * worker.velocity is the place where worker_settle() says which coordinates it masked. */
#include "worker/worker.h"
#include "base/error.h"
#include <stdlib.h>

static size_t vector_bytes(const sluice_model *model)
{
	return model->layout.count * sizeof(float);
}

/* As worker_settle() has it. */
static int masks(const sluice_model *model)
{
	const struct worker *w = model->worker;
	return w->velocity && model->recipe.mask && w->step > model->schedule.warmup_steps;
}

/* ---- memory ---------------------------------------------------------------- */

int on_device_fold_open(sluice_model *model)
{
	struct on_device *d = &model->worker->device;
	if (!model->worker->velocity)
		return 0;
	if (!d->velocity.address && d->ops->alloc(MEMORY_DEVICE, vector_bytes(model), &d->velocity))
		return device_fail(d->ops, "momentum on the GPU");
	if (!d->unsent && model->recipe.mask)
		d->unsent = malloc((model->layout.selected_most + 1) * sizeof *d->unsent);
	if (!d->unsent && model->recipe.mask)
		return fail(SLUICE_ENOMEM, "no memory for %llu selected coordinates",
			    (unsigned long long)model->layout.selected_most);
	return 0;
}

void on_device_fold_close(sluice_model *model)
{
	struct on_device *d = &model->worker->device;
	d->ops->release(&d->velocity);
	free(d->unsent);
	d->unsent = NULL;
}

int on_device_give_velocity(sluice_model *model)
{
	struct on_device *d = &model->worker->device;
	return d->velocity.address ? d->ops->copy(d->velocity.address, model->worker->velocity,
						  vector_bytes(model), d->stream) :
				     0;
}

int on_device_fetch_velocity(sluice_model *model)
{
	struct on_device *d = &model->worker->device;
	if (!d->selects || !d->velocity.address || d->stale)
		return 0;
	return on_device_fetch(model, model->worker->velocity, d->velocity.address,
			       vector_bytes(model));
}

/* ---- a push ---------------------------------------------------------------- */

void on_device_fold(const sluice_model *model, struct device_select *call)
{
	const struct on_device *d = &model->worker->device;
	const struct recipe *recipe = &model->recipe;
	call->clip = recipe->clip;
	call->zero = recipe->nonfinite == NONFINITE_ZERO;
	call->judge &= !call->zero;
	call->velocity = d->velocity.address;
	call->momentum = recipe->signal_momentum;
}

void on_device_mark(sluice_model *model, uint32_t n)
{
	struct worker *w = model->worker;
	for (uint32_t i = 0; i < n && masks(model); i++)
		w->velocity[w->index[i]] = 1;
}

void on_device_marked(sluice_model *model, uint32_t *unsent, uint32_t n)
{
	struct worker *w = model->worker;
	for (uint32_t i = 0; i < n && masks(model); i++)
		unsent[i] = w->velocity[w->index[i]] != 0;
}

float *on_device_masked(const sluice_model *model)
{
	return masks(model) ? model->worker->device.velocity.address : NULL;
}
