/* SPDX-License-Identifier: BSD-3-Clause
 * A push whose gradient is selected on the device (on_device.h). The device adds, selects, cuts the
 * selection into the shards' parts, packs each part's payload and writes it where it is posted from
 * or read: into the shard's inbox itself where that is mapped here (shared memory), nowhere else
 * where the card reads device memory in place, else into the pinned staging slot. Back come counts,
 * lengths and checksums, which nobody waits for here: when they have come (on_device_late.c), the
 * host writes the headers.
 *
 * Order: a kernel's writes to host memory, and to device memory for those who read it over PCIe,
 * are complete once the device has reported (gpu/report.cu); the transport is told after that, so
 * what a NIC or a peer reads is complete. What messages hold leaves the residual by the launch that
 * reports, or, where the host has encoded some of them, by a later one. What CUDA fails in ends the
 * job, as what is not finite does: its errors stay with the process.
 *
 * Where more was selected for a shard than its slot holds, or the device does not pack
 * (on_device_packs()), that part's list comes to the host, which encodes it as it does any
 * other. */
#include "worker/worker.h"
#include "base/error.h"
#include "base/log.h"
#include <stdlib.h>
#include <string.h>

/* The host's encoder says a seeded support without positions, tries Rice, and
 * counts the bits of what is rounded. */
int on_device_packs(const struct recipe *recipe)
{
	return !selection_kinds[recipe->up.select].seeded && recipe->coding != CODING_SMALL &&
	       recipe->up.values.type != VALUE_ROUND;
}

/* ---- memory ---------------------------------------------------------------- */

static size_t payload_room(const struct shard_layout *at)
{
	return at->slot_bytes - MESSAGE_HEADER_BYTES;
}

static struct endpoint *owner_of(const sluice_model *model, uint32_t shard)
{
	return model->job->peers[model->layout.shards[shard].owner].endpoint;
}

/* The owner's window as the device reaches it; NULL: it is not mapped here, or cannot be pinned. */
static uint8_t *window_there(sluice_model *model, uint32_t shard)
{
	struct on_device *d = &model->worker->device;
	const int owner = model->layout.shards[shard].owner;
	const struct transport_ops *ops = owner_of(model, shard)->transport->ops;
	struct remote *remote = model->remote_windows[owner];
	void *window = ops->address && remote ? ops->address(remote) : NULL;
	if (!window || d->windows[owner])
		return window ? d->windows_there[owner] : NULL;
	if (d->ops->pin(window, remote->bytes, &d->windows_there[owner])) {
		log_line(LOG_INFO, "runtime", "model %u: messages to %s are staged: %s", model->id,
			 rank_text(model->job, owner), d->ops->error());
		return NULL;
	}
	d->windows[owner] = window;
	return d->windows_there[owner];
}

/* A note that follows the payload (up=global, down=global) is the host's: these messages are
 * staged. */
static void choose_lane(sluice_model *model, uint32_t shard)
{
	struct payload_lane *lane = &model->worker->device.lanes[shard];
	uint8_t *there = NULL;
	*lane = (struct payload_lane){ .way = PAYLOAD_STAGED, .depth = 1 };
	if (model->worker->census)
		return;
	if ((there = window_there(model, shard))) {
		lane->way = PAYLOAD_PLACED;
		lane->there = there + model->layout.shards[shard].slots_offset;
	} else if (owner_of(model, shard)->transport->ops->in_place) {
		lane->way = PAYLOAD_IN_PLACE;
		lane->depth =
			model->layout.shards[shard].slot_depth; /* a payload stays until the shard
								   has taken the message */
	}
}

/* What the card of the way to an owner cannot read where it is, is staged. */
static int prove_lanes(sluice_model *model)
{
	struct on_device *d = &model->worker->device;
	int rc = 0;
	progress_take(model->job);
	for (uint32_t s = 0; s < model->layout.n_shards && rc >= 0; s++) {
		struct payload_lane *lane = &d->lanes[s];
		if (lane->way != PAYLOAD_IN_PLACE)
			continue;
		if (!d->region && (rc = region_open_device(&d->payloads, 0, &d->region)))
			break;
		rc = owner_of(model, s)->transport->ops->in_place(owner_of(model, s), d->region);
		if (!rc)
			lane->way = PAYLOAD_STAGED;
	}
	progress_release(model->job);
	return rc < 0 ? rc : 0;
}

