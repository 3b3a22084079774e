/* SPDX-License-Identifier: BSD-3-Clause
 * Private state of a model: what its two halves share (model.c), the worker half (worker.c) and the shard
 * half (shard.c). Neither half looks into the other: they meet in messages. */
#ifndef RUNTIME_MODEL_H
#define RUNTIME_MODEL_H
#include "worker/async.h"
#include "shard/census.h"
#include "compress/message.h"
#include "compress/select.h"
#include "compress/sketch.h"
#include "shard/delta_log.h"
#include "job/job.h"
#include "model/layout.h"
#include "worker/lazy.h"
#include "model/measure.h"
#include "model/on_device.h"
#include "rdma/ring.h"
#include "shard/reduce.h"
#include "compress/sparse.h"
#include "model/tiling.h"
#include "shard/update.h"
#include "model/worth.h"

/* ---- worker half ---- */

/* Towards one shard: where this worker writes its messages. */
struct up_lane {
	struct ring_writer ring;
	uint8_t *staging;            /* SLOT_DEPTH slots, in the staging region */
	size_t bytes;                /* of the message of this step */
	int posted;
	int control;                 /* it carries no gradient */
};

/* Index in the cookie of a READ that belongs to no lane. */
enum { READ_BLOCKING = 0x7fffffff };
enum read_state { READ_IDLE, READ_POSTED, READ_ARRIVED };

/* From one shard: what its notices said and the READ under way. */
struct down_lane {
	uint64_t version, log_end;   /* newest notice: publications, of which a step may have several */
	uint32_t last_bytes;
	uint64_t have_version;
	enum read_state read;
	int read_status;
	unsigned torn;               /* READs of this version that did not check */
	uint8_t *buffer;             /* delta_bytes, in the staging region */
	uint32_t *support, support_n; /* agreed in this step: shard-relative, room for support_capacity */
	uint64_t base;               /* when=async: the shard's version in params; what it answers is have_version */
	double moved;                /* squared norm of this step's delta; with when=lazy */
};

enum step_state {
	STEP_DONE,                   /* pulled: the next push may come */
	STEP_PUSHED,                 /* not yet pulled */
	STEP_PUSHING                 /* some ranges are pushed, not all */
};

struct worker {
	float *residual;             /* accumulator: what is not sent yet plus this step's signal */
	float *velocity;             /* signal=momentum, else NULL */
	float *memory;               /* lowpass: its memory; twostep: the error before the last; else NULL */
	float *filter;               /* twostep with beta < 1: what it added last, else NULL */
	float *reference;            /* innovation: what the shards have of this worker, else NULL */
	float *base, *local;         /* when=every: the common model, and what this worker's steps took off it since;
				      * local is residual without a memory; else NULL */
	float *since;                /* lazy-server: the model's change since the last upload, else NULL */
	float *anchor;               /* when=async: what publications are differences to; else NULL */
	uint32_t anchors;            /* svrg: that came before this one */
	uint64_t awaited;            /* when=async: the message whose answer a pull waits for */
	int parked;                  /* when=async: the shards do not count on this worker */
	float *previous;             /* storm, igt: the parameters one step ago, else NULL */
	uint32_t *index;             /* selection of the whole vector, room for selected_most; NULL for up=all */
	/* One shard's message at a time: shard-relative indices, values (then decoded ones), and which
	 * of them fit a slot. */
	uint32_t *relative;
	float *value;
	uint32_t *fitting;
	uint32_t *support;           /* of all shards; NULL where none is agreed */
	struct span *shard_spans;    /* one a shard, where the selector is seeded; else NULL */
	struct selector *selector;
	struct select_hint hint;     /* from the last step's selection */
	float range;                 /* grid: largest magnitude of the whole vector, the same for all shards */
	const float *addend;         /* gradient that the selection adds on its way; NULL: added already */
	float addend_scale;
	struct up_lane *up;          /* n_shards */
	struct down_lane *down;      /* n_shards */
	struct region *staging;
	uint64_t step;               /* last pushed */
	unsigned phase;              /* of the step under way */
	int encoded;                 /* the messages of this phase */
	enum step_state in_step;
	struct tiling pushed;        /* ranges of the step under way */
	struct span *spans;          /* of one shard at a time; NULL where none is sent alone */
	unsigned raise, raised;
	struct lazy lazy;            /* window 0: pushes are not left out */
	double innovation, innovation_error; /* squared norms of the push under way */
	uint32_t uploads;            /* innovation: so far */
	int uploading, refresh;      /* this push is one; the next one sends everything anew */
	double distance;             /* squared norm of since */
	float smoothness;
	double density_down;         /* of the step under way */
	unsigned chosen;             /* recipe=auto: 1 + candidate that all go on with; 0: not known yet */
	int skip;                    /* nonfinite=skip: this step's messages are empty */
	float *target;               /* params (or mean) of the pull under way */
	uint32_t shards_done;
	struct on_device device;     /* gradients or params in GPU memory */
};

