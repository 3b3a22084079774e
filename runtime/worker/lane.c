/* SPDX-License-Identifier: BSD-3-Clause
 * See lane.h. Called by the loop (worker.c) and by what makes or takes messages for it. */
#include "worker/lane.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "model/delta_log.h"
#include "rdma/ring.h"
#include "job/job.h"
#include "model/model.h"
#include "worker/state.h"
#include <stdio.h>
#include <stdlib.h>

enum { TORN_MAX = 64 }; /* READs of one publication that may find it half written */

enum lane_up { UP_POSTED, UP_STAGED, UP_PAYLOAD_POSTED };
enum lane_down { DOWN_IDLE, DOWN_READING, DOWN_ARRIVED };

struct lane {
	struct ring_writer ring;
	uint8_t *staging; /* slot_depth slots */
	enum lane_up up;
	struct lane_payload payload; /* of the staged message */
	size_t bytes, payload_bytes; /* bytes: all of it */
	int control;                 /* it carries no gradient */

	uint64_t version, log_end; /* newest notice: publications, of which a step has several */
	uint32_t last_bytes;
	uint64_t have; /* publications taken */
	uint64_t base; /* what the next push is based on */
	enum lane_down down;
	int read_status;
	unsigned torn;
	uint8_t *buffer; /* delta_bytes */
};

struct lanes {
	struct region *staging;
	struct lane *of; /* n_shards */
};

static struct lane *lane_of(const sluice_model *model, uint32_t shard)
{
	return &model->worker->lanes->of[shard];
}

static struct endpoint *owner_of(const sluice_model *model, uint32_t shard)
{
	return model->job->peers[model->layout.shards[shard].owner].endpoint;
}

/* ---- memory ---------------------------------------------------------------- */

uint64_t lanes_memory(const struct layout *l)
{
	uint64_t bytes = 0;

	for (uint32_t s = 0; s < l->n_shards; s++)
		bytes += l->shards[s].slot_depth * l->shards[s].slot_bytes +
			 l->shards[s].delta_bytes;
	return bytes;
}

int lanes_open(const struct layout *l, struct lanes **out)
{
	struct lanes *lanes = *out = calloc(1, sizeof(*lanes));

	if (lanes)
		lanes->of = calloc(l->n_shards, sizeof(*lanes->of));
	if (!lanes || !lanes->of)
		return fail(SLUICE_ENOMEM, "no memory for %u lanes", l->n_shards);
	int rc = region_open(lanes_memory(l), 0, "staging", &lanes->staging);
	if (rc)
		return rc;
	uint8_t *at = lanes->staging->base;
	for (uint32_t s = 0; s < l->n_shards; s++) {
		lanes->of[s].staging = at;
		at += l->shards[s].slot_depth * l->shards[s].slot_bytes;
		lanes->of[s].buffer = at;
		at += l->shards[s].delta_bytes;
	}
	return 0;
}

void lanes_close(struct lanes **lanes)
{
	if (!*lanes)
		return;
	region_close(&(*lanes)->staging);
	free((*lanes)->of);
	free(*lanes);
	*lanes = NULL;
}

void lanes_restart(sluice_model *model, uint64_t publications)
{
	for (uint32_t s = 0; s < model->layout.n_shards; s++) {
		const struct shard_layout *at = &model->layout.shards[s];
		struct lane *lane = lane_of(model, s);

		ring_writer_init(&lane->ring, at->slot_depth, at->slot_bytes);
		lane->up = UP_POSTED;
		lane->version = lane->have = lane->base = publications;
		lane->log_end = 0;
		lane->last_bytes = 0;
		lane->down = DOWN_IDLE;
		lane->torn = 0;
	}
}

struct region *lanes_staging(const sluice_model *model)
{
	return model->worker->lanes->staging;
}

/* ---- up -------------------------------------------------------------------- */

uint64_t lane_next_seq(const sluice_model *model, uint32_t shard)
{
	return lane_of(model, shard)->ring.next_seq;
}

uint8_t *lane_slot(const sluice_model *model, uint32_t shard, uint64_t seq)
{
	const struct shard_layout *at = &model->layout.shards[shard];

	return lane_of(model, shard)->staging + ring_offset(at->slot_depth, at->slot_bytes, seq);
}

