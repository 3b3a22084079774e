/* SPDX-License-Identifier: BSD-3-Clause
 * Gradients in the memory of an accelerator (device.h): decides where a push selects them, brings
 * them to the host if the recipe must see them there, and completes a push on the device whose call
 * has returned. Builds on device_push.c and the loop (worker.c).
 *
 * The messages of such a push are staged and posted by the progress thread or by the application's
 * next call on the model, whichever comes first. The device reports by writing a word of host
 * memory, so looking for it calls no function of CUDA: only the application's own thread has set
 * CUDA up, and a capture elsewhere forbids many calls. Therefore only the application's calls ask
 * whether the device failed, and encode what the device did not pack. The state changes with the
 * token held. While nothing is under way, only the application touches the rest. */
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "job/progress_token.h"
#include "model/compressor.h"
#include "model/stopwatch.h"
#include "worker/compressor_ops.h"
#include "worker/device.h"
#include "worker/device_push.h"
#include "worker/signal.h"
#include "worker/nonfinite.h"
#include "worker/state.h"
#include "worker/worker.h"
#include <stdlib.h>
#include <string.h>

/* ---- opening and closing --------------------------------------------------- */

int on_device_open(struct worker *w, void *stream)
{
	struct on_device *d = calloc(1, sizeof(*d));
	if (!d)
		return fail(SLUICE_ENOMEM, "sluice_model_open: no memory");
	w->stream = d->half.stream = stream;
	d->host_ops = &host_compressor_ops;
	d->device_ops = &device_compressor_ops;
	w->device = d;
	w->half = &d->half;
	w->ops = &host_compressor_ops;
	return 0;
}

/* Called before freeing memory to which the device may still write. */
static void abandon(struct worker *w)
{
	sluice_job *job = w->job;
	const uint64_t until = now_ns() + job->budget.wait_timeout_ns;
	char text[512];
	if (on_device_state(w->device) <= DEVICE_IDLE)
		return;
	/* A push can only be at work here after a failure of the job. No rank waits for its
	 * messages then. */
	if (on_device_at_work(on_device_state(w->device)))
		half_abandon(&w->device->half, until);
	if (now_ns() >= until && on_device_busy(w, text, sizeof(text)))
		log_line(LOG_ERROR, "runtime",
			 "model %u is closed after %.0f s (SLUICE_WAIT_TIMEOUT) although the "
			 "device has not finished: %s",
			 w->model.id, (double)job->budget.wait_timeout_ns / 1e9, text);
	progress_take(job);
	on_device_become(w, DEVICE_IDLE);
	progress_release(job);
}

/* Moves residual, momentum and messages from the device to the host. */
static void stop_selecting(struct worker *w)
{
	outbox_close(w);
	half_drop(&w->device->half);
}

void on_device_close(struct worker *w)
{
	struct on_device *d = w->device;
	if (d && d->half.ops) {
		abandon(w);
		outbox_close(w);
		half_close(&d->half);
		d->half.ops->release(&d->collected);
		d->half.ops->release(&d->copies[0]);
		d->half.ops->release(&d->copies[1]);
	}
	free(d);
	w->device = NULL;
	w->half = NULL;
	w->ops = &host_compressor_ops;
}

static int come_home(struct worker *w)
{
	if (!on_device_selects(w))
		return 0;
	int rc = on_device_fetch(w);
	if (rc)
		return rc;
	on_device_become(w, DEVICE_AWAY);
	stop_selecting(w);
	return 0;
}

/* ---- recipes that select on the device -------------------------------------- */

/* Returns the reason why the host must select for this recipe, or NULL if the device can select. */
const char *on_device_why_not(const struct worker *w)
{
	const uint64_t traits = w->rules.plan->traits | worker_live_traits(w);

	return plan_takes(w->rules.plan, PATH_DEVICE, traits) ? NULL :
								plan_why_not(PATH_DEVICE, traits);
}

/* ---- gradients ------------------------------------------------------------- */

/* Called for the first gradient in device memory from which the device can select. */
static int begin_selecting(struct worker *w, const void *grad)
{
	struct on_device *d = w->device;
	int rc = on_device_open_compressor(w, grad);
	if (rc)
		return rc;
	rc = half_keep(&d->half, worker_residual(w), compressor_velocity(w->compressor), NULL,
		       w->layout->count);
	if (!rc)
		rc = outbox_open(w);
	if (rc) {
		stop_selecting(w);
		return rc;
	}
	on_device_become(w, DEVICE_STALE);
	log_line(LOG_INFO, "runtime", "model %u: gradients are selected on the GPU", w->model.id);
	return 0;
}