/* ---- shard half ---- */

/* What a notice tells: the publication's number, and where it lies in the log. */
struct announced {
	uint64_t version, log_end;
	uint32_t bytes;
};

struct inbox {                       /* of one worker at one shard */
	const uint8_t *slots;        /* SLOT_DEPTH slots in the window the worker writes */
	struct ring_reader ring;
	uint64_t arrived;            /* pushes notified so far */
	uint32_t uploads;            /* innovation: taken so far */
	uint64_t have_version;
	int notice_due;              /* the current version is not announced to this worker yet */
	struct announced newest;
	/* when=async, where have_version is what its gradients are computed on: */
	uint64_t steps, answers;     /* pushes taken or refused; publications made for it */
	uint64_t asked;              /* the newest message that has an answer, or will have */
	int waits;                   /* a checked push is next in the ring */
	int parked;                  /* it does not compute */
};

struct shard {
	const struct shard_layout *at;
	uint32_t id;
	struct span *spans;
	size_t n_spans;
	float *copy;
	struct reduction reduction;
	float *residual, *velocity;  /* NULL where the recipe has none */
	struct select_hint hint;     /* from the last version's selection */
	struct loss loss;            /* of the last version, where it is measured */
	struct inbox *inboxes;       /* workers */
	struct delta_log log;
	uint8_t *snapshots[2];
	uint64_t version;            /* steps completed */
	uint64_t published;          /* publications, of which a step may have several */
	uint32_t *support, support_n; /* agreed in this step; NULL where none is */
	int refresh;                 /* innovation: running lacks something */
	uint32_t restarted;          /* pushes of this step that begin it anew: none or all */
	float *running;              /* innovation: sum of what the shard has of all workers; else NULL */
	float *cells;                /* sum of the workers' sketches; NULL without */
	unsigned phase;
	int next_rank;               /* reduce is complete below this worker */
	uint32_t counted;            /* messages reduced in this step: the divisor */
	int lr_rank;                 /* worker of the first of them, and its rate */
	float lr;
	unsigned raised;
	unsigned chosen, chosen_next; /* as the worker's; what the push counted first carries */
	uint64_t waiting_since_ns;   /* first push of the step being gathered; 0: none yet */
	struct async_shard *async;   /* when=async, else NULL */
};

struct sluice_model {
	sluice_job *job;
	uint32_t id;
	struct recipe recipe;
	char recipe_text[RECIPE_TEXT_BYTES];
	struct schedule schedule;
	struct update update;
	struct layout layout;
	char **tensor_names;         /* n_tensors */
	uint64_t *tensor_ends;
	size_t n_tensors;
	uint64_t schema;             /* digest of everything that must agree */
	float lr;
	uint64_t step;               /* completed */
	uint64_t first_step;         /* exchanges completed at open, or restored */
	struct worth worth;          /* the worker half's */
	struct worth_step watched;   /* sums up to the last step */

	struct region **windows;     /* [peer]: what the peer may write here; NULL if nothing */
	struct remote **remote_windows;
	struct region *log;          /* deltas and snapshots of own shards; NULL if none */
	struct remote **remote_logs;

	int read_pending, read_status; /* of a READ that the caller waits for (READ_BLOCKING) */

	struct worker *worker;       /* all ranks have one; a server's is not used */
	struct shard *shards;        /* own ones, n_own */
	uint32_t n_own;
	/* Shard half's private scratch: one message at a time. */
	uint8_t *copy;
	uint32_t *index;
	float *value;
	struct selector *selector;
	struct census *census;       /* NULL unless a direction is global */
	struct measure measure;

	sluice_model_stats stats;
};

/* ---- signal.c ---- */
/* The first step of a push: grad[0..count), of coordinates from begin on, is judged (recipe nonfinite=),
 * clipped, and added to the worker's accumulator as the recipe's signal; or, where it is the whole, left
 * to the selection to add (worker.addend). before: storm's second gradient, of the same coordinates, else NULL.
 * nonfinite=skip and clip= need the whole. SLUICE_ENUMERIC: the job has ended. */
int signal_accumulate(sluice_model *model, const float *grad, const float *before, uint64_t begin,
		      uint64_t count);
/* After a selection that added grad: judges grad where the sum is not finite. SLUICE_ENUMERIC. */
int signal_check_sum(sluice_model *model, const float *grad, size_t selected, int nan);

/* What the recipe's nonfinite= says to n coordinates that are NaN or infinite, first at `bad` with this value:
 * 0 to go on, 1 to leave the gradient out, or an error. */