uint8_t *lane_slot_there(const sluice_model *model, uint32_t shard, uint64_t seq)
{
	const struct shard_layout *at = &model->layout.shards[shard];
	const struct transport_ops *ops = owner_of(model, shard)->transport->ops;
	uint8_t *base = ops->address ? ops->address(model->remote_windows[at->owner]) : NULL;

	return base ? base + at->slots_offset + ring_offset(at->slot_depth, at->slot_bytes, seq) :
		      NULL;
}

void lane_stage(sluice_model *model, uint32_t shard, const struct message *m, size_t bytes,
		const struct lane_payload *payload)
{
	struct lane *lane = lane_of(model, shard);

	lane->up = UP_STAGED;
	lane->payload = payload ? *payload : (struct lane_payload){ LANE_STAGED, NULL, NULL };
	lane->payload_bytes = m->payload_bytes;
	lane->bytes = bytes;
	lane->control = m->kind == MESSAGE_ASK || m->kind == MESSAGE_PARK;
}

void lanes_forget(sluice_model *model)
{
	for (uint32_t s = 0; s < model->layout.n_shards; s++)
		lane_of(model, s)->up = UP_POSTED;
}

int lane_posted(const sluice_model *model, uint32_t shard)
{
	return lane_of(model, shard)->up == UP_POSTED;
}

/* What the message cost on its way, or would have cost. */
static void count_posted(sluice_model *model, uint32_t shard, const struct lane *lane)
{
	const struct shard_layout *at = &model->layout.shards[shard];

	const int own = at->owner == model->job->rank;

	if (lane->control) {
		model->stats.control_bytes += own ? 0 : lane->bytes;
		return;
	}
	*(own ? &model->stats.own_pushed_bytes : &model->stats.pushed_bytes) += lane->bytes;
	if (model->worker->phase + 2 == model->schedule.n_phases) /* the gradient's own phase */
		model_count_dense(model, at);
}

/* A notify arrives after all that earlier puts of this rank wrote, and after what was stored in the
 * owner's window before the call. So where a header is seen its payload is there. */
int lane_post(sluice_model *model, uint32_t shard)
{
	struct lane *lane = lane_of(model, shard);
	const struct shard_layout *at = &model->layout.shards[shard];
	struct endpoint *e = owner_of(model, shard);
	const size_t slot = ring_offset(at->slot_depth, at->slot_bytes, lane->ring.next_seq);
	struct transfer t = { .kind = TRANSFER_PUT_NOTIFY,
			      .remote = model->remote_windows[at->owner],
			      .offset = at->slots_offset + slot,
			      .local_region = lanes_staging(model),
			      .local = lane->staging + slot,
			      .bytes = lane->bytes,
			      .imm = job_imm(model->job, IMM_PUSH, model->channel + shard) };
	int rc = 0;

	if (lane->up == UP_POSTED)
		return 1;
	if (lane->payload.way != LANE_STAGED)
		t.bytes = MESSAGE_HEADER_BYTES;
	if (lane->payload.way == LANE_BESIDE && lane->up == UP_STAGED && lane->payload_bytes)
		rc = e->transport->ops->post(
			e, &(struct transfer){ .kind = TRANSFER_PUT,
					       .remote = t.remote,
					       .offset = t.offset + MESSAGE_HEADER_BYTES,
					       .local_region = lane->payload.region,
					       .local = (void *)(uintptr_t)lane->payload.bytes,
					       .bytes = lane->payload_bytes });
	if (!rc) {
		lane->up = UP_PAYLOAD_POSTED;
		rc = e->transport->ops->post(e, &t);
	}
	if (rc == SLUICE_EAGAIN || rc == SLUICE_EPEER)
		return 0; /* a lost peer is reported by its own event */
	if (rc) {
		job_fail(model->job, rc, model->job->rank,
			 "cannot write the push of step %llu to shard %u at %s",
			 (unsigned long long)model->worker->step, shard,
			 rank_text(model->job, at->owner));
		return 0;
	}
	if (lane->payload.way == LANE_PLACED) /* whoever made the payload has moved it */
		e->transport->counters.put_bytes += lane->bytes - t.bytes;
	lane->up = UP_POSTED;
	ring_writer_advance(&lane->ring);
	count_posted(model, shard, lane);
	return 1;
}

