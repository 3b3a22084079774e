/* SPDX-License-Identifier: BSD-3-Clause
 * The loop of the shard half, for events.c, which calls it when something has arrived. */
#ifndef RUNTIME_SHARD_H
#define RUNTIME_SHARD_H
#include "sluice.h"
#include <stddef.h>
#include <stdint.h>

struct shard;

/* Gathers the messages that have arrived for this rank's shards, publishes when a phase is
 * complete, and sends the notices. The notices of short shards wait for each other, and those to
 * one rank are posted with one doorbell. Returns 1 if there was progress. Never waits. */
int shards_advance(sluice_model *model);
/* Returns 1 if shards_advance() has something to do, or will have something to do even if no worker
 * sends another message. */
int shard_works(const struct shard *shard);
/* The functions for the members waits, explain and describe_waits of struct job_client. */
int shards_wait(const sluice_model *model);
void shards_explain(sluice_model *model, uint64_t now, int always);
void shards_describe_waits(const sluice_model *model, char *text, size_t cap);
#endif
