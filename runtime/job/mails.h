/* SPDX-License-Identifier: BSD-3-Clause
 * The mails of the collectives: in each round, one to each peer. There is room for two mails per
 * pair of ranks, which is enough, because no rank can begin round n+2 before all have finished
 * round n. mails.c owns struct mails; collective.c builds rounds from them. All functions are
 * called with the token held. */
#ifndef RUNTIME_MAILS_H
#define RUNTIME_MAILS_H
#include "job/lines.h"
#include "sluice.h"
#include <stdint.h>

struct mails {
	uint64_t seq;   /* rounds that this rank has begun */
	uint64_t *came; /* [rank] mails up to this round have arrived completely */
	int ahead;      /* how many peers have begun the next round already */
	int busy;       /* a thread of this rank is in a round, and another one has to wait */
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
/* The call that an operation belongs to, for messages. */
const char *collective_name(uint32_t op);

/* Which model a collective is about, and the gradients of how many steps this rank's worker has
 * pushed to it. Until the collective ends, the worker pushes no more to this model. */
struct about {
	uint32_t model;
	uint64_t steps;
};
enum { ABOUT_NO_MODEL = UINT32_MAX };

/* A private copy of a mail, whose length and checksum are right. */
struct mail {
	uint32_t op, bytes;
	struct about about;
	uint8_t copy[MAIL_HEADER_BYTES + MAIL_BYTES];
};

/* Create and free the struct. mails_open() needs the size of the job. */
int mails_open(sluice_job *job);
void mails_close(struct mails *mails);

/* The number of the round that this rank begins next. */
uint64_t mails_next(const sluice_job *job);
/* Begins a round for this thread, which called mails_claim(). Returns the round's number. */
uint64_t mails_begin(sluice_job *job);
/* Only one thread is in a round at a time: from mails_claim() to mails_free(). */
int mails_claimed(const sluice_job *job);
void mails_claim(sluice_job *job);
void mails_free(sluice_job *job);

/* Writes a mail to a peer. Returns what the transport's post() returns. */
int mails_put(sluice_job *job, int peer, uint64_t seq, uint32_t op, struct about about,
	      const uint8_t *bytes, size_t n);
int mails_has(const sluice_job *job, int peer, uint64_t seq);
/* Returns 0 if the mail of that round is valid. */
int mails_read(const sluice_job *job, int peer, uint64_t seq, struct mail *out);
/* The operation of a mail that has arrived. It is not validated. */
uint32_t mails_op(const sluice_job *job, int peer, uint64_t seq);
/* Handles IMM_MAIL: a mail of this peer has arrived. If a call of this rank waits, and the peer is
 * in a collective about a model, the client is told. */
void mails_arrived(sluice_job *job, int peer, int waits);
/* "it closed model 0 after 3 steps" of a peer that has begun to close a model and this rank has
 * not, or of this rank itself while it closes one; else "". Returns whether there is such a text.
 */
int mails_closing_text(const sluice_job *job, int rank, char *text, size_t cap);
/* Tells the client of all peers that are in a collective about a model, because a call now waits.
 */
void mails_tell(sluice_job *job);
/* "; rank 1 (node n1) is in sluice_barrier and waits for this rank", of the first peer in a
 * collective that this rank has not begun; "" if there is none. */
void mails_ahead_text(const sluice_job *job, char *text, size_t cap);
#endif
