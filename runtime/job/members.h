/* SPDX-License-Identifier: BSD-3-Clause
 * Who is in the job, if the job continues without lost workers (on_failure=continue). members.c
 * owns struct membership. Other files may read `elastic`, which does not change after
 * sluice_init(), and call the functions below. The token is held in all of them. */
#ifndef RUNTIME_MEMBERS_H
#define RUNTIME_MEMBERS_H
#include "job/lines.h"
#include "sluice.h"
#include <stdint.h>

struct membership; /* job.members; NULL unless on_failure=continue */

/* Called when all ranks are known. Refuses on_failure=continue if it cannot work in this job. */
int members_open(sluice_job *job);
void members_close(sluice_job *job);
/* Called when a peer is lost. Returns 1 if the job continues without it, 0 if the job fails. */
int members_lost(sluice_job *job, int peer, const char *why);
/* Returns 1 if this peer may write a block. One of the peer and this rank must be the announcer. */
int members_may_write(const sluice_job *job, int peer);
/* Handles a block from this peer (IMM_MEMBERS). Returns 1 on the announcer. The caller then calls
 * members_unheard() for each worker, and at the end members_taken(). */
int members_arrived(sluice_job *job, int peer, uint8_t block[MEMBERS_BLOCK_BYTES]);
/* Returns 1 if the peer's block reports this living worker as lost. */
int members_unheard(const sluice_job *job, int peer, const uint8_t *block, int worker);
void members_taken(sluice_job *job);
/* Called when this rank has read invalid bytes. If this rank was stopped for a while, the others
 * may have dropped it and overwritten the bytes. If so, the function fails the job with that
 * reason. */
void members_overtaken(sluice_job *job);
/* Called when this rank has the messages of all living ranks for this round. */
void members_held(sluice_job *job, uint64_t seq);
/* Returns 1 if members_held() was called for this round. */
int members_hold(const sluice_job *job, uint64_t seq);
/* Returns 1 if this round is closed and this rank has no block left to write. */
int members_closed(const sluice_job *job, uint64_t seq);
/* Writes the blocks that were not written earlier because a queue was full. */
void members_post(sluice_job *job);
#endif