/* Copies count coordinates to host memory if they are on the device. */
static int gradient_home(struct worker *w, int which, const void **grad, uint64_t count)
{
	struct on_device *d = w->device;
	const struct device_ops *ops;
	int rc = *grad ? device_of(*grad, &ops) : 0;
	if (rc || !*grad || !ops)
		return rc;
	if ((rc = on_device_check_stream(ops, d->half.stream, "sluice_push")))
		return rc;
	d->half.ops = ops;
	const size_t width = value_bytes(worker_pushed_type(w)), bytes = count * width;
	struct memory *copy = &d->copies[which];
	if ((!copy->address && ops->alloc(MEMORY_HOST, w->layout->count * width, copy)) ||
	    ops->copy(copy->address, *grad, bytes, d->half.stream) || ops->wait(d->half.stream))
		return outbox_failed(w, 0);
	*grad = copy->address;
	return 0;
}

int on_device_gradient(struct worker *w, const void **grad, const void **before)
{
	struct on_device *d = w->device;
	const struct device_ops *ops;
	const char *why = on_device_why_not(w);
	int rc = device_of(*grad, &ops);
	if (!rc && ops)
		rc = on_device_check_stream(ops, d->half.stream, "sluice_push");
	if (!rc && ops && !why) {
		d->half.ops = ops;
		rc = on_device_selects(w) ? 0 : begin_selecting(w, *grad);
		return rc == SLUICE_EGPU ? outbox_failed(w, 0) : rc;
	}
	if (!rc)
		rc = come_home(w);
	if (!rc && ops && !d->copies[0].address)
		log_line(LOG_INFO, "runtime",
			 "model %u: gradients are copied from the GPU to the host each step: %s",
			 w->model.id, why);
	if (!rc)
		rc = gradient_home(w, 0, grad, w->layout->count);
	return rc ? rc : gradient_home(w, 1, before, w->layout->count);
}

/* ---- ranges ------------------------------------------------------------------ */

int on_device_range(struct worker *w, const void **grad, uint64_t count, int first)
{
	struct on_device *d = w->device;
	const struct device_ops *ops;
	int rc = device_of(*grad, &ops);
	if (!rc && ops)
		rc = on_device_check_stream(ops, d->half.stream, "sluice_push_range");
	if (!rc && first)
		d->collects = ops && !on_device_why_not(w);
	if (!rc && d->collects && first) {
		d->half.ops = ops;
		rc = on_device_selects(w) ? 0 : begin_selecting(w, *grad);
		if (!rc && !d->collected.address &&
		    ops->alloc(MEMORY_DEVICE, w->layout->count * value_bytes(worker_pushed_type(w)),
			       &d->collected))
			rc = device_fail(ops, "a gradient in ranges");
		if (rc)
			return rc == SLUICE_EGPU ? outbox_failed(w, 0) : rc;
	}
	if (rc || d->collects)
		return rc ? rc : 1;
	rc = come_home(w);
	return rc ? rc : gradient_home(w, 0, grad, count);
}

int on_device_collect(struct worker *w, const void *grad, uint64_t begin, uint64_t count,
		      const void **whole)
{
	struct on_device *d = w->device;
	const size_t width = value_bytes(worker_pushed_type(w));
	if (d->half.ops->copy((uint8_t *)d->collected.address + begin * width, grad, count * width,
			      d->half.stream))
		return outbox_failed(w, 0);
	if (whole) {
		d->collects = 0;
		*whole = d->collected.address;
	}
	return 0;
}

/* ---- a push whose call has returned --------------------------------------------- */

/* Returns 1 if no push is under way. */
static int at_rest(const struct worker *w)
{
	return on_device_state(w->device) <= DEVICE_IDLE;
}

static void advance(struct worker *w)
{
	if (!on_device_goes_on(on_device_state(w->device)) || w->job->failure.code)
		return;
	if (on_device_state(w->device) == DEVICE_ASKED) /* the pull handles this state */
		return;
	if (on_device_state(w->device) == DEVICE_ENQUEUED) {
		const struct lap lap = stopwatch_begin();
		if (!half_poll(&w->device->half, 0))
			return;
		if (outbox_take(w)) {
			on_device_become(w, DEVICE_IDLE);
			return;
		}
		if (!outbox_complete(w)) {
			on_device_become(w, DEVICE_LISTED);
			return;
		}
		worker_send(w, NULL); /* only writes headers: it does not call CUDA, and cannot
					 fail */
		stopwatch_end(w->model.stopwatch, TIME_COMPRESS, &lap);
		on_device_become(w, DEVICE_STAGED);
	}
	if (worker_advance(w, 1))
		on_device_become(w, DEVICE_IDLE);
}

static int works(const struct worker *w)
{
	return on_device_goes_on(on_device_state(w->device));
}

/* ---- waiting for a push: token held ----------------------------------------- */

/* Ends the push and the job with the error that CUDA has just reported to the calling thread. */
static void give_up(struct worker *w)
{
	outbox_failed(w, 1);
	on_device_become(w, DEVICE_IDLE);
}

