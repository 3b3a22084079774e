/* SPDX-License-Identifier: BSD-3-Clause
 * The messages of one phase of a step, whose sum closes when every living worker's is in: which
 * message may come now, how many are counted, and what they say of the step. gather.c owns struct
 * gathered.
 *
 * A push counts exactly once, if at the moment it is taken its sender is a member of the epoch that
 * this rank is in (members.c) and its sequence number, step and version are the very next. The
 * epoch that it carries is the one its sender knew: older (sent before it learnt of a loss) or
 * newer (it learnt first) than the shard's, and no reason to refuse it; a member was a member all
 * along. A push of a lost worker, of whatever epoch, is refused and counted (refused_messages)
 * unless it was added before the loss was adopted: then it stays in the sum. The step closes when
 * every member's push is in, and its divisor is the number of pushes in the sum. */
#ifndef RUNTIME_GATHER_H
#define RUNTIME_GATHER_H
#include "shard/inbox.h"

/* What a message of the shard's phase must be. */
extern const struct intake gather_intake;

void gather_restart(struct shard *shard);
/* The first worker that has not been dealt with; job.workers: the phase is complete. */
int gather_next(const struct shard *shard);
/* This worker is no member of the job any more. */
void gather_pass(struct shard *shard);
/* All workers of a step must train at one rate: 1 if this one's is that of the first. Else the job
 * has failed. */
int gather_same_rate(sluice_model *model, struct shard *shard, int worker, float lr, int first);
/* Accepts and counts the worker's next message, m; 1 if that went well. */
int gather_count(sluice_model *model, struct shard *shard, int worker, const struct message *m);
/* What was gathered has been published; so has the whole step. */
void gather_phase_ends(struct shard *shard);
void gather_step_ends(struct shard *shard);

/* What the header of a publication repeats. */
const struct gathered *gather_view(const struct shard *shard);
uint32_t gather_counted(const struct shard *shard);
float gather_lr(const struct shard *shard);
#endif
