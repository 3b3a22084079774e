/* SPDX-License-Identifier: BSD-3-Clause
 * A push whose gradient is selected on the device (device.h). The device folds the gradient into
 * the residual, selects (or takes everything), cuts the selection into the shards' parts, and packs
 * the payload of each part. Where the payload goes depends on the path to the shard. If the shard's
 * inbox is mapped here (shared memory), the payload is written into the inbox itself. If the
 * network card reads device memory in place, the payload stays where it was packed. Otherwise it
 * is written to the pinned staging slot. Counts, lengths and checksums come back to the host, and
 * no function here waits for them. When they have arrived, the host writes the headers.
 *
 * Order: a kernel's writes to host memory, and its writes to device memory that others read over
 * PCIe, are complete once the device has reported (gpu/parts.cu). The transport is notified only
 * after that, so a NIC or a peer reads complete data. The contents of messages are subtracted from
 * the residual by the launch that reports. If the host has encoded some of the messages, a later
 * launch does it.
 *
 * If more was selected for a shard than its slot holds, or if the device does not pack
 * (outbox_packs()), the list of that part comes to the host, which encodes it like any other. The
 * momentum in host memory then only marks the coordinates that upload_settle() clears.
 *
 * With up=sketch the push sends the shards' sketches. The pull sends the exact values when the
 * shards have asked for them. */
#include "worker/device_push.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "job/peers.h"
#include "job/progress_token.h"
#include "model/compressor.h"
#include "worker/agree.h"
#include "worker/lane.h"
#include "worker/signal.h"
#include "worker/nonfinite.h"
#include "worker/state.h"
#include "worker/upload.h"
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How the payloads of messages to one shard reach the owner. */
struct payload_lane {
	enum payload_way way;
	uint8_t *there; /* PAYLOAD_PLACED: the slots of the shard, as an address on the device */
	size_t offset;  /* offset of the first payload in outbox.payloads */
	unsigned depth; /* number of payloads at `offset`; message n uses payload n mod depth */
};

/* An owner's window that is mapped into this process. */
struct window {
	/* its address in this process and on the device; NULL: it is not pinned */
	void *host, *there;
};

/* The messages of one model's pushes, and how they reach the owners. */
struct outbox {
	struct device_part *parts; /* parts, sent, heads and lanes have n_shards entries */
	struct device_sent *sent;
	/* Headers. They have only those fields that were known when the push was called. */
	struct message *heads;
	struct payload_lane *lanes;
	struct window *windows; /* [rank]: windows of the owners */
	struct memory payloads; /* memory in which parts are packed */
	/* the region of `payloads` if any payload is posted from it; otherwise NULL */
	struct region *region;
	struct window staging; /* the lanes' staging region, which is pinned */
	struct memory landing; /* in a simulated rank: the device writes staged payloads here,
				  because other ranks share the staging pages */
	uint32_t *listed;      /* [selected_most]: positions that the host encodes */
	/* [selected_most]: the values that the host's messages leave in the residual at these
	 * positions */
	float *rest;
	/* [selected_most]: 1 if the position keeps its momentum; NULL if the recipe masks no
	 * momentum */
	uint32_t *unsent;
	/* 1: the contents of the last push's messages were subtracted from the residual */
	int settled;
};

static struct outbox *outbox_of(const struct worker *w)
{
	return w->device->outbox;
}

/* Returns 0 for codings that only the host can write: a seeded support without positions, and
 * rounded values whose bits must be counted. A message of all coordinates has no positions. */
int outbox_packs(const struct recipe *recipe)
{
	return recipe->up.select == SELECT_ALL || (!selection_kinds[recipe->up.select].seeded &&
						   recipe->up.values.type != VALUE_ROUND);
}

/* ---- opening and closing --------------------------------------------------- */

static size_t payload_room(const struct shard_layout *at)
{
	return at->slot_bytes - MESSAGE_HEADER_BYTES;
}

static struct endpoint *owner_of(const struct worker *w, uint32_t shard)
{
	return home_holder(w->model.home, shard, 0)->endpoint;
}

/* Returns the device address of the owner's window, or NULL if this process has not mapped it or
 * cannot pin it. */
