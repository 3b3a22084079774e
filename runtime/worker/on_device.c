/* SPDX-License-Identifier: BSD-3-Clause
 * See on_device.h. The push itself is in on_device_push.c. */
#include "worker/worker.h"
#include "base/error.h"
#include "base/log.h"
#include <stdlib.h>
#include <string.h>

/* ---- gradients ------------------------------------------------------------- */

static int open_compressor(sluice_model *model, const void *pointer)
{
	struct on_device *d = &model->worker->device;
	const struct layout *l = &model->layout;
	const int sketches = model->recipe.up.select == SELECT_SKETCH;
	struct device_span *exempt = d->compressor ? NULL : calloc(l->n_spans + 1, sizeof *exempt);
	/* What is selected, or asked for. */
	struct device_shape shape = { .n = l->count,
				      .k = l->selected_most > l->support_most ? l->selected_most :
										l->support_most,
				      .exempt = exempt,
				      .parts = l->n_shards };
	if (d->compressor)
		return 0;
	if (!exempt)
		return fail(SLUICE_ENOMEM, "no memory for %zu spans", l->n_spans);
	for (size_t i = 0; i < l->n_spans; i++)
		if (l->spans[i].exempt)
			exempt[shape.n_exempt++] = (struct device_span){
				(uint32_t)l->spans[i].begin, (uint32_t)l->spans[i].end
			};
	if (sketches) {
		shape.sketch_span = (uint32_t)layout_largest(l, -1).span;
		shape.sketch_columns = on_device_most_columns(model);
	}
	int rc = d->ops->find(pointer, &shape.device) < 0 || d->ops->open(&shape, &d->compressor);
	free(exempt);
	return rc ? device_fail(d->ops, "opening a model on a GPU") : 0;
}

/* The model's stream is not captured into a graph, which would hold one step's messages for
 * ever. */
static int check_stream(const struct device_ops *ops, void *stream, const char *function)
{
	return ops->ready(stream) ? device_fail(ops, function) : 0;
}

/* At the first gradient in device memory that can be selected there. */
static int begin_selecting(sluice_model *model, const void *grad)
{
	struct on_device *d = &model->worker->device;
	int rc = open_compressor(model, grad);
	if (!rc && !d->residual.address &&
	    d->ops->alloc(MEMORY_DEVICE, model->layout.count * sizeof(float), &d->residual))
		rc = device_fail(d->ops, "a residual on the GPU");
	if (!rc)
		rc = on_device_fold_open(model);
	if (!rc)
		rc = on_device_push_open(model);
	if (rc)
		return rc;
	d->selects = d->stale = 1;
	log_line(LOG_INFO, "runtime", "model %u: gradients are selected on the GPU", model->id);
	return 0;
}

int on_device_fetch(sluice_model *model, void *to, const void *from, size_t bytes)
{
	struct on_device *d = &model->worker->device;
	if (d->ops->ready(d->stream) || d->ops->copy(to, from, bytes, d->stream) ||
	    d->ops->wait(d->stream))
		return device_fail(d->ops, "a copy from the GPU");
	return 0;
}

int on_device_fetch_residual(sluice_model *model)
{
	struct worker *w = model->worker;
	if (!w->device.selects || w->device.stale)
		return 0;
	return on_device_fetch(model, w->residual, w->device.residual.address,
			       model->layout.count * sizeof(float));
}

int on_device_come_home(sluice_model *model)
{
	struct on_device *d = &model->worker->device;
	if (!d->selects)
		return 0;
	int rc = on_device_fetch_residual(model);
	if (!rc)
		rc = on_device_fetch_velocity(model);
	if (rc)
		return rc;
	d->selects = 0;
	on_device_push_close(model);
	on_device_fold_close(model);
	d->ops->release(&d->residual);
	return 0;
}

/* A copy of count coordinates in host memory, if they are on the device. */
static int copy_home(sluice_model *model, int which, const void **grad, uint64_t count)
{
	struct on_device *d = &model->worker->device;
	const struct device_ops *ops;
	int rc = *grad ? device_of(*grad, &ops) : 0;
	if (rc || !*grad || !ops)
		return rc;
	if ((rc = check_stream(ops, d->stream, "sluice_push")))
		return rc;
	d->ops = ops;
	const size_t width = value_bytes(model_pushed_type(model)), bytes = count * width;
	struct memory *copy = &d->copies[which];
	if ((!copy->address && ops->alloc(MEMORY_HOST, model->layout.count * width, copy)) ||
	    ops->copy(copy->address, *grad, bytes, d->stream) || ops->wait(d->stream))
		return on_device_push_failed(model, 0);
	*grad = copy->address;
	return 0;
}

