/* SPDX-License-Identifier: BSD-3-Clause
 * A model, as both of its halves see it: the worker half (worker/worker.h) and the shard half
 * (shard/shard.h) add what is theirs. Neither half looks into the other: they meet in messages. */
#ifndef RUNTIME_MODEL_H
#define RUNTIME_MODEL_H
#include "compress/message.h"
#include "compress/select.h"
#include "compress/sketch.h"
#include "job/job.h"
#include "model/layout.h"
#include "model/measure.h"
#include "model/plan.h"
#include "model/update.h"
#include "model/worth.h"

struct worker;
struct shard;

/* Index in the cookie of a READ that belongs to no lane. */
enum { READ_BLOCKING = 0x7fffffff };

/* signal=innovation, in a push: everything is sent anew. Else twice the uploads so far, and one
 * more if the push is one. */
#define INNOVATION_REFRESH UINT32_MAX

struct sluice_model {
	sluice_job *job;
	uint32_t id;
	struct recipe recipe;
	char recipe_text[RECIPE_TEXT_BYTES];
	struct schedule schedule;
	struct path_plan plan;
	struct update update;
	struct layout layout;
	char **tensor_names; /* n_tensors */
	uint64_t *tensor_ends;
	size_t n_tensors;
	uint64_t schema; /* digest of everything that must agree */
	float lr;
	enum value_type grad_type; /* of the gradients pushed here; parameters (update=average) are
				      floats */
	uint64_t step;             /* completed */
	uint64_t first_step;       /* exchanges completed at open, or restored */
	int half_restored;  /* loading a checkpoint failed on some rank: it can only be closed */
	struct worth worth; /* the worker half's */
	struct worth_step watched; /* sums up to the last step */

	struct region **windows; /* [peer]: what the peer may write here; NULL if nothing */
	struct remote **remote_windows;
	struct region *log; /* deltas and snapshots of own shards; NULL if none */
	struct remote **remote_logs;

	int read_pending, read_status; /* of a READ that the caller waits for (READ_BLOCKING) */

	struct worker *worker; /* all ranks have one; a server's is not used */
	struct shard *shards;  /* own ones, n_own */
	uint32_t n_own;
	struct measure measure;

	sluice_model_stats stats;
};

/* What the vector of a push is made of: VALUE_F32, F16 or BF16. */
static inline enum value_type model_pushed_type(const sluice_model *model)
{
	return model->recipe.update == UPDATE_AVERAGE ? VALUE_F32 : model->grad_type;
}

/* A phase of the step. */
static inline const struct phase *phase_now(const sluice_model *model, unsigned phase)
{
	return &model->schedule.phases[phase];
}
/* A phase whose support an earlier one settled, or that settles it. */
static inline int phase_agrees(const struct phase *p)
{
	return p->payload == PAYLOAD_AGREED || p->payload == PAYLOAD_INDICES ||
	       p->payload == PAYLOAD_SKETCH;
}

static inline int model_async(const sluice_model *model)
{
	return model->recipe.when == WHEN_ASYNC;
}

/* What the epoch of a message must be: MESSAGE_ANY where ranks may be in different ones. */
static inline uint64_t model_epoch(const sluice_model *model)
{
	return model->job->members.elastic ? MESSAGE_ANY : model->job->membership_epoch;
}
/* A worker's sketch of a shard. */
static inline struct sketch_shape model_sketch_shape(const sluice_model *model,
						     const struct shard_layout *at, uint32_t shard)
{
	return (struct sketch_shape){ model->recipe.up.sketch_rows, at->sketch_columns, shard };
}

/* ---- model.c ---- */
/* What step t = 1, 2, ... sends; chosen as in the halves. */
struct step_rule model_rule(const sluice_model *model, uint64_t step, unsigned chosen);
/* Counts a message of this shard as up=all down=all would have it. */
void model_count_dense(sluice_model *model, const struct shard_layout *at);
/* "index 3 of tensor w1", for messages; in a model without named tensors "index 3". The text is the
 * thread's own, until the next call. */
const char *model_place(const sluice_model *model, uint64_t i);

/* 0, or SLUICE_EINVAL for a function that needs a whole model. */
int model_whole(const sluice_model *model, const char *function);

/* ---- read.c ---- */
/* Fills local (inside region) from the peer's region, and waits for it. */
int model_read(sluice_model *model, int peer, struct remote *remote, uint64_t offset,
	       const struct region *region, void *local, size_t bytes);
/* Reads every shard's snapshot of `version` into params. Collective call order is the caller's. */
int model_read_snapshots(sluice_model *model, uint64_t version, float *params);
#endif
