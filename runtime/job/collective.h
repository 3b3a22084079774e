/* SPDX-License-Identifier: BSD-3-Clause
 * Collectives among all ranks; see collective.c. */
#ifndef RUNTIME_COLLECTIVE_H
#define RUNTIME_COLLECTIVE_H
#include "job/messages.h"
#include "sluice.h"
#include <stddef.h>

/* Exchanges `bytes` bytes (<= COLLECTIVE_BYTES) with each peer. Peer p gets mine + stride * p; with
 * stride 0 all peers get the same bytes. all + r * bytes receives the bytes that rank r sent to
 * this rank. `all` may be NULL. If a rank sends fewer bytes (a server in a sum of workers) or is a
 * lost worker, its row is zero. round_has() returns whether a rank's row counts, with the same
 * result on all ranks. The token must not be held. */
int collective_run(sluice_job *job, enum collective op, const void *mine, size_t stride,
		   size_t bytes, void *all);
/* As collective_run(), for an operation on one model. about.steps is the number of steps whose
 * gradients this rank's worker has pushed. Ranks that wait for later steps are notified at once. */
int collective_run_about(sluice_job *job, enum collective op, struct about about, const void *mine,
			 size_t stride, size_t bytes, void *all);
/* Collective. Returns 0 if every rank calls it with rc 0. A rank that has failed calls it too, so
 * that no other rank waits for it. On failure, returns the rank's own rc if that is not 0.
 * Otherwise returns SLUICE_EPEER with a message that names the first rank that could not do `what`
 * ("open the model"), and why. */
int collective_agree(sluice_job *job, int rc, const char *what);
/* The same. If it returns 0, *most becomes the largest *most of all ranks, and *rank the lowest
 * rank that passed it. */
int collective_agree_most(sluice_job *job, int rc, const char *what, uint64_t *most, int *rank);
/* Returns the operation that the lowest living worker has begun and that this rank has not joined,
 * or 0 if there is none. Servers call this to find the operation that they must join. */
uint32_t collective_pending(const sluice_job *job);
#endif
