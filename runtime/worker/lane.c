/* SPDX-License-Identifier: BSD-3-Clause
 * See lane.h. Called by the loop (worker.c) and by the code that makes or takes its messages. */
#include "worker/lane.h"
#include "base/bytes.h"
#include "base/error.h"
#include "model/delta_log.h"
#include "rdma/ring.h"
#include "job/peers.h"
#include "job/progress_token.h"
#include "model/model.h"
#include <stdio.h>
#include <stdlib.h>

enum { TOGETHER_BYTES = 1 << 14 }; /* shorter messages to the same rank are posted together */
enum { TORN_MAX = 64 }; /* the most READs of one publication that may find it half written */

enum lane_up { UP_POSTED, UP_STAGED, UP_PAYLOAD_POSTED };
enum lane_down { DOWN_IDLE, DOWN_READING, DOWN_ARRIVED };

/* The lane to one holder of a shard. */
struct lane {
	const struct holder *to;
	struct ring_writer ring;
	enum lane_up up;
	/* from the newest notice: the number of publications (a step may have several), and the end
	 * of the log */
	uint64_t version, log_end;
	uint32_t last_bytes;
};

/* A worker's exchange with a shard: it sends its message to all holders of the shard, and takes the
 * publication from one of them. */
struct shard_io {
	uint8_t *staging; /* slot_depth slots */
	struct lane_payload payload;
	size_t bytes, payload_bytes; /* bytes: the whole message, with header and note */
	int control;                 /* 1: the message has no gradient */

	struct lane *from; /* the lane to the current holder */
	uint64_t have;     /* publications taken */
	uint64_t base;     /* the publication on which the next push is based */
	enum lane_down down;
	int read_status;
	uint32_t read_bytes; /* length of the READ that is not handled; 0: there is none */
	unsigned torn;
	uint8_t *buffer; /* delta_bytes */
};

struct lanes {
	struct lanes_attr of;
	struct region *staging;
	struct shard_io *io; /* [shard] */
	uint32_t holders;
	struct lane *to; /* [shard][holder] */
	int shared;      /* 1: some rank holds several shards */
	int arrived;     /* number of shards with a READ that has ended and was not handled yet */
	int reading;     /* number of shards with a READ under way */
	uint64_t reading_since; /* for the trace */
	uint64_t awaits;        /* the step for which lanes_await_slots() waits */
	uint8_t *lacks;         /* [rank]: 1 if READs of its short shards wait; see lanes_read() */
};

static struct shard_io *io_of(const struct lanes *lanes, uint32_t shard)
{
	return &lanes->io[shard];
}

/* Returns the shard's lanes, one for each holder. */
static struct lane *lanes_to(const struct lanes *lanes, uint32_t shard)
{
	return &lanes->to[shard * lanes->holders];
}

/* Returns the lane to the holder whose publications this worker reads. */
static const struct lane *lane_from(const struct lanes *lanes, uint32_t shard)
{
	return io_of(lanes, shard)->from;
}