int signal_nonfinite(sluice_model *model, uint64_t bad, uint64_t n, float value);

/* ---- innovation.c ---- */
/* Before the gradient is folded: a reference that a shard has lost count of begins anew. */
void innovation_renew(sluice_model *model);
/* What a push says of the worker's uploads. */
uint32_t innovation_mark(const struct worker *w);
/* The shard compares: where an upload is missing or came twice, all workers are asked to begin anew. */
void innovation_take(sluice_model *model, struct shard *shard, int worker, const struct message *m);
/* All pushes of a step are in: 1 if the sum is not that of all references, and the workers are to begin anew. */
int innovation_lacks(const struct shard *shard);
/* A push begins: nothing is weighed yet. */
void innovation_begin(sluice_model *model);
/* A message to a shard is encoded (worker.value); the reference follows, or waits for the decision. */
void innovation_settle(sluice_model *model, const struct shard_layout *at, const uint32_t *index, uint32_t n);
/* All are encoded and none is posted. elements: of stats before this push. */
void innovation_decide(sluice_model *model, uint64_t elements);
/* A delta is being applied; all are. */
void innovation_apply(sluice_model *model, uint32_t shard, const uint32_t *index, const float *value,
		      uint32_t n);
void innovation_pulled(sluice_model *model);
/* From what lazy_save() gave. */
void innovation_restore(sluice_model *model, const uint64_t *numbers);

/* ---- local_steps.c ---- */
/* 1 if the step that begins is this worker's own, without an exchange. */
int local_step(const sluice_model *model);
/* All workers hold params. */
void local_begin(sluice_model *model, const float *params);
/* Before an exchange is sent: the steps of the period enter the accumulator. After: a new period. */
void local_gather(sluice_model *model);
void local_restart(sluice_model *model);
/* The end of a step that was this worker's own. */
void local_pull(sluice_model *model, float *params);

/* ---- recall.c ---- */
/* Turns what the last push left in worker.residual[at .. at + n) into what the recipe's memory adds in this
 * step. Once a step for each coordinate. */
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
/* Selects, encodes and posts what is accumulated (SLUICE_ENUMERIC: nothing was posted): for all shards, or, where coordinates are selected one by
 * one, for one. */
int worker_send(sluice_model *model);
void worker_send_shard(sluice_model *model, uint32_t shard);
/* Goes as far through the phases as it can without waiting; 1 when phase `until` is reached. Token held. */
int worker_advance(sluice_model *model, unsigned until);

/* What a push of this step to a shard says about itself, but for the coordinates. */
struct message worker_message(const sluice_model *model, uint32_t shard);
/* Encodes into the shard's staging slot; decoded values into worker.value. */
void worker_stage(sluice_model *model, uint32_t shard, struct message *m, const uint32_t *index,
		  const float *value);
/* One decision over the whole vector, into worker.index, where the selector does not add. */
size_t worker_select(sluice_model *model);
/* What was sent leaves the residual, as the receiver decodes it (worker.value), and the momentum. */
void worker_settle(sluice_model *model, const struct shard_layout *at, const uint32_t *index, uint32_t n);

/* More was selected for this shard than its slot holds: the heaviest of worker.relative and value stay. */
uint32_t worker_fit(sluice_model *model, const struct shard_layout *at, uint32_t n);

/* ---- step.c ---- */
/* The parts of a push around worker_send(), in this order. */
/* Refuses a call of `function` that this rank cannot make, or not now: SLUICE_EINVAL. Of a step whose
 * ranges are not complete, only STEP_PUSHING is not refused; expecting that, STEP_DONE is none either. */
int step_check(sluice_model *model, const void *vector, const char *function, enum step_state expected);
int step_await_slots(sluice_model *model);
void step_begin(sluice_model *model);
int step_sent(sluice_model *model);

/* ---- worker_agree.c ---- */
/* Messages of the phases by which workers and shards agree on a support, and of its values. */
void agree_encode(sluice_model *model);
/* A shard said which coordinates it wants, or what was published of them. */
void agree_apply_support(sluice_model *model, uint32_t shard, const struct message *m);
void agree_clear_published(sluice_model *model, const struct shard_layout *at, const uint32_t *index,
			   const float *value, uint32_t n);

/* ---- shard_agree.c ---- */
struct sketch_shape agree_sketch_shape(const sluice_model *model, const struct shard_layout *at, uint32_t shard);
/* Takes what a worker's message of an agreeing phase brought (in model->index and value). 0, or why it is
 * refused. */
const char *agree_take(sluice_model *model, struct shard *shard, const struct message *m);
/* All are in: the support goes out. */
void agree_publish(sluice_model *model, struct shard *shard);
/* Of the sum, what is published under an agreed support, into model->index and value; returns how many. */
uint32_t agree_choose(sluice_model *model, struct shard *shard, const float *x);

