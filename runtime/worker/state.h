/* SPDX-License-Identifier: BSD-3-Clause
 * The half of a model that pushes and pulls: the progress of the step under way, and the objects
 * that the files of the half own. It meets shards only in messages. */
#ifndef RUNTIME_WORKER_STATE_H
#define RUNTIME_WORKER_STATE_H
#include "compress/sparse.h"
#include "model/compressor.h"
#include "model/kept.h"
#include "model/model.h"
#include "worker/step.h"

enum { WORKER_HOOKS = 9 };

struct worker {
	struct vectors kept;
	struct scratch *scratch;
	struct compressor *compressor; /* the compressor of the gradients, over the whole vector */
	struct span *shard_spans; /* spans of a seeded selector, one for each shard; else NULL */
	struct span *spans;       /* spans of one shard, if shards are sent one by one */
	struct lanes *lanes;
	const struct compressor_ops *_Atomic ops; /* for the place where gradients are compressed */
	struct on_device *device;                 /* gradients or params in GPU memory */
	struct device_half *half; /* the device's vectors; only device_half.c reads its members */
	struct target *into;      /* where pulls write */
	struct parts *parts;      /* the ranges and pieces that the program has named */
	/* State of the methods. Each belongs to its own file, and is NULL unless the recipe uses
	 * the method. */
	struct lazy *lazy;
	struct local *local;
	struct async *async;
	struct agreed *agreed;
	struct worker_census *census;
	struct guard *guard;

	struct step step; /* the step under way, or the last one */
	/* The rows of worker_setup.c that take part; ends with NULL. */
	const struct step_hooks *hooks[WORKER_HOOKS + 1];
	int accumulates; /* 1: the application adds to the residual (sluice_accumulator) */
};

/* Returns the residual, which holds everything that was not sent yet, plus this step's signal. */
static inline float *worker_residual(const sluice_model *model)
{
	return compressor_residual(model->worker->compressor);
}
#endif
