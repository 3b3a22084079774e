/* SPDX-License-Identifier: BSD-3-Clause
 * clip=median: a shard scales each push down to the median norm of all pushes of the exchange, as
 * in the training runs of SparseLoCo (Sarfi and others, 2025). The header of a push has the norm of
 * everything that its worker sends to all shards, so that all shards scale it by the same factor.
 * What is scaled away is lost: the worker has subtracted what it sent from its residual. Called by
 * shard.c. */
#ifndef RUNTIME_MEDIAN_H
#define RUNTIME_MEDIAN_H
#include "shard/shard_hooks.h"

struct shard;
struct median; /* shard.median; NULL unless the recipe has clip=median */

extern const struct shard_hooks median_hooks;
/* Returns 1 if the shard may add the first message of a step: either the recipe has no median, or
 * the messages of all living workers are here, and the median of their norms is known. */
int median_ready(struct shard *shard);
/* Scales the values of a worker's message, which passed the checks. Returns NULL, or why the
 * message is refused. */
const char *median_clip(const struct shard *shard, int worker, const struct message *m,
			float *value);
#endif
