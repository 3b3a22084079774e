/* SPDX-License-Identifier: BSD-3-Clause
 * The half of a model that pushes and pulls: its state, and what its files ask of each other. It
 * knows shards only by their messages. */
#ifndef RUNTIME_WORKER_H
#define RUNTIME_WORKER_H
#include "compress/choose.h"
#include "compress/sparse.h"
#include "job/job.h"
#include "model/delta_log.h"
#include "model/model.h"
#include "model/tiling.h"
#include "rdma/ring.h"
#include "worker/device.h"
#include "worker/lazy.h"
#include "worker/worker_census.h"

/* Towards one shard: where this worker writes its messages. */
struct up_lane {
	struct ring_writer ring;
	uint8_t *staging; /* slot_depth slots, in the staging region */
	size_t bytes;     /* of the message of this step */
	/* The payload is not in the staging slot, of which only the header is posted; out: it is on
	 * its way. */
	int apart, payload_out;
	int placed; /* the payload is in the owner's slot already; only the header is posted */
	int posted;
	int control; /* it carries no gradient */
};

enum read_state { READ_IDLE, READ_POSTED, READ_ARRIVED };

/* From one shard: what its notices said and the READ under way. */
struct down_lane {
	uint64_t version,
		log_end; /* newest notice: publications, of which a step may have several */
	uint32_t last_bytes;
	uint64_t have_version;
	enum read_state read;
	int read_status;
	unsigned torn;   /* READs of this version that did not check */
	uint8_t *buffer; /* delta_bytes, in the staging region */
	uint32_t *support,
		support_n; /* agreed in this step: shard-relative, room for support_capacity */
	uint64_t base;     /* when=async: the shard's version in params; what it answers is
			    * have_version */
	double moved;      /* squared norm of this step's delta; with when=lazy */
};

enum step_state {
	STEP_DONE,   /* pulled: the next push may come */
	STEP_PUSHED, /* not yet pulled */
	STEP_PUSHING /* some ranges are pushed, not all */
};

