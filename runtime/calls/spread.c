/* SPDX-License-Identifier: BSD-3-Clause
 * See spread.h: copies rank 0's parameters to the owners, and the owners' snapshots of them to the
 * workers. */
#include "calls/spread.h"
#include "job/collective.h"
#include "job/describe.h"
#include "job/living.h"
#include "job/peers.h"
#include "job/progress_token.h"
#include "model/model.h"
#include "shard/publish.h"
#include "shard/shard_async.h"
#include "shard/state.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rank 0 opens a region only so that owners can read their ranges of its parameters from it. */
static int read_from_rank0(sluice_model *model, const uint8_t *descriptor)
{
	sluice_job *job = model->job;
	const size_t piece = layout_part_bytes(&model->layout);
	struct endpoint *e = job->peers[0].endpoint;
	struct remote *source = NULL;
	struct region *buffer = NULL;
	int rc = e->transport->ops->remote_open(e, descriptor, &source);
	if (!rc && source->bytes < model->layout.count * sizeof(float))
		rc = fail(SLUICE_EWIRE, "%s offers fewer parameters than the model has",
			  rank_text(job, 0));
	if (!rc)
		rc = region_open(piece, 0, "initial", &buffer);
	for (uint32_t i = 0; i < model->n_own && !rc; i++) {
		struct shard *shard = &model->shards[i];
		size_t total = shard->at->span * sizeof(float);
		for (size_t at = 0; at < total && !rc; at += piece) {
			size_t bytes = total - at < piece ? total - at : piece;
			rc = model_read(model, 0, source, shard->at->begin * sizeof(float) + at,
					buffer, buffer->base, bytes);
			memcpy((uint8_t *)shard->copy + at, buffer->base, bytes);
		}
		if (!rc && shard->async) {
			progress_take(job); /* the progress thread already uses the shard's
					       inboxes */
			shard_async_begin(shard);
			progress_release(job);
		}
		if (!rc)
			rc = shard_publish_snapshot(shard, 0);
	}
	region_close(&buffer);
	if (source)
		e->transport->ops->remote_close(&source);
	return rc;
}

/* Refuses NaN and infinity in rank 0's parameters, which are copied to all ranks and cannot be
 * trained. */
static int check_finite(const sluice_model *model, const float *params)
{
	uint64_t bad = first_nonfinite(params, model->layout.count);
	if (bad == model->layout.count)
		return 0;
	return fail(SLUICE_EINVAL, "sluice_model_open: the initial parameters contain %s at %s",
		    isnan(params[bad]) ? "NaN" : "infinity", model_place(model->tensors, bad));
}

int model_spread(sluice_model *model, float *params)
{
	sluice_job *job = model->job;
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES] = { 0 };
	size_t bytes = (size_t)job->size * REGION_DESCRIPTOR_BYTES;
	uint8_t *mine = calloc(1, bytes), *theirs = calloc(1, bytes);
	struct region *initial = NULL;
	int rc = mine && theirs ? 0 : fail(SLUICE_ENOMEM, "no memory to spread parameters");
	if (!rc && job->rank == 0)
		rc = check_finite(model, params);
	if (!rc && job->rank == 0) {
		rc = region_open(model->layout.count * sizeof(float), REGION_READ, "initial",
				 &initial);
		if (!rc)
			memcpy(initial->base, params, model->layout.count * sizeof(float));
		for (int p = 0; p < job->size && !rc; p++)
			if (job->peers[p].control) /* a rank without a control region has no
						      shard */
				rc = describe_to_peer(job, p, initial,
						      mine + (size_t)p * sizeof descriptor);
	}
	rc = collective_agree(job, rc, "open the model");
	if (!rc)
		rc = collective_run(job, COLLECTIVE_EXCHANGE, mine, sizeof descriptor,
				    sizeof descriptor, theirs);
	if (!rc && !round_has(job, 0)) {
		progress_take(job);
		rc = job_fail(job, SLUICE_EPEER, 0,
			      "%s was lost before the others had its parameters",
			      rank_text(job, 0));
		progress_release(job);
	}
	if (!rc && model->n_own)
		rc = read_from_rank0(model, theirs);
	rc = collective_agree(job, rc, "open the model"); /* after this, all snapshots exist */
	if (!rc && sluice_is_worker(job))
		rc = model_read_snapshots(model, 0, params, NULL);
	rc = collective_agree(job, rc, "open the model"); /* after this, all ranks have read them */
	region_close(&initial);
	free(mine);
	free(theirs);
	return rc;
}
