/* SPDX-License-Identifier: BSD-3-Clause
 * Gradients in the memory of an accelerator (device.h): where a push selects them, and how they
 * come to the host where the recipe has to see them there. It stands above device_push.c. */
#include "worker/device_state.h"
#include "base/clock.h"
#include "base/log.h"
#include "job/job.h"
#include "model/compressor.h"
#include "model/model.h"
#include "worker/device.h"
#include "worker/state.h"
#include <stdlib.h>
#include <string.h>

static size_t vector_bytes(const sluice_model *model)
{
	return model->layout.count * sizeof(float);
}

/* ---- opening and closing --------------------------------------------------- */

int on_device_open(sluice_model *model, void *stream)
{
	struct on_device *d = calloc(1, sizeof(*d));
	if (!d)
		return fail(SLUICE_ENOMEM, "sluice_model_open: no memory");
	d->stream = stream;
	model->worker->device = d;
	return 0;
}

/* Before memory is freed that the device may write still. */
static void abandon(sluice_model *model)
{
	sluice_job *job = model->job;
	const uint64_t until = now_ns() + job->budget.wait_timeout_ns;
	char text[512];
	if (on_device_state(model) <= DEVICE_IDLE)
		return;
	/* Only after a failure of the job: nobody waits for the messages any more. */
	while (on_device_at_work(on_device_state(model)) && !outbox_poll(model, 1) &&
	       now_ns() < until)
		progress_nap();
	if (now_ns() >= until && on_device_busy(model, text, sizeof(text)))
		log_line(LOG_ERROR, "runtime",
			 "model %u is closed after %.0f s (SLUICE_WAIT_TIMEOUT) although the "
			 "device is not through: %s",
			 model->id, (double)job->budget.wait_timeout_ns / 1e9, text);
	progress_take(job);
	on_device_become(model, DEVICE_IDLE);
	progress_release(job);
}

/* Residual, momentum and messages leave the device. */
static void stop_selecting(sluice_model *model)
{
	struct on_device *d = model->worker->device;
	outbox_close(model);
	d->ops->release(&d->velocity);
	d->ops->release(&d->residual);
}

void on_device_close(sluice_model *model)
{
	struct on_device *d = model->worker->device;
	if (d && d->ops) {
		abandon(model);
		stop_selecting(model);
		d->ops->close(&d->compressor);
		d->ops->release(&d->collected);
		d->ops->release(&d->copies[0]);
		d->ops->release(&d->copies[1]);
	}
	free(d);
	model->worker->device = NULL;
}

int on_device_come_home(sluice_model *model)
{
	if (!on_device_selects(model))
		return 0;
	int rc = on_device_fetch_residual(model);
	if (!rc)
		rc = on_device_fetch_velocity(model);
	if (rc)
		return rc;
	on_device_become(model, DEVICE_AWAY);
	stop_selecting(model);
	return 0;
}

/* ---- recipes that select there --------------------------------------------- */

/* Why the recipe's selection is made on the host; NULL: it can be made on the device. */
const char *on_device_why_not(const sluice_model *model)
{
	const uint64_t traits = model->plan.traits |
				(model->worker->accumulates ? TRAIT(ACCUMULATES) : 0) |
				(model->measure.on ? TRAIT(MEASURED) : 0);

	return plan_takes(&model->plan, PATH_DEVICE, traits) ? NULL :
							       plan_why_not(PATH_DEVICE, traits);
}

/* ---- gradients ------------------------------------------------------------- */

/* At a gradient in device memory that can be selected there, when none is. */
static int begin_selecting(sluice_model *model, const void *grad)
{
	struct on_device *d = model->worker->device;
	int rc = on_device_open_compressor(model, grad);
	if (rc)
		return rc;
	if (!d->residual.address && d->ops->alloc(MEMORY_DEVICE, vector_bytes(model), &d->residual))
		rc = device_fail(d->ops, "a residual on the GPU");
	if (!rc && compressor_velocity(model->worker->compressor) && !d->velocity.address &&
	    d->ops->alloc(MEMORY_DEVICE, vector_bytes(model), &d->velocity))
		rc = device_fail(d->ops, "momentum on the GPU");
	if (!rc)
		rc = outbox_open(model);
	if (rc) {
		stop_selecting(model);
		return rc;
	}
	on_device_become(model, DEVICE_STALE);
	log_line(LOG_INFO, "runtime", "model %u: gradients are selected on the GPU", model->id);
	return 0;
}

