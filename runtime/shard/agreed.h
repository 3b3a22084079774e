/* SPDX-License-Identifier: BSD-3-Clause
 * The shard half of recipes in which workers and shards agree on a support, the set of coordinates
 * that they exchange (worker/agree.h). In a phase without sketches, the shard publishes the
 * leader's indices as received. With sketches, it publishes the coordinates with the largest
 * estimates in the sum of the sketches. agreed.c owns the support of the step and the sum of the
 * sketches. */
#ifndef RUNTIME_AGREED_H
#define RUNTIME_AGREED_H
#include "model/compressor.h"
#include "shard/shard_hooks.h"

struct shard;
struct agreed; /* shard.agreed; NULL if the recipe agrees on no support */

/* Returns the number of coordinates in the support of this step; 0 while there is no support. */
uint32_t agreed_count(const struct shard *shard);
/* Each function handles a worker's message in a phase with that payload. The scratch holds the
 * message's entries. Returns NULL, or why the message is refused. */
const char *agreed_take_sketch(struct shard *shard, int worker, const struct message *m);
const char *agreed_take_indices(struct shard *shard, int worker, const struct message *m);
const char *agreed_take_values(struct shard *shard, int worker, const struct message *m);
/* Returns the number of coordinates in the support of the step, and sets *index_out to the
 * coordinates. Called when all workers' messages have arrived. */
uint32_t agreed_support(struct shard *shard, const uint32_t **index_out);
extern const struct shard_hooks agreed_hooks;
#endif
