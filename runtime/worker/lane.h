/* SPDX-License-Identifier: BSD-3-Clause
 * A lane connects this worker to one holder of a shard. A message for the shard is made once and
 * sent over the lanes to all holders. Publications are read from the log of the current holder
 * (model/home.h). lane.c owns the rings, the staging slots, the newest notices and the READ under
 * way. It reads only the headers of messages, and does not depend on any method. */
#ifndef RUNTIME_LANE_H
#define RUNTIME_LANE_H
#include "compress/message.h"
#include "model/home.h"
#include "model/layout.h"
#include "model/stopwatch.h"
#include "rdma/ring.h"
#include "worker/step.h"

struct lanes; /* the lanes to all shards, and their staging region */

/* The parts of a job and a model that lanes use. They must stay valid until the lanes are
 * closed. */
struct lanes_attr {
	sluice_job *job;
	uint32_t id, channel; /* of the model */
	const struct layout *layout;
	const struct home *home;
	const struct step *step;
	unsigned n_phases; /* number of phases in a step */
	sluice_model_stats *stats;
	struct stopwatch *stopwatch;
	struct team *team; /* threads that help to check messages, or NULL */
};
/* Returns 0 or SLUICE_ENOMEM. */
int lanes_open(const struct lanes_attr *attr, struct lanes **out);
void lanes_close(struct lanes **lanes);
uint64_t lanes_memory(const struct layout *l);
/* Restarts the lanes after this number of steps: all rings become empty, and each shard counts as
 * having published n_downs times in each of its exchanges. */
void lanes_restart(struct lanes *lanes, const struct recipe *recipe, uint64_t steps,
		   unsigned n_downs);
/* After a restart: each shard has published `versions[shard]` times, and this worker has all of
 * it. */
void lanes_resume(struct lanes *lanes, const uint64_t *versions);
/* Called when the job enters another epoch: from then on publications are read from the current
 * holders. */
void lanes_follow(struct lanes *lanes);
/* Returns the staging region, which a device pins. */
struct region *lanes_staging(const struct lanes *lanes);

/* ---- up ---- */

/* Where the payload of a staged message is. The header is always in the staging slot. */
enum lane_way {
	LANE_STAGED, /* it follows the header, so that one transfer posts both */
	LANE_PLACED, /* it is already in the slot at the shard's only holder */
	LANE_BESIDE  /* in another region of this rank, from which it is posted before the header */
};
struct lane_payload {
	enum lane_way way;
	const struct region *region; /* LANE_BESIDE: that region, and the offset in it */
	const void *bytes;
};

/* Returns the ring's sequence number of the next message. */
uint64_t lane_next_seq(const struct lanes *lanes, uint32_t shard);
/* Returns the staging slot for message `seq`. */
uint8_t *lane_slot(const struct lanes *lanes, uint32_t shard, uint64_t seq);
/* Returns the slot of message `seq` in the window of the shard's only holder, or NULL if this
 * process has not mapped that window. */
uint8_t *lane_slot_there(const struct lanes *lanes, uint32_t shard, uint64_t seq);
/* Stages the next message, which is complete. `bytes` is the length of its header, payload and
 * note. payload NULL means LANE_STAGED. */
void lane_stage(struct lanes *lanes, uint32_t shard, const struct message *m, size_t bytes,
		const struct lane_payload *payload);
/* Discards the staged messages of all shards, none of which has been posted. */
void lanes_forget(struct lanes *lanes);
/* Posts the staged message, if there is one, to all holders, with one WRITE and notify for each.
 * Returns 1 if nothing is left to post. The token must be held. */
int lane_post(struct lanes *lanes, uint32_t shard);
/* As lane_post(), but a short message may wait for another message to the same rank. lanes_post()
 * then posts both with one doorbell of the card. */
void lane_send(struct lanes *lanes, uint32_t shard);
/* Posts the staged messages of all lanes. Returns 0 even if the job has failed. */
int lanes_post(struct lanes *lanes);
/* Returns 1 if every staged message has been posted. */
int lane_posted(const struct lanes *lanes, uint32_t shard);
/* Waits until each shard has a free slot at all its holders. Returns 0, or the error of the job. */
int lanes_await_slots(struct lanes *lanes, uint64_t step);

