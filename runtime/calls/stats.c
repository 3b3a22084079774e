/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_stats(): the counters of both halves, and norms that are computed on request. */
#include "base/arguments.h"
#include "compress/moments.h"
#include "shard/shard_device.h"
#include "shard/state.h"
#include "job/progress_token.h"
#include "model/kept.h"
#include "model/stopwatch.h"
#include "worker/compressor_ops.h"
#include "worker/state.h"
#include "worker/worker_census.h"
#include <math.h>
#include <string.h>

static void shard_norms(sluice_model *model, sluice_model_stats *stats)
{
	struct loss loss = { 0, 0 };
	double sum = 0;
	progress_take(model->job); /* shards must not change meanwhile */
	for (uint32_t i = 0; i < model->n_own; i++) {
		const struct shard *shard = &model->shards[i];
		if (shard_residual(shard))
			sum += squares_of(shard_residual(shard), shard->at->span);
		loss.all += shard->loss.all;
		loss.lost += shard->loss.lost;
	}
	progress_release(model->job);
	stats->shard_residual_norm = sqrt(sum);
	stats->compression_error_down = model->measure.on ? loss_share(loss) : NAN;
}

int sluice_stats(sluice_model *model, sluice_model_stats *stats)
{
	if (!model || !stats)
		return fail(SLUICE_EINVAL, "sluice_stats: model or stats is NULL");
	int rc = job_check(model->job, "sluice_stats");
	if (!rc)
		rc = argument_size(stats->size, sizeof stats->size, _Alignof(sluice_model_stats),
				   "sluice_model_stats", "sluice_stats");
	if (rc)
		return rc;
	size_t size = stats->size;
	const int residual = size >= offsetof(sluice_model_stats, residual_norm) +
					     sizeof stats->residual_norm &&
			     model->worker->compressor && model->recipe.memory.kind != MEMORY_NONE;
	if (residual)
		worker_await(model->worker); /* no error is lost: the job or the next pull
						reports it */
	progress_take(model->job);
	sluice_model_stats now = model->stats;
	stopwatch_copy(&model->stopwatch, &now);
	progress_release(model->job);
	now.size = size;
	census_thresholds(model->worker->census, &now.threshold_up, &now.threshold_down);
	now.lost_workers = (uint64_t)(model->job->workers - sluice_living(model->job));
	if (residual) {
		if ((rc = worker_fetch(model->worker)))
			return rc;
		model->stats.residual_norm = /* the page shows it */
			sqrt(squares_of(worker_residual(model->worker), model->layout.count));
		now.residual_norm = model->stats.residual_norm;
	}
	if (size >=
	    offsetof(sluice_model_stats, shard_residual_norm) + sizeof now.shard_residual_norm) {
		if ((rc = shard_devices_fetch(model)))
			return rc;
		shard_norms(model, &now);
	}
	memcpy(stats, &now, size < sizeof now ? size : sizeof now);
	return 0;
}
