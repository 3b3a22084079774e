/* SPDX-License-Identifier: BSD-3-Clause
 * Where the vectors of a model with an accelerator live, and how they move (device.h): residual and
 * momentum of the worker, and the parameters of a pull. Called by the other device files and by the
 * loop. */
#include "worker/device_state.h"
#include "base/clock.h"
#include "compress/sparse.h"
#include "model/compressor.h"
#include "model/kept.h"
#include "model/model.h"
#include "worker/device.h"
#include "worker/state.h"
#include <stdlib.h>
#include <string.h>

static size_t vector_bytes(const sluice_model *model)
{
	return model->layout.count * sizeof(float);
}

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
	if (more) { /* then the token is held */
		progress_unannounced(model->job, more);
		model_stir(model);
	}
	atomic_store_explicit(&model->worker->device->state, (int)state, memory_order_release);
}

int on_device_selects(const sluice_model *model)
{
	return on_device_state(model) != DEVICE_AWAY;
}

int on_device_pulls(const sluice_model *model)
{
	return model->worker->device->target != NULL;
}

void *on_device_stream(const sluice_model *model)
{
	return model->worker->device->stream;
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

/* Of up=sketch: the columns of all sketches; else 0. */
static uint32_t sketch_columns(const sluice_model *model)
{
	uint32_t sum = 0;
	for (uint32_t s = 0; s < model->layout.n_shards && on_device_sketches(model); s++)
		sum += model->layout.shards[s].sketch_columns;
	return sum;
}

/* The most entries of a message that comes back, and of all that shards ask for. */
static size_t most_landed(const struct layout *l)
{
	const size_t room = layout_largest(l, -1).room;
	return room > l->support_most ? room : l->support_most;
}

int on_device_open_compressor(sluice_model *model, const void *pointer)
{
	struct on_device *d = model->worker->device;
	const struct layout *l = &model->layout;
	struct device_span *exempt = d->compressor ? NULL : calloc(l->n_spans + 1, sizeof(*exempt));
	/* k: what is selected, or asked for */
	struct device_shape shape = { .n = l->count,
				      .k = l->selected_most > l->support_most ? l->selected_most :
										l->support_most,
				      .exempt = exempt,
				      .parts = l->n_shards,
				      .blocks = (unsigned)model->job->settings.gpu_blocks,
				      .sketch_columns = sketch_columns(model),
				      .landed = most_landed(l) };
	if (d->compressor)
		return 0;
	if (!exempt)
		return fail(SLUICE_ENOMEM, "no memory for %zu spans", l->n_spans);
	for (size_t i = 0; i < l->n_spans; i++)
		if (l->spans[i].exempt)
			exempt[shape.n_exempt++] = (struct device_span){
				(uint32_t)l->spans[i].begin, (uint32_t)l->spans[i].end
			};
	int rc = d->ops->find(pointer, &shape.device) < 0 || d->ops->open(&shape, &d->compressor);
	free(exempt);
	return rc ? device_fail(d->ops, "opening a model on a GPU") : 0;
}

/* Coordinates that are drawn at random, but follow from step and shard alone: the host makes the
 * list. */
static void list_seeded(const sluice_model *model, double density, struct device_select *call)
{
	const struct worker *w = model->worker;
	size_t n;

	call->list = compressor_support(w->compressor, density, w->step, &n);
	call->listed = (uint32_t)n;
}

/* How this step selects: the k largest, or the rule that the recipe names. */
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
		call->step = model->worker->step;
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
		.residual = d->residual.address,
		.grad = grad,
		.grad_type = (int)model_pushed_type(model),
		.grad_scale = value_eight(model_pushed_type(model)) ? model->grad.scale : 1,
		.scale = model->update.placement == STEP_INSIDE ? model->lr : 1.0f,
		.judge = zero                                 ? DEVICE_JUDGE_NOT :
			 recipe->nonfinite == NONFINITE_ABORT ? DEVICE_JUDGE_LATE :
								DEVICE_JUDGE_FIRST,
		.zero = zero,
		.clip = recipe->clip,
		.velocity = d->velocity.address,
		.momentum = recipe->signal_momentum,
	};
	rule_of(model, &call);
	return call;
}

/* The stream is not captured into a graph, which would hold one step's messages for ever. */
int on_device_check_stream(const struct device_ops *ops, void *stream, const char *function)
{
	return ops->ready(stream) ? device_fail(ops, function) : 0;
}

int on_device_ready(const sluice_model *model, const char *function)
{
	const struct on_device *d = model->worker->device;
	return on_device_check_stream(d->ops, d->stream, function);
}