/* ---- down ---- */

/* Called when the peer has written a notice of the shard into this rank's window. Checks the notice
 * and copies it. An invalid notice ends the job. The notice announces a publication only while the
 * peer is the current holder. Returns 0 if the peer does not hold the shard. */
int lane_notice(struct lanes *lanes, uint32_t shard, int peer);
/* Called when the READ of this lane has ended. */
void lane_read_ended(struct lanes *lanes, uint32_t shard, int status);
/* lane_have() returns the newest publication that this worker has handled, and lane_base() the
 * publication on which its pushes are based. lane_last_bytes() returns the length, in the log, of
 * the publication that was read, or else of the newest announced one. */
uint64_t lane_have(const struct lanes *lanes, uint32_t shard);
uint64_t lane_base(const struct lanes *lanes, uint32_t shard);
uint32_t lane_last_bytes(const struct lanes *lanes, uint32_t shard);
/* lane_version() returns the newest announced publication. lane_acknowledged() returns 1 if the
 * shard had counted all messages of this worker when it announced it. lane_free() returns 1 if the
 * shard has a free slot for the next message. lane_idle() returns 1 if no READ is under way or has
 * ended without being handled. */
uint64_t lane_version(const struct lanes *lanes, uint32_t shard);
int lane_acknowledged(const struct lanes *lanes, uint32_t shard);
int lane_free(const struct lanes *lanes, uint32_t shard);
int lane_idle(const struct lanes *lanes, uint32_t shard);
/* Returns 1 if publication `wanted` is announced and not yet handled, and no READ is under way. */
int lane_announced(const struct lanes *lanes, uint32_t shard, uint64_t wanted);
/* Returns 1 if a READ of the shard copies at once, because the transport does. */
int lane_copies(const struct lanes *lanes, uint32_t shard);
/* Returns the announced entry, or NULL if this process has not mapped the shard's log. A peer may
 * write to the entry at any time. */
const uint8_t *lane_entry(const struct lanes *lanes, uint32_t shard);
/* If the queue has room, posts the READ of the announced entry (a get of the transport), or with
 * quorum=, of the entry that follows the publications that this worker has. Token held. */
void lane_read(struct lanes *lanes, uint32_t shard);
/* The same for bytes of the shard's snapshot, at most delta_bytes, from this offset on. */
void lane_read_snapshot(struct lanes *lanes, uint32_t shard, size_t offset, size_t bytes);
/* Posts the READs of all announced publications `wanted`. READs from the same rank share one
 * doorbell of the network card, so those of its short shards wait for each other. A transport that
 * copies at once gets no READs here. Returns 1 if there is more to do: other publications are
 * announced, or a READ has ended. The token must be held. */
int lanes_read(struct lanes *lanes, uint64_t wanted);
/* Returns 1 if a READ has ended and its bytes were not handled yet. */
int lane_arrived(const struct lanes *lanes, uint32_t shard);
/* Returns the unchecked bytes of that READ, or NULL if it failed. */
const uint8_t *lane_fresh(const struct lanes *lanes, uint32_t shard);
/* Checks the bytes of that READ. Returns 1 if they are a message with the right checksums: *m
 * describes it, and *copy is this rank's own copy. Returns 0 if the entry was being overwritten.
 * The entry is then read again, a limited number of times. */
int lane_take(struct lanes *lanes, uint32_t shard, struct message *m, uint8_t **copy);
/* Ends the job, because a publication of the current holder is refused. */
void lane_refuse(struct lanes *lanes, uint32_t shard, const char *why);
/* Records that the worker has handled publication `taken` and bases its next push on `base`. */
void lane_took(struct lanes *lanes, uint32_t shard, uint64_t taken, uint64_t base);

/* ---- for tests and tools that look into messages ---- */
struct ring_writer *lane_ring(const struct lanes *lanes, uint32_t shard);
/* lane_sent() returns the last posted message as its holders receive it. lane_received() returns
 * the last publication that was handled. */
const uint8_t *lane_sent(const struct lanes *lanes, uint32_t shard, size_t *bytes);
enum lane_way lane_sent_way(const struct lanes *lanes, uint32_t shard);
const uint8_t *lane_received(const struct lanes *lanes, uint32_t shard, size_t *bytes);
#endif
