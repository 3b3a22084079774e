/* SPDX-License-Identifier: BSD-3-Clause
 * An inbox connects one worker to this shard. The worker's messages lie in the slots of a ring, and
 * the shard sends notices of publications back. inbox.c owns the ring, the count of messages that
 * have arrived in it, the newest publication for the worker, and the time since which the shard
 * waits. It reads only the headers of messages, and does not depend on any method. */
#ifndef RUNTIME_INBOX_H
#define RUNTIME_INBOX_H
#include "compress/message.h"

struct shard;
struct inboxes; /* the inboxes of all workers at one shard */

int inboxes_open(int workers, struct inboxes **out); /* 0 or SLUICE_ENOMEM */
void inboxes_close(struct inboxes **inboxes);
/* Empties all rings, and marks every publication of the shard as known to the workers. */
void inboxes_restart(struct shard *shard);

/* ---- messages from the workers ---- */

/* Called when a worker's notify announces its next message in the ring. Returns 0. If the worker
 * has sent more messages than there are slots, blames the worker and returns SLUICE_EWIRE. */
int inbox_arrived(struct shard *shard, int worker);
/* Returns 1 if a message of the worker has arrived and was not accepted yet. */
int inbox_has(const struct shard *shard, int worker);
/* Returns the sequence number that the worker's next message must carry. */
uint64_t inbox_next_seq(const struct shard *shard, int worker);

/* How a step's messages are checked. expect() sets the values that the header must have; m is the
 * header as received. judge() returns NULL, or why a well-formed message may not come at this point
 * of the step. */
struct intake {
	void (*expect)(const struct shard *shard, int worker, const struct message *m,
		       struct message_expect *want);
	const char *(*judge)(const struct shard *shard, int worker, const struct message *m);
};
enum inbox_depth {
	INBOX_HEADER, /* copies only the header; the payload stays unchecked in the slot */
	INBOX_COPY,   /* copies the whole message to the shard's scratch and checks its checksum */
	INBOX_DECODE  /* does the same, and decodes the coordinates */
};
struct taken {
	struct message m;
	const uint8_t *slot;  /* holds the message; the worker can still change it */
	uint32_t payload_crc; /* with INBOX_HEADER: the checksum that the header gives */
};
/* Checks a copy of the worker's next message, which must have arrived, and decodes it if `depth`
 * asks for that. Returns 0. If the message is invalid, blames its sender and returns SLUICE_EWIRE.
 * The message remains the next one until it is accepted. */
int inbox_take(const struct shard *shard, int worker, const struct intake *intake,
	       enum inbox_depth depth, struct taken *t);
/* Accepts the next message, which frees its slot. Returns 0 or SLUICE_EWIRE. */
int inbox_accept(struct shard *shard, int worker);
/* Blames the worker for its next message. Returns SLUICE_EWIRE. */
int inbox_refuse(const struct shard *shard, int worker, const char *why);
/* Called when the worker is no longer a member of the job: counts the messages in its inbox as
 * refused. */
void inbox_drop(struct shard *shard, int worker);

/* Returns the time since which the shard has waited for the remaining messages of a step, or 0 if
 * it does not wait. The wait begins when the first message arrives. */
uint64_t inboxes_waiting_since(const struct shard *shard);
void inboxes_wait_since(struct shard *shard, uint64_t ns);

/* ---- notices to the workers ---- */

/* The contents of a notice: the publication's number, its length, and where it ends in the log. */
struct announced {
	uint64_t version, log_end;
	uint32_t bytes;
};
/* Records that a publication for this worker is in the log. The worker is sent a notice unless
 * notify is 0; a notice that is already due then names this publication, too. */
void inbox_announce(struct shard *shard, int worker, struct announced newest, int notify);
/* Returns 1 if a notice is due. */
int inboxes_due(const struct shard *shard);
/* Sends the notices that are due. Returns 1 if any was sent. */
int inboxes_notify(struct shard *shard);

/* Returns 1 if a message waits to be handled, or a notice to be sent. */
int inboxes_have_work(const struct shard *shard);

/* Returns the newest publication that was recorded for the worker. */
struct announced inbox_newest(const struct shard *shard, int worker);

/* ---- for tests ---- */
uint64_t inbox_arrivals(const struct shard *shard, int worker);
#endif