/* ---- residual and momentum ------------------------------------------------- */

int on_device_copy_home(sluice_model *model, void *to, const void *from, size_t bytes)
{
	struct on_device *d = model->worker->device;
	if (d->ops->ready(d->stream) || d->ops->copy(to, from, bytes, d->stream) ||
	    d->ops->wait(d->stream))
		return device_fail(d->ops, "a copy from the GPU");
	return 0;
}

int on_device_fetch_residual(sluice_model *model)
{
	struct worker *w = model->worker;
	return on_device_state(model) <= DEVICE_STALE ?
		       0 :
		       on_device_copy_home(model, worker_residual(model),
					   w->device->residual.address, vector_bytes(model));
}

int on_device_fetch_velocity(sluice_model *model)
{
	struct worker *w = model->worker;
	return on_device_state(model) <= DEVICE_STALE || !w->device->velocity.address ?
		       0 :
		       on_device_copy_home(model, compressor_velocity(w->compressor),
					   w->device->velocity.address, vector_bytes(model));
}

int on_device_take_up(sluice_model *model)
{
	struct worker *w = model->worker;
	struct on_device *d = w->device;
	const size_t bytes = vector_bytes(model);
	if (on_device_state(model) != DEVICE_STALE)
		return 0;
	if (d->ops->copy(d->residual.address, worker_residual(model), bytes, d->stream) ||
	    (d->velocity.address &&
	     d->ops->copy(d->velocity.address, compressor_velocity(w->compressor), bytes,
			  d->stream)))
		return -1;
	on_device_become(model, DEVICE_IDLE);
	return 0;
}

int on_device_clear(sluice_model *model, const struct shard_layout *at, const uint32_t *index,
		    uint32_t n)
{
	struct worker *w = model->worker;
	struct on_device *d = w->device;
	float *residual = (float *)d->residual.address + at->begin;
	float *velocity = (float *)d->velocity.address;
	const struct entries got = w->received;
	uint32_t published = index ? n : 0;
	for (uint32_t i = 0; !index && i < n; i++)
		if (got.value[i] != 0)
			got.index[published++] = i;
	if (!index)
		index = got.index;
	if (d->ops->apply(d->compressor, residual, index, NULL, published, 1, d->stream) ||
	    (velocity && model->recipe.mask &&
	     d->ops->apply(d->compressor, velocity + at->begin, index, NULL, published, 1,
			   d->stream)))
		return device_fail(d->ops, "sluice_pull");
	return 0;
}

/* ---- parameters ------------------------------------------------------------ */

/* Parameters that the recipe also keeps, mixes or looks back at are handled on the host. */
static int target_is_host(const sluice_model *model)
{
	const struct worker *w = model->worker;
	return w->local || w->kept.of[KEPT_PREVIOUS] || w->async;
}

void on_device_target_host(sluice_model *model)
{
	model->worker->device->target = NULL;
	model->worker->device->narrow = NULL;
}

int on_device_target_narrow(sluice_model *model, void *target, const float *copy, float **flat)
{
	struct on_device *d = model->worker->device;
	const size_t bytes = vector_bytes(model);
	int rc = device_of(target, &d->target);
	if (!rc)
		rc = on_device_check_stream(d->target, d->stream, "sluice_pull");
	d->narrow = target;
	*flat = target;
	if (rc)
		return rc;
	d->ops = d->target;
	if ((rc = on_device_open_compressor(model, target)) || model->recipe.update == UPDATE_NONE)
		return rc;
	if ((!d->master.address && d->ops->alloc(MEMORY_DEVICE, bytes, &d->master)) ||
	    (copy && d->ops->copy(d->master.address, copy, bytes, d->stream)))
		return device_fail(d->ops, "a copy of the parameters in 32 bits on the GPU");
	*flat = d->master.address;
	return 0;
}

int on_device_fetch_copy(sluice_model *model, float *copy)
{
	return on_device_copy_home(model, copy, model->worker->device->master.address,
				   vector_bytes(model));
}

int on_device_target(sluice_model *model, float **target)
{
	struct on_device *d = model->worker->device;
	const size_t bytes = vector_bytes(model);
	int rc = device_of(*target, &d->target);
	d->narrow = NULL;
	if (rc || !d->target || (rc = on_device_check_stream(d->target, d->stream, "sluice_pull")))
		return rc;
	d->ops = d->target;
	if (!target_is_host(model))
		return on_device_open_compressor(model, *target);
	d->target = NULL;
	if (!d->params_copy.address && d->ops->alloc(MEMORY_HOST, bytes, &d->params_copy))
		return device_fail(d->ops, "a copy of the parameters");
	rc = on_device_copy_home(model, d->params_copy.address, *target, bytes);
	if (rc)
		return rc;
	d->params = *target;
	*target = d->params_copy.address;
	return 0;
}