/* Where each part is packed, one after the other, and how it leaves. */
static int open_payloads(sluice_model *model)
{
	struct on_device *d = &model->worker->device;
	const struct layout *l = &model->layout;
	size_t bytes = 0;
	for (uint32_t s = 0; s < l->n_shards; s++) {
		choose_lane(model, s);
		d->lanes[s].offset = bytes;
		bytes += d->lanes[s].depth * payload_room(&l->shards[s]);
	}
	if (d->ops->alloc(MEMORY_DEVICE, bytes, &d->payloads))
		return device_fail(d->ops, "messages on the GPU");
	for (uint32_t s = 0; s < l->n_shards; s++)
		d->parts[s] = (struct device_part){ .begin = (uint32_t)l->shards[s].begin,
						    .span = l->shards[s].span,
						    .capacity = l->shards[s].up_capacity };
	return prove_lanes(model);
}

static int any_staged(const sluice_model *model)
{
	for (uint32_t s = 0; s < model->layout.n_shards; s++)
		if (model->worker->device.lanes[s].way == PAYLOAD_STAGED)
			return 1;
	return 0;
}

/* Where staged payloads come to: the staging slots themselves. */
static int open_staging(sluice_model *model)
{
	struct worker *w = model->worker;
	struct on_device *d = &w->device;
	if (!any_staged(model))
		return 0;
	if (!w->staging->common) {
		if (d->ops->pin(w->staging->base, w->staging->bytes, &d->pinned_there))
			return device_fail(d->ops, "staging memory");
		d->pinned = w->staging->base;
		return 0;
	}
	if (d->ops->alloc(MEMORY_HOST, d->payloads.bytes, &d->landing))
		return device_fail(d->ops, "staging memory");
	return 0;
}

int on_device_push_open(sluice_model *model)
{
	struct on_device *d = &model->worker->device;
	const uint32_t shards = model->layout.n_shards;
	int rc = 0;
	d->parts = calloc(shards, sizeof *d->parts);
	d->sent = calloc(shards, sizeof *d->sent);
	d->heads = calloc(shards, sizeof *d->heads);
	d->lanes = calloc(shards, sizeof *d->lanes);
	d->windows = calloc((size_t)model->job->size, sizeof *d->windows);
	d->windows_there = calloc((size_t)model->job->size, sizeof *d->windows_there);
	d->values = malloc((model->layout.selected_most + 1) * sizeof *d->values);
	if (!d->parts || !d->sent || !d->heads || !d->lanes || !d->windows || !d->windows_there ||
	    !d->values)
		rc = fail(SLUICE_ENOMEM, "no memory for %llu selected values",
			  (unsigned long long)model->layout.selected_most);
	if (!rc)
		rc = open_payloads(model);
	if (!rc)
		rc = open_staging(model);
	if (rc)
		on_device_push_close(model);
	return rc;
}

void on_device_push_close(sluice_model *model)
{
	struct on_device *d = &model->worker->device;
	d->ops->unpin(d->pinned);
	for (int r = 0; d->windows && r < model->job->size; r++)
		d->ops->unpin(d->windows[r]);
	d->ops->release(&d->landing);
	region_close(&d->region);
	d->ops->release(&d->payloads);
	free(d->parts);
	free(d->sent);
	free(d->heads);
	free(d->lanes);
	free(d->windows);
	free(d->windows_there);
	free(d->values);
	d->pinned = d->pinned_there = NULL;
	d->parts = NULL;
	d->sent = NULL;
	d->heads = NULL;
	d->lanes = NULL;
	d->windows = d->windows_there = NULL;
	d->values = NULL;
}

/* ---- accumulate, select, pack ---------------------------------------------- */

