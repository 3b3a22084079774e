/* SPDX-License-Identifier: BSD-3-Clause
 * Who is in the job, if the job goes on without lost workers (on_failure=continue). members.c owns
 * struct membership. Other files may read `elastic`, which does not change after sluice_init(), and
 * call the functions below. The token is held in all of them. */
#ifndef RUNTIME_MEMBERS_H
#define RUNTIME_MEMBERS_H
#include "job/lines.h"
#include "sluice.h"
#include <stdatomic.h>
#include <stdint.h>

struct member; /* what is known of the membership block of one peer */

struct membership {
	int elastic;         /* on_failure=continue */
	int due;             /* number of peers that still need this rank's block */
	atomic_int n_living; /* living workers; for sluice_living() */
	uint64_t held_seq;   /* this rank holds the messages of that round from all living ranks */
	uint64_t closed_seq; /* the last round that the announcer closed */
	struct member *members;        /* size; NULL if not elastic */
	uint8_t living[MEMBERS_BYTES]; /* workers of this epoch: bit w % 8 of byte w / 8 */
	uint8_t closed[MEMBERS_BYTES]; /* workers whose messages count in round closed_seq */
};

static inline int members_bit(const uint8_t *bits, int worker)
{
	return bits[worker / 8] >> worker % 8 & 1;
}
/* Whether this worker is in the current epoch. */
static inline int members_living(const struct membership *m, int worker)
{
	return !m->elastic || members_bit(m->living, worker);
}
/* Whether this worker is in the last round that was closed. */
static inline int members_counted(const struct membership *m, int worker)
{
	return !m->elastic || members_bit(m->closed, worker);
}
/* Whether a block waits for room in the queue of some peer. */
static inline int members_due(const struct membership *m)
{
	return m->due;
}

/* Called when the ranks are known. Refuses on_failure=continue where it cannot work. */
int members_open(sluice_job *job);
void members_close(struct membership *m);
/* Called when a peer is lost. Returns 1 if the job goes on without it, 0 if the job fails. */
int members_lost(sluice_job *job, int peer, const char *why);
/* Returns 1 if this peer may write a block: either the peer or this rank is the announcer. */
int members_may_write(const sluice_job *job, int peer);
/* Handles a block of this peer (IMM_MEMBERS). Returns 1 at the announcer, which then asks
 * members_unheard() about each worker and ends with members_taken(). */
int members_arrived(sluice_job *job, int peer, uint8_t block[MEMBERS_BLOCK_BYTES]);
/* Whether the peer's block reports this living worker as lost. */
int members_unheard(const sluice_job *job, int peer, const uint8_t *block, int worker);
void members_taken(sluice_job *job);
/* Called when this rank read something invalid. If this rank was stopped for a while, the others
 * may have dropped it and overwritten what it reads. Then the job has failed with that reason when
 * this returns. */
void members_overtaken(sluice_job *job);
/* This rank holds the messages of this round from all living ranks. */
void members_held(sluice_job *job, uint64_t seq);
/* Whether members_held() was called for this round. */
int members_hold(const sluice_job *job, uint64_t seq);
/* Whether this round is closed and no block of this rank remains to be written. */
int members_closed(const sluice_job *job, uint64_t seq);
/* Writes the blocks that found a full queue before. */
void members_post(sluice_job *job);
#endif