struct worker {
	float *residual;  /* accumulator: what is not sent yet plus this step's signal */
	float *velocity;  /* signal=momentum, else NULL */
	float *memory;    /* lowpass: its memory; twostep: the error before the last; else NULL */
	float *filter;    /* twostep with beta < 1: what it added last, else NULL */
	float *reference; /* innovation: what the shards have of this worker, else NULL */
	float *base, *local; /* when=every: the common model, and what this worker's steps took off
			      * it since; local is residual without a memory; else NULL */
	float *since;        /* lazy-server: the model's change since the last upload, else NULL */
	float *anchor;       /* when=async: what publications are differences to; else NULL */
	uint32_t anchors;    /* svrg: that came before this one */
	uint64_t awaited;    /* when=async: the message whose answer a pull waits for */
	int parked;          /* when=async: the shards do not count on this worker */
	float *previous;     /* storm, igt: the parameters one step ago, else NULL */
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
	uint32_t *support;        /* of all shards; NULL where none is agreed */
	struct span *shard_spans; /* one a shard, where the selector is seeded; else NULL */
	struct selector *selector;
	struct select_hint hint; /* from the last step's selection */
	float range; /* grid: largest magnitude of the whole vector, the same for all shards */
	const float *addend; /* gradient that the selection adds on its way; NULL: added already */
	float addend_scale;
	int accumulates; /* residual was handed out: the application adds to it, in host memory */
	uint64_t overflowed; /* the coordinate that could not be sent, because it is not finite */
	int summed; /* it did in this step, and the selection looks for what is not finite */
	struct up_lane *up;     /* n_shards */
	struct down_lane *down; /* n_shards */
	struct region *staging;
	uint64_t step;  /* last pushed */
	unsigned phase; /* of the step under way */
	int encoded;    /* the messages of this phase */
	enum step_state in_step;
	struct tiling pushed; /* ranges of the step under way */
	struct span *spans;   /* of one shard at a time; NULL where none is sent alone */
	unsigned raise, raised;
	struct lazy lazy;                    /* window 0: pushes are not left out */
	double innovation, innovation_error; /* squared norms of the push under way */
	uint32_t uploads;                    /* innovation: so far */
	int uploading, refresh; /* this push is one; the next one sends everything anew */
	double distance;        /* squared norm of since */
	float smoothness;
	double density_down; /* of the step under way */
	unsigned chosen;     /* recipe=auto: 1 + candidate that all go on with; 0: not known yet */
	int skip;            /* nonfinite=skip: this step's messages are empty */
	float *target;       /* params (or mean) of the pull under way */
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

/* ---- accumulator.c ---- */
/* What is pushed from this coordinate on is either a gradient or the residual, to which the
 * application added, from there on; SLUICE_EINVAL: it lies elsewhere in the residual. */
int accumulator_check(const sluice_model *model, const void *grad, uint64_t begin,
		      const char *function);

/* ---- innovation.c ---- */
/* Before the gradient is folded: a reference that a shard has lost count of begins anew. */
void innovation_renew(sluice_model *model);
/* What a push says of the worker's uploads. */
uint32_t innovation_mark(const struct worker *w);
/* A push begins: nothing is weighed yet. */
void innovation_begin(sluice_model *model);
/* A message to a shard is encoded (worker.value); the reference follows, or waits for the
 * decision. */
void innovation_settle(sluice_model *model, const struct shard_layout *at, const uint32_t *index,
		       uint32_t n);
/* A delta is being applied; all are. */
void innovation_apply(sluice_model *model, uint32_t shard, const uint32_t *index,
		      const float *value, uint32_t n);
void innovation_pulled(sluice_model *model);
/* From what lazy_save() gave. */
void innovation_restore(sluice_model *model, const uint64_t *numbers);

/* ---- innovation_decide.c ---- */
/* All are encoded and none is posted. elements: of stats before this push. */
void innovation_decide(sluice_model *model, uint64_t elements);

/* ---- local_steps.c ---- */
/* 1 if the step that begins is this worker's own, without an exchange. */
int local_step(const sluice_model *model);
/* All workers hold params. */
void local_begin(sluice_model *model, const float *params);
/* Before an exchange is sent: the steps of the period enter the accumulator. After: a new
 * period. */
void local_gather(sluice_model *model);
void local_restart(sluice_model *model);
/* The end of a step that was this worker's own. */
void local_pull(sluice_model *model, float *params);

/* ---- recall.c ---- */
/* Turns what the last push left in worker.residual[at .. at + n) into what the recipe's memory adds
 * in this step. Once a step for each coordinate. */
void recall(const sluice_model *model, uint64_t at, size_t n);

/* ---- worker.c ---- */
int worker_open(sluice_model *model);
void worker_close(sluice_model *model);
void worker_notice(sluice_model *model, uint32_t shard);
/* All shards are at `version` and all rings empty: after open and restore. */
void worker_restart(sluice_model *model, uint64_t version);
/* Posts what is encoded and not posted yet; 1 when all is. Token held. */
int worker_post(sluice_model *model);
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

/* ---- worker_dense.c ---- */
/* 1 if a step that sends a whole gradient of host memory can be dense_push(). */
int dense_push_fits(const sluice_model *model);
/* Judges, encodes and posts grad for all shards. As signal_accumulate(). */
int dense_push(sluice_model *model, const float *grad);
/* Where message seq to a shard lies at its owner; where its newest publication lies. NULL: in
 * memory that is not mapped here. */
uint8_t *dense_slot(const sluice_model *model, uint32_t shard, uint64_t seq);
const uint8_t *dense_entry(const sluice_model *model, uint32_t shard);
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
/* Where that slot is; and: a message lies in it. */
uint8_t *worker_slot(const sluice_model *model, uint32_t shard, uint64_t seq);
void worker_staged(sluice_model *model, uint32_t shard, const struct message *m);
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

/* ---- step_parts.c ---- */
/* The parts of a push around worker_send(), in this order. */
/* Refuses a call of `function` that this rank cannot make, or not now: SLUICE_EINVAL. Of a step
 * whose ranges are not complete, only STEP_PUSHING is not refused; expecting that, STEP_DONE is
 * none either. */
int step_check(sluice_model *model, const void *vector, const char *function,
	       enum step_state expected);
int step_await_slots(sluice_model *model);
void step_begin(sluice_model *model);
int step_sent(sluice_model *model);
/* For progress_until(): what of the step is missing. context: the model. */
void step_describe(void *context, char *text, size_t cap);
/* Steps of which this rank pushed the whole gradient. */
uint64_t step_pushed(const sluice_model *model);
/* The step whose pull waits here, if it cannot end because a worker pushed the gradients of so many
 * steps and will push no more; else 0. Token held. */
uint64_t step_in_vain(const sluice_model *model, uint64_t pushed);

/* ---- worker_agree.c ---- */
/* Messages of the phases by which workers and shards agree on a support, and of its values. As
 * worker_send(). */
int agree_encode(sluice_model *model);
/* A shard said which coordinates it wants, or what was published of them; the latter 0, or
 * SLUICE_EGPU. */
void agree_apply_support(sluice_model *model, uint32_t shard, const struct message *m);
int agree_clear_published(sluice_model *model, const struct shard_layout *at, const uint32_t *index,
			  const float *value, uint32_t n);

/* ---- async_answer.c, when=async only ---- */
/* All workers hold params, version 0. */
void async_begin(sluice_model *model, const float *params);
/* What an answer to the last message must be. */
void async_expect(const sluice_model *model, struct message_expect *want);
/* NULL, or why it is refused. */
const char *async_judge(const sluice_model *model, const struct message *m);
/* worker.value into the part of the target that is the shard's. */
void async_apply(sluice_model *model, uint32_t shard, const struct message *m);
/* All shards have answered. */
void async_pulled(sluice_model *model);

/* ---- async.c, when=async only ---- */
/* A pull without a push: asks for the newest, and counts on the bound again. */
int async_ask(sluice_model *model);
/* Tells the shards that they need not wait for this worker, if they count on it. Token held. */
int async_park(sluice_model *model);

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
