/* SPDX-License-Identifier: BSD-3-Clause
 * The half of a model that sums and publishes: the state of a shard, and what its files ask of each
 * other. It knows workers only by their messages. */
#ifndef RUNTIME_SHARD_H
#define RUNTIME_SHARD_H
#include "compress/choose.h"
#include "compress/sparse.h"
#include "job/job.h"
#include "model/delta_log.h"
#include "model/kept.h"
#include "model/measure.h"
#include "model/model.h"
#include "rdma/ring.h"
#include "shard/reduce.h"
#include "shard/shard_async.h"
#include "shard/shard_census.h"

/* What a notice tells: the publication's number, and where it lies in the log. */
struct announced {
	uint64_t version, log_end;
	uint32_t bytes;
};

struct inbox {                /* of one worker at one shard */
	const uint8_t *slots; /* slot_depth slots in the window the worker writes */
	struct ring_reader ring;
	uint64_t arrived; /* pushes notified so far */
	uint32_t uploads; /* innovation: taken so far */
	uint64_t have_version;
	int notice_due; /* the current version is not announced to this worker yet */
	struct announced newest;
	/* when=async, where have_version is what its gradients are computed on: */
	uint64_t steps, answers; /* pushes taken or refused; publications made for it */
	uint64_t asked;          /* the newest message that has an answer, or will have */
	int waits;               /* a checked push is next in the ring */
	int parked;              /* it does not compute */
	/* shard_dense.c, of the message that is next: what its header says; how far the payload was
	 * read */
	struct message header;
	uint32_t crc, payload_crc;
	const uint8_t *payload;
	int nonfinite;
};

struct shard {
	const struct shard_layout *at;
	uint32_t id;
	struct span *spans;
	size_t n_spans;
	struct vectors kept;
	/* Four of them; all but the copy NULL where the recipe has none. */
	float *copy, *residual, *velocity, *running;
	struct reduction reduction;
	struct candidates candidates; /* of the residual, for topk and global */
	struct select_hint hint;      /* from the last version's selection */
	struct loss loss;             /* of the last version, where it is measured */
	struct inbox *inboxes;        /* workers */
	struct delta_log log;
	uint8_t *snapshot;            /* snapshot.h */
	uint64_t version;             /* steps completed */
	uint64_t published;           /* publications, of which a step may have several */
	uint32_t *support, support_n; /* agreed in this step; NULL where none is */
	int refresh;                  /* innovation: running lacks something */
	uint32_t restarted;           /* pushes of this step that begin it anew: none or all */
	float *cells;                 /* sum of the workers' sketches; NULL without */
	unsigned phase;
	int next_rank;    /* reduce is complete below this worker */
	uint32_t counted; /* messages reduced in this step: the divisor */
	int lr_rank;      /* worker of the first of them, and its rate */
	float lr;
	unsigned raised;
	unsigned chosen, chosen_next; /* as the worker's; what the push counted first carries */
	uint64_t waiting_since_ns;    /* first push of the step being gathered; 0: none yet */
	struct async_shard *async;    /* when=async, else NULL */
};

/* ---- shard_innovation.c ---- */
/* Compares: where an upload is missing or came twice, all workers are asked to begin anew. */
void innovation_take(sluice_model *model, struct shard *shard, int worker, const struct message *m);
/* All pushes of a step are in: 1 if the sum is not that of all references, and the workers are to
 * begin anew. */
int innovation_lacks(const struct shard *shard);

/* ---- shard_agree.c ---- */
/* Takes what a worker's message of an agreeing phase brought (in model->index and value). 0, or why
 * it is refused. */
const char *agree_take(sluice_model *model, struct shard *shard, const struct message *m);
/* All are in: the support goes out. */
void agree_publish(sluice_model *model, struct shard *shard);
/* Of the sum, what is published under an agreed support, into model->index and value; returns how
 * many. */
uint32_t agree_choose(sluice_model *model, struct shard *shard, const float *x);

/* ---- shard_async.c, when=async only ---- */
int shard_async_open(sluice_model *model, struct shard *shard);
void shard_async_close(struct shard *shard);
/* shard.copy is what all workers begin with. */
void shard_async_begin(sluice_model *model, struct shard *shard);
/* As shard_advance(), but for the notices. */
int shard_async_advance(sluice_model *model, struct shard *shard);

/* ---- shard_tell.c ---- */
/* Blames the worker for its push. Returns SLUICE_EWIRE. */
int shard_refuse(sluice_model *model, const struct shard *shard, int worker, const char *why);
/* Ends the job before anybody hears of this publication: its value for this coordinate of the shard
 * is NaN or infinite. Returns 0. */
int shard_overflowed(sluice_model *model, const struct shard *shard, uint32_t at);
/* The workers of this publication hear of it. */
void shard_announce(sluice_model *model, struct shard *shard, size_t bytes);

/* ---- shard_dense.c ---- */
enum dense_outcome {
	DENSE_NONE,  /* this step is to be gathered message by message */
	DENSE_WAITS, /* not all messages are there, or one was refused */
	DENSE_READY,
	DENSE_PUBLISHED
};
/* A step in which everything is sent and published as it is. */
enum dense_outcome shard_dense_advance(sluice_model *model, struct shard *shard);

/* ---- shard.c ---- */
/* What the next message of this worker must be. */
struct message_expect shard_expect(const sluice_model *model, const struct shard *shard,
				   int worker);
/* Why a message that is right by itself may not come now; NULL if it may. */
const char *shard_unwelcome(const sluice_model *model, const struct shard *shard,
			    const struct message *m);
/* All workers of a step must train at one rate: 1 if this one's is that of the first. Else the job
 * has failed. */
int shard_same_rate(sluice_model *model, struct shard *shard, int worker, float lr, int first);
/* What the delta of this step says of itself, but for the coordinates, of which it has n. */
struct message shard_delta(const sluice_model *model, const struct shard *shard, uint32_t n);
/* A delta of so many bytes is in the log, and in the copy. */
void shard_step_ends(sluice_model *model, struct shard *shard, size_t bytes);
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

/* ---- shard_measure.c, where sluice_measure() asked for it ---- */
/* Of x, model->value[0..n) is published at index[] (NULL: everywhere). */
void measure_published(sluice_model *model, struct shard *shard, const float *x,
		       const uint32_t *index, uint32_t n);

/* ---- shard_setup.c ---- */
/* Bytes that shards_open() takes on this rank. */
uint64_t shards_memory(const struct layout *l, const struct recipe *recipe, int rank);
#endif