static uint8_t *window_there(struct worker *w, uint32_t shard)
{
	struct on_device *d = w->device;
	const struct holder *holder = home_holder(w->model.home, shard, 0);
	const int owner = holder->at.rank;
	const struct transport_ops *ops = holder->endpoint->transport->ops;
	struct remote *remote = holder->window;
	struct window *window = &d->outbox->windows[owner];
	void *host = ops->address && remote ? ops->address(remote) : NULL;
	if (!host || window->host)
		return host ? window->there : NULL;
	if (d->half.ops->pin(host, remote->bytes, &window->there)) {
		log_line(LOG_INFO, "runtime", "model %u: messages to %s are staged: %s",
			 w->model.id, rank_text(w->job, owner), d->half.ops->error());
		return NULL;
	}
	window->host = host;
	return window->there;
}

/* Returns 1 if the network card for an owner may read GPU memory in place. */
static int may_read(struct endpoint *owner)
{
	const struct transport_ops *ops = owner->transport->ops;
	return ops->prepare && ops->prepare(owner, NULL, NULL, 0) > 0;
}

/* Messages with a note (up=global, down=global) are staged, because the host writes the note after
 * the payload. Messages to several holders are also staged, because the device writes one copy. */
static void choose_lane(struct worker *w, uint32_t shard)
{
	const struct shard_layout *at = &w->layout->shards[shard];
	struct payload_lane *lane = &outbox_of(w)->lanes[shard];
	uint8_t *there = NULL;
	*lane = (struct payload_lane){ .way = PAYLOAD_STAGED, .depth = 1 };
	if (w->census || home_holders(w->model.home) != 1)
		return;
	if ((there = window_there(w, shard))) {
		lane->way = PAYLOAD_PLACED;
		lane->there = there + home_holder(w->model.home, shard, 0)->at.slots_offset;
	} else if (may_read(owner_of(w, shard))) {
		lane->way = PAYLOAD_IN_PLACE;
		lane->depth = at->slot_depth; /* a payload is kept until the shard has read the
						 message */
	}
}

/* Changes lanes to staging if the owner's network card proves unable to read the memory in
 * place. */
static int prove_lanes(struct worker *w)
{
	struct outbox *o = outbox_of(w);
	int rc = 0;
	progress_take(w->job);
	for (uint32_t s = 0; s < w->layout->n_shards && rc >= 0; s++) {
		struct payload_lane *lane = &o->lanes[s];
		if (lane->way != PAYLOAD_IN_PLACE)
			continue;
		if (!o->region && (rc = region_open_device(&o->payloads, 0, &o->region)))
			break;
		struct endpoint *owner = owner_of(w, s);
		rc = owner->transport->ops->prepare(
			owner, o->region, (const uint8_t *)o->payloads.address + lane->offset,
			lane->depth * payload_room(&w->layout->shards[s]));
		if (!rc)
			lane->way = PAYLOAD_STAGED;
	}
	progress_release(w->job);
	return rc < 0 ? rc : 0;
}

/* Allocates the memory in which the parts are packed one after another, and decides how each
 * payload reaches its owner. */
static int open_payloads(struct worker *w)
{
	struct on_device *d = w->device;
	struct outbox *o = d->outbox;
	const struct layout *l = w->layout;
	enum memory_place place = MEMORY_DEVICE;
	size_t bytes = 0;
	for (uint32_t s = 0; s < l->n_shards; s++) {
		choose_lane(w, s);
		if (o->lanes[s].way == PAYLOAD_IN_PLACE)
			place = MEMORY_EXPORTED;
		o->lanes[s].offset = bytes;
		bytes += o->lanes[s].depth * payload_room(&l->shards[s]);
	}
	if (d->half.ops->alloc(place, bytes, &o->payloads))
		return device_fail(d->half.ops, "messages on the GPU");
	for (uint32_t s = 0; s < l->n_shards; s++)
		o->parts[s] = (struct device_part){ .begin = (uint32_t)l->shards[s].begin,
						    .span = l->shards[s].span,
						    .capacity = l->shards[s].up_capacity };
	return prove_lanes(w);
}

static int any_staged(const struct worker *w)
{
	for (uint32_t s = 0; s < w->layout->n_shards; s++)
		if (outbox_of(w)->lanes[s].way == PAYLOAD_STAGED)
			return 1;
	return 0;
}

