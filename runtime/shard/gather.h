/* SPDX-License-Identifier: BSD-3-Clause
 * The messages of one phase of a step, whose sum is complete when every living worker's message is
 * in it: which message may come now, how many are counted, and what they report about the step.
 * gather.c owns struct gathered.
 *
 * A push is counted exactly once. When it is taken, its sender must be a member in the epoch of
 * this rank (members.c), and its sequence number, step and version must be the very next ones. The
 * epoch in the push is the one that its sender knew. It may be older than the shard's (sent before
 * the sender learnt of a loss) or newer (the sender learnt first), and neither is a reason to
 * refuse the push, because the sender was a member all along. A push of a lost worker is refused
 * and counted (refused_messages), whatever its epoch, unless it was added before the loss was
 * adopted. Then it stays in the sum. The step closes when every member's push is in, and its
 * divisor is the number of pushes in the sum. */
#ifndef RUNTIME_GATHER_H
#define RUNTIME_GATHER_H
#include "shard/inbox.h"

/* How a message of the shard's current phase is checked. */
extern const struct intake gather_intake;

void gather_restart(struct shard *shard);
/* Returns the first worker whose message has not been handled, or job.workers if the phase is
 * complete. */
int gather_next(const struct shard *shard);
/* Skips the worker, which is no longer a member of the job. */
void gather_pass(struct shard *shard);
/* All workers of a step must train at the same rate. Returns 1 if this worker's rate equals the
 * first worker's rate. Otherwise the job has failed. */
int gather_same_rate(struct shard *shard, int worker, float lr, int first);
/* Accepts and counts the worker's next message, m. Returns 1 on success. */
int gather_count(struct shard *shard, int worker, const struct message *m);
/* Called after the publication that ends a phase; and after the publication that ends the step. */
void gather_phase_ends(struct shard *shard);
void gather_step_ends(struct shard *shard);

/* The values from the workers' messages that a publication's header repeats. */
const struct gathered *gather_view(const struct shard *shard);
uint32_t gather_counted(const struct shard *shard);
float gather_lr(const struct shard *shard);
#endif
