/* SPDX-License-Identifier: BSD-3-Clause
 * The loop of the shard half (shard.c), with the headers of its files. It is for the callers above
 * the shard half: a file of this directory includes state.h and the headers that it needs. */
#ifndef RUNTIME_SHARD_H
#define RUNTIME_SHARD_H
#include "model/model.h"
#include "shard/agreed.h"
#include "shard/gather.h"
#include "shard/inbox.h"
#include "shard/lazy_sum.h"
#include "shard/publish.h"
#include "shard/reduce.h"
#include "shard/shard_async.h"
#include "shard/shard_census.h"
#include "shard/shard_dense.h"
#include "shard/shard_device.h"
#include "shard/shard_setup.h"
#include "shard/state.h"

/* Gathers the messages that have come, publishes when they are complete, and sends the notices;
 * returns 1 if something moved. Never waits. */
int shard_advance(struct shard *shard);
/* Whether shard_advance() has something to do, or will without another message from a worker. */
int shard_works(const struct shard *shard);
/* For struct job_client's waits, explain and describe_waits. */
int shards_wait(const sluice_model *model);
void shards_explain(sluice_model *model, uint64_t now, int always);
void shards_describe_waits(const sluice_model *model, char *text, size_t cap);
#endif