int on_device_pulled(sluice_model *model, int rc)
{
	if (!model)
		return rc;
	struct on_device *d = model->worker->device;
	if (!rc && d->params &&
	    (d->ops->copy(d->params, d->params_copy.address, vector_bytes(model), d->stream) ||
	     d->ops->wait(d->stream)))
		rc = device_fail(d->ops, "sluice_pull");
	d->params = NULL;
	return rc;
}

int on_device_lands(const sluice_model *model)
{
	return on_device_pulls(model) || (on_device_selects(model) && on_device_sketches(model));
}

/* The device reads them in stream order, so they are not where the next message is decoded. */
int on_device_entries(sluice_model *model, uint32_t count, struct entries *to)
{
	struct worker *w = model->worker;
	struct on_device *d = w->device;
	*to = compressor_entries(w->compressor);
	if (!on_device_lands(model))
		return 0;
	if (d->ops->land(d->compressor, count, &to->index, &to->value, d->stream))
		return device_fail(d->ops, "sluice_pull");
	return 0;
}

/* Parameters that are pushed (update=average) have 32 bits. */
static int apply_rounded(const sluice_model *model, float *flat, uint64_t first,
			 const uint32_t *index, const float *value, uint32_t count)
{
	const struct on_device *d = model->worker->device;
	const struct device_rounded call = { .vector = model->recipe.update == UPDATE_NONE ?
							       NULL :
							       flat + first,
					     .narrow = d->narrow + first,
					     .narrow_type = (int)model->param_type,
					     .index = index,
					     .value = value,
					     .count = count };
	return d->target->apply_rounded(d->compressor, &call, d->stream);
}

int on_device_apply(sluice_model *model, float *flat, uint64_t first, const uint32_t *index,
		    const float *value, uint32_t count)
{
	struct on_device *d = model->worker->device;
	const int average = model->recipe.update == UPDATE_AVERAGE;
	if (!d->target) {
		(average ? sparse_set : sparse_add)(flat + first, index, value, count);
		return 0;
	}
	int failed = d->narrow ? apply_rounded(model, flat, first, index, value, count) :
				 d->target->apply(d->compressor, flat + first, index, value, count,
						  average, d->stream);
	return failed ? device_fail(d->target, "sluice_pull") : 0;
}

int on_device_zero(sluice_model *model, float *flat)
{
	struct on_device *d = model->worker->device;
	void *target = d->narrow ? (void *)d->narrow : flat;
	const size_t bytes = model->layout.count * (d->narrow ? sizeof(*d->narrow) : sizeof(*flat));
	if (!d->target)
		memset(target, 0, bytes);
	else if (d->target->zero(target, bytes, d->stream))
		return device_fail(d->target, "sluice_pull_mean");
	return 0;
}

static int borrow(const sluice_model *model, float *params, size_t n, struct borrowed *out)
{
	void *stream = model->worker->device->stream;
	const struct device_ops *ops = NULL;
	int rc = params ? device_of(params, &ops) : 0;
	*out = (struct borrowed){ .host = params, .params = params, .stream = stream, .n = n };
	if (rc || !ops || (rc = on_device_check_stream(ops, stream, "parameters")))
		return rc;
	out->ops = ops;
	out->host = malloc(n * sizeof(float));
	if (!out->host)
		return fail(SLUICE_ENOMEM, "no memory for a copy of %zu parameters", n);
	if (out->ops->copy(out->host, params, n * sizeof(float), stream) || out->ops->wait(stream))
		return device_fail(out->ops, "a copy of the parameters");
	return 0;
}

int on_device_borrow(const sluice_model *model, float *params, size_t n, struct borrowed *out)
{
	struct device_scope scope;
	device_scope_begin(params, model->worker->device->stream, &scope);
	return device_scope_end(&scope, borrow(model, params, n, out));
}

int on_device_return(struct borrowed *b, int failed)
{
	int rc = failed;
	if (!b->ops)
		return rc;
	if (!rc && (b->ops->copy(b->params, b->host, b->n * sizeof(float), b->stream) ||
		    b->ops->wait(b->stream)))
		rc = device_fail(b->ops, "a copy of the parameters");
	free(b->host);
	*b = (struct borrowed){ 0 };
	return rc;
}
