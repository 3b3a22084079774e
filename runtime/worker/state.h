/* SPDX-License-Identifier: BSD-3-Clause
 * The half of a model that pushes and pulls: the progress of the step under way, and the objects
 * that the files of the half own. It communicates with shards only by messages. */
#ifndef RUNTIME_WORKER_STATE_H
#define RUNTIME_WORKER_STATE_H
#include "compress/sparse.h"
#include "model/compressor.h"
#include "model/kept.h"
#include "model/model.h"
#include "worker/step.h"

enum { WORKER_HOOKS = 11 };

struct worker {
	/* The parts of the job and the model (worker_stand_on), which outlive the worker. */
	sluice_job *job;
	struct rulebook rules;
	struct model_parts model;
	const struct layout *layout;

	/* The attributes of the vectors that the program passes. */
	struct {
		enum value_type type;
		float scale;        /* for 8-bit types: factor of their codes */
	} grad;                     /* pushed parameters are always floats */
	enum value_type param_type; /* type of a vector of parameters or of a mean */
	void *stream;               /* the application's stream, for vectors on a device */
	int uneven;                 /* 1: pushes of a gradient have FLAG_GRADIENT */

	struct vectors kept;
	struct scratch *scratch;
	struct compressor *compressor; /* the compressor of the gradients, for the whole vector */
	struct span *shard_spans;      /* spans of a seeded selector, one for each shard; otherwise
					  NULL */
	struct span *spans;            /* spans of one shard or fragment, if they are sent one by
					  one */
	struct lanes *lanes;
	const struct compressor_ops *_Atomic ops; /* the row for where gradients are compressed:
						     host or device */
	struct on_device *device;                 /* state for gradients and parameters in GPU
						     memory */
	struct device_half *half; /* the device's vectors; only device_half.c accesses its
				     members */
	struct target *into;      /* the vector to which pulls write */
	struct parts *parts;      /* the ranges and pieces that the program has passed */
	/* State of the methods. Each pointer belongs to its own file, and is NULL unless the recipe
	 * uses the method. */
	struct lazy *lazy;
	struct local *local;
	struct async *async;
	struct quorum *quorum;
	struct agreed *agreed;
	struct worker_census *census;
	struct bits *bits;
	struct guard *guard;

	struct step step; /* the step under way, or the last one */
	/* The rows of worker_setup.c that take part, and NULL after the last. */
	const struct step_hooks *hooks[WORKER_HOOKS + 1];
	int accumulates; /* 1: the application adds to the residual (sluice_accumulator) */
};

/* A flag among those of sluice_raise(). It shows sluice_idle_step() that a worker has pushed a
 * gradient. */
enum { FLAG_GRADIENT = 0x80 };

/* Returns the residual: all values that were not sent yet, plus this step's signal. */
static inline float *worker_residual(const struct worker *w)
{
	return compressor_residual(w->compressor);
}

/* Returns the element type of the pushed vector. */
static inline enum value_type worker_pushed_type(const struct worker *w)
{
	return recipe_pushes_params(w->rules.recipe) ? VALUE_F32 : w->grad.type;
}

/* Returns the number of the exchange to which the next step belongs, counted from 1. Each fragment
 * has its own exchange of this number. */
static inline uint64_t worker_exchange(const struct worker *w)
{
	return w->step.done / w->rules.recipe->every.period + 1;
}

/* Returns the shards and coordinates of the last push. */
static inline struct fragment worker_fragment(const struct worker *w)
{
	return layout_fragment(w->layout, w->step.fragment);
}

/* Returns the number of exchanges of any fragment, up to that of the last push. */
static inline uint64_t worker_exchanges(const struct worker *w)
{
	return w->step.number ? (w->step.number - 1) * w->rules.recipe->every.fragments +
					w->step.fragment + 1 :
				0;
}

/* Returns 1 if this worker makes the next step alone, without an exchange (when=every). */
static inline int worker_alone(const struct worker *w)
{
	return !w->step.unpushed && (w->step.done + 1) % recipe_interval(w->rules.recipe) != 0;
}

/* Returns 1 if the next push is at an anchor (when=async). */
static inline int worker_anchor_due(const struct worker *w)
{
	return schedule_at_anchor(w->rules.schedule, w->step.done + 1);
}

/* Returns rulebook_stands() for the rate of the next push. */
static inline int worker_stands(const struct worker *w)
{
	return rulebook_stands(w->rules.recipe, w->step.lr);
}
#endif