/* ---- async.c, when=async only ---- */
/* All workers hold params, version 0. */
void async_begin(sluice_model *model, const float *params);
/* A pull without a push: asks for the newest, and counts on the bound again. */
int async_ask(sluice_model *model);
/* What an answer to the last message must be. */
void async_expect(const sluice_model *model, struct message_expect *want);
/* NULL, or why it is refused. */
const char *async_judge(const sluice_model *model, const struct message *m);
/* worker.value into the part of the target that is the shard's. */
void async_apply(sluice_model *model, uint32_t shard, const struct message *m);
/* All shards have answered. */
void async_pulled(sluice_model *model);
/* Tells the shards that they need not wait for this worker, if they count on it. Token held. */
int async_park(sluice_model *model);

/* ---- shard_async.c, when=async only ---- */
int shard_async_open(sluice_model *model, struct shard *shard);
void shard_async_close(struct shard *shard);
/* shard.copy is what all workers begin with. */
void shard_async_begin(sluice_model *model, struct shard *shard);
/* As shard_advance(), but for the notices. */
int shard_async_advance(sluice_model *model, struct shard *shard);

/* ---- shard.c ---- */
/* Blames the worker for its push. Returns SLUICE_EWIRE. */
int shard_refuse(sluice_model *model, const struct shard *shard, int worker, const char *why);
/* The workers of this publication hear of it. */
void shard_announce(sluice_model *model, struct shard *shard, size_t bytes);
int shards_open(sluice_model *model);
void shards_close(sluice_model *model);
struct shard *shard_find(sluice_model *model, uint32_t id);
/* Gathers and publishes whatever can be; returns 1 if something moved. Never waits. */
int shard_advance(sluice_model *model, struct shard *shard);
/* This worker is no member of the job any more. */
void shard_drop(sluice_model *model, struct shard *shard, int worker);
void shard_restart(sluice_model *model, struct shard *shard, uint64_t version);
/* Writes the copy as a snapshot entry of the current version. */
int shard_publish_snapshot(sluice_model *model, struct shard *shard);
/* For struct job_client's waits, explain and describe_waits. */
int shards_wait(const sluice_model *model);
void shards_explain(sluice_model *model, uint64_t now, int always);
void shards_describe_waits(const sluice_model *model, char *text, size_t cap);

/* ---- watch.c ---- */
/* Share of the coordinates that a step sends this way (&recipe.up or down); chosen as in the halves. */
double watch_density(const sluice_model *model, const struct direction *way, uint64_t step,
		     unsigned chosen);
/* recipe=auto in a dense step, or a reset: everything is sent, and nothing selected. */
static inline int watch_whole(const sluice_model *model, double density, uint64_t step)
{
	return (model->recipe.automatic && density >= 1) || schedule_sends_all(&model->schedule, step);
}
/* A pull has ended: its step is measured; after the first few there is a proposal, or a verdict. */
void watch_step(sluice_model *model);
/* A delta said how to go on. */
void watch_chosen(sluice_model *model, unsigned chosen);

/* ---- spread.c ---- */
/* Rank 0's params become version 0 of every shard and of every worker's params. Collective. */
int model_spread(sluice_model *model, float *params);
/* Reads every shard's snapshot of `version` into params. Collective call order is the caller's. */
int model_read_snapshots(sluice_model *model, uint64_t version, float *params);
/* ---- model_open.c ---- */
/* Frees everything of a model that no event can reach any more. */
void model_free(sluice_model *model);

/* The phase that a half is in. */
static inline const struct phase *phase_now(const sluice_model *model, unsigned phase)
{
	return &model->schedule.phases[phase];
}
/* A phase whose support an earlier one settled, or that settles it. */
static inline int phase_agrees(const struct phase *p)
{
	return p->support == SUPPORT_AGREED || p->payload == PAYLOAD_INDICES || p->payload == PAYLOAD_SKETCH;
}

static inline int model_async(const sluice_model *model)
{
	return model->recipe.when == WHEN_ASYNC;
}

/* ---- model.c ---- */
/* What the epoch of a message must be: MESSAGE_ANY where ranks may be in different ones. */
static inline uint64_t model_epoch(const sluice_model *model)
{
	return model->job->members.elastic ? MESSAGE_ANY : model->job->membership_epoch;
}
/* For sluice_point(): params are those of the step before from now on. */
void model_remember(sluice_model *model, const float *params);
/* Tensor name and index within it of coordinate i, for messages. */
const char *model_coordinate(const sluice_model *model, uint64_t i, uint64_t *index_in_tensor);
#endif
