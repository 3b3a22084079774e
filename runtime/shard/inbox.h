/* SPDX-License-Identifier: BSD-3-Clause
 * An inbox joins one worker to this shard: the worker's messages lie in the slots of a ring, and
 * notices of publications go back to it. inbox.c owns the ring, what has arrived in it, the newest
 * publication for the worker, and since when the shard waits. It knows a message by its header
 * only, and no method. */
#ifndef RUNTIME_INBOX_H
#define RUNTIME_INBOX_H
#include "compress/message.h"

struct shard;
struct inboxes; /* the inboxes of all workers at one shard */

int inboxes_open(int workers, struct inboxes **out); /* 0 or SLUICE_ENOMEM */
void inboxes_close(struct inboxes **inboxes);
/* Resets: all rings are empty, and the workers know all publications of the shard. */
void inboxes_restart(struct shard *shard);

/* ---- up ---- */

/* Called when a worker's notify announces its next message in the ring. Returns 0, or SLUICE_EWIRE
 * if the worker has sent more messages than there are slots, for which it is blamed. */
int inbox_arrived(struct shard *shard, int worker);
/* Returns 1 if a message of the worker has arrived and was not accepted yet. */
int inbox_has(const struct shard *shard, int worker);
/* Returns the sequence number that the worker's next message must carry. */
uint64_t inbox_next_seq(const struct shard *shard, int worker);

/* How a step's messages are checked. expect: sets the values that the header must have; m is the
 * header as received. judge: returns NULL, or the reason why a message that is valid by itself may
 * not come now. */
struct intake {
	void (*expect)(const struct shard *shard, int worker, const struct message *m,
		       struct message_expect *want);
	const char *(*judge)(const struct shard *shard, int worker, const struct message *m);
};
enum inbox_depth {
	INBOX_HEADER, /* only the header is copied; the payload stays in the slot, unchecked */
	INBOX_COPY,   /* the whole message is in the shard's scratch, and its checksum is right */
	INBOX_DECODE  /* the same, and the coordinates are decoded */
};
struct taken {
	struct message m;
	const uint8_t *slot;  /* place where the worker wrote the message, and may still write */
	uint32_t payload_crc; /* INBOX_HEADER: the checksum in the header */
};
/* Checks and decodes a copy of a worker's next message, which must have arrived. Returns 0, or
 * SLUICE_EWIRE if the message is refused, for which its sender is blamed. It remains the next
 * message until it is accepted. */
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
 * it does not wait. The first message that arrives sets it. */
uint64_t inboxes_waiting_since(const struct shard *shard);
void inboxes_wait_since(struct shard *shard, uint64_t ns);

/* ---- down ---- */

/* The contents of a notice: the publication's number, where it ends in the log, and its length. */
struct announced {
	uint64_t version, log_end;
	uint32_t bytes;
};
/* Records that a publication for this worker is in the log. With notify 0, the worker is not
 * notified. */
void inbox_announce(struct shard *shard, int worker, struct announced newest, int notify);
/* Returns 1 if a notice is due. */
int inboxes_due(const struct shard *shard);
/* Sends the notices that are due. Returns 1 if any was sent. */
int inboxes_notify(struct shard *shard);

/* Returns 1 if a message waits to be handled, or a notice to be sent. */
int inboxes_have_work(const struct shard *shard);

/* ---- for tests ---- */
uint64_t inbox_arrivals(const struct shard *shard, int worker);
struct announced inbox_newest(const struct shard *shard, int worker);
#endif
