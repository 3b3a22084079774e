/* SPDX-License-Identifier: BSD-3-Clause
 * Asynchronous steps (when=async(TAU)), and their anchors (signal=svrg(M)); Yu, Wu, Huang, Double
 * Quantization for Communication-Efficient Distributed Optimization, NeurIPS 2019. The worker half
 * is async.c, the shard half shard_async.c.
 *
 * A shard takes one push at a time, the one with the oldest parameters first, and each push makes a
 * new version. The shard then publishes for the worker of that push alone, which has its own place
 * in the log. The publication is the whole difference between the shard's parameters and the
 * anchor, which all workers hold. So a worker needs none of the publications in between.
 *
 * The bound. After a push is taken, it must still be possible to take the pushes of all other
 * workers under way in the order of their parameters' age, none of them more than TAU versions
 * behind. The k-th oldest, which is now l versions behind, therefore needs l + k - 1 <= TAU.
 * Otherwise the push waits in its inbox, and so does its worker. The oldest push can always be
 * taken, so a worker only ever waits for slower workers. With TAU >= workers - 1 there is always
 * room for a worker that starts again.
 *
 * Parked. A worker that enters a collective would hold up the others, so it sends MESSAGE_PARK and
 * they continue without it. Its next push is taken if it still fits the bound. Otherwise the push
 * is refused and counted. A pull without a push (MESSAGE_ASK) brings the newest parameters, after
 * which the worker starts again.
 *
 * Anchors. In the first step of an epoch each worker pushes its full gradient at the anchor, in
 * f32. When all have arrived, the shard keeps their mean. In the following steps a worker pushes
 * the difference of two gradients of one sample, and the shard adds that mean. When each worker has
 * done its part of the M steps, the shard publishes the parameters themselves, in f32. They are the
 * next anchor, with the same bits on all workers. A push names the anchor to which it belongs. If
 * it names another anchor, it is refused and counted. */
#ifndef RUNTIME_SHARD_ASYNC_H
#define RUNTIME_SHARD_ASYNC_H
#include "shard/shard_hooks.h"

struct shard;
struct async_shard; /* shard.async; NULL unless the recipe says when=async */

extern const struct shard_hooks shard_async_hooks;
/* Called when shard.copy holds the parameters with which all workers begin. */
void shard_async_begin(struct shard *shard);
/* Does what shards_advance() does for one shard, except for sending notices. */
int shard_async_advance(struct shard *shard);
/* Returns 1 if the shard does not wait for a message of this worker. */
int shard_async_excused(const struct shard *shard, int worker);
#endif
