/* SPDX-License-Identifier: BSD-3-Clause
 * The state of a shard. Shards are the half of a model that sums and publishes. They communicate
 * with workers only by messages. */
#ifndef RUNTIME_SHARD_STATE_H
#define RUNTIME_SHARD_STATE_H
#include "job/state.h"
#include "model/compressor.h"
#include "model/delta_log.h"
#include "model/kept.h"
#include "model/model_parts.h"
#include "model/rulebook.h"
#include "shard/reduce.h"

struct shard_hooks;
enum { SHARD_HOOKS = 7 }; /* rows in shard_hooks.c */

struct gathered {
	int next_rank;    /* the messages of all lower ranks have been taken in this phase */
	uint32_t counted; /* messages in the sum: the divisor */
	int lr_rank; /* the worker whose message was first in the sum; lr is its learning rate */
	float lr;
	unsigned raised;
	unsigned chosen_next; /* for the next step, from the messages (gather_count()) */
};

struct shard {
	sluice_job *job;
	struct rulebook rules;
	struct model_parts model;
	const struct shard_layout *at;
	uint32_t id;
	struct span *spans;            /* used by shard_setup.c: compressor_spans() */
	struct scratch *scratch;       /* shared by all shards of the rank */
	struct compressor *compressor; /* selects and encodes the shard's changes */
	struct vectors kept;
	/* These point into `kept`. The copy holds the parameters that all workers have. The
	 * averages are those of the update rule. */
	float *copy;
	struct averages averages;
	uint64_t version;   /* steps completed */
	uint64_t published; /* number of publications for all workers; a step may have several */
	unsigned phase;
	unsigned chosen; /* rulebook_step(): the choice that all workers follow */

	struct inboxes *inboxes;
	struct gathered gathered;
	struct reduction reduction;
	struct loss loss; /* compression error of the last version, if it was measured */
	struct delta_log log;

	/* the rows that the recipe uses; ends with NULL */
	const struct shard_hooks *hooks[SHARD_HOOKS + 1];
	/* State of the methods. NULL unless the recipe uses the method. */
	struct lazy_sum *lazy;
	struct agreed *agreed;
	struct async_shard *async;
	struct quorum_shard *quorum;
	struct shard_census *census;
	struct median *median;
	struct shard_bits *bits;
	struct dense_sum *dense;     /* never NULL, because any recipe may send all coordinates */
	struct device_shard *device; /* NULL: the host makes all steps */
};

/* Returns the residual, which holds all that was not published yet, or NULL if the recipe keeps
 * none. */
static inline float *shard_residual(const struct shard *shard)
{
	return compressor_residual(shard->compressor);
}
#endif
