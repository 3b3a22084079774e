/* SPDX-License-Identifier: BSD-3-Clause
 * A dedicated server's loop, and the closing of a model. */
#include "calls/events.h"
#include "calls/model_open.h"
#include "checkpoint/checkpoint.h"
#include "job/broadcast.h"
#include "model/model.h"
#include "model/shown.h"
#include "job/collective.h"
#include "job/progress_token.h"
#include "shard/state.h"
#include "worker/pull.h"
#include "worker/push.h"
#include <stdio.h>

/* A server waits until its workers begin a collective call. The wait also ends when a shard has
 * made progress. A new wait, with a new time limit, then begins. */
struct serving {
	const sluice_job *job;
	uint64_t advanced;
};

static int must_look(void *context)
{
	const struct serving *serving = context;
	return collective_pending(serving->job) ||
	       clients_advanced(&serving->job->clients) != serving->advanced;
}

static void describe_serving(void *context, char *text, size_t cap)
{
	(void)context;
	snprintf(text, cap, "the workers to push or to close the model");
}

static int serve(sluice_model *model)
{
	int rc = model ? job_check(model->job, "sluice_serve") :
			 fail(SLUICE_EINVAL, "sluice_serve: the model is NULL");
	if (rc)
		return rc;
	sluice_job *job = model->job;
	if (sluice_is_worker(job))
		return fail(SLUICE_EINVAL,
			    "sluice_serve: %s is a worker; dedicated servers are the last ranks, "
			    "here %d of them",
			    rank_text(job, job->rank), job->servers);
	for (;;) {
		progress_take(job);
		uint32_t op;
		do {
			struct serving serving = { job, clients_advanced(&job->clients) };
			rc = progress_until(job, must_look, describe_serving, &serving);
			shown_held(job, model->shown, &model->stats, &model->stopwatch,
				   model->n_own ? model->shards[0].version : 0);
			op = collective_pending(job);
		} while (!rc && !op);
		progress_release(job);
		if (rc == SLUICE_OK && op == COLLECTIVE_CLOSE)
			return 0;
		if (!rc &&
		    (op == COLLECTIVE_BARRIER || op == COLLECTIVE_SUM || op == COLLECTIVE_GATHER))
			rc = collective_run(job, op, NULL, 0, COLLECTIVE_BYTES, NULL);
		else if (!rc && op == COLLECTIVE_BROADCAST)
			rc = broadcast_serve(job);
		else if (!rc && (op == COLLECTIVE_CHECKPOINT || op == COLLECTIVE_RESTORE))
			rc = checkpoint_serve(model, op);
		else if (!rc)
			rc = fail(SLUICE_EINVAL,
				  "sluice_serve: the workers call %s, in which a server cannot "
				  "take part while it serves: call it on all ranks before "
				  "sluice_serve, or after the model was closed",
				  collective_name(op));
		if (rc)
			return rc;
	}
}

int sluice_serve(sluice_model *model)
{
	struct error_scope scope;
	error_begin(&scope);
	return error_end(&scope, serve(model));
}

void sluice_model_close(sluice_model **model_pointer)
{
	sluice_model *model = model_pointer ? *model_pointer : NULL;
	if (!model)
		return;
	*model_pointer = NULL;
	sluice_job *job = model->job;
	if (job_in_child(job))
		return;
	struct error_scope scope;
	error_begin(&scope);
	/* After a failure, these calls return at once and wait for no rank. Without a failure the
	 * wait is needed, because a shard must not publish to a rank that has closed. */
	const int settled = pull_settle(model->worker);
	int rc = collective_run_about(job, COLLECTIVE_CLOSE,
				      (struct about){ model->id, step_pushed(model->worker) }, NULL,
				      0, 0, NULL);
	events_end(model);
	model_free(model);
	error_end(&scope, settled ? settled : rc);
}
