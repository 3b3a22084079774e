/* SPDX-License-Identifier: BSD-3-Clause
 * The half of a model that pushes and pulls: the progress of the step under way, and the objects
 * that the files of the half own. It meets shards only in messages. */
#ifndef RUNTIME_WORKER_STATE_H
#define RUNTIME_WORKER_STATE_H
#include "compress/sparse.h"
#include "model/compressor.h"
#include "model/kept.h"
#include "model/model.h"

enum step_state {
	STEP_DONE,    /* pulled: the next push may come */
	STEP_PUSHED,  /* the whole gradient is pushed, and not yet pulled */
	STEP_PUSHING, /* some ranges are pushed, not all */
	STEP_PULLING  /* sluice_pull_begin() was called, and not all ranges were asked for */
};

struct worker {
	struct vectors kept;
	struct scratch *scratch;
	struct compressor *compressor; /* of the gradients, over the whole vector */
	struct span *shard_spans;      /* of a seeded selector: one a shard; else NULL */
	struct span
		*spans; /* of one shard at a time, where shards are sent one by one; else NULL */
	struct lanes *lanes;
	struct on_device *device; /* gradients or params in GPU memory */
	struct target *into;      /* where pulls write */
	struct parts *parts;      /* what was named in ranges and pieces */
	/* State of the methods. Each belongs to its own file, and is NULL unless the recipe uses
	 * the method. */
	struct lazy *lazy;
	struct local *local;
	struct async *async;
	struct agreed *agreed;
	struct worker_census *census;
	struct guard *guard;

	/* The step under way. */
	uint64_t step; /* the one that was pushed last, counted from 1 */
	struct step_rule rule;
	enum step_state in_step;
	unsigned phase;
	int encoded;          /* the messages of this phase are made */
	int skip;             /* nonfinite=skip or lazy_wants(): this step's messages are empty */
	int skipped;          /* nonfinite=skip-all: nothing is exchanged for the last push */
	uint32_t shards_done; /* those whose publication of this phase is dealt with */
	struct entries received; /* the message that was decoded last */
	float range;   /* grid: largest magnitude of the whole vector, the same for all shards */
	uint32_t mark; /* the field `anchor` of its messages: a method's count */
	uint64_t overflowed; /* the coordinate that could not be sent, because it is not finite */

	unsigned raise, raised; /* flags of sluice_raise() that go up, and that came down */
	unsigned chosen;        /* model_rule(): what all go on with */
	unsigned proposed; /* the choice that the next push proposes; `chosen` unless this worker
			      wants more */
	int accumulates;   /* the residual was handed out: the application adds to it */
};

/* The residual: everything that was not sent yet, plus this step's signal. */
static inline float *worker_residual(const sluice_model *model)
{
	return compressor_residual(model->worker->compressor);
}
#endif