int lanes_post(sluice_model *model)
{
	int complete = 1;

	for (uint32_t s = 0; s < model->layout.n_shards && !model->job->failure.code; s++)
		complete &= lane_post(model, s);
	return complete && !model->job->failure.code;
}

/* The first shard at which no slot is free; n_shards if there is none. */
static uint32_t first_full(const sluice_model *model)
{
	uint32_t s = 0;

	while (s < model->layout.n_shards && ring_writer_free(&lane_of(model, s)->ring))
		s++;
	return s;
}

static int slots_free(void *context)
{
	const sluice_model *model = context;

	return first_full(model) == model->layout.n_shards;
}

static void describe_full(void *context, char *text, size_t cap)
{
	const sluice_model *model = context;
	/* Where one was freed just now, the first shard is as good as any. */
	const uint32_t s = first_full(model) % model->layout.n_shards;

	snprintf(text, cap, "step %llu: a free slot at shard %u of %s",
		 (unsigned long long)(model->step / model->recipe.period + 1), s,
		 rank_text(model->job, model->layout.shards[s].owner));
}

int lanes_await_slots(sluice_model *model)
{
	const uint64_t start = now_ns();

	progress_take(model->job);
	const int rc = progress_until(model->job, slots_free, describe_full, model);
	progress_release(model->job);
	model->stats.push_ns += now_ns() - start;
	return rc;
}

/* ---- for tests and tools that look into messages ---------------------------- */

struct ring_writer *lane_ring(const sluice_model *model, uint32_t shard)
{
	return &lane_of(model, shard)->ring;
}

const uint8_t *lane_sent(const sluice_model *model, uint32_t shard, size_t *bytes)
{
	const struct lane *lane = lane_of(model, shard);
	const uint64_t seq = lane->ring.next_seq - 1;

	*bytes = lane->bytes;
	return lane->payload.way == LANE_PLACED ? lane_slot_there(model, shard, seq) :
						  lane_slot(model, shard, seq);
}

enum lane_way lane_sent_way(const sluice_model *model, uint32_t shard)
{
	return lane_of(model, shard)->payload.way;
}

const uint8_t *lane_received(const sluice_model *model, uint32_t shard, size_t *bytes)
{
	const uint8_t *entry = lane_entry(model, shard);

	*bytes = lane_of(model, shard)->last_bytes;
	return entry ? entry : lane_of(model, shard)->buffer;
}

/* ---- down ------------------------------------------------------------------ */

/* Newest wins, and its numbers only grow. */
void lane_notice(sluice_model *model, uint32_t shard)
{
	const struct shard_layout *at = &model->layout.shards[shard];
	struct lane *lane = lane_of(model, shard);
	const int rank = model->job->rank;
	uint8_t line[NOTICE_BYTES];
	uint64_t unused;

	memcpy(line,
	       (uint8_t *)model->windows[at->owner]->base +
		       layout_notice_offset(&model->layout, rank, at),
	       sizeof(line));
	const uint64_t version = get_le64(line), log_end = get_le64(line + 8);
	const uint32_t last_bytes = get_le32(line + 24);
	if (get_le32(line + 28) != crc32c(0, line, 28) || version < lane->version ||
	    log_end < lane->log_end || last_bytes > at->delta_bytes ||
	    delta_log_locate(log_end, last_bytes, at->log_bytes, &unused) ||
	    ring_writer_acknowledge(&lane->ring, at->owner, get_le64(line + 16))) {
		job_fail(model->job, SLUICE_EWIRE, at->owner,
			 "%s wrote a notice of shard %u that does not check",
			 rank_text(model->job, at->owner), shard);
		return;
	}
	lane->version = version;
	lane->log_end = log_end;
	lane->last_bytes = last_bytes;
}

