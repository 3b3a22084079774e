/* SPDX-License-Identifier: BSD-3-Clause
 * The messages of the collectives: in each round, one to each peer. There is room for two messages
 * per pair of ranks, which is enough, because no rank can begin round n+2 before all have finished
 * round n. messages.c owns struct collective_messages; collective.c builds rounds from them. All
 * functions are called with the token held. */
#ifndef RUNTIME_MESSAGES_H
#define RUNTIME_MESSAGES_H
#include "job/lines.h"
#include "sluice.h"
#include <stdint.h>

/* A hub forwards the head of this message to its members. */
struct told {
	uint64_t seq, steps;
	uint32_t model;
	int rank, next; /* the rank of the message; the member at which hubs_tell() continues */
	uint8_t head[COLLECTIVE_HEADER_BYTES];
};

struct collective_messages {
	uint64_t seq;   /* number of rounds that this rank has begun */
	uint64_t *came; /* [rank]: the last round whose message has arrived from that rank */
	/* [rank]: the first round in which this rank and that one write their messages to each
	 * other; 0 if they are not connected. Before this round, a hub forwards their messages
	 * (hubs.h). */
	uint64_t *direct_from;
	int ahead; /* number of peers that have already begun the next round */
	struct told told;
	int busy; /* 1: a thread of this rank is about to begin a round; 2: it is in the round. In
		     both cases other threads wait. */
};

enum collective {
	COLLECTIVE_BARRIER = 1,
	COLLECTIVE_SUM,
	COLLECTIVE_GATHER,
	COLLECTIVE_OPEN,
	COLLECTIVE_EXCHANGE,
	COLLECTIVE_CHECKPOINT,
	COLLECTIVE_RESTORE,
	COLLECTIVE_CLOSE,
	COLLECTIVE_FINALIZE,
	COLLECTIVE_BROADCAST,
	COLLECTIVE_SPLIT
};
/* Returns the name of an operation's public call, for messages. */
const char *collective_name(uint32_t op);

/* The model that a collective is about, and the number of steps whose gradients this rank's worker
 * has pushed to it. Until the collective ends, the worker pushes no more to this model. When a
 * region is being closed, `model` is ABOUT_REGIONS + the region's number. */
struct about {
	uint32_t model;
	uint64_t steps;
};
enum { ABOUT_NO_MODEL = UINT32_MAX, ABOUT_REGIONS = 1u << 31 };
static inline int about_is_model(uint32_t model)
{
	return model < ABOUT_REGIONS;
}

/* A private copy of a message whose length and checksum are valid. */
struct collective_message {
	uint32_t op, bytes;
	struct about about;
	uint8_t copy[COLLECTIVE_HEADER_BYTES + COLLECTIVE_BYTES];
};

/* Create and free the struct. messages_open() needs the size of the job. */
int messages_open(sluice_job *job);
void messages_close(struct collective_messages *messages);

/* Returns the number of the round that this rank begins next. */
uint64_t messages_next(const sluice_job *job);
/* Begins a round for this thread, which called messages_claim(). Returns the round's number. */
uint64_t messages_begin(sluice_job *job);
/* Returns the number of rounds that this rank has completed. */
uint64_t messages_completed(const sluice_job *job);
/* From messages_claim() to messages_free(), only the calling thread can be in a round.
 * messages_joins() returns 1 if that thread has not begun its round yet. */
int messages_claimed(const sluice_job *job);
int messages_joins(const sluice_job *job);
void messages_claim(sluice_job *job);
void messages_free(sluice_job *job);

/* From that round on, the peer and this rank write their messages to each other. Both ranks must
 * call this with the same round, before they begin the preceding one. */
void messages_connect(sluice_job *job, int peer, uint64_t from);
/* Returns 1 if the peer and this rank write their messages to each other, or soon will. */
int messages_meet(const sluice_job *job, int peer);
/* Returns 1 if the message of that round comes from the peer itself, and not from a hub. */
int messages_are_direct(const sluice_job *job, int peer, uint64_t seq);
/* Called when this rank has the messages of all ranks. A hub forwards the first `most` bytes of
 * each. Returns 0 when that is done, otherwise the result of hubs_put(). */
int messages_forward(sluice_job *job, uint64_t seq, uint32_t most, int *member_out);

/* In a group with hubs: hubs_stop(), and no head is forwarded either. */
void messages_stop(sluice_job *job);

/* Writes a message to a peer. Returns the result of the transport's post(). */
int messages_put(sluice_job *job, int peer, uint64_t seq, uint32_t op, struct about about,
		 const uint8_t *bytes, size_t n);
int messages_has(const sluice_job *job, int peer, uint64_t seq);
/* Returns 0 if the peer's message of that round is valid. */
int messages_read(const sluice_job *job, int peer, uint64_t seq, struct collective_message *out);
/* Return the operation of a message that has arrived, and what it is about (struct about), without
 * validating the message. */
uint32_t messages_op(const sluice_job *job, int peer, uint64_t seq);
uint32_t messages_about(const sluice_job *job, int peer, uint64_t seq);
/* Handles IMM_COLLECTIVE: a message from this peer has arrived. waits: 1 if a call of this rank is
 * waiting. If the peer is then in a collective about a model, the client is informed. */
void messages_arrived(sluice_job *job, int peer, int waits);
/* On a hub, in each poll: writes the head to the members whose queue was full. */
void messages_tell(sluice_job *job);
/* Handles IMM_COLLECTIVE with an index, which is not 0: a hub has forwarded messages, or the head
 * of one. Returns -1 if the peer may not do that. */
int messages_forwarded(sluice_job *job, int peer, uint32_t index, int waits);
/* Writes for example "it closed model 0 after 3 steps" and returns 1, if a peer has begun to close
 * a model before this rank, or if `rank` is this rank and it is closing one. Otherwise writes ""
 * and returns 0. */
int messages_closing_text(const sluice_job *job, int rank, char *text, size_t cap);
/* Called when a call begins to wait: informs the client about all peers that are in a collective
 * about a model. */
void messages_report(sluice_job *job);
/* Finds the first peer in a collective that this rank has not begun, and writes "; rank 1 (node n1)
 * is in sluice_barrier and waits for this rank". Writes "" if there is none. */
void messages_ahead_text(const sluice_job *job, char *text, size_t cap);
#endif
