/* SPDX-License-Identifier: BSD-3-Clause
 * The worker half of when=async; shard_async.h has the protocol. A shard answers with a difference
 * from the anchor, or with the next anchor itself. Besides gradients, a worker sends two kinds of
 * message: one asks for the newest parameters, the other parks the worker before collectives.
 * async.c owns all of the worker's state for this. */
#ifndef RUNTIME_WORKER_ASYNC_H
#define RUNTIME_WORKER_ASYNC_H
#include "worker/hooks.h"

struct async; /* worker.async is NULL unless the recipe has when=async */

/* ---- a closing (a row in worker.c): how a worker handles the answer to its message ---- */
/* Returns the number of the message whose answer a pull waits for. */
uint64_t async_awaited(const struct worker *w, uint32_t shard);
/* Sets the conditions that an answer to the last message must meet. */
void async_expect(const struct worker *w, uint32_t shard, struct message_expect *want);
/* Returns NULL, or the reason why the answer is refused. */
const char *async_judge(const struct worker *w, uint32_t shard, const struct message *m);
/* Computes the shard's part of the target from the answer in the compressor's entries. */
int async_apply(struct worker *w, uint32_t shard, const struct message *m,
		const struct entries *got);
/* Returns the version of the shard that an answer names. The worker's next push is based on this
 * version. Only the shard counts versions. */
uint64_t async_base(const struct message *m);

/* For a pull without a push: stages messages that request the newest parameters from all shards.
 * Ends the worker's parking. */
int async_ask(struct worker *w);
/* Informs the shards that they need not wait for this worker. Does nothing if they already know it.
 * The token must be held. */
int async_park(struct worker *w);

extern const struct step_hooks async_hooks;
#endif
