/* SPDX-License-Identifier: BSD-3-Clause
 * Shards on a GPU (device_shards): the sum of a step's messages, the update rule, the selection of
 * what is published and its payload are the work of the GPU of their owner, to the bits of the
 * host's. Sum, residual and velocity are kept there. The host checks and decodes what workers sent,
 * writes headers, and keeps the copy of the parameters. Called by shard.c, whose loop and log these
 * steps share; the token is held unless said otherwise. */
#ifndef RUNTIME_SHARD_DEVICE_H
#define RUNTIME_SHARD_DEVICE_H
#include "model/model.h"

struct shard;
struct device_shard; /* shard.device; NULL: the shard is on the host */

/* Puts all shards of this rank on the GPU whose memory params is, or, if it is host memory or NULL,
 * on the one that SLURM_LOCALID selects. At open, without the token. */
int shard_devices_open(sluice_model *model, const void *params);
/* Waits for the GPU, for a bounded time. Without the token. */
void shard_devices_close(sluice_model *model);
/* What the GPU keeps comes to the host's vectors, for those who read them, after the change that is
 * being made. SLUICE_EGPU, ETIMEDOUT, or the job's error. */
int shard_devices_fetch(sluice_model *model);

/* The host's vectors are newer: the next step begins with them. */
void shard_device_restart(sluice_model *model, struct shard *shard);
/* Whether messages are added, and the change is made, on the GPU now. Where SLUICE_MEASURE was
 * called, what was added so far moves to the host. */
int shard_device_takes(sluice_model *model, struct shard *shard);
/* Whether the next message can be taken: the GPU has room for it. */
int shard_device_ready(sluice_model *model, struct shard *shard);
/* Adds one message, as reduction_add(). Returns -1 if the job has failed. */
int shard_device_add(sluice_model *model, struct shard *shard, const uint32_t *index,
		     const float *value, uint32_t count);
/* All messages of the step are in the sum: asks the GPU for the change, or publishes it when it is
 * there. Returns 1 if it was published. */
int shard_device_answer(sluice_model *model, struct shard *shard);
/* Whether a shard waits for its GPU; text says what that is doing. */
int shard_device_busy(const struct shard *shard, char *text, size_t cap);
#endif
