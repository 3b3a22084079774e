/* SPDX-License-Identifier: BSD-3-Clause
 * What follows when the device is through with a push that sluice_push() left behind (on_device.h):
 * its messages are staged and posted by whoever comes first, the progress thread or the
 * application's next call on the model. The device says that it is through by a word of host
 * memory, so looking calls nothing of CUDA, which no thread but the application's own may have set
 * up as it should be, and which a capture elsewhere forbids.
 *
 * Only the application's calls do what takes CUDA: ask whether the device failed, and encode what
 * the device did not pack. The state (on_device.late) changes with the token held; where it says
 * that nothing is late, nobody but the application touches the rest. */
#include "worker/worker.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include <float.h>
#include <stdio.h>

enum { ASK_EVERY_NS = 10000000 };

static enum late_push late(const struct on_device *d)
{
	return (enum late_push)atomic_load_explicit(&d->late, memory_order_acquire);
}

/* Whether the progress thread has to look. */
static int goes_on(enum late_push state)
{
	return state == LATE_ENQUEUED || state == LATE_STAGED || state == LATE_ASKED;
}

/* Whether the device is at something. */
static int at_work(enum late_push state)
{
	return state == LATE_ENQUEUED || state == LATE_ASKED;
}

/* Token held. */
static void become(sluice_model *model, enum late_push state)
{
	struct on_device *d = &model->worker->device;
	model->job->unannounced += goes_on(state) - goes_on(late(d));
	atomic_store_explicit(&d->late, (int)state, memory_order_release);
}

const struct message *on_device_said(const sluice_model *model, uint32_t shard)
{
	const struct on_device *d = &model->worker->device;
	const enum late_push state = late(d);
	return state == LATE_ENQUEUED || state == LATE_LISTED ? &d->heads[shard] : NULL;
}

/* ---- what the device made -------------------------------------------------- */

/* The gradient's first NaN or infinity, for the recipe's policy. Token held. */
static int refuse_nonfinite(sluice_model *model, const struct device_selected *got)
{
	const enum value_type type = model_pushed_type(model);
	uint8_t code[sizeof(float)];
	float bad = 0;
	if (model->recipe.nonfinite != NONFINITE_ZERO) { /* else they are counted */
		put_le32(code, got->bad);
		values_decode(type, 1, code, 1, &bad);
	}
	return signal_nonfinite_held(model, got->first_nonfinite, got->nonfinite, bad);
}

/* The results are here. Not 0: the job has failed. Token held. */
static int take(sluice_model *model)
{
	struct worker *w = model->worker;
	struct on_device *d = &w->device;
	struct device_selected got;
	if (d->ops->pushed(d->compressor, &got, d->sent,
			   d->stream)) /* it is done: it does not ask CUDA */
		return on_device_push_failed(model, 1);
	d->settled = got.settled;
	w->range = got.largest; /* for a grid */
	int rc = got.nonfinite ? refuse_nonfinite(model, &got) : 0;
	w->skip = rc > 0;
	if (!rc && !(model->recipe.up.select == SELECT_SKETCH) &&
	    (got.nan || !(got.largest <= FLT_MAX))) { /* where, only the device could say */
		w->overflowed = COORDINATE_UNKNOWN;
		rc = signal_overflowed(model, 1);
	}
	return rc < 0 ? rc : 0;
}

/* Whether the messages are complete but for their headers, and the residual is settled. Of sketches
 * that are not finite only the application's call can say which coordinate it was: that takes
 * CUDA. */
static int is_packed(const sluice_model *model)
{
	const struct on_device *d = &model->worker->device;
	uint32_t s = 0;
	while (s < model->layout.n_shards && d->sent[s].packed && !d->sent[s].nonfinite)
		s++;
	return s == model->layout.n_shards &&
	       (d->settled || (model->recipe.up.select == SELECT_SKETCH));
}

void on_device_advance(sluice_model *model)
{
	struct on_device *d = &model->worker->device;
	if (!goes_on(late(d)) || model->job->failure.code)
		return;
	if (late(d) == LATE_ASKED) /* the pull sees to it */
		return;
	const uint64_t start = now_ns();
	if (late(d) == LATE_ENQUEUED) {
		if (!d->ops->poll(d->compressor, 0, d->stream))
			return;
		if (take(model)) {
			become(model, LATE_NOTHING);
			return;
		}
		if (!is_packed(model)) {
			become(model, LATE_LISTED);
			return;
		}
		worker_send(model); /* headers: it asks nothing of CUDA, and cannot fail */
		model->stats.compress_ns += now_ns() - start;
		become(model, LATE_STAGED);
	}
	if (worker_advance(model, 1))
		become(model, LATE_NOTHING);
}

/* ---- waiting for it -------------------------------------------------------- */

/* What CUDA said in the calling thread just now ends the push and the job. Token held. */
static void give_up(sluice_model *model)
{
	on_device_push_failed(model, 1);
	become(model, LATE_NOTHING);
}

/* A device that failed says nothing: it has to be asked. */
static int is_lost(sluice_model *model)
{
	struct on_device *d = &model->worker->device;
	const uint64_t now = now_ns();
	if (now - d->asked_ns <= ASK_EVERY_NS)
		return 0;
	d->asked_ns = now;
	return d->ops->poll(d->compressor, 1, d->stream) < 0;
}

