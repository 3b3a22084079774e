/* SPDX-License-Identifier: BSD-3-Clause
 * A model between open and close: the dedicated server's loop, closing, and the small calls. */
#include "model/model.h"
#include "calls/events.h"
#include "checkpoint/checkpoint.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void model_remember(sluice_model *model, const float *params)
{
	if (model->worker->previous)
		memcpy(model->worker->previous, params, model->layout.count * sizeof *params);
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
	events_end(model);
	model_free(model);
}

int sluice_set_lr(sluice_model *model, float lr)
{
	if (!model || !(lr > 0) || !isfinite(lr))
		return fail(SLUICE_EINVAL, "sluice_set_lr: lr=%g, must be finite and > 0", (double)lr);
	if (model->worker->in_step == STEP_PUSHING)
		return fail(SLUICE_EINVAL, "sluice_set_lr: a step has one rate, and ranges of this one are pushed "
			    "already: call it before the first or after the last");
	model->lr = lr;
	return 0;
}

void sluice_raise(sluice_model *model, unsigned flags) { model->worker->raise |= flags & 0xff; }
unsigned sluice_raised(const sluice_model *model) { return model->worker->raised; }
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
	    model->worker->residual && model->recipe.memory != MEMORY_NONE) {
		double sum = 0;
		int rc = on_device_fetch_residual(model);
		if (rc)
			return rc;
		for (uint64_t i = 0; i < model->layout.count; i++)
			sum += (double)model->worker->residual[i] * model->worker->residual[i];
		now.residual_norm = sqrt(sum);
	}
	if (size >= offsetof(sluice_model_stats, shard_residual_norm) + sizeof now.shard_residual_norm)
		shard_norms(model, &now);
	memcpy(stats, &now, size < sizeof now ? size : sizeof now);
	return 0;
}
