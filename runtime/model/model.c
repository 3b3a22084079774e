/* SPDX-License-Identifier: BSD-3-Clause
 * A model between open and close: where its events go, the dedicated server's loop, closing, and the
 * small calls. */
#include "model/model.h"
#include "base/clock.h"
#include "checkpoint/checkpoint.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- events (token held) ------------------------------------------------------------------ */

void model_push_arrived(sluice_model *model, int peer, uint32_t id)
{
	struct shard *shard = shard_find(model, id);
	if (!shard || peer >= model->job->workers) {
		job_blame(model->job, SLUICE_EWIRE, peer, "%s pushed to shard %u, which is not here",
			 rank_text(model->job, peer), id);
		return;
	}
	struct inbox *inbox = &shard->inboxes[peer];
	if (inbox->arrived - inbox->ring.next_seq + 1 >= SLOT_DEPTH) {
		job_blame(model->job, SLUICE_EWIRE, peer, "%s pushed more to shard %u than its slots hold",
			 rank_text(model->job, peer), id);
		return;
	}
	inbox->arrived++;
	if (!shard->waiting_since_ns)
		shard->waiting_since_ns = now_ns();
}

void model_notice_arrived(sluice_model *model, int peer, uint32_t id)
{
	if (id < model->layout.n_shards && model->layout.shards[id].owner == peer &&
	    sluice_is_worker(model->job))
		worker_notice(model, id);
	else
		job_blame(model->job, SLUICE_EWIRE, peer, "%s sent a notice of shard %u, which it does not own",
			 rank_text(model->job, peer), id);
}

void model_read_done(sluice_model *model, uint32_t id, int status)
{
	if (id == READ_BLOCKING) {
		model->read_pending = 0;
		model->read_status = status;
		return;
	}
	if (id < model->layout.n_shards && model->worker.down) {
		model->worker.down[id].read = READ_ARRIVED;
		model->worker.down[id].read_status = status;
	}
}

void model_push_refused(sluice_model *model)
{
	model->stats.refused_messages++;
}

void model_worker_dropped(sluice_model *model, int worker)
{
	for (uint32_t i = 0; i < model->n_own; i++)
		shard_drop(model, &model->shards[i], worker);
}

void model_advance(sluice_model *model)
{
	for (uint32_t i = 0; i < model->n_own; i++)
		shard_advance(model, &model->shards[i]);
}

/* ---- serve, close, small calls ------------------------------------------------------------ */

void model_remember(sluice_model *model, const float *params)
{
	if (model->worker.previous)
		memcpy(model->worker.previous, params, model->layout.count * sizeof *params);
}

const char *model_coordinate(const sluice_model *model, uint64_t i, uint64_t *index_in_tensor)
{
	for (size_t t = 0; t < model->n_tensors; t++)
		if (i < model->tensor_ends[t]) {
			*index_in_tensor = i - (t ? model->tensor_ends[t - 1] : 0);
			return model->tensor_names[t];
		}
	*index_in_tensor = i;
	return "(the flat vector)";
}

static int collective_begun(void *context)
{
	return collective_pending(context) != 0;
}

static void describe_serving(void *context, char *text, size_t cap)
{
	(void)context;
	snprintf(text, cap, "the workers to push or to close the model");
}