static int came_to_rest(void *context)
{
	struct worker *w = context;
	advance(w);
	/* A device that has failed reports nothing, so this queries the stream. */
	if (on_device_state(w->device) == DEVICE_ENQUEUED && half_poll(&w->device->half, 1) < 0)
		give_up(w);
	return !on_device_goes_on(on_device_state(w->device));
}

static int await(struct worker *w)
{
	const struct on_device *d = w->device;
	sluice_job *job = w->job;
	/* A simulated job waits for the device here. It would otherwise report this rank as stuck,
	 * because the rank waits for no other rank. */
	if (job->sim_rank && on_device_state(w->device) == DEVICE_ENQUEUED &&
	    d->half.ops->wait(d->half.stream))
		give_up(w);
	int rc = progress_until(job, came_to_rest, worker_describe, w);
	return rc ? rc : job_failed(job);
}

/* Handles the result of worker_send() for a push that the host had to encode. */
static void sent_listed(struct worker *w, int rc)
{
	if (rc == SLUICE_ENUMERIC)
		nonfinite_sum(w, 1);
	else if (rc)
		give_up(w);
	else
		on_device_become(w, DEVICE_STAGED);
}

/* ---- the application's calls ----------------------------------------------- */

/* Waits until the push is posted. pushing: 1 if the caller has checked that the stream is ready. */
static int await_all(struct worker *w, int pushing)
{
	sluice_job *job = w->job;
	if (at_rest(w))
		return 0;
	progress_take(job);
	int rc = await(w);
	const int listed = !rc && on_device_state(w->device) == DEVICE_LISTED;
	progress_release(job);
	if (!listed)
		return rc;
	if (!pushing && (rc = on_device_ready(w->device, "messages that the host encodes")))
		return rc; /* an error of this call only: the push is not affected */
	const struct lap lap = stopwatch_begin();
	rc = worker_send(w, NULL);
	progress_take(job);
	stopwatch_end(w->model.stopwatch, TIME_COMPRESS, &lap);
	sent_listed(w, rc);
	rc = await(w);
	progress_release(job);
	return rc;
}

static int await_push(struct worker *w)
{
	return await_all(w, 0);
}

static int park(struct worker *w)
{
	const struct on_device *d = w->device;
	if (at_rest(w))
		return 0;
	int rc = await(w);
	/* Nothing is sent while the stream is captured. The pull after the capture sends it. */
	if (!rc && on_device_state(w->device) == DEVICE_LISTED &&
	    !d->half.ops->ready(d->half.stream)) {
		sent_listed(w, worker_send(w, NULL));
		rc = await(w);
	}
	return rc;
}

static int leave(struct worker *w, const struct lap *push)
{
	sluice_job *job = w->job;
	step_sent(&w->step);
	progress_take(job);
	stopwatch_end(w->model.stopwatch, TIME_COMPRESS, push);
	on_device_become(w, DEVICE_ENQUEUED);
	advance(w); /* the device may already have finished */
	int rc = job_failed(job);
	struct lap lap = stopwatch_begin();
	stopwatch_without(w->model.stopwatch, &lap, TIME_COMPRESS | TIME_PUSH);
	progress_release(job);
	if (rc || at_rest(w) ||
	    (on_device_state(w->device) != DEVICE_LISTED && outbox_packs(w->rules.recipe) &&
	     !job->sim_rank))
		return rc;
	rc = await_all(w, 1);
	progress_take(job);
	stopwatch_end(w->model.stopwatch, TIME_COMPRESS, &lap);
	progress_release(job);
	return rc;
}

/* ---- the device's row of functions ---------------------------------------------- */

/* There is no function for indices alone, because the plan keeps up=cyclic on the host. */
static int (*const emits[PAYLOADS])(struct worker *w) = {
	[PAYLOAD_PAIRS] = on_device_emit_pairs,
	[PAYLOAD_VALUES] = on_device_emit_pairs,
	[PAYLOAD_AGREED] = on_device_ask_values,
	[PAYLOAD_SKETCH] = on_device_emit_sketches
};

static int emit(struct worker *w, enum phase_payload payload, const struct signal *signal)
{
	(void)signal; /* the device has folded the gradient */
	return emits[payload](w);
}

const struct compressor_ops device_compressor_ops = { .on_device = 1,
						      .fold = on_device_fold,
						      .leave = leave,
						      .emit = emit,
						      .staged = on_device_valued,
						      .clear = on_device_clear,
						      .lands = on_device_lands,
						      .advance = advance,
						      .works = works,
						      .await = await_push,
						      .park = park,
						      .busy = on_device_busy,
						      .fetch = on_device_fetch,
						      .come_home = come_home,
						      .renewed = on_device_renewed };
