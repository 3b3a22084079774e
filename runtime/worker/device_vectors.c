/* SPDX-License-Identifier: BSD-3-Clause
 * The places and copies of a model's vectors on an accelerator (device.h): the residual and
 * momentum of the worker, and the parameters of a pull. Called by the other device files and by the
 * loop. */
#include "worker/device_vectors.h"
#include "base/error.h"
#include "compress/sparse.h"
#include "model/compressor.h"
#include "model/kept.h"
#include "model/model.h"
#include "worker/state.h"
#include <stdlib.h>
#include <string.h>

/* ---- the state ------------------------------------------------------------- */

enum on_device_state on_device_state(const sluice_model *model)
{
	const struct on_device *d = model->worker->device;
	return (enum on_device_state)atomic_load_explicit(&d->state, memory_order_acquire);
}

int on_device_goes_on(enum on_device_state state)
{
	return state == DEVICE_ENQUEUED || state == DEVICE_STAGED || state == DEVICE_ASKED;
}

int on_device_at_work(enum on_device_state state)
{
	return state == DEVICE_ENQUEUED || state == DEVICE_ASKED;
}

void on_device_become(sluice_model *model, enum on_device_state state)
{
	const int more = on_device_goes_on(state) - on_device_goes_on(on_device_state(model));
	if (more) { /* a caller that changes this holds the token */
		progress_unannounced(model->job, more);
		model_stir(model);
	}
	struct on_device *d = model->worker->device;
	model->worker->ops = state == DEVICE_AWAY ? d->host_ops : d->device_ops;
	atomic_store_explicit(&d->state, (int)state, memory_order_release);
}

int on_device_selects(const sluice_model *model)
{
	return on_device_state(model) != DEVICE_AWAY;
}

void on_device_renewed(sluice_model *model)
{
	if (on_device_selects(model))
		on_device_become(model, DEVICE_STALE);
}

/* ---- the device's own compressor -------------------------------------------- */

int on_device_sketches(const sluice_model *model)
{
	return model->recipe.up.select == SELECT_SKETCH;
}

/* Returns the number of columns of all sketches together; 0 unless up=sketch. */
static uint32_t sketch_columns(const sluice_model *model)
{
	uint32_t sum = 0;
	for (uint32_t s = 0; s < model->layout.n_shards && on_device_sketches(model); s++)
		sum += model->layout.shards[s].sketch_columns;
	return sum;
}

/* Returns the largest number of entries in a published message, or in all requests of the shards
 * together. */
static size_t most_landed(const struct layout *l)
{
	const size_t room = layout_largest(l, -1).room;
	return room > l->support_most ? room : l->support_most;
}

int on_device_open_compressor(sluice_model *model, const void *pointer)
{
	const struct layout *l = &model->layout;
	/* k: the most coordinates that are selected or requested */
	const struct device_shape shape = { .n = l->count,
					    .k = l->selected_most > l->support_most ?
							 l->selected_most :
							 l->support_most,
					    .parts = l->n_shards,
					    .blocks = (unsigned)model->job->settings.gpu_blocks,
					    .sketch_columns = sketch_columns(model),
					    .landed = most_landed(l) };
	return half_open(&model->worker->device->half, pointer, shape, l->spans, l->n_spans,
			 "opening a model on a GPU");
}

/* Lists the coordinates of a seeded selector, which depend only on step and shard. */
static void list_seeded(const sluice_model *model, double density, struct device_select *call)
{
	const struct worker *w = model->worker;
	size_t n;

	call->list = compressor_support(w->compressor, density, w->step.number, &n);
	call->listed = (uint32_t)n;
}