/* Pins the staging slots, to which the device writes staged payloads. The pages of a simulated
 * rank's slots are shared, so its payloads go to `landing` first. */
static int open_staging(struct worker *w)
{
	struct on_device *d = w->device;
	const struct region *staging = lanes_staging(w->lanes);
	struct outbox *o = d->outbox;
	if (!any_staged(w))
		return 0;
	if (staging->common ? d->half.ops->alloc(MEMORY_HOST, o->payloads.bytes, &o->landing) :
			      d->half.ops->pin(staging->base, staging->bytes, &o->staging.there))
		return device_fail(d->half.ops, "staging memory");
	o->staging.host = staging->common ? NULL : staging->base;
	return 0;
}

int outbox_open(struct worker *w)
{
	const uint32_t shards = w->layout->n_shards;
	const size_t most = w->layout->selected_most + 1;
	const int masks = compressor_velocity(w->compressor) && w->rules.recipe->signal.mask;
	struct outbox *o = calloc(1, sizeof(*o));
	int rc = 0;
	w->device->outbox = o;
	if (o) {
		o->parts = calloc(shards, sizeof(*o->parts));
		o->sent = calloc(shards, sizeof(*o->sent));
		o->heads = calloc(shards, sizeof(*o->heads));
		o->lanes = calloc(shards, sizeof(*o->lanes));
		o->windows = calloc((size_t)w->job->size, sizeof(*o->windows));
		o->listed = malloc(most * sizeof(*o->listed));
		o->rest = malloc(most * sizeof(*o->rest));
		o->unsent = masks ? malloc(most * sizeof(*o->unsent)) : NULL;
	}
	if (!o || !o->parts || !o->sent || !o->heads || !o->lanes || !o->windows || !o->listed ||
	    !o->rest || (masks && !o->unsent))
		rc = fail(SLUICE_ENOMEM, "no memory for %zu selected values", most);
	if (!rc)
		rc = open_payloads(w);
	return rc ? rc : open_staging(w); /* on failure, the caller closes the outbox */
}

void outbox_close(struct worker *w)
{
	struct on_device *d = w->device;
	struct outbox *o = d->outbox;
	if (!o)
		return;
	d->half.ops->unpin(o->staging.host);
	for (int r = 0; o->windows && r < w->job->size; r++)
		d->half.ops->unpin(o->windows[r].host);
	d->half.ops->release(&o->landing);
	region_close(&o->region);
	d->half.ops->release(&o->payloads);
	free(o->parts);
	free(o->sent);
	free(o->heads);
	free(o->lanes);
	free(o->windows);
	free(o->listed);
	free(o->rest);
	free(o->unsent);
	free(o);
	d->outbox = NULL;
}

enum payload_way on_device_way(const struct worker *w, uint32_t shard)
{
	return outbox_of(w)->lanes[shard].way;
}

int on_device_packed(const struct worker *w, uint32_t shard)
{
	return outbox_of(w)->sent[shard].packed;
}

/* ---- fold, select, pack ---------------------------------------------------- */

/* Sets the destination of each payload to the address from which this step's next message is posted
 * or read. */
static void aim(struct worker *w)
{
	struct outbox *o = w->device->outbox;
	for (uint32_t s = 0; s < w->layout->n_shards; s++) {
		const struct shard_layout *at = &w->layout->shards[s];
		const struct payload_lane *lane = &o->lanes[s];
		const uint64_t seq = lane_next_seq(w->lanes, s);
		const size_t in_payloads = lane->offset + seq % lane->depth * payload_room(at);
		const uint8_t *slot = lane_slot(w->lanes, s, seq);
		uint8_t *copy = NULL;
		if (lane->way == PAYLOAD_PLACED)
			copy = lane->there + ring_offset(at->slot_depth, at->slot_bytes, seq) +
			       MESSAGE_HEADER_BYTES;
		else if (lane->way == PAYLOAD_STAGED && o->landing.address)
			copy = (uint8_t *)o->landing.address + in_payloads;
		else if (lane->way == PAYLOAD_STAGED)
			copy = (uint8_t *)o->staging.there +
			       (slot - (uint8_t *)lanes_staging(w->lanes)->base) +
			       MESSAGE_HEADER_BYTES;
		o->parts[s].payload = (uint8_t *)o->payloads.address + in_payloads;
		o->parts[s].copy = copy;
	}
}

