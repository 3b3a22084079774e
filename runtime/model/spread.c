/* SPDX-License-Identifier: BSD-3-Clause
 * Parameters on their way to all ranks: rank 0's first version to the owners, and an owner's snapshot to
 * the workers (at open and after a restore). Both are one-sided READs that the caller waits for. */
#include "model/model.h"
#include "base/clock.h"
#include "base/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct blocking_read {
	sluice_model *model;
	int peer;
	struct transfer transfer;
	int posted, rc;
};

static int read_done(void *context)
{
	struct blocking_read *r = context;
	sluice_model *model = r->model;
	if (model->job->peers[r->peer].state == PEER_LOST)
		r->rc = SLUICE_EPEER;
	if (!r->posted && !r->rc) {
		struct endpoint *e = model->job->peers[r->peer].endpoint;
		model->read_pending = 1;
		r->rc = e->transport->ops->post(e, &r->transfer);
		if (r->rc == SLUICE_EAGAIN || r->rc == SLUICE_EPEER) {
			r->rc = 0;
			return 0;
		}
		r->posted = 1;
		if (!r->rc) /* transports that copy at once have the event ready for the next poll */
			return 0;
	}
	return r->rc || !model->read_pending;
}

static void describe_read(void *context, char *text, size_t cap)
{
	struct blocking_read *r = context;
	snprintf(text, cap, "a READ of %zu bytes from %s", r->transfer.bytes,
		 rank_text(r->model->job, r->peer));
}

/* Fills local (inside region) from the peer's region. */
static int read_blocking(sluice_model *model, int peer, struct remote *remote, uint64_t offset,
			 const struct region *region, void *local, size_t bytes)
{
	struct blocking_read r = { .model = model, .peer = peer,
				   .transfer = { .kind = TRANSFER_GET, .remote = remote, .offset = offset,
						 .local_region = region, .local = local, .bytes = bytes,
						 .cookie = cookie_make(COOKIE_MODEL, model->id, READ_BLOCKING) } };
	progress_take(model->job);
	int rc = progress_until(model->job, read_done, describe_read, &r);
	if (!rc && (r.rc || model->read_status))
		rc = job_fail(model->job, r.rc ? r.rc : model->read_status, peer,
			      "a READ of %zu bytes from %s failed", bytes, rank_text(model->job, peer));
	progress_release(model->job);
	return rc;
}

/* A snapshot in private memory becomes parameters. */
static int take_snapshot(const sluice_model *model, uint32_t s, uint64_t version, uint8_t *bytes, float *params)
{
	const struct shard_layout *at = &model->layout.shards[s];
	struct message m;
	const char *why = "";
	struct message_expect want = { .kind = MESSAGE_SNAPSHOT, .rank = (uint64_t)at->owner,
				       .epoch = model_epoch(model), .model = model->id, .shard = s,
				       .seq = version, .step = version, .phase = 0, .span = at->span,
				       .count_max = at->span };
	if (message_copy(bytes, at->snapshot_bytes, bytes, at->snapshot_bytes, &m, &why) ||
	    message_check(&m, &want, &why) || m.coding != CODING_DENSE ||
	    message_decode(&m, bytes, NULL, params + at->begin, &why))
		return fail(SLUICE_EWIRE, "the snapshot of shard %u from %s was refused: %s", s,
			    rank_text(model->job, at->owner), why);
	return 0;
}

/* What a byte of a dense message costs this rank, and over the wire: the last snapshot is taken again, and a
 * piece of another rank's is read again, now that the memory on its way has been touched. */
static int measure_dense(sluice_model *model, uint64_t version, struct region *buffer, float *params)
{
	enum { PIECE = 4 << 20 };
	const struct layout *l = &model->layout;
	uint32_t last = l->n_shards - 1, s = 0;
	uint64_t start = now_ns();
	int rc = take_snapshot(model, last, version, buffer->base, params);
	model->worth.work_ns_per_byte = (double)(now_ns() - start) / (double)l->shards[last].snapshot_bytes;
	while (s < l->n_shards && l->shards[s].owner == model->job->rank)
		s++;
	if (rc || s == l->n_shards)
		return rc;
	const struct shard_layout *at = &l->shards[s];
	size_t bytes = at->snapshot_bytes < PIECE ? at->snapshot_bytes : PIECE;
	start = now_ns();
	rc = read_blocking(model, at->owner, model->remote_logs[at->owner], at->snapshot_offset[version & 1],
			   buffer, buffer->base, bytes);
	model->worth.wire_ns_per_byte = (double)(now_ns() - start) / (double)bytes;
	return rc;
}

