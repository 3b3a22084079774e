/* SPDX-License-Identifier: BSD-3-Clause
 * Asynchronous steps (when=async(TAU)), and their anchors (signal=svrg(M)). The method is that of
 * Yu, Wu, Huang, Double Quantization for Communication-Efficient Distributed Optimization, NeurIPS
 * 2019. The worker half is async.c, the shard half shard_async.c.
 *
 * A shard takes one push at a time, the one with the oldest parameters first, and each push makes a
 * new version. The shard then publishes only for the worker that sent the push. Each worker has its
 * own place in the log. The publication is the whole difference between the shard's parameters and
 * the anchor, which all workers hold. So a worker does not need the publications that the shard
 * made for other workers.
 *
 * The bound. A shard takes a push only if it can then still take the pushes of all other workers
 * under way, oldest parameters first, with none of them more than TAU versions behind. For the k-th
 * oldest of these workers, which is now l versions behind, this means l + k - 1 <= TAU. Otherwise
 * the push waits in its inbox, and its worker waits for the answer. The oldest push can always be
 * taken, so a worker only ever waits for slower workers. If TAU is at least the number of workers
 * minus one, a parked worker can always start again.
 *
 * Parked workers. A worker that enters a collective would hold up the others. It therefore sends
 * MESSAGE_PARK, and the others continue without it. The shard takes its next push if that still
 * fits the bound. Otherwise it refuses the push and counts it as refused. A pull without a push
 * (MESSAGE_ASK) brings the newest parameters, after which the worker starts again.
 *
 * Anchors. In the first step of an epoch each worker pushes its full gradient at the anchor, in
 * f32. When all have arrived, the shard keeps their mean. In the following steps a worker pushes
 * the difference of two gradients of one sample, and the shard adds that mean. When each worker has
 * done its part of the M steps, the shard publishes the parameters themselves, in f32. They are the
 * next anchor, with the same bits on all workers. A push names the anchor to which it belongs. If
 * that is not the shard's anchor, the push is refused and counted. */
#ifndef RUNTIME_SHARD_ASYNC_H
#define RUNTIME_SHARD_ASYNC_H
#include "shard/shard_hooks.h"

struct shard;
struct async_shard; /* shard.async; NULL unless the recipe has when=async */

extern const struct shard_hooks shard_async_hooks;
/* Called when shard.copy holds the parameters with which all workers begin. */
void shard_async_begin(struct shard *shard);
/* Does what shards_advance() does for one shard, except for sending notices. */
int shard_async_advance(struct shard *shard);
/* Returns 1 if the shard does not wait for a message of this worker. */
int shard_async_excused(const struct shard *shard, int worker);
#endif