/* Returns the coding and the random stream of the values, as upload_head() sets them. */
static struct device_values values_of(const struct worker *w)
{
	const struct random_stream stream = { .purpose = RANDOM_ROUND,
					      .rank = (uint32_t)w->job->rank,
					      .step = w->step.number,
					      .seed = w->rules.recipe->seed };

	return half_values(&w->step.rule.values_up, &stream, 0);
}

/* Returns 1 if the momentum of sent coordinates is cleared, as upload_settle() does on the host. */
static int masks(const struct worker *w)
{
	return compressor_velocity(w->compressor) && upload_masks(w);
}

static struct device_push push_of(const struct worker *w, const void *grad)
{
	const struct on_device *d = w->device;
	return (struct device_push){
		.payload = on_device_sketches(w->rules.recipe) ? DEVICE_SKETCHES :
			   w->step.rule.all_up                 ? DEVICE_DENSE :
			   outbox_packs(w->rules.recipe)       ? DEVICE_PAIRS :
								 DEVICE_LISTS,
		.select = on_device_select_of(w, grad),
		.values = values_of(w),
		.densest = w->rules.recipe->coding == CODING_SMALL,
		.settle = 1,
		.sends_left = w->step.rule.reset,
		.masked = masks(w) ? d->half.velocity.address : NULL,
		.rows = w->rules.recipe->up.sketch_rows,
		.parts = d->outbox->parts,
	};
}

int on_device_fold(struct worker *w, const struct vector *grad, const struct vector *before,
		   struct signal *out)
{
	struct on_device *d = w->device;
	struct outbox *o = d->outbox;
	(void)before; /* a recipe with pairs of gradients compresses on the host */
	(void)out;
	step_leave_out(&w->step, 0);
	const struct device_push push = push_of(w, vector_memory(grad));
	aim(w);
	for (uint32_t s = 0; s < w->layout->n_shards; s++) {
		o->heads[s] = upload_head(w, s);
		o->parts[s].bytes = w->layout->shards[s].sketch_cells * (uint32_t)sizeof(float);
	}
	if (on_device_take_up(w) || half_push(&d->half, &push, 0))
		return outbox_failed(w, 0);
	return 0;
}

int outbox_failed(struct worker *w, int held)
{
	return job_fail_here(
		w->job, held, SLUICE_EGPU,
		"the push of %s at step %llu failed on its GPU: %s; start the job again, from a "
		"checkpoint if there is one",
		rank_text(w->job, w->job->rank), (unsigned long long)w->step.done + 1,
		w->device->half.ops->error());
}

/* ---- results ---------------------------------------------------------------- */

int on_device_busy(const struct worker *w, char *text, size_t cap)
{
	const struct on_device *d = w->device;
	char stage[256];
	if (!on_device_at_work(on_device_state(w->device)))
		return 0;
	d->half.ops->stage(d->half.compressor, stage, sizeof(stage));
	snprintf(text, cap, "step %llu: %s", (unsigned long long)w->step.number, stage);
	return 1;
}

int outbox_take(struct worker *w)
{
	struct on_device *d = w->device;
	struct device_selected got;
	/* The push has finished, so this call does not query CUDA. */
	if (d->half.ops->pushed(d->half.compressor, &got, d->outbox->sent, d->half.stream))
		return outbox_failed(w, 1);
	d->outbox->settled = got.settled;
	step_set_range(&w->step, got.largest); /* a grid needs it */
	int rc = got.nonfinite ?
			 nonfinite_pushed(w, 1, got.first_nonfinite, got.nonfinite, got.bad) :
			 0;
	step_leave_out(&w->step, rc > 0);
	if (!rc && !on_device_sketches(w->rules.recipe) && (got.nan || !(got.largest <= FLT_MAX))) {
		/* The device does not report which coordinate it was. */
		step_fail(&w->step, COORDINATE_UNKNOWN);
		rc = nonfinite_sum(w, 1);
	}
	return rc < 0 ? rc : 0;
}

/* A sketch that is not finite counts as incomplete: finding its bad coordinate needs CUDA, which
 * only a call of the application may use. */
