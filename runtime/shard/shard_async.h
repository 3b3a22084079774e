/* SPDX-License-Identifier: BSD-3-Clause
 * Asynchronous steps (when=async(TAU)), and their anchors (signal=svrg(M)); Yu, Wu, Huang, Double
 * Quantization for Communication-Efficient Distributed Optimization, NeurIPS 2019. The worker half
 * is async.c, the shard half shard_async.c.
 *
 * A shard counts one push at a time, the one with the oldest parameters first, and makes a version
 * of each. What it then publishes is for the worker of that push alone, which has a place of its
 * own in the log: the whole difference between the shard's parameters and the anchor, which all
 * workers hold. So a worker needs none of the publications between.
 *
 * The bound. A push is taken only if afterwards every other worker that is under way can still be
 * taken, in the order of their parameters' age, none of them more than TAU versions behind: the
 * k-th oldest, now l versions behind, needs l + k - 1 <= TAU. Else it waits in its inbox, and its
 * worker with it. The oldest can always be taken, so nobody waits but for a slower worker. With TAU
 * >= workers - 1 a worker that begins anew fits in.
 *
 * Parked. A worker that enters a collective would hold up the others: it says so (MESSAGE_PARK),
 * and they go on without it. Its next push is taken if it still fits in, else refused and counted;
 * a pull without a push (MESSAGE_ASK) brings the newest parameters and lets it begin anew.
 *
 * Anchors. The first step of an epoch pushes each worker's full gradient at the anchor, in f32;
 * when all are in, the shard keeps their mean. The steps that follow push the difference of two
 * gradients of one sample, and the shard adds that mean. When each worker has taken its part of the
 * M steps, the shard publishes its parameters themselves, in f32: the next anchor, the same bits on
 * all workers. A push says which anchor it belongs to; of another one it is refused and counted. */
#ifndef RUNTIME_SHARD_ASYNC_H
#define RUNTIME_SHARD_ASYNC_H
#include "shard/shard_hooks.h"

struct shard;
struct async_shard; /* shard.async; NULL unless the recipe says when=async */

extern const struct shard_hooks shard_async_hooks;
/* shard.copy is what all workers begin with. */
void shard_async_begin(sluice_model *model, struct shard *shard);
/* As shard_advance(), but for the notices. */
int shard_async_advance(sluice_model *model, struct shard *shard);
/* 1 if the shard does not wait for a message of this worker. */
int shard_async_excused(const struct shard *shard, int worker);
#endif