void on_device_aim(sluice_model *model)
{
	struct worker *w = model->worker;
	struct on_device *d = &w->device;
	for (uint32_t s = 0; s < model->layout.n_shards; s++) {
		const struct shard_layout *at = &model->layout.shards[s];
		const struct payload_lane *lane = &d->lanes[s];
		const uint64_t seq = w->up[s].ring.next_seq;
		const size_t in_payloads = lane->offset + seq % lane->depth * payload_room(at);
		const uint8_t *slot = worker_slot(model, s, seq);
		d->parts[s].payload = (uint8_t *)d->payloads.address + in_payloads;
		d->parts[s].copy = NULL;
		if (lane->way == PAYLOAD_PLACED)
			d->parts[s].copy = lane->there +
					   ring_offset(at->slot_depth, at->slot_bytes, seq) +
					   MESSAGE_HEADER_BYTES;
		else if (lane->way == PAYLOAD_STAGED && d->landing.address)
			d->parts[s].copy = (uint8_t *)d->landing.address + in_payloads;
		else if (lane->way == PAYLOAD_STAGED)
			d->parts[s].copy = (uint8_t *)d->pinned_there +
					   (slot - (uint8_t *)w->staging->base) +
					   MESSAGE_HEADER_BYTES;
	}
}

/* As worker_message() has them. */
static struct device_values values_of(const sluice_model *model)
{
	const struct value_coding *c = &model->recipe.up.values;
	return (struct device_values){ .type = (int)c->type,
				       .bits = c->bits,
				       .block = c->block,
				       .purpose = RANDOM_ROUND,
				       .rank = (uint32_t)model->job->rank,
				       .step = model->worker->step,
				       .seed = model->recipe.seed };
}

/* Residual and momentum, where the host's were restored and are newer. */
static int take_up(sluice_model *model)
{
	struct worker *w = model->worker;
	struct on_device *d = &w->device;
	if (!d->stale)
		return 0;
	if (d->ops->copy(d->residual.address, w->residual, model->layout.count * sizeof(float),
			 d->stream))
		return -1;
	d->stale = 0;
	return on_device_give_velocity(model);
}

int on_device_accumulate(sluice_model *model, const void *grad)
{
	struct worker *w = model->worker;
	struct on_device *d = &w->device;
	w->addend = NULL;
	w->skip = 0;
	struct device_push push = {
		.payload = model->recipe.up.select == SELECT_SKETCH ? DEVICE_SKETCHES :
			   on_device_packs(&model->recipe)          ? DEVICE_PAIRS :
								      DEVICE_LISTS,
		.select = { .residual = d->residual.address,
			    .grad = grad,
			    .grad_type = (int)model_pushed_type(model),
			    .judge = 1,
			    .scale = model->update.placement == STEP_INSIDE ? model->lr : 1.0f },
		.values = values_of(model),
		.settle = 1,
		.masked = on_device_masked(model),
		.rows = model->recipe.up.sketch_rows,
		.parts = d->parts
	};
	on_device_rule(model, &push.select);
	on_device_fold(model, &push.select);
	on_device_measure_sketches(model);
	on_device_aim(model);
	for (uint32_t s = 0; s < model->layout.n_shards; s++)
		d->heads[s] = worker_message(model, s);
	if (take_up(model) || d->ops->push(d->compressor, &push, d->stream))
		return on_device_push_failed(model, 0);
	return 0;
}

int on_device_push_failed(sluice_model *model, int held)
{
	sluice_job *job = model->job;
	const char *said = model->worker->device.ops->error();
	if (!held)
		progress_take(job);
	int rc = job->failure.code ?
			 job_failed(job) :
			 job_fail(
				 job, SLUICE_EGPU, job->rank,
				 "the push of %s at step %llu failed on its GPU: %s; start the job "
				 "again, from a checkpoint if there is one",
				 rank_text(job, job->rank), (unsigned long long)model->step + 1,
				 said);
	if (!held)
		progress_release(job);
	return rc;
}

/* ---- messages -------------------------------------------------------------- */

