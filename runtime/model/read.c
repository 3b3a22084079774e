/* SPDX-License-Identifier: BSD-3-Clause
 * One-sided READs that the caller waits for. At open and after a restore, they copy the owners'
 * snapshots to a worker's parameters. */
#include "model/model.h"
#include "base/clock.h"
#include "job/peers.h"
#include "job/progress_token.h"
#include "model/snapshot.h"
#include "rdma/transport.h"
#include <stdio.h>

struct blocking_read {
	sluice_model *model;
	int peer;
	struct transfer transfer;
	int posted, ended, rc;
};

static int blocking_read_done(void *context)
{
	struct blocking_read *r = context;
	sluice_model *model = r->model;
	if (model->job->peers[r->peer].state == PEER_LOST)
		r->rc = SLUICE_EPEER;
	if (!r->posted && !r->rc) {
		struct endpoint *e = model->job->peers[r->peer].endpoint;
		model->reading = r;
		r->rc = e->transport->ops->post(e, &r->transfer);
		if (r->rc == SLUICE_EAGAIN || r->rc == SLUICE_EPEER) {
			r->rc = 0;
			return 0;
		}
		r->posted = 1;
		/* A transport may copy at once; the next poll then returns the event. */
		if (!r->rc)
			return 0;
	}
	return r->rc || r->ended;
}

static void describe_read(void *context, char *text, size_t cap)
{
	struct blocking_read *r = context;
	snprintf(text, cap, "a READ of %zu bytes from %s", r->transfer.bytes,
		 rank_text(r->model->job, r->peer));
}

int model_read(sluice_model *model, int peer, struct remote *remote, uint64_t offset,
	       const struct region *region, void *local, size_t bytes)
{
	struct blocking_read r = { .model = model,
				   .peer = peer,
				   .transfer = { .kind = TRANSFER_GET,
						 .remote = remote,
						 .offset = offset,
						 .local_region = region,
						 .local = local,
						 .bytes = bytes,
						 .cookie = job_cookie(model->job, COOKIE_MODEL,
								      model->id, READ_BLOCKING) } };
	progress_take(model->job);
	int rc = progress_until(model->job, blocking_read_done, describe_read, &r);
	if (!rc && r.rc)
		rc = job_fail(model->job, r.rc, peer, "a READ of %zu bytes from %s failed", bytes,
			      rank_text(model->job, peer));
	model->reading = NULL;
	progress_release(model->job);
	return rc;
}

void model_read_ended(sluice_model *model, int status)
{
	if (!model->reading)
		return;
	model->reading->ended = 1;
	model->reading->rc = status;
}

/* Decodes one part of a snapshot from private memory into the parameters. *version: as in
 * snapshot_take(). */
static int take_snapshot_part(const sluice_model *model, uint32_t s, uint64_t *version,
			      uint32_t part, uint8_t *bytes, float *params)
{
	const struct shard_layout *at = &model->layout.shards[s];
	const char *why = "";
	struct message_expect want = { .kind = MESSAGE_SNAPSHOT,
				       .rank = (uint64_t)home_rank(model->home, s),
				       .epoch = model_epoch(model->job),
				       .model = model->id,
				       .shard = s,
				       .seq = *version,
				       .step = *version,
				       .phase = 0 };
	if (snapshot_take(&want, bytes, part, params + at->begin, at->span, &why))
		return fail(SLUICE_EWIRE, "the snapshot of shard %u from %s was refused: %s", s,
			    rank_text(model->job, home_rank(model->home, s)), why);
	*version = want.seq;
	return 0;
}

static int read_part(sluice_model *model, uint32_t s, struct snapshot_part part,
		     const struct region *buffer)
{
	const struct holder *from = home_current(model->home, s);

	return model_read(model, from->at.rank, from->log, from->at.snapshot_offset + part.offset,
			  buffer, buffer->base, part.bytes);
}

/* Reads all parts, one after another, through a buffer that holds one part. *taking_ns receives the
 * decoding time. *version: as in snapshot_take(). */
static int read_snapshot(sluice_model *model, uint32_t s, uint64_t *version,
			 const struct region *buffer, float *params, uint64_t *taking_ns)
{
	const struct shard_layout *at = &model->layout.shards[s];
	int rc = 0;
	*taking_ns = 0;
	for (uint32_t i = 0; i < snapshot_parts(at->span) && !rc; i++) {
		const struct snapshot_part part = snapshot_part(at->span, i);
		rc = read_part(model, s, part, buffer);
		uint64_t start = now_ns();
		if (!rc)
			rc = take_snapshot_part(model, s, version, i, buffer->base, params);
		*taking_ns += now_ns() - start;
	}
	return rc;
}

/* Measures the cost per byte of a dense message, on this rank and on the network. For this it
 * decodes the last snapshot again, and reads a part of another rank's snapshot again. All memory
 * involved has been accessed before. */
static int measure_dense(sluice_model *model, uint64_t version, const struct region *buffer,
			 float *params)
{
	const struct layout *l = &model->layout;
	uint32_t last = l->n_shards - 1, s = 0;
	uint64_t taking_ns;
	int rc = read_snapshot(model, last, &version, buffer, params, &taking_ns);
	model->worth.work_ns_per_byte = (double)taking_ns / (double)l->shards[last].snapshot_bytes;
	while (s < l->n_shards && home_is_here(model->home, s))
		s++;
	if (rc || s == l->n_shards)
		return rc;
	const struct snapshot_part part = snapshot_part(l->shards[s].span, 0);
	uint64_t start = now_ns();
	rc = read_part(model, s, part, buffer);
	model->worth.wire_ns_per_byte = (double)(now_ns() - start) / (double)part.bytes;
	return rc;
}

/* Returns the shard that this rank reads first, which is one of its own shards if it has any. At
 * any time the ranks then read from different owners. If all ranks read from the same owner, they
 * would share its link while the other links are idle. */
static uint32_t first_to_read(const sluice_model *model)
{
	const struct layout *l = &model->layout;
	uint32_t s = 0;
	while (s < l->n_shards && !home_is_here(model->home, s))
		s++;
	return s < l->n_shards ? s : l->n_shards * (uint32_t)model->job->rank / (uint32_t)l->size;
}

int model_read_snapshots(sluice_model *model, uint64_t steps, float *params, uint64_t *versions)
{
	const uint32_t n = model->layout.n_shards, first = first_to_read(model);
	struct region *buffer = NULL;
	uint64_t taking_ns;
	int rc = region_open(layout_part_bytes(&model->layout), 0, "snapshot", &buffer);
	for (uint32_t i = 0; i < n && !rc; i++) {
		const uint32_t s = (first + i) % n;
		const uint64_t least = model_version(model, s, steps);
		uint64_t version = versions ? MESSAGE_ANY : least;

		rc = read_snapshot(model, s, &version, buffer, params, &taking_ns);
		if (!rc && (version < least || version > STEPS_MOST))
			rc = fail(SLUICE_EWIRE,
				  "the snapshot of shard %u from %s was refused: it is of version "
				  "%llu, but the workers have made %llu exchanges",
				  s, rank_text(model->job, home_rank(model->home, s)),
				  (unsigned long long)version, (unsigned long long)least);
		if (versions)
			versions[s] = version;
	}
	if (!rc && !model->job->sim_rank)
		rc = measure_dense(model,
				   versions ? versions[n - 1] : model_version(model, n - 1, steps),
				   buffer, params);
	region_close(&buffer);
	return rc;
}