int on_device_gradient(sluice_model *model, const void **grad, const void **before)
{
	struct on_device *d = &model->worker->device;
	const struct device_ops *ops;
	const char *why = on_device_why_not(model);
	int rc = device_of(*grad, &ops);
	if (!rc && ops)
		rc = check_stream(ops, d->stream, "sluice_push");
	if (!rc && ops && !why) {
		d->ops = ops;
		rc = d->selects ? 0 : begin_selecting(model, *grad);
		return rc == SLUICE_EGPU ? on_device_push_failed(model, 0) : rc;
	}
	if (!rc)
		rc = on_device_come_home(model);
	if (!rc && ops && !d->copies[0].address)
		log_line(LOG_INFO, "runtime",
			 "model %u: gradients are copied from the GPU to the host each step: %s",
			 model->id, why);
	if (!rc)
		rc = copy_home(model, 0, grad, model->layout.count);
	return rc ? rc : copy_home(model, 1, before, model->layout.count);
}

int on_device_range(sluice_model *model, const void **grad, uint64_t count)
{
	int rc = on_device_come_home(model);
	return rc ? rc : copy_home(model, 0, grad, count);
}

/* ---- parameters ------------------------------------------------------------ */

/* Parameters that the recipe also keeps, mixes or looks back at are handled on the host. */
static int target_is_host(const sluice_model *model)
{
	const struct worker *w = model->worker;
	return w->base || w->local || w->previous || w->anchor || model_async(model);
}

int on_device_target(sluice_model *model, float **target)
{
	struct on_device *d = &model->worker->device;
	const size_t bytes = model->layout.count * sizeof(float);
	int rc = device_of(*target, &d->target);
	if (rc || !d->target || (rc = check_stream(d->target, d->stream, "sluice_pull")))
		return rc;
	d->ops = d->target;
	if (!target_is_host(model))
		return open_compressor(model, *target);
	d->target = NULL;
	if (!d->params_copy.address && d->ops->alloc(MEMORY_HOST, bytes, &d->params_copy))
		return device_fail(d->ops, "a copy of the parameters");
	rc = on_device_fetch(model, d->params_copy.address, *target, bytes);
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
	struct on_device *d = &model->worker->device;
	const size_t bytes = model->layout.count * sizeof(float);
	if (!rc && d->params &&
	    (d->ops->copy(d->params, d->params_copy.address, bytes, d->stream) ||
	     d->ops->wait(d->stream)))
		rc = device_fail(d->ops, "sluice_pull");
	d->params = NULL;
	return rc;
}

int on_device_apply(sluice_model *model, float *vector, const uint32_t *index, const float *value,
		    uint32_t count)
{
	struct on_device *d = &model->worker->device;
	const int average = model->recipe.update == UPDATE_AVERAGE;
	if (d->target)
		return d->target->apply(d->compressor, vector, index, value, count, average,
					d->stream) ?
			       device_fail(d->target, "sluice_pull") :
			       0;
	(average ? sparse_set : sparse_add)(vector, index, value, count);
	return 0;
}

int on_device_zero(sluice_model *model, float *target, size_t n)
{
	struct on_device *d = &model->worker->device;
	if (!d->target)
		memset(target, 0, n * sizeof(float));
	else if (d->target->zero(target, n * sizeof(float), d->stream))
		return device_fail(d->target, "sluice_pull_mean");
	return 0;
}

int on_device_borrow(float *params, size_t n, void *stream, struct borrowed *out)
{
	*out = (struct borrowed){ .host = params, .params = params, .stream = stream, .n = n };
	const struct device_ops *ops = NULL;
	int rc = params ? device_of(params, &ops) : 0;
	if (rc || !ops || (rc = check_stream(ops, stream, "parameters")))
		return rc;
	out->ops = ops;
	out->host = malloc(n * sizeof(float));
	if (!out->host)
		return fail(SLUICE_ENOMEM, "no memory for a copy of %zu parameters", n);
	if (out->ops->copy(out->host, params, n * sizeof(float), stream) || out->ops->wait(stream))
		return device_fail(out->ops, "a copy of the parameters");
	return 0;
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

void on_device_close(sluice_model *model)
{
	struct on_device *d = &model->worker->device;
	if (!d->ops)
		return;
	on_device_abandon(model);
	on_device_push_close(model);
	on_device_fold_close(model);
	d->ops->close(&d->compressor);
	d->ops->release(&d->residual);
	d->ops->release(&d->copies[0]);
	d->ops->release(&d->copies[1]);
	d->ops->release(&d->params_copy);
	*d = (struct on_device){ 0 };
}