/* Sets the rule of this step's selection: the k largest, or the rule that the recipe names. */
static void rule_of(const sluice_model *model, struct device_select *call)
{
	const struct recipe *recipe = &model->recipe;
	const double density = model->stats.density_up;

	call->k = schedule_count(density, model->layout.count - model->layout.exempt);
	call->fresh = recipe->memory == MEMORY_NONE;
	switch (recipe->up.select) {
	case SELECT_THRESHOLD:
		call->by_level = 1;
		call->level = recipe->up.level;
		break;
	case SELECT_GAUSSIANK:
		call->gaussian = 1;
		call->quantile = gaussian_quantile(density);
		break;
	case SELECT_RANDOM:
	case SELECT_VARIANCE:
		call->draw = recipe->up.select == SELECT_RANDOM ? DEVICE_DRAW_DENSITY :
								  DEVICE_DRAW_VARIANCE;
		call->wanted = call->draw == DEVICE_DRAW_DENSITY ? density :
								   (double)recipe->up.level;
		call->purpose = RANDOM_KEEP;
		call->rank = (uint32_t)model->job->rank;
		call->seed = recipe->seed;
		call->step = model->worker->step.number;
		break;
	case SELECT_RANDK: list_seeded(model, density, call); break;
	default: break;
	}
}

struct device_select on_device_select_of(const sluice_model *model, const void *grad)
{
	const struct on_device *d = model->worker->device;
	const struct recipe *recipe = &model->recipe;
	const int zero = recipe->nonfinite == NONFINITE_ZERO;
	struct device_select call = {
		.residual = d->half.residual.address,
		.grad = grad,
		.grad_type = (int)model_pushed_type(model),
		.grad_scale = value_eight(model_pushed_type(model)) ? model->grad.scale : 1,
		.scale = update_pushed(&model->update, model->lr),
		.judge = zero                                 ? DEVICE_JUDGE_NOT :
			 recipe->nonfinite == NONFINITE_ABORT ? DEVICE_JUDGE_LATE :
								DEVICE_JUDGE_FIRST,
		.zero = zero,
		.clip = recipe->clip,
		.velocity = d->half.velocity.address,
		.momentum = recipe->signal_momentum,
	};
	rule_of(model, &call);
	return call;
}

int on_device_check_stream(const struct device_ops *ops, void *stream, const char *function)
{
	return ops->ready(stream) ? device_fail(ops, function) : 0;
}

int on_device_ready(const sluice_model *model, const char *function)
{
	const struct on_device *d = model->worker->device;
	return on_device_check_stream(d->half.ops, d->half.stream, function);
}

/* ---- residual and momentum ------------------------------------------------- */

int on_device_fetch(sluice_model *model)
{
	return on_device_state(model) <= DEVICE_STALE ? 0 :
							half_fetch(&model->worker->device->half);
}

int on_device_take_up(sluice_model *model)
{
	if (on_device_state(model) != DEVICE_STALE)
		return 0;
	if (half_take_up(&model->worker->device->half))
		return -1;
	on_device_become(model, DEVICE_IDLE);
	return 0;
}

int on_device_clear(sluice_model *model, const struct shard_layout *at, const uint32_t *index,
		    const struct entries *got, uint32_t n)
{
	const struct on_device *d = model->worker->device;
	float *residual = (float *)d->half.residual.address + at->begin;
	float *velocity = (float *)d->half.velocity.address;
	uint32_t published = index ? n : 0;
	for (uint32_t i = 0; !index && i < n; i++)
		if (got->value[i] != 0)
			got->index[published++] = i;
	if (!index)
		index = got->index;
	struct device_apply call = {
		.vector = residual, .index = index, .count = published, .assign = 1
	};
	int failed = d->half.ops->apply(d->half.compressor, &call, d->half.stream);
	if (!failed && velocity && model->recipe.mask) {
		call.vector = velocity + at->begin;
		failed = d->half.ops->apply(d->half.compressor, &call, d->half.stream);
	}
	return failed ? device_fail(d->half.ops, "sluice_pull") : 0;
}

/* ---- pulls ------------------------------------------------------------------- */

int on_device_use(sluice_model *model, const void *pointer, const struct device_ops **ops,
		  struct device_compressor **compressor)
{
	struct on_device *d = model->worker->device;
	const struct device_ops *found;
	int rc = device_of(pointer, &found);

	if (!rc)
		rc = on_device_check_stream(found, d->half.stream, "sluice_pull");
	if (rc)
		return rc;
	d->half.ops = *ops = found;
	rc = on_device_open_compressor(model, pointer);
	*compressor = d->half.compressor;
	return rc;
}

int on_device_lands(const sluice_model *model)
{
	return on_device_selects(model) && on_device_sketches(model);
}