static void set_down(struct lanes *lanes, struct shard_io *io, enum lane_down down)
{
	const int before = lanes->reading;

	lanes->arrived += (down == DOWN_ARRIVED) - (io->down == DOWN_ARRIVED);
	lanes->reading += (down == DOWN_READING) - (io->down == DOWN_READING);
	io->down = down;
	if (!before && lanes->reading)
		lanes->reading_since = stopwatch_slice(lanes->of.stopwatch);
	else if (before && !lanes->reading)
		stopwatch_slice_ends(lanes->of.stopwatch, TRACE_READ, lanes->reading_since);
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

/* Prepares the part of the staging region for each holder, so that a lack of memory for
 * registration is reported when the model is opened. */
static int prepare_staging(struct lanes *lanes)
{
	const struct layout *l = lanes->of.layout;
	int rc = 0;

	progress_take(lanes->of.job);
	for (uint32_t i = 0; i < l->n_shards * lanes->holders && rc >= 0; i++) {
		const struct shard_layout *at = &l->shards[i / lanes->holders];
		struct endpoint *e = lanes->to[i].to->endpoint;

		if (e->transport->ops->prepare)
			rc = e->transport->ops->prepare(
				e, lanes->staging, lanes->io[i / lanes->holders].staging,
				at->slot_depth * at->slot_bytes + at->delta_bytes);
		if (rc == SLUICE_EPEER) /* another event reports the loss of the holder */
			rc = 0;
	}
	progress_release(lanes->of.job);
	return rc < 0 ? rc : 0;
}

int lanes_open(const struct lanes_attr *attr, struct lanes **out)
{
	const struct layout *l = attr->layout;
	const struct home *home = attr->home;
	const uint32_t holders = home_holders(home);
	struct lanes *lanes = *out = calloc(1, sizeof(*lanes));

	if (lanes) {
		lanes->of = *attr;
		lanes->io = calloc(l->n_shards, sizeof(*lanes->io));
		lanes->to = calloc((size_t)l->n_shards * holders, sizeof(*lanes->to));
		lanes->lacks = calloc((size_t)attr->job->size, sizeof(*lanes->lacks));
		lanes->holders = holders;
	}
	if (!lanes || !lanes->io || !lanes->to || !lanes->lacks)
		return fail(SLUICE_ENOMEM,
			    "no memory for this worker's message queues to %u shards", l->n_shards);
	int rc = region_open(lanes_memory(l), 0, "staging", &lanes->staging);
	if (rc)
		return rc;
	region_relax(lanes->staging);
	uint8_t *at = lanes->staging->base;
	for (uint32_t s = 0; s < l->n_shards; s++) {
		lanes->io[s].staging = at;
		at += l->shards[s].slot_depth * l->shards[s].slot_bytes;
		lanes->io[s].buffer = at;
		at += l->shards[s].delta_bytes;
		for (uint32_t k = 0; k < holders; k++) {
			const struct holder *to = home_holder(home, s, k);

			lanes->to[s * holders + k].to = to;
			lanes->shared |= to->at.notice_index > 0;
		}
	}
	return prepare_staging(lanes);
}

void lanes_close(struct lanes **lanes)
{
	if (!*lanes)
		return;
	region_close(&(*lanes)->staging);
	free((*lanes)->io);
	free((*lanes)->to);
	free((*lanes)->lacks);
	free(*lanes);
	*lanes = NULL;
}

void lanes_restart(struct lanes *lanes, const struct recipe *recipe, uint64_t steps,
		   unsigned n_downs)
{
	for (uint32_t s = 0; s < lanes->of.layout->n_shards; s++) {
		const struct shard_layout *at = &lanes->of.layout->shards[s];
		const uint64_t publications = schedule_exchanges(recipe, at->fragment, steps) *
					      n_downs;
		struct shard_io *io = io_of(lanes, s);
		struct lane *lane = lanes_to(lanes, s);

		for (uint32_t k = 0; k < lanes->holders; k++, lane++) {
			ring_writer_init(&lane->ring, at->slot_depth, at->slot_bytes);
			lane->up = UP_POSTED;
			lane->version = publications;
			lane->log_end = 0;
			lane->last_bytes = 0;
		}
		io->have = io->base = publications;
		set_down(lanes, io, DOWN_IDLE);
		io->read_bytes = 0;
		io->torn = 0;
	}
	lanes_follow(lanes);
}

void lanes_resume(struct lanes *lanes, const uint64_t *versions)
{
	for (uint32_t s = 0; s < lanes->of.layout->n_shards; s++) {
		struct shard_io *io = io_of(lanes, s);

		for (uint32_t k = 0; k < lanes->holders; k++)
			lanes_to(lanes, s)[k].version = versions[s];
		io->have = io->base = versions[s];
	}
}

void lanes_follow(struct lanes *lanes)
{
	for (uint32_t s = 0; s < lanes->of.layout->n_shards; s++) {
		const struct holder *current = home_current(lanes->of.home, s);
		struct lane *lane = lanes_to(lanes, s);

		while (lane->to != current)
			lane++;
		io_of(lanes, s)->from = lane;
	}
}

struct region *lanes_staging(const struct lanes *lanes)
{
	return lanes->staging;
}

/* ---- up -------------------------------------------------------------------- */

uint64_t lane_next_seq(const struct lanes *lanes, uint32_t shard)
{
	return lanes_to(lanes, shard)->ring.next_seq;
}

uint8_t *lane_slot(const struct lanes *lanes, uint32_t shard, uint64_t seq)
{
	const struct shard_layout *at = &lanes->of.layout->shards[shard];

	return io_of(lanes, shard)->staging + ring_offset(at->slot_depth, at->slot_bytes, seq);
}

uint8_t *lane_slot_there(const struct lanes *lanes, uint32_t shard, uint64_t seq)
{
	const struct shard_layout *at = &lanes->of.layout->shards[shard];
	const struct holder *to = lanes_to(lanes, shard)->to;
	const struct transport_ops *ops = to->endpoint->transport->ops;
	uint8_t *base = NULL;

	if (lanes->holders == 1 && ops->address)
		base = ops->address(to->window);
	return base ? base + to->at.slots_offset +
			       ring_offset(at->slot_depth, at->slot_bytes, seq) :
		      NULL;
}

void lane_stage(struct lanes *lanes, uint32_t shard, const struct message *m, size_t bytes,
		const struct lane_payload *payload)
{
	struct shard_io *io = io_of(lanes, shard);

	for (uint32_t k = 0; k < lanes->holders; k++)
		lanes_to(lanes, shard)[k].up = UP_STAGED;
	io->payload = payload ? *payload : (struct lane_payload){ LANE_STAGED, NULL, NULL };
	io->payload_bytes = m->payload_bytes;
	io->bytes = bytes;
	io->control = m->kind == MESSAGE_ASK || m->kind == MESSAGE_PARK;
}

void lanes_forget(struct lanes *lanes)
{
	for (uint32_t i = 0; i < lanes->of.layout->n_shards * lanes->holders; i++)
		lanes->to[i].up = UP_POSTED;
}

int lane_posted(const struct lanes *lanes, uint32_t shard)
{
	int posted = 1;

	for (uint32_t k = 0; k < lanes->holders; k++)
		posted &= lanes_to(lanes, shard)[k].up == UP_POSTED;
	return posted;
}

/* Counts the bytes of the message, and of the dense message that it replaces. Messages to this rank
 * itself are counted separately. */
static void count_posted(struct lanes *lanes, uint32_t shard, const struct lane *lane)
{
	const struct shard_io *io = io_of(lanes, shard);
	const int own = lane->to->at.rank == lanes->of.job->rank;

	if (io->control) {
		lanes->of.stats->control_bytes += own ? 0 : io->bytes;
		return;
	}
	*(own ? &lanes->of.stats->own_pushed_bytes : &lanes->of.stats->pushed_bytes) += io->bytes;
	if (lanes->of.step->phase + 2 == lanes->of.n_phases) /* the phase in which the gradient
								is sent */
		model_count_dense(lanes->of.stats, lanes->of.layout->shards[shard].span, own);
}

/* Posts the staged message to one holder. Returns 1 if nothing is left to post.
 *
 * A notify arrives after everything that earlier puts of this rank wrote, and after everything that
 * this rank stored in the holder's window before the call. So when a header has arrived, its
 * payload has arrived, too. */
static int post_to(struct lanes *lanes, uint32_t shard, struct lane *lane)
{
	const struct shard_layout *at = &lanes->of.layout->shards[shard];
	const struct shard_io *io = io_of(lanes, shard);
	const size_t slot = ring_offset(at->slot_depth, at->slot_bytes, lane->ring.next_seq);
	struct endpoint *e = lane->to->endpoint;
	struct transfer t = { .kind = TRANSFER_PUT_NOTIFY,
			      .remote = lane->to->window,
			      .offset = lane->to->at.slots_offset + slot,
			      .local_region = lanes_staging(lanes),
			      .local = io->staging + slot,
			      .bytes = io->bytes,
			      .imm = job_imm(lanes->of.job, IMM_PUSH, lanes->of.channel + shard) };
	int rc = 0;

	if (lane->up == UP_POSTED)
		return 1;
	if (io->payload.way != LANE_STAGED)
		t.bytes = MESSAGE_HEADER_BYTES;
	if (io->payload.way == LANE_BESIDE && lane->up == UP_STAGED && io->payload_bytes)
		rc = e->transport->ops->post(
			e, &(struct transfer){ .kind = TRANSFER_PUT,
					       .remote = t.remote,
					       .offset = t.offset + MESSAGE_HEADER_BYTES,
					       .local_region = io->payload.region,
					       .local = (void *)(uintptr_t)io->payload.bytes,
					       .bytes = io->payload_bytes });
	if (!rc) {
		lane->up = UP_PAYLOAD_POSTED;
		rc = e->transport->ops->post(e, &t);
	}
	if (rc == SLUICE_EAGAIN || rc == SLUICE_EPEER)
		return 0; /* another event reports the loss of a peer */
	if (rc) {
		job_fail(lanes->of.job, rc, lanes->of.job->rank,
			 "cannot write the push of step %llu to shard %u at %s",
			 (unsigned long long)lanes->of.step->number, shard,
			 rank_text(lanes->of.job, lane->to->at.rank));
		return 0;
	}
	/* the code that made the payload has copied it to the slot */
	if (io->payload.way == LANE_PLACED)
		e->transport->counters.put_bytes += io->bytes - t.bytes;
	lane->up = UP_POSTED;
	ring_writer_advance(&lane->ring);
	count_posted(lanes, shard, lane);
	return 1;
}

int lane_post(struct lanes *lanes, uint32_t shard)
{
	int complete = 1;

	for (uint32_t k = 0; k < lanes->holders; k++)
		complete &= post_to(lanes, shard, &lanes_to(lanes, shard)[k]);
	return complete;
}

void lane_send(struct lanes *lanes, uint32_t shard)
{
	if (!lanes->shared || io_of(lanes, shard)->bytes > TOGETHER_BYTES)
		lane_post(lanes, shard);
}

int lanes_post(struct lanes *lanes)
{
	int complete = 1;

	if (lanes->shared)
		progress_gather(lanes->of.job, 1);
	for (uint32_t s = 0; s < lanes->of.layout->n_shards && !lanes->of.job->failure.code; s++)
		complete &= lane_post(lanes, s);
	if (lanes->shared)
		progress_gather(lanes->of.job, 0);
	return complete && !lanes->of.job->failure.code;
}

/* Returns the first lane whose holder has no free slot, or NULL if there is none. */
static const struct lane *first_full(const struct lanes *lanes)
{
	for (uint32_t i = 0; i < lanes->of.layout->n_shards * lanes->holders; i++)
		if (!ring_writer_free(&lanes->to[i].ring))
			return &lanes->to[i];
	return NULL;
}

static int slots_free(void *context)
{
	return !first_full(context);
}

static void describe_full(void *context, char *text, size_t cap)
{
	const struct lanes *lanes = context;
	const struct lane *full = first_full(lanes);

	if (!full)
		full = lanes->to; /* a slot may have been freed meanwhile */
	snprintf(text, cap, "step %llu: a free slot at shard %u of %s",
		 (unsigned long long)lanes->awaits, (uint32_t)(full - lanes->to) / lanes->holders,
		 rank_text(lanes->of.job, full->to->at.rank));
}

int lanes_await_slots(struct lanes *lanes, uint64_t step)
{
	const struct lap lap = stopwatch_begin();

	lanes->awaits = step;
	progress_take(lanes->of.job);
	const int rc = progress_until(lanes->of.job, slots_free, describe_full, lanes);
	progress_release(lanes->of.job);
	stopwatch_end(lanes->of.stopwatch, TIME_PUSH, &lap);
	return rc;
}

/* ---- for tests and tools that look into messages ---------------------------- */

struct ring_writer *lane_ring(const struct lanes *lanes, uint32_t shard)
{
	return &lanes_to(lanes, shard)->ring;
}

const uint8_t *lane_sent(const struct lanes *lanes, uint32_t shard, size_t *bytes)
{
	const struct shard_io *io = io_of(lanes, shard);
	const uint64_t seq = lane_next_seq(lanes, shard) - 1;

	*bytes = io->bytes;
	return io->payload.way == LANE_PLACED ? lane_slot_there(lanes, shard, seq) :
						lane_slot(lanes, shard, seq);
}

enum lane_way lane_sent_way(const struct lanes *lanes, uint32_t shard)
{
	return io_of(lanes, shard)->payload.way;
}

const uint8_t *lane_received(const struct lanes *lanes, uint32_t shard, size_t *bytes)
{
	const uint8_t *entry = lane_entry(lanes, shard);

	*bytes = lane_last_bytes(lanes, shard);
	return entry ? entry : io_of(lanes, shard)->buffer;
}

/* ---- down ------------------------------------------------------------------ */

/* Adopts a notice, which replaces all earlier ones. The numbers in a notice never decrease. */
static void take_notice(struct lanes *lanes, uint32_t shard, struct lane *lane,
			const uint8_t *written)
{
	const struct shard_layout *at = &lanes->of.layout->shards[shard];
	const int peer = lane->to->at.rank;
	uint8_t line[NOTICE_BYTES];
	uint64_t unused;

	memcpy(line, written, sizeof(line));
	const uint64_t version = get_le64(line), log_end = get_le64(line + 8);
	const uint32_t last_bytes = get_le32(line + 24);
	if (get_le32(line + 28) != crc32c(0, line, 28) || version < lane->version ||
	    log_end < lane->log_end || last_bytes > at->delta_bytes ||
	    ((last_bytes || log_end || version != lane->version) &&
	     delta_log_locate(log_end, last_bytes, at->log_bytes, &unused)) ||
	    ring_writer_acknowledge(&lane->ring, peer, get_le64(line + 16))) {
		job_fail(lanes->of.job, SLUICE_EWIRE, peer,
			 "%s wrote a notice of shard %u that fails its checks",
			 rank_text(lanes->of.job, peer), shard);
		return;
	}
	lane->version = version;
	lane->log_end = log_end;
	lane->last_bytes = last_bytes;
}

int lane_notice(struct lanes *lanes, uint32_t shard, int peer)
{
	for (uint32_t k = 0; k < lanes->holders; k++) {
		struct lane *lane = &lanes_to(lanes, shard)[k];

		if (lane->to->at.rank != peer)
			continue;
		take_notice(lanes, shard, lane, home_notice(lanes->of.home, shard, k));
		return 1;
	}
	return 0;
}

void lane_read_ended(struct lanes *lanes, uint32_t shard, int status)
{
	set_down(lanes, io_of(lanes, shard), DOWN_ARRIVED);
	io_of(lanes, shard)->read_status = status;
}

uint64_t lane_have(const struct lanes *lanes, uint32_t shard)
{
	return io_of(lanes, shard)->have;
}

uint64_t lane_base(const struct lanes *lanes, uint32_t shard)
{
	return io_of(lanes, shard)->base;
}

uint32_t lane_last_bytes(const struct lanes *lanes, uint32_t shard)
{
	const struct shard_io *io = io_of(lanes, shard);

	return io->read_bytes ? io->read_bytes : io->from->last_bytes;
}

uint64_t lane_version(const struct lanes *lanes, uint32_t shard)
{
	return lane_from(lanes, shard)->version;
}

int lane_acknowledged(const struct lanes *lanes, uint32_t shard)
{
	const struct ring_writer *ring = &lane_from(lanes, shard)->ring;

	return lane_posted(lanes, shard) && ring->consumed_seq + 1 == ring->next_seq;
}

int lane_free(const struct lanes *lanes, uint32_t shard)
{
	return lane_posted(lanes, shard) && ring_writer_free(&lane_from(lanes, shard)->ring);
}

int lane_idle(const struct lanes *lanes, uint32_t shard)
{
	return io_of(lanes, shard)->down == DOWN_IDLE;
}

int lane_announced(const struct lanes *lanes, uint32_t shard, uint64_t wanted)
{
	const struct shard_io *io = io_of(lanes, shard);

	return io->down == DOWN_IDLE && io->have < wanted && io->from->version >= wanted;
}

int lane_copies(const struct lanes *lanes, uint32_t shard)
{
	return lane_from(lanes, shard)->to->endpoint->transport->ops->copies_at_post;
}

const uint8_t *lane_entry(const struct lanes *lanes, uint32_t shard)
{
	const struct shard_layout *at = &lanes->of.layout->shards[shard];
	const struct lane *lane = lane_from(lanes, shard);
	struct remote *log = lane->to->log;
	const struct transport_ops *ops = log->endpoint->transport->ops;
	const uint8_t *base = ops->readable ? ops->readable(log) : NULL;
	uint64_t offset;

	if (!base || delta_log_locate(lane->log_end, lane->last_bytes, at->log_bytes, &offset))
		return NULL;
	return base + lane->to->at.log_offset + offset;
}

/* Reads bytes of the memory that contains the holder's log and snapshot. */
static void read_bytes(struct lanes *lanes, uint32_t shard, uint64_t offset, size_t bytes)
{
	struct shard_io *io = io_of(lanes, shard);
	const struct lane *lane = io->from;
	struct endpoint *e = lane->to->endpoint;
	const struct transfer t = { .kind = TRANSFER_GET,
				    .remote = lane->to->log,
				    .offset = offset,
				    .local_region = lanes_staging(lanes),
				    .local = io->buffer,
				    .bytes = bytes,
				    .cookie = job_cookie(lanes->of.job, COOKIE_MODEL, lanes->of.id,
							 shard) };
	int rc = e->transport->ops->post(e, &t);
	if (!rc) {
		set_down(lanes, io, DOWN_READING);
		io->read_bytes = (uint32_t)bytes;
	} else if (rc != SLUICE_EAGAIN && rc != SLUICE_EPEER)
		job_fail(lanes->of.job, rc, lanes->of.job->rank,
			 "cannot read version %llu of shard %u from %s",
			 (unsigned long long)lane->version, shard,
			 rank_text(lanes->of.job, lane->to->at.rank));
}

void lane_read(struct lanes *lanes, uint32_t shard)
{
	const struct shard_layout *at = &lanes->of.layout->shards[shard];
	const struct shard_io *io = io_of(lanes, shard);
	const struct lane *lane = io->from;
	uint64_t offset = 0;
	size_t bytes = lane->last_bytes;

	if (at->log_places && io->have + 1 < lane->version) {
		offset = io->have % at->log_places * at->delta_bytes;
		bytes = at->delta_bytes;
	} else {
		delta_log_locate(lane->log_end, lane->last_bytes, at->log_bytes, &offset);
	}
	read_bytes(lanes, shard, lane->to->at.log_offset + offset, bytes);
}

void lane_read_snapshot(struct lanes *lanes, uint32_t shard, size_t offset, size_t bytes)
{
	const struct lane *lane = lane_from(lanes, shard);

	read_bytes(lanes, shard, lane->to->at.snapshot_offset + offset, bytes);
}

/* Marks the rank of each short shard that has not announced publication `wanted`, in the fragment
 * that begins with this shard. Returns the end of the fragment. */
static uint32_t mark_lacking(struct lanes *lanes, uint32_t shard, uint64_t wanted)
{
	const struct layout *l = lanes->of.layout;
	const uint32_t fragment = l->shards[shard].fragment;
	uint32_t s = shard;

	memset(lanes->lacks, 0, (size_t)lanes->of.job->size);
	for (; s < l->n_shards && l->shards[s].fragment == fragment; s++)
		if (shard_is_short(&l->shards[s], l->workers) && lane_version(lanes, s) < wanted &&
		    lane_have(lanes, s) < wanted)
			lanes->lacks[lane_from(lanes, s)->to->at.rank] = 1;
	return s;
}

int lanes_read(struct lanes *lanes, uint64_t wanted)
{
	const struct layout *l = lanes->of.layout;
	struct lap lap = { 0 };
	int reads = 0, others = 0;

	for (uint32_t s = 0, end = 0; s < l->n_shards && !lanes->of.job->failure.code; s++) {
		if (s == end)
			end = lanes->shared ? mark_lacking(lanes, s, wanted) : l->n_shards;
		if (!lane_announced(lanes, s, wanted))
			continue;
		if (lane_copies(lanes, s)) {
			others = 1;
			continue;
		}
		if (lanes->lacks[lane_from(lanes, s)->to->at.rank] &&
		    shard_is_short(&l->shards[s], l->workers))
			continue;
		if (!reads++) {
			lap = stopwatch_begin();
			if (lanes->shared)
				progress_gather(lanes->of.job, 1);
		}
		lane_read(lanes, s);
	}
	if (reads) {
		if (lanes->shared)
			progress_gather(lanes->of.job, 0);
		stopwatch_end(lanes->of.stopwatch, TIME_PULL, &lap);
	}
	return others || lanes->arrived;
}

int lane_arrived(const struct lanes *lanes, uint32_t shard)
{
	return io_of(lanes, shard)->down == DOWN_ARRIVED;
}

const uint8_t *lane_fresh(const struct lanes *lanes, uint32_t shard)
{
	const struct shard_io *io = io_of(lanes, shard);

	return lane_arrived(lanes, shard) && !io->read_status ? io->buffer : NULL;
}

int lane_take(struct lanes *lanes, uint32_t shard, struct message *m, uint8_t **copy)
{
	struct shard_io *io = io_of(lanes, shard);
	const int peer = io->from->to->at.rank;
	const char *why = "the READ failed";

	set_down(lanes, io, DOWN_IDLE);
	*copy = io->buffer;
	if (!io->read_status &&
	    !message_copy(lanes->of.team, io->buffer, lane_last_bytes(lanes, shard), io->buffer,
			  lanes->of.layout->shards[shard].delta_bytes, m, &why))
		return 1;
	if (++io->torn > TORN_MAX)
		job_fail(lanes->of.job, SLUICE_EWIRE, peer, "version %llu of shard %u from %s: %s",
			 (unsigned long long)lanes->of.step->number, shard,
			 rank_text(lanes->of.job, peer), why);
	return 0;
}

void lane_refuse(struct lanes *lanes, uint32_t shard, const char *why)
{
	const int peer = lane_from(lanes, shard)->to->at.rank;

	job_fail(lanes->of.job, SLUICE_EWIRE, peer,
		 "version %llu of shard %u from %s was refused: %s",
		 (unsigned long long)lanes->of.step->number, shard, rank_text(lanes->of.job, peer),
		 why);
}

void lane_took(struct lanes *lanes, uint32_t shard, uint64_t taken, uint64_t base)
{
	struct shard_io *io = io_of(lanes, shard);
	const int own = io->from->to->at.rank == lanes->of.job->rank;

	set_down(lanes, io, DOWN_IDLE);
	io->have = taken;
	io->base = base;
	io->torn = 0;
	*(own ? &lanes->of.stats->own_pulled_bytes :
		&lanes->of.stats->pulled_bytes) += lane_last_bytes(lanes, shard);
	io->read_bytes = 0;
}
