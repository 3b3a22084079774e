/* SPDX-License-Identifier: BSD-3-Clause
 * One-sided READs that the caller waits for: owners' snapshots become a worker's parameters, at open and after a
 * restore. */
#include "model/model.h"
#include "base/clock.h"
#include "rdma/transport.h"
#include <stdio.h>

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

int model_read(sluice_model *model, int peer, struct remote *remote, uint64_t offset, const struct region *region,
	       void *local, size_t bytes)
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
	rc = model_read(model, at->owner, model->remote_logs[at->owner], at->snapshot_offset[version & 1],
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
		rc = model_read(model, at->owner, model->remote_logs[at->owner],
				   at->snapshot_offset[version & 1], buffer, buffer->base, at->snapshot_bytes);
		if (!rc)
			rc = take_snapshot(model, s, version, buffer->base, params);
	}
	if (!rc && !job->seat)
		rc = measure_dense(model, version, buffer, params);
	region_close(&buffer);
	return rc;
}
