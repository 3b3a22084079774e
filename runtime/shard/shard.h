/* SPDX-License-Identifier: BSD-3-Clause
 * The half of a model that sums and publishes: the state of a shard, and what its files ask of each
 * other. It knows workers only by their messages. */
#ifndef RUNTIME_SHARD_H
#define RUNTIME_SHARD_H
#include "compress/sparse.h"
#include "job/job.h"
#include "model/compressor.h"
#include "model/delta_log.h"
#include "model/kept.h"
#include "model/measure.h"
#include "model/model.h"
#include "recipe/recipe.h"
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

struct shard {
	const struct shard_layout *at;
	uint32_t id;
	struct span *spans, whole;
	size_t n_spans;
	struct scratch *scratch;       /* of all shards of the rank */
	struct compressor *compressor; /* of the change of the model, over the shard */
	struct vectors kept;
	/* Two of the kept vectors: the parameters as all workers hold them, and the velocity of the
	 * update rule, which is NULL where the recipe has none. */
	float *copy, *velocity;
	uint64_t version;   /* steps completed */
	uint64_t published; /* publications for all, of which a step may have several */
	unsigned phase;
	unsigned chosen; /* model_rule(): what all go on with */

	struct inboxes *inboxes;
	struct gathered gathered;
	struct reduction reduction;
	struct loss loss; /* of the last version, where it is measured */
	struct delta_log log;
	uint8_t *snapshot; /* snapshot.h */

	/* The methods' own; NULL where the recipe has none. */
	struct lazy_sum *lazy;
	struct agreed *agreed;
	struct async_shard *async;
	struct shard_census *census;
	struct dense_sum *dense;     /* always there: any recipe may send all */
	struct device_shard *device; /* NULL: all steps are made on the host */
};

/* What was not published yet; NULL where the recipe keeps nothing. */
static inline float *shard_residual(const struct shard *shard)
{
	return compressor_residual(shard->compressor);
}

/* ---- shard.c ---- */
/* Gathers the messages that have come, publishes when they are complete, and sends the notices;
 * returns 1 if something moved. Never waits. */
int shard_advance(sluice_model *model, struct shard *shard);
/* Whether shard_advance() has something to do, or will without another message from a worker. */
int shard_works(const sluice_model *model, const struct shard *shard);
/* For struct job_client's waits, explain and describe_waits. */
int shards_wait(const sluice_model *model);
void shards_explain(sluice_model *model, uint64_t now, int always);
void shards_describe_waits(const sluice_model *model, char *text, size_t cap);

/* ---- shard_setup.c ---- */
int shards_open(sluice_model *model);
void shards_close(sluice_model *model);
/* Bytes that shards_open() takes on this rank. */
uint64_t shards_memory(const struct layout *l, const struct recipe *recipe, int rank);
struct shard *shard_find(sluice_model *model, uint32_t id);
void shard_restart(sluice_model *model, struct shard *shard, uint64_t version);

/* ---- publish.c ---- */
/* Writes the copy as a snapshot entry of the current version. */
int shard_publish_snapshot(sluice_model *model, struct shard *shard);
#endif