/* A copy of count coordinates in host memory, if they are on the device. */
static int gradient_home(sluice_model *model, int which, const void **grad, uint64_t count)
{
	struct on_device *d = model->worker->device;
	const struct device_ops *ops;
	int rc = *grad ? device_of(*grad, &ops) : 0;
	if (rc || !*grad || !ops)
		return rc;
	if ((rc = on_device_check_stream(ops, d->stream, "sluice_push")))
		return rc;
	d->ops = ops;
	const size_t width = value_bytes(model_pushed_type(model)), bytes = count * width;
	struct memory *copy = &d->copies[which];
	if ((!copy->address && ops->alloc(MEMORY_HOST, model->layout.count * width, copy)) ||
	    ops->copy(copy->address, *grad, bytes, d->stream) || ops->wait(d->stream))
		return outbox_failed(model, 0);
	*grad = copy->address;
	return 0;
}

int on_device_gradient(sluice_model *model, const void **grad, const void **before)
{
	struct on_device *d = model->worker->device;
	const struct device_ops *ops;
	const char *why = on_device_why_not(model);
	int rc = device_of(*grad, &ops);
	if (!rc && ops)
		rc = on_device_check_stream(ops, d->stream, "sluice_push");
	if (!rc && ops && !why) {
		d->ops = ops;
		rc = on_device_selects(model) ? 0 : begin_selecting(model, *grad);
		return rc == SLUICE_EGPU ? outbox_failed(model, 0) : rc;
	}
	if (!rc)
		rc = on_device_come_home(model);
	if (!rc && ops && !d->copies[0].address)
		log_line(LOG_INFO, "runtime",
			 "model %u: gradients are copied from the GPU to the host each step: %s",
			 model->id, why);
	if (!rc)
		rc = gradient_home(model, 0, grad, model->layout.count);
	return rc ? rc : gradient_home(model, 1, before, model->layout.count);
}

/* ---- ranges ------------------------------------------------------------------ */

int on_device_range(sluice_model *model, const void **grad, uint64_t count, int first)
{
	struct on_device *d = model->worker->device;
	const struct device_ops *ops;
	int rc = device_of(*grad, &ops);
	if (!rc && ops)
		rc = on_device_check_stream(ops, d->stream, "sluice_push_range");
	if (!rc && first)
		d->collects = ops && !on_device_why_not(model);
	if (!rc && d->collects && first) {
		d->ops = ops;
		rc = on_device_selects(model) ? 0 : begin_selecting(model, *grad);
		if (!rc && !d->collected.address &&
		    ops->alloc(MEMORY_DEVICE,
			       model->layout.count * value_bytes(model_pushed_type(model)),
			       &d->collected))
			rc = device_fail(ops, "a gradient in ranges");
		return rc == SLUICE_EGPU ? outbox_failed(model, 0) : rc;
	}
	if (rc || d->collects)
		return rc;
	rc = on_device_come_home(model);
	return rc ? rc : gradient_home(model, 0, grad, count);
}

int on_device_collects(const sluice_model *model)
{
	return model->worker->device->collects;
}

int on_device_collect(sluice_model *model, const void *grad, uint64_t begin, uint64_t count)
{
	struct on_device *d = model->worker->device;
	const size_t width = value_bytes(model_pushed_type(model));
	if (d->ops->copy((uint8_t *)d->collected.address + begin * width, grad, count * width,
			 d->stream))
		return outbox_failed(model, 0);
	return 0;
}

const void *on_device_collected(sluice_model *model)
{
	struct on_device *d = model->worker->device;
	d->collects = 0;
	return d->collected.address;
}
