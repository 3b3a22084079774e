/* SPDX-License-Identifier: BSD-3-Clause
 * The loop of the worker half; see worker.c. */
#ifndef RUNTIME_WORKER_H
#define RUNTIME_WORKER_H
#include "model/model.h"
#include "worker/signal.h"

/* Returns the number of the shard's publication that answers the current phase. */
uint64_t worker_wanted(const struct worker *w, uint32_t shard);
/* worker_send() makes the messages of the current phase for all shards, and posts those that can go
 * at once. signal describes the addition that signal_fold() left to the selection; NULL means that
 * the residual is complete. worker_send_shard() makes the message for one shard, if the recipe
 * selects each coordinate independently of the others. After SLUICE_ENUMERIC, a value was not
 * finite and not sent; the caller then calls nonfinite_sum(). */
int worker_send(struct worker *w, struct signal *signal);
int worker_send_shard(struct worker *w, uint32_t shard);
/* Advances through the phases as far as possible without waiting. Returns 1 when all phases before
 * `until` are complete. For a push `until` is 1, because its messages are then posted. For a pull
 * it is the number of phases. The token must be held. */
int worker_advance(struct worker *w, unsigned until);
/* The functions for gradients in host memory. */
extern const struct compressor_ops host_compressor_ops;
/* For progress_until(): describes what the step is still waiting for. context: the model. */
void worker_describe(void *context, char *text, size_t cap);
#endif
