/* SPDX-License-Identifier: BSD-3-Clause
 * A model, as both of its halves see it. The worker half (worker/state.h) and the shard half
 * (shard/shard.h) add their own parts. Neither half reads the other: they communicate by
 * messages. */
#ifndef RUNTIME_MODEL_H
#define RUNTIME_MODEL_H
#include "compress/message.h"
#include "compress/select.h"
#include "job/state.h"
#include "model/home.h"
#include "model/layout.h"
#include "model/measure.h"
#include "model/plan.h"
#include "model/rulebook.h"
#include "model/stopwatch.h"
#include "model/tensors.h"
#include "model/update.h"
#include "model/worth.h"

struct blocking_read;
struct worker;
struct shard;

/* The number in the cookie of a READ that belongs to no lane. */
enum { READ_BLOCKING = 0x7fffffff };

/* With signal=innovation, the count in a push. INNOVATION_REFRESH: the push sends everything again.
 * Otherwise twice the number of uploads so far, plus one if this push is an upload. */
#define INNOVATION_REFRESH UINT32_MAX

struct sluice_model {
	sluice_job *job;
	uint32_t id;
	uint32_t channel; /* channel of shard 0 (job/client.h) */
	struct recipe recipe;
	char recipe_text[RECIPE_TEXT_BYTES];
	struct schedule schedule;
	struct path_plan plan;
	struct update update;
	struct layout layout;
	struct tensors *tensors;
	uint64_t schema; /* digest of everything that all ranks must agree on */
	float lr;
	void *stream; /* of the application, for vectors on a device */
	/* Gradients pushed here. Parameters (update=average) are always floats. */
	struct {
		enum value_type type;
		float scale; /* for 8-bit types: factor of their codes */
	} grad;
	enum value_type param_type; /* type of a vector of parameters or of a mean */
	uint64_t step;              /* completed steps */
	uint64_t first_step;        /* exchanges completed at open or at the restored checkpoint */
	/* Some rank failed to load a checkpoint, so the model can only be closed. */
	int half_restored;
	struct worth worth;        /* the worker half's */
	struct worth_step watched; /* sums up to the previous step */

	struct home *home;
	struct blocking_read *reading; /* the READ that the caller waits for (READ_BLOCKING) */

	struct worker *worker; /* every rank has one; a server's is not used */
	struct shard *shards;  /* this rank's n_own shards */
	uint32_t n_own;
	struct measure measure;
	int uneven; /* pushes of a gradient carry FLAG_GRADIENT */

	sluice_model_stats stats; /* times are added by the stopwatch */
	struct stopwatch stopwatch;
};

/* The flag of sluice_raise() that informs sluice_idle_step() that a worker has pushed a
 * gradient. */
enum { FLAG_GRADIENT = 0x80 };

/* Makes the next polls advance the model until it has nothing left to do. Requires the token. */
static inline void model_stir(sluice_model *model)
{
	clients_stir(&model->job->clients, model->id);
}

/* Returns the element type of the pushed vector. It is never an 8-bit type. */
static inline enum value_type model_pushed_type(const sluice_model *model)
{
	return recipe_pushes_params(&model->recipe) ? VALUE_F32 : model->grad.type;
}

/* Returns a phase of the step. */
static inline const struct phase *phase_now(const sluice_model *model, unsigned phase)
{
	return schedule_phase(&model->schedule, phase);
}

/* Returns the number of the exchange to which the next step belongs, counted from 1. */
static inline uint64_t model_exchange(const sluice_model *model)
{
	return model->step / model->recipe.period + 1;
}

/* Returns 1 if the next step is this worker's own, without an exchange (when=every). */
static inline int model_alone(const sluice_model *model)
{
	return (model->step + 1) % model->recipe.period != 0;
}

static inline int model_async(const sluice_model *model)
{
	return model->recipe.when == WHEN_ASYNC;
}

/* Returns 1 if the next push is at an anchor (when=async). */
static inline int model_anchor_due(const sluice_model *model)
{
	return schedule_at_anchor(&model->schedule, model->step + 1);
}

/* Returns rulebook_stands() for the model. */
static inline int model_stands(const sluice_model *model, float lr)
{
	return rulebook_stands(&model->recipe, lr);
}

/* Returns the epoch that a message must have, or MESSAGE_ANY if ranks may be in different
 * epochs. */
static inline uint64_t model_epoch(const sluice_job *job)
{
	return job_elastic(job) ? MESSAGE_ANY : job->membership_epoch;
}

/* ---- model.c ---- */
/* Returns the rules of this model's steps. The pointers are valid as long as the model. */
struct rulebook model_rules(const sluice_model *model);
/* Returns rulebook_step() for the model. */
struct step_rule model_rule(const sluice_model *model, uint64_t step, unsigned chosen);
/* Counts the bytes that a message of a shard of this span would have with up=all down=all. own:
 * this rank owns the shard. */
void model_count_dense(sluice_model_stats *stats, uint32_t span, int own);
/* Returns "index 3 of tensor w1" for messages, or "index 3" in a model without named tensors. The
 * text belongs to the thread and is valid until its next call. */
const char *model_place(const sluice_model *model, uint64_t i);

/* Returns 0, or SLUICE_EINVAL for a function that needs every rank's part of the model. */
int model_whole(const sluice_model *model, const char *function);

/* ---- read.c ---- */
/* Reads from the peer's region into local (inside region), and waits for it. */
int model_read(sluice_model *model, int peer, struct remote *remote, uint64_t offset,
	       const struct region *region, void *local, size_t bytes);
/* Records that this READ has ended. Requires the token. */
void model_read_ended(sluice_model *model, int status);
/* Reads every shard's snapshot of `version` into params. All ranks must call this in the same
 * order. */
int model_read_snapshots(sluice_model *model, uint64_t version, float *params);
#endif
