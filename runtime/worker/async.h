/* SPDX-License-Identifier: BSD-3-Clause
 * when=async at the worker; shard_async.h has the protocol. An answer of a shard is a difference to
 * the anchor, or the next anchor itself. Beside gradients a worker says two things: it asks for the
 * newest parameters, and it parks before collectives. async.c owns all that a worker keeps for
 * it. */
#ifndef RUNTIME_WORKER_ASYNC_H
#define RUNTIME_WORKER_ASYNC_H
#include "model/model.h"

struct async; /* worker.async is NULL unless the recipe says when=async */

int async_open(const sluice_model *model, struct async **out); /* 0 or SLUICE_ENOMEM */
void async_close(struct async **async);
/* The shards do not count on this worker until async_begin(). */
void async_restart(struct async *async);

/* All workers hold params, version 0. */
void async_begin(sluice_model *model, const float *params);
/* What a push says: which anchor its gradient belongs to, and which version of the shard its
 * parameters are. */
uint32_t async_anchors(const struct async *async);
uint64_t async_base(const struct async *async, uint32_t shard);

/* The next message is a push, or asks: a pull waits for the answer to it. */
void async_step_begins(sluice_model *model);
/* The message whose answer a pull waits for. */
uint64_t async_awaited(const struct async *async);
/* What an answer to the last message must be. */
void async_expect(const sluice_model *model, struct message_expect *want);
/* NULL, or why it is refused. */
const char *async_judge(const sluice_model *model, const struct message *m);
/* worker.value becomes the shard's part of the target. */
void async_apply(sluice_model *model, uint32_t shard, const struct message *m);
/* All shards have answered. */
void async_pulled(sluice_model *model);

/* A pull without a push: asks for the newest, and counts on the bound again. */
int async_ask(sluice_model *model);
/* Tells the shards that they need not wait for this worker, if they count on it. Token held. */
int async_park(sluice_model *model);
#endif