int outbox_complete(const struct worker *w)
{
	const struct outbox *o = outbox_of(w);
	uint32_t s = 0;
	while (s < w->layout->n_shards && o->sent[s].packed && !o->sent[s].nonfinite)
		s++;
	return s == w->layout->n_shards && (o->settled || on_device_sketches(w->rules.recipe));
}

/* ---- messages -------------------------------------------------------------- */

/* Returns the header of the message to a shard. Rate and flags are those at the call of
 * sluice_push(). */
static struct message head_of(const struct worker *w, uint32_t shard)
{
	struct message m = outbox_of(w)->heads[shard];
	m.range = w->step.range;
	m.epoch = w->job->membership_epoch;
	return m;
}

/* Stages a message whose payload the device has made: writes the header to the shard's staging
 * slot. The payload is already there, except in a simulated rank, where it is in `landing`. */
static void stage_made(struct worker *w, uint32_t shard, struct message *m)
{
	const struct outbox *o = outbox_of(w);
	const struct device_sent *sent = &o->sent[shard];
	static const enum lane_way ways[] = { [PAYLOAD_STAGED] = LANE_STAGED,
					      [PAYLOAD_PLACED] = LANE_PLACED,
					      [PAYLOAD_IN_PLACE] = LANE_BESIDE };
	const enum payload_way way = o->lanes[shard].way;
	const struct lane_payload payload = { .way = ways[way],
					      .region = o->region,
					      .bytes = o->parts[shard].payload };
	uint8_t *slot = lane_slot(w->lanes, shard, m->seq);
	m->payload_bytes = sent->payload_bytes;
	m->scale = sent->scale;
	if (o->landing.address && way == PAYLOAD_STAGED)
		memcpy(slot + MESSAGE_HEADER_BYTES, o->parts[shard].copy, sent->payload_bytes);
	message_head(m, sent->crc, slot);
	upload_stage(w, m, &payload);
}

static void stage_packed(struct worker *w, uint32_t shard, const struct device_sent *sent)
{
	struct message m = head_of(w, shard);
	m.count = sent->count;
	m.coding = (enum index_coding)sent->coding;
	stage_made(w, shard, &m);
	w->model.stats->pushed_elements += sent->count;
}

/* Encodes a message on the host, and records for settle() what the message leaves in the residual.
 * The momentum in host memory only marks coordinates here: all listed ones are set to 1, and
 * upload_settle() clears those that were sent. */
static int stage_listed(struct worker *w, uint32_t shard, const struct device_sent *sent)
{
	struct on_device *d = w->device;
	float *rest = d->outbox->rest + sent->first;
	uint32_t *listed = d->outbox->listed;
	float *residual = worker_residual(w), *velocity = compressor_velocity(w->compressor);
	struct pick pick = { .index = listed, .vector = residual, .n = sent->count };
	struct message m = head_of(w, shard);
	const int marks = masks(w);
	if (d->half.ops->fetch(d->half.compressor, sent->first, sent->count, listed, rest,
			       d->half.stream))
		return device_fail(d->half.ops, "sluice_push");
	for (uint32_t i = 0; i < sent->count; i++)
		residual[listed[i]] = rest[i];
	for (uint32_t i = 0; i < sent->count && marks; i++)
		velocity[listed[i]] = 1;
	if (upload_pick(w, &m, &pick, w->layout->shards[shard].begin))
		return SLUICE_ENUMERIC;
	upload_settle(w, shard, &pick);
	w->model.stats->pushed_elements += pick.n;
	for (uint32_t i = 0; i < sent->count; i++)
		rest[i] = residual[listed[i]];
	for (uint32_t i = 0; i < sent->count && marks; i++)
		d->outbox->unsent[sent->first + i] = velocity[listed[i]] != 0;
	return 0;
}

/* Subtracts the contents of all messages from the residual. Called if the host has encoded some of
 * them. */
static int settle(struct worker *w)
{
	struct on_device *d = w->device;
	const struct outbox *o = d->outbox;
	const int marks = masks(w);
	if (d->half.ops->settle(d->half.compressor, d->half.residual.address,
				marks ? d->half.velocity.address : NULL, o->sent, o->rest,
				marks ? o->unsent : NULL, d->half.stream))
		return device_fail(d->half.ops, "sluice_push");
	return 0;
}