int model_read_snapshots(sluice_model *model, uint64_t version, float *params)
{
	sluice_job *job = model->job;
	size_t largest = 0;
	for (uint32_t s = 0; s < model->layout.n_shards; s++)
		if (model->layout.shards[s].snapshot_bytes > largest)
			largest = model->layout.shards[s].snapshot_bytes;
	struct region *buffer = NULL;
	int rc = region_open(largest, 0, "snapshot", &buffer);
	for (uint32_t s = 0; s < model->layout.n_shards && !rc; s++) {
		const struct shard_layout *at = &model->layout.shards[s];
		rc = read_blocking(model, at->owner, model->remote_logs[at->owner],
				   at->snapshot_offset[version & 1], buffer, buffer->base, at->snapshot_bytes);
		if (!rc)
			rc = take_snapshot(model, s, version, buffer->base, params);
	}
	if (!rc && !job->seat)
		rc = measure_dense(model, version, buffer, params);
	region_close(&buffer);
	return rc;
}

/* Owners read their ranges of rank 0's parameters from a region that rank 0 opens for this alone. */
static int read_from_rank0(sluice_model *model, const uint8_t *descriptor)
{
	enum { PIECE = 1 << 20 };
	sluice_job *job = model->job;
	struct endpoint *e = job->peers[0].endpoint;
	struct remote *source = NULL;
	struct region *buffer = NULL;
	int rc = e->transport->ops->remote_open(e, descriptor, &source);
	if (!rc && source->bytes < model->layout.count * sizeof(float))
		rc = fail(SLUICE_EWIRE, "%s offers fewer parameters than the model has", rank_text(job, 0));
	if (!rc)
		rc = region_open(PIECE, 0, "initial", &buffer);
	for (uint32_t i = 0; i < model->n_own && !rc; i++) {
		struct shard *shard = &model->shards[i];
		size_t total = shard->at->span * sizeof(float);
		for (size_t at = 0; at < total && !rc; at += PIECE) {
			size_t bytes = total - at < PIECE ? total - at : PIECE;
			rc = read_blocking(model, 0, source, shard->at->begin * sizeof(float) + at, buffer,
					   buffer->base, bytes);
			memcpy((uint8_t *)shard->copy + at, buffer->base, bytes);
		}
		if (!rc && shard->async)
			shard_async_begin(model, shard);
		if (!rc)
			rc = shard_publish_snapshot(model, shard);
	}
	region_close(&buffer);
	if (source)
		e->transport->ops->remote_close(&source);
	return rc;
}

int model_spread(sluice_model *model, float *params)
{
	sluice_job *job = model->job;
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES] = { 0 };
	size_t bytes = (size_t)job->size * REGION_DESCRIPTOR_BYTES;
	uint8_t *mine = calloc(1, bytes), *theirs = calloc(1, bytes);
	struct region *initial = NULL;
	int rc = mine && theirs ? 0 : fail(SLUICE_ENOMEM, "no memory to spread parameters");
	if (!rc && job->rank == 0) {
		rc = region_open(model->layout.count * sizeof(float), REGION_READ, "initial", &initial);
		if (!rc)
			memcpy(initial->base, params, model->layout.count * sizeof(float));
		for (int p = 0; p < job->size && !rc; p++) {
			struct endpoint *e = job->peers[p].endpoint;
			rc = e->transport->ops->describe(e, initial, mine + (size_t)p * sizeof descriptor);
		}
	}
	if (!rc)
		rc = collective_run(job, COLLECTIVE_EXCHANGE, mine, sizeof descriptor, sizeof descriptor, theirs);
	if (!rc && !round_has(job, 0)) {
		progress_take(job);
		rc = job_fail(job, SLUICE_EPEER, 0, "%s was lost before the others had its parameters",
			      rank_text(job, 0));
		progress_release(job);
	}
	if (!rc && model->n_own)
		rc = read_from_rank0(model, theirs);
	if (!rc) /* all snapshots exist */
		rc = collective_run(job, COLLECTIVE_OPEN, NULL, 0, 0, NULL);
	if (!rc && sluice_is_worker(job))
		rc = model_read_snapshots(model, 0, params);
	if (!rc) /* all have read them */
		rc = collective_run(job, COLLECTIVE_OPEN, NULL, 0, 0, NULL);
	region_close(&initial);
	free(mine);
	free(theirs);
	return rc;
}
