/* SPDX-License-Identifier: BSD-3-Clause
 * The half of a model that pushes and pulls: its state, and what its files ask of each other. It
 * knows shards only by their messages. */
#ifndef RUNTIME_WORKER_H
#define RUNTIME_WORKER_H
#include "compress/choose.h"
#include "compress/sparse.h"
#include "job/job.h"
#include "model/delta_log.h"
#include "model/kept.h"
#include "model/model.h"
#include "model/tiling.h"
#include "rdma/ring.h"
#include "worker/agree.h"
#include "worker/async.h"
#include "worker/device.h"
#include "worker/lane.h"
#include "worker/lazy.h"
#include "worker/local.h"
#include "worker/worker_census.h"

enum step_state {
	STEP_DONE,   /* pulled: the next push may come */
	STEP_PUSHED, /* not yet pulled */
	STEP_PUSHING /* some ranges are pushed, not all */
};

struct worker {
	struct vectors kept;
	/* Two of them: what is not sent yet plus this step's signal; signal=momentum, else NULL. */
	float *residual, *velocity;
	struct lazy *lazy;     /* signal=innovation, else NULL; so are the next three */
	struct local *local;   /* when=every */
	struct async *async;   /* when=async */
	struct agreed *agreed; /* up=cyclic, up=sketch */
	/* selection of the whole vector, room for selected_most; NULL for up=all */
	uint32_t *index;
	float *selected;   /* room for the values beside index; NULL where the selection does not
			    * add */
	int valued, taken; /* this step's are in it; and are out of the residual */
	/* One shard's message at a time: shard-relative indices, values (then decoded ones), and
	 * which of them fit a slot. */
	uint32_t *relative;
	float *value;
	uint32_t *fitting;
	struct span *shard_spans; /* one a shard, where the selector is seeded; else NULL */
	struct selector *selector;
	struct select_hint hint; /* from the last step's selection */
	float range; /* grid: largest magnitude of the whole vector, the same for all shards */
	const float *addend; /* gradient that the selection adds on its way; NULL: added already */
	float addend_scale;
	int accumulates; /* residual was handed out: the application adds to it, in host memory */
	uint64_t overflowed; /* the coordinate that could not be sent, because it is not finite */
	int summed; /* it did in this step, and the selection looks for what is not finite */
	struct lanes *lanes;
	uint64_t step;  /* last pushed */
	unsigned phase; /* of the step under way */
	int encoded;    /* the messages of this phase */
	enum step_state in_step;
	struct tiling pushed; /* ranges of the step under way */
	struct span *spans;   /* of one shard at a time; NULL where none is sent alone */
	unsigned raise, raised;
	struct step_rule rule; /* of the step under way */
	unsigned chosen; /* recipe=auto: 1 + candidate that all go on with; 0: not known yet */
	int skip;        /* nonfinite=skip: this step's messages are empty */
	float *target;   /* params (or mean) of the pull under way */
	uint32_t shards_done;
	struct on_device *device;     /* gradients or params in GPU memory */
	struct worker_census *census; /* NULL unless a direction is global */
};

/* ---- signal.c ---- */
/* The first step of a push: grad[0..count), of coordinates from begin on, is judged (recipe
 * nonfinite=), clipped, and added to the worker's accumulator as the recipe's signal; or, where it
 * is the whole, left to the selection to add (worker.addend). before: storm's second gradient, of
 * the same coordinates, else NULL. nonfinite=skip and clip= need the whole. SLUICE_ENUMERIC: the
 * job has ended. */
int signal_accumulate(sluice_model *model, const void *grad, const void *before, uint64_t begin,
		      uint64_t count);
/* After a selection that added a gradient, or of what the application added: whether all is
 * finite. */
int signal_sum_finite(const struct worker *w, size_t selected, int nan);
/* If not, and nothing is taken out of the residual: 1, or SLUICE_ENUMERIC. grad NULL: it is the
 * residual. */
int signal_judge_sum(sluice_model *model, const float *grad);

/* What the recipe's nonfinite= says to n coordinates that are NaN or infinite, first at `bad` with
 * this value: 0 to go on, 1 to leave the gradient out, or an error. Token held. */
int signal_nonfinite_held(sluice_model *model, uint64_t bad, uint64_t n, float value);

/* Ends the job because worker.overflowed, a sum, has left the range of floats: SLUICE_ENUMERIC.
 * held: the token is. */
#define COORDINATE_UNKNOWN UINT64_MAX /* of a sum on a GPU, or of several in a cell of a sketch */
int signal_overflowed(sluice_model *model, int held);

/* ---- worker.c ---- */
int worker_open(sluice_model *model);
void worker_close(sluice_model *model);
/* All shards are at `version` and all rings empty: after open and restore. */
void worker_restart(sluice_model *model, uint64_t version);
/* The publication that answers the phase under way. */
uint64_t worker_wanted(const sluice_model *model);
/* Selects, encodes and posts what is accumulated: for all shards, or, where coordinates are
 * selected one by one, for one. SLUICE_ENUMERIC: it is not finite, and is not sent; if the job goes
 * on still, say so by signal_overflowed(). */
