/* SPDX-License-Identifier: BSD-3-Clause
 * What follows when the device is through with a push that sluice_push() left behind (device.h):
 * its messages are staged and posted by whoever comes first, the progress thread or the
 * application's next call on the model. The device says that it is through by a word of host
 * memory, so looking calls nothing of CUDA, which no thread but the application's own may have set
 * up as it should be, and which a capture elsewhere forbids.
 *
 * Only the application's calls do what takes CUDA: they ask whether the device failed, and encode
 * what the device did not pack. The state changes with the token held; while nothing is under way,
 * nobody but the application touches the rest. */
#include "worker/device_state.h"
#include "base/clock.h"
#include "job/job.h"
#include "worker/device.h"
#include "worker/signal.h"
#include "worker/state.h"
#include "worker/worker.h"

/* Whether a push is over, or was never begun. */
static int at_rest(const sluice_model *model)
{
	return on_device_state(model) <= DEVICE_IDLE;
}

void on_device_advance(sluice_model *model)
{
	const uint64_t start = now_ns();
	if (!on_device_goes_on(on_device_state(model)) || model->job->failure.code)
		return;
	if (on_device_state(model) == DEVICE_ASKED) /* the pull sees to it */
		return;
	if (on_device_state(model) == DEVICE_ENQUEUED) {
		if (!outbox_poll(model, 0))
			return;
		if (outbox_take(model)) {
			on_device_become(model, DEVICE_IDLE);
			return;
		}
		if (!outbox_complete(model)) {
			on_device_become(model, DEVICE_LISTED);
			return;
		}
		worker_send(model, NULL); /* headers: it asks nothing of CUDA, and cannot fail */
		model->stats.compress_ns += now_ns() - start;
		on_device_become(model, DEVICE_STAGED);
	}
	if (worker_advance(model, 1))
		on_device_become(model, DEVICE_IDLE);
}

int on_device_works(const sluice_model *model)
{
	return on_device_goes_on(on_device_state(model));
}

/* ---- waiting for it: token held -------------------------------------------- */

/* What CUDA said in the calling thread just now ends the push and the job. */
static void give_up(sluice_model *model)
{
	outbox_failed(model, 1);
	on_device_become(model, DEVICE_IDLE);
}

static int came_to_rest(void *context)
{
	sluice_model *model = context;
	on_device_advance(model);
	/* A device that failed says nothing: it has to be asked. */
	if (on_device_state(model) == DEVICE_ENQUEUED && outbox_poll(model, 1) < 0)
		give_up(model);
	return !on_device_goes_on(on_device_state(model));
}

static int await(sluice_model *model)
{
	const struct on_device *d = model->worker->device;
	sluice_job *job = model->job;
	/* Simulated ranks would wait for one that waits for no rank. */
	if (job->sim_rank && on_device_state(model) == DEVICE_ENQUEUED && d->ops->wait(d->stream))
		give_up(model);
	int rc = progress_until(job, came_to_rest, worker_describe, model);
	return !rc && job->failure.code ? job_failed(job) : rc;
}

/* What worker_send() said of a push that the host had to encode. */
static void sent_listed(sluice_model *model, int rc)
{
	if (rc == SLUICE_ENUMERIC)
		signal_overflowed(model, 1);
	else if (rc)
		give_up(model);
	else
		on_device_become(model, DEVICE_STAGED);
}

/* ---- the application's calls ----------------------------------------------- */

/* pushing: the stream is known to be ready. */
static int await_all(sluice_model *model, int pushing)
{
	sluice_job *job = model->job;
	if (at_rest(model))
		return 0;
	progress_take(job);
	int rc = await(model);
	const int listed = !rc && on_device_state(model) == DEVICE_LISTED;
	progress_release(job);
	if (!listed)
		return rc;
	if (!pushing && (rc = on_device_ready(model, "messages that the host encodes")))
		return rc; /* the push stands */
	const uint64_t start = now_ns();
	rc = worker_send(model, NULL);
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
	const struct on_device *d = model->worker->device;
	if (at_rest(model))
		return 0;
	int rc = await(model);
	/* While the stream is captured it is left to the pull, after that. */
	if (!rc && on_device_state(model) == DEVICE_LISTED && !d->ops->ready(d->stream)) {
		sent_listed(model, worker_send(model, NULL));
		rc = await(model);
	}
	return rc;
}

int on_device_leave(sluice_model *model, uint64_t start_ns)
{
	struct worker *w = model->worker;
	sluice_job *job = model->job;
	w->raise = 0;
	w->in_step = STEP_PUSHED;
	progress_take(job);
	model->stats.compress_ns += now_ns() - start_ns;
	on_device_become(model, DEVICE_ENQUEUED);
	on_device_advance(model); /* it may be through already */
	int rc = job->failure.code ? job_failed(job) : 0;
	progress_release(job);
	if (rc || at_rest(model) ||
	    (on_device_state(model) != DEVICE_LISTED && outbox_packs(&model->recipe) &&
	     !job->sim_rank))
		return rc;
	start_ns = now_ns();
	rc = await_all(model, 1);
	model->stats.compress_ns += now_ns() - start_ns;
	return rc;
}
