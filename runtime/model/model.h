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
#include "model/model_parts.h"
#include "model/plan.h"
#include "model/rulebook.h"
#include "model/stopwatch.h"
#include "model/tensors.h"
#include "model/update.h"
#include "model/worth.h"

struct blocking_read;
struct worker;
struct shard;

/* The number in the cookie of a READ that belongs to no lane, but to model_read(). */
enum { READ_BLOCKING = 0x7fffffff };

/* With signal=innovation, each push contains a count. It is twice the number of uploads so far,
 * plus one if this push is an upload. INNOVATION_REFRESH instead means that the push sends
 * everything again. */
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
	uint64_t schema; /* digest of all data that must be equal on all ranks */
	/* 1: some rank failed to load a checkpoint, so the model can only be closed */
	int half_restored;
	/* 1: sluice_hand_over() has added another model's values */
	int took_over;
	struct {
		uint64_t directory; /* digest of its path; 0: there is no checkpoint */
		uint64_t step;
		uint32_t generation; /* 0: not known, because a newer checkpoint failed */
	} saved;                     /* the last checkpoint; of checkpoint.c */
	struct worth worth;          /* measurements of the worker half */

	struct home *home;
	struct blocking_read *reading; /* the READ for which the caller waits (READ_BLOCKING) */

	struct worker *worker; /* exists on every rank; not used on a server */
	struct shard *shards;  /* this rank's n_own shards */
	uint32_t n_own;
	struct measure measure;

	sluice_model_stats stats; /* the stopwatch adds the times */
	struct stopwatch stopwatch;
	int shown; /* entry in the job's page, or -1 (shown.h) */
};

/* Makes the next polls advance the model until it has nothing left to do. The token must be
 * held. */
static inline void model_stir(sluice_model *model)
{
	clients_stir(&model->job->clients, model->id);
}

/* Returns the epoch that a message must have, or MESSAGE_ANY if ranks may be in different
 * epochs. */
static inline uint64_t model_epoch(const sluice_job *job)
{
	return job_elastic(job) ? MESSAGE_ANY : job->membership_epoch;
}

/* More steps than a job can make: at a microsecond each, they would take nine years. */
#define STEPS_MOST (1ull << 48)

/* Returns the version of a shard after this number of steps. */
static inline uint64_t model_version(const sluice_model *model, uint32_t shard, uint64_t steps)
{
	return schedule_exchanges(&model->recipe, model->layout.shards[shard].fragment, steps);
}

/* ---- model.c ---- */
/* model_rules() returns the rules. model_parts() returns the parts that a half keeps. Both are
 * valid as long as the model is open. */
struct rulebook model_rules(const sluice_model *model);
struct model_parts model_parts(sluice_model *model);
/* Counts the bytes that a message for a shard of this span would have with up=all down=all. own: 1
 * if this rank owns the shard. */
void model_count_dense(sluice_model_stats *stats, uint32_t span, int own);
/* Returns for example "index 3 of tensor w1", or "index 3" in a model without named tensors. The
 * text is valid until the thread's next call. */
const char *model_place(const struct tensors *tensors, uint64_t i);

/* Returns 0, or SLUICE_EINVAL if a failed restore has left the model incomplete. function: the
 * caller's name, for the message. */
int model_whole(const sluice_model *model, const char *function);

/* Returns the threads that share passes, or NULL if the model has too few parameters or this rank
 * works with one thread. */
static inline struct team *model_team(const sluice_model *model)
{
	return model->layout.count < SELECT_SHARED_LEAST ?
		       NULL :
		       threads_team(model->job, selector_team_memory());
}

/* ---- read.c ---- */
/* Reads from the peer's region into `local`, which is inside `region`, and waits for the READ. */
int model_read(sluice_model *model, int peer, struct remote *remote, uint64_t offset,
	       const struct region *region, void *local, size_t bytes);
/* Records that the READ for which model_read() waits has ended. The token must be held. */
void model_read_ended(sluice_model *model, int status);
/* Reads every shard's snapshot into params. versions: NULL if each shard has the version after this
 * number of steps. With quorum=, versions may be higher, and versions[shard] receives them. All
 * ranks must call this in the same order. */
int model_read_snapshots(sluice_model *model, uint64_t steps, float *params, uint64_t *versions);
#endif
