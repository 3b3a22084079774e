/* SPDX-License-Identifier: BSD-3-Clause
 * Opens, restarts and closes the shards of a rank. */
#ifndef RUNTIME_SHARD_SETUP_H
#define RUNTIME_SHARD_SETUP_H
#include "model/layout.h"
#include "sluice.h"
#include "recipe/recipe.h"

int shards_open(sluice_model *model);
void shards_close(sluice_model *model);
/* Returns the bytes that shards_open() allocates on this rank. */
uint64_t shards_memory(const struct layout *l, const struct recipe *recipe, int rank);
struct shard *shard_find(sluice_model *model, uint32_t id);
/* Restarts the shard with empty rings and log, after each worker has taken part in that many
 * exchanges. version: the number of exchanges that the shard has closed, which is higher if workers
 * have missed some (quorum=). The caller fills the vectors. The token is held, or no other thread
 * knows the shard yet. */
void shard_restart(struct shard *shard, uint64_t exchanges, uint64_t version);
#endif
