/* SPDX-License-Identifier: BSD-3-Clause
 * Collects the messages of one phase of a step. The phase's sum is complete when it includes the
 * message of every living worker. gather.c decides which message may come next, counts the
 * messages, and records what they report about the step. It owns struct gathered.
 *
 * A push is counted exactly once. When the shard takes a push, the sender must be a member in this
 * rank's epoch (members.c). The push must carry exactly the next sequence number, step and version.
 *
 * The epoch in the push is the newest epoch that the sender knew. It may be older than the shard's
 * epoch, if the push was sent before the sender learnt of a loss. It may also be newer, if the
 * sender learnt of the loss first. Neither is a reason to refuse the push, because the sender was a
 * member in both epochs.
 *
 * A push of a lost worker is refused and counted (refused_messages), whatever its epoch. If the
 * shard added it before it adopted the loss, the push stays in the sum. The step closes when the
 * sum includes the push of every member. The divisor is the number of pushes in the sum. */
#ifndef RUNTIME_GATHER_H
#define RUNTIME_GATHER_H
#include "shard/inbox.h"

/* The checks of a message in the shard's current phase. */
extern const struct intake gather_intake;

void gather_restart(struct shard *shard);
/* Returns the first worker whose message has not been handled, or job.workers if the phase is
 * complete. */
int gather_next(const struct shard *shard);
/* Skips the next worker, which is no longer a member of the job. */
void gather_pass(struct shard *shard);
/* All workers of a step must train at the same learning rate. Returns 1 if this worker's rate
 * equals the rate of the first worker in the sum. Otherwise fails the job and returns 0. `first` is
 * 1 for the first worker. */
int gather_same_rate(struct shard *shard, int worker, float lr, int first);
/* Accepts and counts the worker's next message, m. Returns 1 on success. */
int gather_count(struct shard *shard, int worker, const struct message *m);
/* Counts a push that is based on a version this many versions older than the newest. */
void gather_count_staleness(const struct shard *shard, uint64_t behind);
/* The first is called after the publication that ends a phase, the second after the publication
 * that ends the step. */
void gather_phase_ends(struct shard *shard);
void gather_step_ends(struct shard *shard);

/* Returns the values from the workers' messages that a publication's header repeats. */
const struct gathered *gather_view(const struct shard *shard);
uint32_t gather_counted(const struct shard *shard);
float gather_lr(const struct shard *shard);
#endif