void lane_read_ended(sluice_model *model, uint32_t shard, int status)
{
	struct lane *lane = lane_of(model, shard);

	lane->down = DOWN_ARRIVED;
	lane->read_status = status;
}

uint64_t lane_have(const sluice_model *model, uint32_t shard)
{
	return lane_of(model, shard)->have;
}

uint64_t lane_base(const sluice_model *model, uint32_t shard)
{
	return lane_of(model, shard)->base;
}

uint32_t lane_last_bytes(const sluice_model *model, uint32_t shard)
{
	return lane_of(model, shard)->last_bytes;
}

int lane_announced(const sluice_model *model, uint32_t shard, uint64_t wanted)
{
	const struct lane *lane = lane_of(model, shard);

	return lane->down == DOWN_IDLE && lane->have < wanted && lane->version >= wanted;
}

const uint8_t *lane_entry(const sluice_model *model, uint32_t shard)
{
	const struct shard_layout *at = &model->layout.shards[shard];
	const struct lane *lane = lane_of(model, shard);
	struct remote *log = model->remote_logs[at->owner];
	const struct transport_ops *ops = log->endpoint->transport->ops;
	const uint8_t *base = ops->readable ? ops->readable(log) : NULL;
	uint64_t offset;

	if (!base || delta_log_locate(lane->log_end, lane->last_bytes, at->log_bytes, &offset))
		return NULL;
	return base + at->log_offset + offset;
}

void lane_read(sluice_model *model, uint32_t shard)
{
	const struct shard_layout *at = &model->layout.shards[shard];
	struct lane *lane = lane_of(model, shard);
	struct endpoint *e = owner_of(model, shard);
	uint64_t offset = 0;

	delta_log_locate(lane->log_end, lane->last_bytes, at->log_bytes, &offset);
	const struct transfer t = { .kind = TRANSFER_GET,
				    .remote = model->remote_logs[at->owner],
				    .offset = at->log_offset + offset,
				    .local_region = lanes_staging(model),
				    .local = lane->buffer,
				    .bytes = lane->last_bytes,
				    .cookie = job_cookie(model->job, COOKIE_MODEL, model->id,
							 shard) };
	int rc = e->transport->ops->post(e, &t);
	if (!rc)
		lane->down = DOWN_READING;
	else if (rc != SLUICE_EAGAIN && rc != SLUICE_EPEER)
		job_fail(model->job, rc, model->job->rank,
			 "cannot read version %llu of shard %u from %s",
			 (unsigned long long)lane->version, shard,
			 rank_text(model->job, at->owner));
}

int lane_arrived(const sluice_model *model, uint32_t shard)
{
	return lane_of(model, shard)->down == DOWN_ARRIVED;
}

const uint8_t *lane_fresh(const sluice_model *model, uint32_t shard)
{
	const struct lane *lane = lane_of(model, shard);

	return lane_arrived(model, shard) && !lane->read_status ? lane->buffer : NULL;
}

int lane_take(sluice_model *model, uint32_t shard, struct message *m, uint8_t **copy)
{
	const struct shard_layout *at = &model->layout.shards[shard];
	struct lane *lane = lane_of(model, shard);
	const char *why = "the READ failed";

	lane->down = DOWN_IDLE;
	*copy = lane->buffer;
	if (!lane->read_status &&
	    !message_copy(lane->buffer, lane->last_bytes, lane->buffer, at->delta_bytes, m, &why))
		return 1;
	if (++lane->torn > TORN_MAX)
		job_fail(model->job, SLUICE_EWIRE, at->owner,
			 "version %llu of shard %u from %s: %s",
			 (unsigned long long)model->worker->step, shard,
			 rank_text(model->job, at->owner), why);
	return 0;
}

void lane_took(sluice_model *model, uint32_t shard, uint64_t taken, uint64_t base)
{
	struct lane *lane = lane_of(model, shard);

	lane->down = DOWN_IDLE;
	lane->have = taken;
	lane->base = base;
	lane->torn = 0;
	const int own = model->layout.shards[shard].owner == model->job->rank;
	*(own ? &model->stats.own_pulled_bytes : &model->stats.pulled_bytes) += lane->last_bytes;
}