/* The payload lies in the slot already, unless it landed elsewhere. */
void on_device_stage(sluice_model *model, uint32_t shard, struct message *m)
{
	struct on_device *d = &model->worker->device;
	const struct device_sent *sent = &d->sent[shard];
	uint8_t *slot = worker_slot(model, shard, m->seq);
	m->payload_bytes = sent->payload_bytes;
	m->scale = sent->scale;
	if (d->landing.address && d->lanes[shard].way == PAYLOAD_STAGED)
		memcpy(slot + MESSAGE_HEADER_BYTES, d->parts[shard].copy, sent->payload_bytes);
	message_head(m, sent->crc, slot);
	worker_staged(model, shard, m);
	model->worker->up[shard].apart = d->lanes[shard].way != PAYLOAD_STAGED;
}

static void stage_packed(sluice_model *model, uint32_t shard, const struct device_sent *sent)
{
	struct message m = worker_message(model, shard);
	m.count = sent->count;
	m.coding = (enum index_coding)sent->coding;
	on_device_stage(model, shard, &m);
	model->stats.pushed_elements += sent->count;
}

/* Encoded here; what it leaves is noted for settle(). */
static int stage_listed(sluice_model *model, uint32_t shard, const struct device_sent *sent)
{
	struct worker *w = model->worker;
	struct on_device *d = &w->device;
	float *rest = d->values + sent->first;
	if (d->ops->fetch(d->compressor, sent->first, sent->count, w->index, rest, d->stream))
		return device_fail(d->ops, "sluice_push");
	for (uint32_t i = 0; i < sent->count; i++)
		w->residual[w->index[i]] = rest[i];
	on_device_mark(model, sent->count);
	if (worker_encode(model, shard, w->index, sent->count))
		return SLUICE_ENUMERIC;
	for (uint32_t i = 0; i < sent->count; i++)
		rest[i] = w->residual[w->index[i]];
	if (d->unsent)
		on_device_marked(model, d->unsent + sent->first, sent->count);
	return 0;
}

/* What all messages hold leaves the residual, now that the host has encoded some. */
static int settle(sluice_model *model)
{
	struct on_device *d = &model->worker->device;
	float *masked = on_device_masked(model);
	if (d->ops->settle(d->compressor, d->residual.address, masked, d->sent, d->values,
			   masked ? d->unsent : NULL, d->stream))
		return device_fail(d->ops, "sluice_push");
	return 0;
}

int on_device_send(sluice_model *model)
{
	struct on_device *d = &model->worker->device;
	const uint64_t pushed = model->stats.pushed_elements,
		       deferred = model->stats.deferred_elements;
	int rc = 0;
	for (uint32_t s = 0; s < model->layout.n_shards && !rc; s++)
		if (d->sent[s].packed)
			stage_packed(model, s, &d->sent[s]);
		else
			rc = stage_listed(model, s, &d->sent[s]);
	if (!rc && !d->settled)
		rc = settle(model);
	if (rc) { /* nothing is posted yet */
		model->stats.pushed_elements = pushed;
		model->stats.deferred_elements = deferred;
	}
	return rc;
}

/* ---- posting --------------------------------------------------------------- */

/* Order at the owner: a notify arrives after all that earlier puts of this rank wrote, and after
 * what was stored in its window before the call, which the host has waited for. So a header that is
 * there has its payload. */
int on_device_post(sluice_model *model, uint32_t shard, struct transfer *whole)
{
	struct worker *w = model->worker;
	struct on_device *d = &w->device;
	struct up_lane *lane = &w->up[shard];
	struct endpoint *e = owner_of(model, shard);
	const struct device_sent *sent = &d->sent[shard];
	const struct transfer payload = { .kind = TRANSFER_PUT,
					  .remote = whole->remote,
					  .offset = whole->offset + MESSAGE_HEADER_BYTES,
					  .local_region = d->region,
					  .local = d->parts[shard].payload,
					  .bytes = sent->payload_bytes };
	int rc = 0;
	whole->bytes = MESSAGE_HEADER_BYTES;
	if (d->lanes[shard].way == PAYLOAD_IN_PLACE && !lane->payload_out && sent->payload_bytes)
		rc = e->transport->ops->post(e, &payload);
	if (rc)
		return rc;
	lane->payload_out = 1;
	rc = e->transport->ops->post(e, whole);
	if (!rc && d->lanes[shard].way == PAYLOAD_PLACED)
		e->transport->counters.put_bytes += sent->payload_bytes; /* the device moved them */
	return rc;
}
