/* SPDX-License-Identifier: BSD-3-Clause
 * The half of a model that pushes and pulls: what a step under way is at, and the rooms that its
 * parts own. It knows shards only by their messages. */
#ifndef RUNTIME_WORKER_H
#define RUNTIME_WORKER_H
#include "compress/sparse.h"
#include "job/job.h"
#include "model/compressor.h"
#include "model/kept.h"
#include "model/model.h"
#include "worker/agree.h"
#include "worker/async.h"
#include "worker/device.h"
#include "worker/lane.h"
#include "worker/lazy.h"
#include "worker/local.h"
#include "worker/signal.h"
#include "worker/target.h"
#include "worker/upload.h"
#include "worker/worker_census.h"
#include "worker/worker_measure.h"

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
	/* What methods own, each in its file; NULL unless the recipe asks for the method. */
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
	int encoded; /* the messages of this phase are made */
	int skip;    /* nonfinite=skip or sluice_wanted(): this step's messages are empty */
	int skipped; /* nonfinite=skip-all: nothing is exchanged for the last push */
	uint32_t shards_done;    /* those whose publication of this phase is dealt with */
	struct entries received; /* the message that was decoded last */
	float range;   /* grid: largest magnitude of the whole vector, the same for all shards */
	uint32_t mark; /* what its messages say as `anchor`: a method's count */
	uint64_t overflowed; /* the coordinate that could not be sent, because it is not finite */

	unsigned raise, raised; /* flags of sluice_raise() that go up, and that came down */
	unsigned chosen;        /* model_rule(): what all go on with */
	unsigned proposed; /* what the next push chooses; `chosen` unless this worker wants more */
	int accumulates;   /* the residual was handed out: the application adds to it */
};

/* What was not sent yet, plus this step's signal. */
static inline float *worker_residual(const sluice_model *model)
{
	return compressor_residual(model->worker->compressor);
}

/* ---- worker_setup.c ---- */
int worker_open(sluice_model *model);
void worker_close(sluice_model *model);
/* Bytes that worker_open() takes. */
uint64_t worker_memory(const struct layout *l, const struct recipe *recipe);
/* All shards are at `version` and all rings empty: after open and restore. */
void worker_restart(sluice_model *model, uint64_t version);
/* All workers begin with params. */
void worker_begin(sluice_model *model, const float *params);
/* For sluice_point(): params are those of the step before from now on. */
void model_remember(sluice_model *model, const float *params);

/* ---- worker.c ---- */
/* The publication that answers the phase under way. */
uint64_t worker_wanted(const sluice_model *model);
/* Makes the messages of the phase under way for all shards, and posts those that can go at once.
 * signal is what signal_fold() left to the selection (NULL: nothing; all is in the residual).
 * worker_send_shard() makes the message for one shard, where the recipe selects each coordinate
 * independently of the others. SLUICE_ENUMERIC: a value is not finite, and it is not sent; the
 * caller then calls signal_overflowed(). */
int worker_send(sluice_model *model, struct signal *signal);
int worker_send_shard(sluice_model *model, uint32_t shard);
/* Goes as far through the phases as it can without waiting; 1 when all phases before `until` are
 * complete. A push goes until 1, when its messages are posted, and a pull until the last phase's
 * end. Token held. */
int worker_advance(sluice_model *model, unsigned until);
/* For progress_until(): what of the step is missing. context: the model. */
void worker_describe(void *context, char *text, size_t cap);

/* ---- dense.c ---- */
/* 1 if a step that sends a whole gradient of host memory can be dense_push(). */
int dense_push_fits(const sluice_model *model);
/* Judges, encodes and posts grad for all shards. As signal_fold(). */
int dense_push(sluice_model *model, const struct gradient *grad);
/* What a publication must be. welcome: NULL, or why it may not come now. */
struct dense_expect {
	struct message_expect want;
	const char *(*welcome)(const sluice_model *model, uint32_t shard, const struct message *m);
};
/* What a shard published is added to the target from where it lies, if it is as expected: 1, or the
 * job has failed; *m is its header. 0: it is to be READ and judged first. Token held. */
int dense_pull(sluice_model *model, uint32_t shard, const struct dense_expect *expect,
	       struct message *m);
/* The same of what a READ has brought, for parameters on a device. 0: it is to be taken. */
int dense_pull_read(sluice_model *model, uint32_t shard, const struct dense_expect *expect,
		    struct message *m);

/* ---- step.c ---- */
/* Refuses a call of `function` that this rank cannot make at all or cannot make now: SLUICE_EINVAL,
 * or why the job has ended. `expected` is the state in which the call may come. STEP_PUSHING stands
 * for a push of a range: this may begin a step (STEP_DONE) or continue one. While the ranges of a
 * step are not complete, every other call is refused. */
int step_check(sluice_model *model, const void *vector, const char *function,
	       enum step_state expected);
/* Steps of which this rank pushed the whole gradient. */
uint64_t step_pushed(const sluice_model *model);
/* The step whose pull waits here, if it cannot end because a worker pushed the gradients of so many
 * steps and will push no more; else 0. Token held. */
uint64_t step_in_vain(const sluice_model *model, uint64_t pushed);

/* ---- pull.c ---- */
/* Goes on with a pull in ranges while the program computes. Token held. */
void step_advance(sluice_model *model);
/* Whether a push that the device makes, or a pull in ranges, goes on without a call. */
int step_works(const sluice_model *model);

/* ---- watch.c ---- */
/* A pull has ended: its step is measured; after the first few there is a proposal, or a verdict. */
void watch_step(sluice_model *model);
/* Whether this is the worker that speaks for all. */
int is_first_worker(const sluice_job *job);
/* A delta said how to go on. */
void watch_chosen(sluice_model *model, unsigned chosen);
#endif