static int came_to_rest(void *context)
{
	sluice_model *model = context;
	struct on_device *d = &model->worker->device;
	on_device_advance(model);
	if (late(d) == LATE_ENQUEUED && is_lost(model))
		give_up(model);
	return !goes_on(late(d));
}

int on_device_describe(const sluice_model *model, char *text, size_t cap)
{
	const struct on_device *d = &model->worker->device;
	char stage[256];
	if (!at_work(late(d)))
		return 0;
	d->ops->stage(d->compressor, stage, sizeof stage);
	snprintf(text, cap, "step %llu: %s", (unsigned long long)model->worker->step, stage);
	return 1;
}

/* Token held. */
static int await(sluice_model *model)
{
	struct on_device *d = &model->worker->device;
	sluice_job *job = model->job;
	/* Simulated ranks would wait for one that waits for no rank. */
	if (job->seat && late(d) == LATE_ENQUEUED && d->ops->wait(d->stream))
		give_up(model);
	int rc = progress_until(job, came_to_rest, step_describe, model);
	return !rc && job->failure.code ? job_failed(job) : rc;
}

/* What worker_send() said of a push that the host had to encode. Token held. */
static void sent_listed(sluice_model *model, int rc)
{
	if (rc == SLUICE_ENUMERIC)
		signal_overflowed(model, 1);
	else if (rc)
		give_up(model);
	else
		become(model, LATE_STAGED);
}

/* pushing: the stream is known to be ready. */
static int await_all(sluice_model *model, int pushing)
{
	struct on_device *d = &model->worker->device;
	sluice_job *job = model->job;
	if (late(d) == LATE_NOTHING)
		return 0;
	progress_take(job);
	int rc = await(model);
	int listed = !rc && late(d) == LATE_LISTED;
	progress_release(job);
	if (!listed)
		return rc;
	if (!pushing && d->ops->ready(d->stream)) /* the push stands */
		return device_fail(d->ops, "messages that the host encodes");
	uint64_t start = now_ns();
	rc = worker_send(model);
	progress_take(job);
	model->stats.compress_ns += now_ns() - start;
	sent_listed(model, rc);
	rc = await(model);
	progress_release(job);
	return rc;
}

int on_device_await(sluice_model *model)
{
	return await_all(model, 0);
}

int on_device_park(sluice_model *model)
{
	struct on_device *d = &model->worker->device;
	if (late(d) == LATE_NOTHING)
		return 0;
	int rc = await(model);
	/* While the stream is captured it is left to the pull, after that. */
	if (!rc && late(d) == LATE_LISTED && !d->ops->ready(d->stream)) {
		sent_listed(model, worker_send(model));
		rc = await(model);
	}
	return rc;
}

/* ---- a push ---------------------------------------------------------------- */

int on_device_leave(sluice_model *model, uint64_t start_ns)
{
	struct worker *w = model->worker;
	struct on_device *d = &w->device;
	sluice_job *job = model->job;
	w->raise = 0;
	w->in_step = STEP_PUSHED;
	progress_take(job);
	d->asked_ns = now_ns();
	model->stats.compress_ns += d->asked_ns - start_ns;
	become(model, LATE_ENQUEUED);
	on_device_advance(model); /* it may be through already */
	int rc = job->failure.code ? job_failed(job) : 0;
	progress_release(job);
	if (rc || late(d) == LATE_NOTHING ||
	    (late(d) != LATE_LISTED && on_device_packs(&model->recipe) && !job->seat))
		return rc;
	start_ns = now_ns();
	rc = await_all(model, 1);
	model->stats.compress_ns += now_ns() - start_ns;
	return rc;
}

/* ---- the values of a pull -------------------------------------------------- */

int on_device_ask(sluice_model *model)
{
	struct on_device *d = &model->worker->device;
	if (model->job->seat && d->ops->wait(d->stream)) /* as in await() */
		return device_fail(d->ops, "sluice_pull");
	d->asked_ns = now_ns();
	become(model, LATE_ASKED);
	return 0;
}

int on_device_valued(sluice_model *model)
{
	struct on_device *d = &model->worker->device;
	int rc = 0;
	if (late(d) != LATE_ASKED)
		return 1;
	if (d->ops->poll(d->compressor, 0, d->stream))
		rc = on_device_stage_values(model);
	else if (!is_lost(model))
		return 0;
	else
		rc = device_fail(d->ops, "sluice_pull");
	become(model, LATE_NOTHING);
	if (rc)
		job_fail(model->job, rc, model->job->rank, "%s", sluice_last_error());
	return !rc;
}

/* ---- the end --------------------------------------------------------------- */

void on_device_abandon(sluice_model *model)
{
	struct on_device *d = &model->worker->device;
	sluice_job *job = model->job;
	const uint64_t until = now_ns() + job->budget.wait_timeout_ns;
	char text[512];
	if (late(d) == LATE_NOTHING)
		return;
	/* Only after a failure of the job: nobody waits for the messages any more. */
	while (at_work(late(d)) && !d->ops->poll(d->compressor, 1, d->stream) && now_ns() < until)
		progress_nap();
	if (now_ns() >= until && on_device_describe(model, text, sizeof text))
		log_line(LOG_ERROR, "runtime",
			 "model %u is closed after %.0f s (SLUICE_WAIT_TIMEOUT) although the "
			 "device is not through: %s",
			 model->id, (double)job->budget.wait_timeout_ns / 1e9, text);
	progress_take(job);
	become(model, LATE_NOTHING);
	progress_release(job);
}
