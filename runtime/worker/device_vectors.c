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

enum on_device_state on_device_state(const struct on_device *d)
{
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

void on_device_become(struct worker *w, enum on_device_state state)
{
	const int more = on_device_goes_on(state) - on_device_goes_on(on_device_state(w->device));
	if (more) { /* the caller then holds the token */
		progress_unannounced(w->job, more);
		clients_stir(&w->job->clients, w->model.id);
	}
	struct on_device *d = w->device;
	w->ops = state == DEVICE_AWAY ? d->host_ops : d->device_ops;
	atomic_store_explicit(&d->state, (int)state, memory_order_release);
}

int on_device_selects(const struct worker *w)
{
	return on_device_state(w->device) != DEVICE_AWAY;
}

void on_device_renewed(struct worker *w)
{
	if (on_device_selects(w))
		on_device_become(w, DEVICE_STALE);
}

/* ---- the device's own compressor -------------------------------------------- */

int on_device_sketches(const struct recipe *recipe)
{
	return recipe->up.select == SELECT_SKETCH;
}

/* Returns the number of columns of all sketches together; 0 unless up=sketch. */
static uint32_t sketch_columns(const struct worker *w)
{
	uint32_t sum = 0;
	for (uint32_t s = 0; s < w->layout->n_shards && on_device_sketches(w->rules.recipe); s++)
		sum += w->layout->shards[s].sketch_columns;
	return sum;
}

/* Returns the most entries in a published message, or in the requests of all shards together. */
static size_t most_landed(const struct layout *l)
{
	const size_t room = layout_largest(l, -1).room;
	return room > l->support_most ? room : l->support_most;
}

int on_device_open_compressor(struct worker *w, const void *pointer)
{
	const struct layout *l = w->layout;
	/* k: the most coordinates that are selected or requested */
	const struct device_shape shape = { .n = l->count,
					    .k = l->selected_most > l->support_most ?
							 l->selected_most :
							 l->support_most,
					    .parts = l->n_shards,
					    .blocks = (unsigned)w->job->settings.gpu_blocks,
					    .sketch_columns = sketch_columns(w),
					    .landed = most_landed(l) };
	return half_open(&w->device->half, pointer, shape, l->spans, l->n_spans,
			 "opening a model on a GPU");
}

/* Lists the coordinates of a seeded selector, which depend only on step and shard. */
static void list_seeded(const struct worker *w, double density, struct device_select *call)
{
	size_t n;

	call->list = compressor_support(w->compressor, density, w->step.number, &n);
	call->listed = (uint32_t)n;
}

/* Sets the rule of this step's selection: the k largest, or the rule of the recipe. */
static void rule_of(const struct worker *w, struct device_select *call)
{
	const struct recipe *recipe = w->rules.recipe;
	const double density = w->model.stats->density_up;

	call->k = schedule_count(density, w->layout->count - w->layout->exempt);
	call->fresh = recipe->memory.kind == MEMORY_NONE;
	switch (recipe->up.select) {
	case SELECT_BLOCK_TOPK:
		call->block = recipe->up.block;
		call->k = density_count(density, recipe->up.block);
		break;
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
		call->rank = (uint32_t)w->job->rank;
		call->seed = recipe->seed;
		call->step = w->step.number;
		break;
	case SELECT_RANDK: list_seeded(w, density, call); break;
	default: break;
	}
}

struct device_select on_device_select_of(const struct worker *w, const void *grad)
{
	const struct on_device *d = w->device;
	const struct recipe *recipe = w->rules.recipe;
	const int zero = recipe->nonfinite == NONFINITE_ZERO;
	struct device_select call = {
		.residual = d->half.residual.address,
		.grad = grad,
		.grad_type = (int)worker_pushed_type(w),
		.grad_scale = value_eight(worker_pushed_type(w)) ? w->grad.scale : 1,
		.scale = update_pushed(w->rules.update, w->step.lr),
		.judge = zero                                 ? DEVICE_JUDGE_NOT :
			 recipe->nonfinite == NONFINITE_ABORT ? DEVICE_JUDGE_LATE :
								DEVICE_JUDGE_FIRST,
		.zero = zero,
		.clip = recipe->clip.norm,
		.velocity = d->half.velocity.address,
		.momentum = recipe->signal.average.momentum,
	};
	rule_of(w, &call);
	return call;
}

int on_device_check_stream(const struct device_ops *ops, void *stream, const char *function)
{
	return ops->ready(stream) ? device_fail(ops, function) : 0;
}

int on_device_ready(const struct on_device *d, const char *function)
{
	return on_device_check_stream(d->half.ops, d->half.stream, function);
}

/* ---- residual and momentum ------------------------------------------------- */

int on_device_fetch(struct worker *w)
{
	return on_device_state(w->device) <= DEVICE_STALE ? 0 : half_fetch(&w->device->half);
}

int on_device_take_up(struct worker *w)
{
	if (on_device_state(w->device) != DEVICE_STALE)
		return 0;
	if (half_take_up(&w->device->half))
		return -1;
	on_device_become(w, DEVICE_IDLE);
	return 0;
}

int on_device_clear(struct worker *w, const struct shard_layout *at, const uint32_t *index,
		    const struct entries *got, uint32_t n)
{
	const struct on_device *d = w->device;
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
	if (!failed && velocity && w->rules.recipe->signal.mask) {
		call.vector = velocity + at->begin;
		failed = d->half.ops->apply(d->half.compressor, &call, d->half.stream);
	}
	return failed ? device_fail(d->half.ops, "sluice_pull") : 0;
}

/* ---- pulls ------------------------------------------------------------------- */

int on_device_use(struct worker *w, const void *pointer, const struct device_ops **ops,
		  struct device_compressor **compressor)
{
	struct on_device *d = w->device;
	const struct device_ops *found;
	int rc = device_of(pointer, &found);

	if (!rc)
		rc = on_device_check_stream(found, d->half.stream, "sluice_pull");
	if (rc)
		return rc;
	d->half.ops = *ops = found;
	rc = on_device_open_compressor(w, pointer);
	*compressor = d->half.compressor;
	return rc;
}

int on_device_lands(const struct worker *w)
{
	return on_device_selects(w) && on_device_sketches(w->rules.recipe);
}