int sluice_serve(sluice_model *model)
{
	int rc = model ? job_check(model->job, "sluice_serve")
		       : fail(SLUICE_EINVAL, "sluice_serve: the model is NULL");
	if (rc)
		return rc;
	sluice_job *job = model->job;
	if (sluice_is_worker(job))
		return fail(SLUICE_EINVAL, "sluice_serve: %s is a worker; only the last servers=%d ranks serve",
			    rank_text(job, job->rank), job->servers);
	for (;;) {
		progress_take(job);
		rc = progress_until(job, collective_begun, describe_serving, job);
		uint32_t op = collective_pending(job);
		progress_release(job);
		if (rc == SLUICE_OK && op == COLLECTIVE_CLOSE)
			return 0;
		if (!rc && (op == COLLECTIVE_BARRIER || op == COLLECTIVE_SUM || op == COLLECTIVE_GATHER))
			rc = collective_run(job, op, NULL, 0, MAIL_BYTES, NULL);
		else if (!rc && (op == COLLECTIVE_CHECKPOINT || op == COLLECTIVE_RESTORE))
			rc = checkpoint_serve(model, op);
		else if (!rc)
			rc = fail(SLUICE_EINVAL,
				  "sluice_serve: the workers call something a server cannot take part in while it "
				  "serves (collective %u)", op);
		if (rc)
			return rc;
	}
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
	/* After a failure this returns at once: nobody is waited for. */
	collective_run(job, COLLECTIVE_CLOSE, NULL, 0, 0, NULL);
	progress_take(job);
	job->models[model->id] = NULL;
	progress_release(job);
	model_free(model);
}

int sluice_set_lr(sluice_model *model, float lr)
{
	if (!model || !(lr > 0) || !isfinite(lr))
		return fail(SLUICE_EINVAL, "sluice_set_lr: lr=%g, must be finite and > 0", (double)lr);
	if (model->worker.in_step == STEP_PUSHING)
		return fail(SLUICE_EINVAL, "sluice_set_lr: a step has one rate, and ranges of this one are pushed "
			    "already: call it before the first or after the last");
	model->lr = lr;
	return 0;
}

void sluice_raise(sluice_model *model, unsigned flags) { model->worker.raise |= flags & 0xff; }
unsigned sluice_raised(const sluice_model *model) { return model->worker.raised; }
uint64_t sluice_step(const sluice_model *model) { return model->step; }
const char *sluice_recipe(const sluice_model *model) { return model->recipe_text; }

static void shard_norms(sluice_model *model, sluice_model_stats *stats)
{
	struct loss loss = { 0, 0 };
	double sum = 0;
	progress_take(model->job); /* shards move under it */
	for (uint32_t i = 0; i < model->n_own; i++) {
		const struct shard *shard = &model->shards[i];
		for (uint32_t j = 0; shard->residual && j < shard->at->span; j++)
			sum += (double)shard->residual[j] * (double)shard->residual[j];
		loss.all += shard->loss.all;
		loss.lost += shard->loss.lost;
	}
	progress_release(model->job);
	stats->shard_residual_norm = sqrt(sum);
	stats->compression_error_down = loss_share(loss);
}

int sluice_stats(sluice_model *model, sluice_model_stats *stats)
{
	if (!model || !stats || stats->size < sizeof stats->size)
		return fail(SLUICE_EINVAL, "sluice_stats: NULL, or stats->size is not set");
	size_t size = stats->size;
	progress_take(model->job);
	sluice_model_stats now = model->stats;
	progress_release(model->job);
	now.size = size;
	if (model->census) {
		now.threshold_up = (double)model->census->worker.up_level;
		now.threshold_down = (double)model->census->worker.down_level;
	}
	now.lost_workers = (uint64_t)(model->job->workers - sluice_living(model->job));
	if (size >= offsetof(sluice_model_stats, residual_norm) + sizeof now.residual_norm &&
	    model->worker.residual && model->recipe.memory != MEMORY_NONE) {
		double sum = 0;
		int rc = on_device_fetch_residual(model);
		if (rc)
			return rc;
		for (uint64_t i = 0; i < model->layout.count; i++)
			sum += (double)model->worker.residual[i] * model->worker.residual[i];
		now.residual_norm = sqrt(sum);
	}
	if (size >= offsetof(sluice_model_stats, shard_residual_norm) + sizeof now.shard_residual_norm)
		shard_norms(model, &now);
	memcpy(stats, &now, size < sizeof now ? size : sizeof now);
	return 0;
}
