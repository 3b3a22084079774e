/* SPDX-License-Identifier: BSD-3-Clause
 * The shard half of a census (model/census.h), for all shards of a rank. shard_census.c owns the
 * state of the census. */
#ifndef RUNTIME_SHARD_CENSUS_H
#define RUNTIME_SHARD_CENSUS_H
#include "model/census.h"
#include "shard/shard_hooks.h"

struct shard;

struct shard_census; /* shard.census; NULL unless a direction is global */

/* Returns the bytes that shard_census_open() allocates on a rank that owns n_own shards. */
uint64_t shard_census_memory(const struct recipe *recipe, uint32_t n_own);
/* Opens the census of the n shards of a rank. Returns 0 or SLUICE_ENOMEM. */
int shard_census_open(struct shard *shards, uint32_t n);
void shard_census_close(struct shard *shards, uint32_t n);

/* Writes the note of this step's delta to out, directly after the delta. Returns the note's length,
 * or 0 if there is no note. The note's histogram counts the residual, so this is called before the
 * selected values are subtracted from it. */
size_t census_note_delta(struct shard *shard, uint8_t *out);

/* The state of a shard between two steps, which a checkpoint stores as an array of numbers.
 * census_shard_numbers() returns the length of the array. census_judge_shard() returns NULL, or why
 * a shard at this version cannot have these numbers. */
size_t census_shard_numbers(void);
void census_save_shard(const struct shard *shard, uint64_t *numbers);
const char *census_judge_shard(const struct direction *down, uint64_t version,
			       const uint64_t *numbers);
void census_restore_shard(struct shard *shard, const uint64_t *numbers);
extern const struct shard_hooks shard_census_hooks;

/* For tests: the sum of the workers' histograms of this step. */
const struct sluice_histogram *shard_census_workers(const struct shard *shard);
#endif
