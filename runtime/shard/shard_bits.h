/* SPDX-License-Identifier: BSD-3-Clause
 * For recipe=auto: the first shard chooses the code of the publications (model/bits.h). */
#ifndef RUNTIME_SHARD_BITS_H
#define RUNTIME_SHARD_BITS_H
#include "model/compressor.h"
#include "model/plan.h"
#include "shard/shard_hooks.h"

struct shard_bits; /* shard.bits; NULL except in the first shard with recipe=auto */

extern const struct shard_hooks shard_bits_hooks;
uint64_t shard_bits_memory(uint64_t span, const struct recipe *recipe, uint32_t shard);
/* Measures the vector from which a publication is selected. */
void shard_bits_see(struct shard *shard, const struct pick_call *call);
/* Returns the choice that the shard's delta passes on to all workers: the choice of the workers,
 * with the code of this shard. */
unsigned shard_bits_chosen(const struct shard *shard, unsigned of_workers);
/* The state of a shard between two steps. */
uint64_t shard_bits_save(const struct shard *shard);
const char *shard_bits_judge(const struct recipe *recipe, uint64_t number);
void shard_bits_restore(struct shard *shard, uint64_t number);
#endif