int on_device_emit_pairs(struct worker *w)
{
	const struct outbox *o = outbox_of(w);
	const uint64_t pushed = w->model.stats->pushed_elements,
		       deferred = w->model.stats->deferred_elements;
	int rc = 0;
	for (uint32_t s = 0; s < w->layout->n_shards && !rc; s++)
		if (o->sent[s].packed)
			stage_packed(w, s, &o->sent[s]);
		else
			rc = stage_listed(w, s, &o->sent[s]);
	if (!rc && !o->settled)
		rc = settle(w);
	if (rc) { /* no message is posted yet */
		w->model.stats->pushed_elements = pushed;
		w->model.stats->deferred_elements = deferred;
	}
	return rc;
}

/* Handles a sketch that is not finite: copies its shard's residual to the host to find the
 * coordinate. */
static int device_sketch_overflowed(struct worker *w, const struct shard_layout *at)
{
	size_t i = at->span;
	int rc = half_bad(&w->device->half, worker_residual(w) + at->begin, at->begin, at->span,
			  &i);
	if (rc)
		return rc;
	return step_fail(&w->step, i < at->span ? at->begin + i : COORDINATE_UNKNOWN);
}

int on_device_emit_sketches(struct worker *w)
{
	const struct outbox *o = outbox_of(w);
	for (uint32_t s = 0; s < w->layout->n_shards; s++)
		if (o->sent[s].nonfinite)
			return device_sketch_overflowed(w, &w->layout->shards[s]);
	for (uint32_t s = 0; s < w->layout->n_shards; s++) {
		struct message m = head_of(w, s);
		m.span = m.count = w->layout->shards[s].sketch_cells;
		m.coding = CODING_DENSE;
		stage_made(w, s, &m);
	}
	return 0;
}

/* ---- the values of a pull: token held -------------------------------------- */

/* Requests the values at the coordinates that the shards have requested from the device. */
static void set_requests(struct worker *w)
{
	for (uint32_t s = 0; s < w->layout->n_shards; s++) {
		struct device_part *part = &outbox_of(w)->parts[s];
		uint32_t n;

		part->index = agree_support(w->agreed, s, &n);
		part->bytes = n * (uint32_t)sizeof(float);
	}
}

static int ask_for_values(struct worker *w)
{
	struct on_device *d = w->device;
	struct outbox *o = d->outbox;
	const struct device_push push = { .payload = DEVICE_VALUES,
					  .vector = d->half.residual.address,
					  .parts = o->parts };
	set_requests(w);
	aim(w);
	/* A simulated job waits for the device here, because it considers a rank stuck that waits
	 * for no other rank. */
	if (half_push(&d->half, &push, w->job->sim_rank != NULL))
		return device_fail(d->half.ops, "sluice_pull");
	on_device_become(w, DEVICE_ASKED);
	return 0;
}

static int stage_values(struct worker *w)
{
	struct on_device *d = w->device;
	struct device_selected nothing;
	if (d->half.ops->pushed(d->half.compressor, &nothing, d->outbox->sent, d->half.stream))
		return device_fail(d->half.ops, "sluice_pull");
	for (uint32_t s = 0; s < w->layout->n_shards; s++) {
		struct message m = upload_head(w, s);
		m.count = d->outbox->parts[s].bytes / (uint32_t)sizeof(float);
		m.coding = CODING_AGREED;
		stage_made(w, s, &m);
		w->model.stats->pushed_elements += m.count;
	}
	return 0;
}

static int end_job(struct worker *w, int rc)
{
	return rc ? job_fail(w->job, rc, w->job->rank, "%s", sluice_last_error()) : 0;
}

int on_device_valued(struct worker *w)
{
	struct on_device *d = w->device;
	int rc = 0;
	if (on_device_state(w->device) != DEVICE_ASKED)
		return 1;
	const int done = half_poll(&d->half, 1);
	if (!done)
		return 0;
	rc = done > 0 ? stage_values(w) : device_fail(d->half.ops, "sluice_pull");
	on_device_become(w, DEVICE_IDLE);
	return !end_job(w, rc);
}

int on_device_ask_values(struct worker *w)
{
	end_job(w, ask_for_values(w));
	return 0;
}