int worker_send(sluice_model *model);
int worker_send_shard(sluice_model *model, uint32_t shard);
/* Goes as far through the phases as it can without waiting; 1 when phase `until` is reached. Token
 * held. */
int worker_advance(sluice_model *model, unsigned until);

/* What a delta of this step must be. */
struct message_expect worker_expect(const sluice_model *model, uint32_t shard);
/* 1 if a message that is right by itself may come now; 0: *why not. */
int worker_welcomes(const sluice_model *model, uint32_t shard, const struct message *m,
		    const char **why);
/* The shard's delta, of this publication, is in the target. */
void worker_took_delta(sluice_model *model, uint32_t shard, const struct message *m,
		       uint64_t publication);

/* ---- dense.c ---- */
/* 1 if a step that sends a whole gradient of host memory can be dense_push(). */
int dense_push_fits(const sluice_model *model);
/* Judges, encodes and posts grad for all shards. As signal_accumulate(). */
int dense_push(sluice_model *model, const float *grad);
/* Adds what a shard published to the target: 1, or the job has failed. 0: it is to be READ and
 * judged first. Token held. */
int dense_pull(sluice_model *model, uint32_t shard);

/* ---- worker_encode.c ---- */
/* What a push of this step to a shard says about itself, but for the coordinates. */
struct message worker_message(const sluice_model *model, uint32_t shard);
/* Encodes into the shard's staging slot; decoded values into worker.value. 0, or SLUICE_ENUMERIC as
 * worker_send(). */
int worker_stage(sluice_model *model, uint32_t shard, struct message *m, const uint32_t *index,
		 const float *value);
/* A message was made in that slot, and its payload there or where `payload` says. */
void worker_staged(sluice_model *model, uint32_t shard, const struct message *m,
		   const struct lane_payload *payload);
/* Encodes the part of the selection (NULL: everything) that belongs to one shard into its staging
 * slot, and settles it. As worker_stage(). */
int worker_encode(sluice_model *model, uint32_t shard, const uint32_t *selected, uint32_t n);
/* The same of a message that says this of itself. */
int worker_encode_as(sluice_model *model, struct message m, const uint32_t *selected, uint32_t n);
/* What was sent leaves the residual, as the receiver decodes it (worker.value), and the
 * momentum. */
void worker_settle(sluice_model *model, const struct shard_layout *at, const uint32_t *index,
		   uint32_t n);

/* More was selected for this shard than its slot holds: the heaviest of worker.relative and value
 * stay. */
uint32_t worker_fit(sluice_model *model, const struct shard_layout *at, uint32_t n);

/* ---- worker_select.c ---- */
/* A decision over these spans of the vector, into worker.index, in one pass with the addition where
 * the recipe allows. SLUICE_ENUMERIC: the sum is not finite. */
int worker_select_from(sluice_model *model, const struct span *spans, size_t n_spans,
		       size_t *n_out);
/* What the selection took out of the residual is in it again, for worker_settle() to take out what
 * is sent. */
void worker_put_back(sluice_model *model, const uint32_t *selected, uint32_t n);
/* One decision over the whole vector, into worker.index, where the selector does not add. */
size_t worker_select(sluice_model *model);

/* ---- step.c ---- */
/* Refuses a call of `function` that this rank cannot make, or not now: SLUICE_EINVAL. Of a step
 * whose ranges are not complete, only STEP_PUSHING is not refused; expecting that, STEP_DONE is
 * none either. */
int step_check(sluice_model *model, const void *vector, const char *function,
	       enum step_state expected);
/* Waits until each shard has a free slot. */
int step_await_slots(sluice_model *model);
/* For progress_until(): what of the step is missing. context: the model. */
void step_describe(void *context, char *text, size_t cap);
/* Steps of which this rank pushed the whole gradient. */
uint64_t step_pushed(const sluice_model *model);
/* The step whose pull waits here, if it cannot end because a worker pushed the gradients of so many
 * steps and will push no more; else 0. Token held. */
uint64_t step_in_vain(const sluice_model *model, uint64_t pushed);

/* ---- watch.c ---- */
/* A pull has ended: its step is measured; after the first few there is a proposal, or a verdict. */
void watch_step(sluice_model *model);
/* A delta said how to go on. */
void watch_chosen(sluice_model *model, unsigned chosen);

/* ---- worker_measure.c, where sluice_measure() asked for it ---- */
/* The accumulator of this step is complete, nothing is selected yet. */
void measure_push(sluice_model *model);
/* worker->value[0..n) are the decoded values of index[] (shard-relative; NULL: all). */
void measure_sent(sluice_model *model, uint64_t begin, const uint32_t *index, uint32_t n);
/* The step is over. */
void measure_step(sluice_model *model);

/* ---- worker_setup.c ---- */
/* Bytes that worker_open() takes. */
uint64_t worker_memory(const struct layout *l, const struct recipe *recipe);
/* For sluice_point(): params are those of the step before from now on. */
void model_remember(sluice_model *model, const float *params);
#endif
