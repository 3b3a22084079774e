/* SPDX-License-Identifier: BSD-3-Clause
 * Shards on a GPU (device_shards). The GPU of the shard's owner adds up a step's messages, applies
 * the update rule, selects what to publish, and encodes the payload. The results have the same bits
 * as on the host. The sum, the residual and the velocity stay on the GPU. The host checks and
 * decodes the workers' messages, writes headers, and keeps the copy of the parameters. Called by
 * shard.c, whose loop and log these steps share. The token is held unless a comment says
 * otherwise. */
#ifndef RUNTIME_SHARD_DEVICE_H
#define RUNTIME_SHARD_DEVICE_H
#include "sluice.h"

struct shard;
struct device_shard; /* shard.device; NULL: the shard is on the host */

/* Puts all shards of this rank on the GPU that holds params. If params is host memory or NULL, uses
 * the GPU of the local rank. Called at open, without the token. */
int shard_devices_open(sluice_model *model, const void *params);
/* Waits for the GPU for a bounded time, then closes. Called without the token. */
void shard_devices_close(sluice_model *model);
/* Waits until no change is being made, then copies the GPU's vectors to the host's vectors.
 * Functions that read the host's vectors call this first. Returns 0, SLUICE_EGPU, SLUICE_ETIMEDOUT,
 * or the job's error. Takes the token itself. */
int shard_devices_fetch(sluice_model *model);

/* Called when the host's vectors are newer than the GPU's. The next step starts from the host's
 * vectors. */
void shard_device_restart(struct shard *shard);
/* Returns 1 if the GPU adds this step's messages and makes the change. If SLUICE_MEASURE was
 * switched on during the step, moves the sum so far to the host. */
int shard_device_takes(struct shard *shard);
/* Returns 1 if the GPU has room for the next message. */
int shard_device_ready(struct shard *shard);
/* Adds one message, like reduction_add(). Returns -1 if the job has failed. */
int shard_device_add(struct shard *shard, const uint32_t *index, const float *value,
		     uint32_t count);
/* Called when all messages of the step are in the sum. Asks the GPU for the change, or publishes
 * the change if the GPU has made it. Returns 1 if it was published. */
int shard_device_answer(struct shard *shard);
/* Returns 1 if the shard waits for its GPU, and writes to text what the GPU is doing. */
int shard_device_busy(const struct shard *shard, char *text, size_t cap);
#endif
