/* SPDX-License-Identifier: BSD-3-Clause
 * The worker half of when=async; shard_async.h has the protocol. A shard answers with a
 * difference to the anchor, or with the next anchor itself. Besides gradients, a worker sends
 * two kinds of message: one asks for the newest parameters, the other parks the worker before
 * collectives. async.c owns all of the worker's state for this. */
#ifndef RUNTIME_WORKER_ASYNC_H
#define RUNTIME_WORKER_ASYNC_H
#include "worker/hooks.h"

struct async; /* worker.async is NULL unless the recipe says when=async */

/* ---- a closing (a row of worker.c): how the answer to a worker's own message is taken ---- */
/* The message whose answer a pull waits for. */
uint64_t async_awaited(const sluice_model *model);
/* Sets the conditions that an answer to the last message must meet. */
void async_expect(const sluice_model *model, uint32_t shard, struct message_expect *want);
/* NULL, or why it is refused. */
const char *async_judge(const sluice_model *model, uint32_t shard, const struct message *m);
/* Makes the shard's part of the target from the entries of an answer. */
int async_apply(sluice_model *model, uint32_t shard, const struct message *m,
		const struct entries *got);
/* The version of the shard that an answer brought. The worker's next push is based on it; only the
 * shard counts versions. */
uint64_t async_base(const struct message *m);

/* 1 if the next push is at an anchor. */
int async_anchor_due(const sluice_model *model);
/* For a pull without a push: stages a message that asks each shard for its newest parameters.
 * The worker is then no longer parked. */
int async_ask(sluice_model *model);
/* Tells the shards, unless they know already, that they need not wait for this worker. Token
 * held. */
int async_park(sluice_model *model);

extern const struct step_hooks async_hooks;
#endif
