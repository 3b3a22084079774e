/* SPDX-License-Identifier: BSD-3-Clause
 * Exchanges that close on a quorum (quorum=Q, grace=SECONDS). The worker half is quorum.c, the
 * shard half shard_quorum.c.
 *
 * A worker pushes its drift, and its pull waits until the shard has counted that push. So at most
 * one push of each worker waits at a shard. A shard closes an exchange when the pushes of Q workers
 * have arrived and the grace is over, or when the pushes of all workers that it expects have
 * arrived. The sum has the pushes that have arrived, in rank order. A push that arrives later
 * counts at the next exchange, once and whole. Each shard closes by itself, so the same push may
 * count at different exchanges of two shards.
 *
 * The publications of a shard are numbered, and all workers apply each of them, or take the
 * parameters that result. So two workers that hold the same publication of a shard have the same
 * bits. A worker that was counted gets a notice, which also acknowledges its push. If it is up to
 * QUORUM_LOG_ENTRIES publications behind, it reads each of them from the log. If it is further
 * behind, or finds an entry overwritten, it sends MESSAGE_ASK. The shard then writes a snapshot and
 * repeats the notice, and the worker reads the snapshot in place of its parameters.
 *
 * Collectives. A worker in a collective call makes no step before all others have joined, so shards
 * must not wait for it. It sends MESSAGE_PARK with the number of the collective, to each shard as
 * soon as that shard has counted its push, and counts toward the quorum from then on. The shard
 * answers with a notice, for which the worker waits before it joins. A push names the number of
 * collectives that its worker has completed. When a collective is complete, all workers have joined
 * it, so this push ends the parking of all of them, except of those that have joined the next. The
 * order in which messages of different workers arrive does not matter.
 *
 * Late workers. A worker whose push some shards have counted and others have not makes no other
 * push before the latter close an exchange. If the latter waited for a worker that waits in the
 * same way for the former, no shard would close. So if that lasts, the worker sends MESSAGE_PARK to
 * the shards that have counted its push, with the number of the collective that it joins next. When
 * all have counted it, the worker sends them MESSAGE_ASK, which ends the parking.
 *
 * Time. In a simulated job each turn of the shard's rank counts as one millisecond of the grace. So
 * its exchanges close with the same workers in every run. */
#ifndef RUNTIME_SHARD_QUORUM_H
#define RUNTIME_SHARD_QUORUM_H
#include "shard/shard_hooks.h"

struct shard;
struct quorum_shard; /* shard.quorum; NULL unless the recipe has quorum= */

extern const struct shard_hooks shard_quorum_hooks;
/* Takes the messages that have arrived. If the exchange can close, adds the pushes to the sum and
 * returns 1. *moved is set to 1 if any message was taken. */
int shard_quorum_gather(struct shard *shard, int *moved);
/* Returns 1 if the shard does not wait for a message of this worker. */
int shard_quorum_excused(const struct shard *shard, int worker);
#endif
