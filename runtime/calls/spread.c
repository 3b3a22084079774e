/* SPDX-License-Identifier: BSD-3-Clause
 * See spread.h: copies rank 0's parameters to the owners, and the owners' snapshots of them to the
 * workers. */
#include "calls/spread.h"
#include "job/collective.h"
#include "job/describe.h"
#include "job/living.h"
#include "job/peers.h"
#include "job/progress_token.h"
#include "job/swap.h"
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
	struct remote *source = NULL;
	struct region *buffer = NULL;
	int rc = peers_open_region(job, 0, descriptor, &source);
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
		source->endpoint->transport->ops->remote_close(&source);
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

/* Opens the region with rank 0's parameters, and describes it to each peer p at mine + p * step. */
static int offer(const sluice_model *model, const float *params, struct region **initial,
		 uint8_t *mine, size_t step)
{
	sluice_job *job = model->job;
	const size_t bytes = model->layout.count * sizeof(*params);
	int rc = check_finite(model, params);

	if (!rc)
		rc = region_open(bytes, REGION_READ, "initial", initial);
	if (rc)
		return rc;
	memcpy((*initial)->base, params, bytes);
	for (int p = 0; p < job->size && !rc; p++)
		if (job->peers[p].control) /* a rank without a control region has no shard */
			rc = describe_to_peer(job, p, *initial, mine + (size_t)p * step);
	return rc;
}

/* Fails on all ranks if rank 0 was lost before the others had its descriptors. */
static int check_rank0(sluice_job *job)
{
	if (round_has(job, 0))
		return 0;
	progress_take(job);
	const int rc = job_fail(job, SLUICE_EPEER, 0,
				"%s was lost before the others had its parameters",
				rank_text(job, 0));
	progress_release(job);
	return rc;
}

int models_spread(sluice_model *const *models, size_t n, float *const *params)
{
	static const char what[] = "open the model";
	sluice_job *job = models[0]->job;
	const size_t one = REGION_DESCRIPTOR_BYTES, row = n * one;
	uint8_t *mine = calloc((size_t)job->size, row), *theirs = calloc((size_t)job->size, row);
	struct region **initial = calloc(n, sizeof(struct region *));
	int rc = mine && theirs && initial ? 0 :
					     fail(SLUICE_ENOMEM, "no memory to spread parameters");

	for (size_t i = 0; i < n && !rc && job->rank == 0; i++)
		rc = offer(models[i], params[i], &initial[i], mine + i * one, row);
	rc = descriptors_swap(job, rc, what, mine, n, theirs);
	if (!rc)
		rc = check_rank0(job);
	for (size_t i = 0; i < n && !rc; i++)
		if (models[i]->n_own)
			rc = read_from_rank0(models[i], theirs + i * one);
	rc = collective_agree(job, rc, what); /* after this, all snapshots exist */
	for (size_t i = 0; i < n && !rc && sluice_is_worker(job); i++)
		rc = model_read_snapshots(models[i], 0, params[i], NULL);
	rc = collective_agree(job, rc, what); /* after this, all ranks have read them */
	for (size_t i = 0; i < n && initial; i++)
		region_close(&initial[i]);
	free(initial);
	free(mine);
	free(theirs);
	return rc;
}
