/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sluice: sparse data-parallel training over one-sided memory.
 *
 * The only public header. A job is all processes of one srun step; a model is one flat vector of
 * float32 parameters that the job trains together. Each step a worker pushes a compressed gradient
 * into the shards that own the parameters and pulls the model's compressed delta from them.
 *
 * Conventions. Functions that can fail return 0 or a negative SLUICE_E* code; sluice_last_error()
 * then holds a sentence, logged too, that says what failed, where, why, and what to do. Outputs are
 * untouched on failure unless a comment says otherwise. Destroy functions take the address of the
 * handle, accept NULL, and set the handle to NULL. Attribute structs begin with their own size; a
 * field left zero means the default. "Thread class" is one of: any (any thread at any time), object
 * (one thread at a time per handle), main (before or after the job, one thread).
 */
#ifndef SLUICE_H
#define SLUICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SLUICE_API __attribute__((visibility("default")))
#else
#define SLUICE_API
#endif

/* ---- errors ---------------------------------------------------------------- */

/* Values are part of the ABI and never change. */
enum {
	SLUICE_OK = 0,
	SLUICE_EINVAL = -1,    /* an argument, option, recipe or call order is wrong */
	SLUICE_ENOMEM = -2,    /* memory, descriptors or another local resource ran out */
	SLUICE_ENOSUPP = -3,   /* not supported here: the message names what would be needed */
	SLUICE_EAGAIN = -4,    /* a queue is full; the library itself waits and tries again */
	SLUICE_ETIMEDOUT = -5, /* a wait ended: the message names whom it waited for */
	SLUICE_EDEVICE = -6,   /* a transport or its device failed */
	SLUICE_EBOOT = -7,     /* launcher or PMIx failed */
	SLUICE_EGPU = -8,      /* CUDA failed */
	SLUICE_EPEER = -9,     /* another rank is lost, left early, or differs from this one */
	SLUICE_EWIRE = -10,    /* bytes written by a peer, or of a checkpoint, were refused */
	SLUICE_ENUMERIC = -11, /* a gradient holds NaN or infinity, or a sum overflowed */
	SLUICE_EIO = -12       /* a file could not be read or written */
};

/* The name and meaning of a code, never NULL. Thread class: any. */
SLUICE_API const char *sluice_strerror(int code);

/* The sentence belonging to the last failed call of the calling thread, "" if none. Valid until the
 * next failing call of that thread. Thread class: any. */
SLUICE_API const char *sluice_last_error(void);

/* "MAJOR.MINOR.PATCH (wire N)". Static string. Thread class: any. */
SLUICE_API const char *sluice_version(void);

/* Receives one log line without newline. level: 0 error, 1 warn, 2 info, 3 debug. */
typedef void (*sluice_log_fn)(int level, const char *line, void *context);

/* Replaces the default sink (stderr, prefixed by rank and node); NULL restores it. The sink may be
 * called from Sluice's progress thread. Thread class: main. */
SLUICE_API void sluice_set_log(sluice_log_fn sink, void *context);

/* ---- job ------------------------------------------------------------------- */

typedef struct sluice_job sluice_job;

typedef struct sluice_job_attr {
	size_t size;       /* sizeof(sluice_job_attr) */
	int servers;       /* the last N ranks only own shards; 0: SLUICE_SERVERS, else colocated */
	int lost_after_ms; /* its heartbeat stood still so long: the peer is lost; 0:
			      SLUICE_LOST_AFTER */
	int warn_after_ms; /* alive but silent for so long: say whom we wait for; 0:
			      SLUICE_WARN_AFTER */
	int wait_timeout_ms; /* longest wait; 0: SLUICE_WAIT_TIMEOUT */
	int on_failure;      /* SLUICE_ABORT, SLUICE_CONTINUE; 0: SLUICE_ON_FAILURE, else abort */
} sluice_job_attr;

/* When another rank is lost. ABORT: every call fails with SLUICE_EPEER and names it. CONTINUE: the
 * job goes on without a lost worker; needs dedicated servers (refused otherwise), of which none may
 * be lost. Values are part of the ABI. */
enum { SLUICE_ABORT = 1, SLUICE_CONTINUE = 2 };

/* Joins the job: finds the peers (PMIx under srun --mpi=pmix; alone, a job of one), connects to
 * each and returns the handle. Collective over the job. attr may be NULL. Starts two
 * threads, one for progress and one for the heartbeat, and installs no signal handler. Errors:
 * EINVAL, ENOMEM, EBOOT, EPEER (versions differ), ENOSUPP (a peer that no transport reaches),
 * ETIMEDOUT. Thread class: main. */
SLUICE_API int sluice_init(const sluice_job_attr *attr, sluice_job **job_out);

/* Leaves the job: waits (bounded) for the peers, says bye, frees everything. After a failure it
 * does not wait. In a forked child it does nothing but set the handle to NULL. Thread class:
 * main. */
SLUICE_API void sluice_finalize(sluice_job **job);

SLUICE_API int sluice_rank(const sluice_job *job);    /* 0..size-1. Thread class: any */
SLUICE_API int sluice_size(const sluice_job *job);    /* processes of the job. Thread class: any */
SLUICE_API int sluice_workers(const sluice_job *job); /* ranks 0..workers-1 are workers. any */
/* Workers that are not lost, as far as this rank knows now; sluice_workers() unless the job goes on
 * without lost ones (SLUICE_CONTINUE). Thread class: any. */
SLUICE_API int sluice_living(const sluice_job *job);
SLUICE_API int sluice_is_worker(const sluice_job *job); /* 1 or 0. Thread class: any */
/* Node name of a rank ("" if out of range); owned by the job. Thread class: any. */
SLUICE_API const char *sluice_node(const sluice_job *job, int rank);

/* The three collectives take part in rank order; every worker must call them in the same order;
 * dedicated servers take part inside sluice_serve(). Errors: EPEER, ETIMEDOUT, EINVAL (ranks called
 * different collectives, too long). Before sluice_serve() a server may call them as workers do;
 * what it gives is then ignored. A lost worker that the job goes on without counts on all ranks or
 * on none. Thread class: object. */
SLUICE_API int sluice_barrier(sluice_job *job);
/* values[0..n): replaced by their sums over the living workers, added in rank order, same bits
 * everywhere. */
SLUICE_API int sluice_sum(sluice_job *job, double *values, size_t n);
/* all: workers * bytes; row r is what worker r gave in mine, zeros if it is lost. bytes <=
 * SLUICE_GATHER_MAX. */
#define SLUICE_GATHER_MAX 512
SLUICE_API int sluice_gather(sluice_job *job, const void *mine, size_t bytes, void *all);

/* What one transport has moved since sluice_init(), for the sums at the end of a job. Everything
 * that Sluice itself sends is in it (heartbeats, notices, collectives); refused transfers are
 * not. */
typedef struct sluice_transport_stats {
	size_t size; /* in the first element: sizeof(sluice_transport_stats), set by the caller */
	const char *name; /* "self" (the own rank), "shm", "verbs"; static */
	uint64_t puts;    /* writes into memory of other ranks, those with a notify included */
	uint64_t put_bytes;
	uint64_t notifies; /* of the puts */
	uint64_t gets;     /* reads of memory of other ranks */
	uint64_t get_bytes;
} sluice_transport_stats;
/* Fills stats[0 .. min(n, *n_out)) with one element per transport that this rank has open, in order
 * of preference; *n_out: how many there are. n may be 0. Errors: EINVAL. Thread class: object. */
SLUICE_API int sluice_transports(sluice_job *job, sluice_transport_stats *stats, size_t n,
				 size_t *n_out);

/* Asks the progress of this job to log every wait of this rank: whom, for what, since when.
 * Async-signal-safe: meant for a SIGUSR2 handler. Thread class: any. */
SLUICE_API void sluice_explain(sluice_job *job);

/* Runs `size` ranks of a job inside the calling process, without a launcher and without a network,
 * so that hundreds of workers can be studied on one machine: calls rank_main(job, context) once for
 * each rank, on a thread of its own (with a stack of 1 MiB) that runs only while no other one does;
 * they hand over where they wait. Compressing, messages, reducing, publishing and applying are
 * those of a real job of equal size, and so are the results, bit for bit; bytes and elements are
 * counted as if every rank were a process, times mean nothing. rank_main must not call
 * sluice_init() or sluice_finalize(); it may use data of other ranks without locks. attr: as for
 * sluice_init(), may be NULL; size: 1 .. 4096. Returns 0, or the first value other than 0 that a
 * rank_main returned: that of a rank that failed rather than of those it took along. Errors: EINVAL
 * (also from within a rank_main), ENOMEM, and those of sluice_init(); ETIMEDOUT when all ranks wait
 * and none can go on. Thread class: main. */
SLUICE_API int sluice_simulate(const sluice_job_attr *attr, int size,
			       int (*rank_main)(sluice_job *job, void *context), void *context);

/* ---- model ----------------------------------------------------------------- */

typedef struct sluice_model sluice_model;

typedef struct sluice_tensor {
	const char *name; /* for humans and for dense=PATTERN; copied */
	uint64_t count;   /* elements; tensors follow each other in the flat vector */
} sluice_tensor;

typedef struct sluice_model_attr {
	size_t size;                  /* sizeof(sluice_model_attr) */
	uint64_t count;               /* parameters, 1 .. 2^32-1 */
	const sluice_tensor *tensors; /* optional names; their counts must add up to count */
	size_t n_tensors;
	const char *recipe;       /* see sluice_recipe(7); NULL: SLUICE_RECIPE, else the default */
	uint32_t shards;          /* 0: min(workers, ceil(count / 65536)) */
	float lr;                 /* first learning rate; 0: 0.01; see sluice_set_lr() */
	uint64_t steps_per_epoch; /* gives warmup=Nepoch its length; 0: unknown */
	uint64_t memory_bytes;    /* refuse to open above this per rank; 0: SLUICE_MEMORY, else no
				     limit */
	void *stream;  /* cudaStream_t for gradients and params in GPU memory; NULL: the default
			* one */
	int grad_type; /* of gradients that this rank pushes: SLUICE_F32 (0), _F16 or _BF16 */
} sluice_model_attr;

/* What the elements of a gradient are: float, IEEE half precision, or the upper half of a float
 * (bfloat16); little-endian. Values are part of the ABI. */
enum { SLUICE_F32 = 0, SLUICE_F16 = 1, SLUICE_BF16 = 2 };

/* Opens a model: collective over all ranks with equal attributes (differences are named). Rank 0's
 * params[0..count) become version 0 on every rank; params is the caller's, and may be NULL on a
 * dedicated server. Here and below params, grad and mean may be host memory or memory of a GPU,
 * told apart by address. Errors: EINVAL (attributes, recipe), ENOMEM, EPEER, ETIMEDOUT, EGPU.
 * Thread class: object (job). */
SLUICE_API int sluice_model_open(sluice_job *job, const sluice_model_attr *attr, float *params,
				 sluice_model **model_out);

/* Closes the model on all ranks (collective, bounded), on all workers after the same number of
 * steps: a worker that waits for a push of one that closed the model fails with EPEER and names it,
 * at once. Thread class: object. */
SLUICE_API void sluice_model_close(sluice_model **model);

/* Compresses grad[0..count) by the recipe and writes one message into each shard's inbox; grad is
 * the caller's again on return. It is the mean gradient of this worker's rows: the shards take the
 * mean over the workers. Its elements are of the model's grad_type, and are widened to float
 * exactly. One push, then one pull per step. Errors: EINVAL (no pull since the last push), ENUMERIC
 * (grad, or its sum with what earlier steps left; tensor and index are named, and the job is over),
 * EPEER, ETIMEDOUT, EWIRE, EGPU (kernel, GPU and CUDA's text are named, and the job is over; or
 * grad is memory of another GPU, or the stream is captured: nothing changed). In GPU memory what
 * the recipe allows is selected there, in the order of the model's stream, and the call returns
 * when that is enqueued: grad may be written again by what follows in the stream. The messages are
 * posted when the GPU has made them, by the progress thread or the next call on the model or the
 * job; what the GPU finds later (ENUMERIC, EGPU) the pull returns. Where the host encodes (round,
 * randk, coding=small) the push waits; what overflows an inbox is the pull's. With other recipes
 * grad is copied, and is the caller's on return. Thread class: object. */
SLUICE_API int sluice_push(sluice_model *model, const void *grad);

/* The same push in pieces, bucket by bucket of back-propagation: grad[0..count) is the gradient of
 * coordinates begin
 * .. begin + count - 1, and the caller's again on return. The ranges of a step may come in any
 * order and must cover each coordinate once; the last one completes the push, with the same bits
 * everywhere as one sluice_push() of the whole. Recipes with up=all or up=threshold, but for values
 * on a grid, send to each shard as soon as its range is complete, all others at the last one.
 * Errors: as sluice_push(), and EINVAL (outside of the model, pushed already: nothing changed;
 * clip= or nonfinite=skip, which need the whole first). While ranges are missing, sluice_push(),
 * sluice_pull(), sluice_set_lr() and sluice_checkpoint() give EINVAL. Thread class: object. */
SLUICE_API int sluice_push_range(sluice_model *model, const void *grad, uint64_t begin,
				 uint64_t count);

/* The worker's residual, for gradients that are added to it where they are computed (a product with
 * beta = 1, gradients that are not set to zero between steps) instead of being written to a vector
 * of their own:
 * (*accumulator)[j] += *scale * gradient[j] for all j, once a step or, for a larger batch, several
 * times; then sluice_push(model, *accumulator), or ranges of it by sluice_push_range(). What is
 * sent is taken out of it, the rest stays. The bits are those of pushing the gradient, one vector
 * of the model's size is saved, and a push reads one vector instead of reading two and writing one.
 * accumulator: the model's count of floats in host memory, the library's, 64-byte aligned, valid
 * until the model is closed; zero at open, and what a checkpoint held after sluice_restore(). From
 * a push until its pull returned it is not to be touched. scale: the learning rate where the recipe
 * says memory=residual(inside), else 1; ask again after sluice_set_lr(). Pushes of other vectors
 * are gradients as ever; those in GPU memory are then copied to the host. Errors: EINVAL (between a
 * push and its pull; a recipe that does more with a gradient than to add it: noise=, clip=, signal=
 * other than gradient, memory= other than residual, nonfinite= other than abort, update=average,
 * when=every), EGPU. Thread class: object. */
SLUICE_API int sluice_accumulator(sluice_model *model, float **accumulator, float *scale);

/* For signal=storm(ALPHA) and svrg(STEPS): the same with the gradients of one and the same sample
 * at params (grad) and at the point that sluice_point() gives, the parameters one step ago or the
 * anchor (before). Both are the caller's again on return. Errors as sluice_push(), EINVAL with
 * another signal. Paper: Cutkosky, Orabona, Momentum-Based Variance Reduction in Non-Convex SGD,
 * NeurIPS 2019. Thread class: object. */
SLUICE_API int sluice_push_pair(sluice_model *model, const void *grad, const void *before);

/* Where the recipe wants a gradient beside, or instead of, the one at params[0..count), which is
 * what the last pull or open left: into point[0..count). signal=igt(ALPHA): params extrapolated
 * along the last step, the only place to evaluate; push that gradient by sluice_push().
 * signal=storm(ALPHA): the parameters one step ago, for before of sluice_push_pair().
 * signal=svrg(STEPS): the anchor, for the same. Other signals: params. In the first step always
 * params. Between a pull (or open) and a push; nothing is sent. Errors: EINVAL. Paper of igt:
 * Arnold et al., Reducing the Variance in Online Optimization by Transporting Past Gradients,
 * NeurIPS 2019. Thread class: object. */
SLUICE_API int sluice_point(sluice_model *model, const float *params, float *point);

/* For signal=svrg(STEPS): 1 if the next push is at an anchor. It takes the full gradient of this
 * worker's data at params, by sluice_push(). 0 otherwise: sluice_push_pair() takes the gradients of
 * one sample at params and at the anchor, which sluice_point() gives. Thread class: object. */
SLUICE_API int sluice_anchor_due(const sluice_model *model);

/* Waits for the version that answers the last push, then params += decoded delta, in place: the
 * same bits on every rank. params[0..count) must hold what the last pull (or open) left there. In
 * GPU memory they are complete in the order of the model's stream, not yet on return. With
 * when=async: waits until the last push is counted and sets params, to other ones on each worker;
 * without a push since the last pull it brings the newest, as is to be done after a collective.
 * Errors: EINVAL, ENUMERIC (as sluice_push(); or the sums of a shard of this rank overflowed, and
 * the job is over), EPEER, ETIMEDOUT (a GPU that hangs is named with what it is at), EWIRE, EGPU
 * (as sluice_push(); also if the GPU failed in the last push). Thread class: object. */
SLUICE_API int sluice_pull(sluice_model *model, float *params);

/* For update=none: mean[0..count) becomes the decoded mean of what the workers pushed (zero where
 * nothing was published); for jobs with an optimizer of their own. Errors as sluice_pull(). */
SLUICE_API int sluice_pull_mean(sluice_model *model, float *mean);

/* For update=average: pushes what the recipe selects of params[0..count), which are this worker's
 * own, and the next sluice_pull() sets these to their mean over the workers (sparse averaging of
 * parameters; Jiang, Agrawal, NeurIPS 2018). Takes the place of sluice_push(). Errors as
 * sluice_push(). Thread class: object. */
SLUICE_API int sluice_push_params(sluice_model *model, const float *params);

/* 1 if params have the same bits on all workers after the last pull: always, unless the recipe lets
 * workers take steps of their own (when=every) or averages block by block. Thread class: object. */
SLUICE_API int sluice_in_sync(const sluice_model *model);

/* For when=lazy-server (LAG-PS; Chen et al., NeurIPS 2018): 1 if the gradient of the next step is
 * wanted. Where it is not, sluice_push() may be called with NULL, and does not look at a gradient.
 * 1 with any other recipe. Thread class: object. */
SLUICE_API int sluice_wanted(const sluice_model *model);
/* The Lipschitz constant of the gradient of this worker's loss, finite and > 0; until it is given,
 * every gradient is wanted. Errors: EINVAL. Thread class: object. */
SLUICE_API int sluice_set_smoothness(sluice_model *model, float smoothness);

/* A dedicated server's life: gathers, reduces, publishes and takes part in collectives until the
 * workers close the model; then returns 0. Errors as sluice_pull(). Thread class: object. */
SLUICE_API int sluice_serve(sluice_model *model);

/* Learning rate of the following pushes; must be finite, > 0 and equal on all workers of a step
 * (unequal ones end the job: EINVAL where it is found, EPEER elsewhere, naming rank and rates).
 * Thread class: object. */
SLUICE_API int sluice_set_lr(sluice_model *model, float lr);

/* Eight flags that travel with the next push. After the pull of that step sluice_raised() returns,
 * on every worker alike, the flags that any worker raised: so ranks agree on "checkpoint now" or
 * "stop" without a message more. Thread class: object. */
SLUICE_API void sluice_raise(sluice_model *model, unsigned flags);
SLUICE_API unsigned sluice_raised(const sluice_model *model);

/* Completed steps (pull returned), counted over restores. Thread class: object. */
SLUICE_API uint64_t sluice_step(const sluice_model *model);

/* Writes parameters, residuals, shard residuals, momenta, counters and recipe of all ranks below
 * directory dir (created if missing), between two steps. Collective over the workers; servers take
 * part in sluice_serve(). The previous checkpoint stays valid until the new one is complete on disk
 * (fsync, rename). Errors: EIO, EINVAL (inside a step), EPEER, ETIMEDOUT. Thread class: object. */
SLUICE_API int sluice_checkpoint(sluice_model *model, const char *dir);

/* Restores what sluice_checkpoint() wrote into a freshly opened model of the same shape, ranks,
 * workers, shards and recipe; params[0..count) (workers) receive the parameters (update=none: they
 * are the application's own and stay as they are). Collective over the workers; servers take part
 * in sluice_serve(). step_out may be NULL. Errors: EIO (missing, unreadable), EWIRE (damaged),
 * EINVAL (made for another model, recipe or job shape), EPEER, ETIMEDOUT. */
SLUICE_API int sluice_restore(sluice_model *model, const char *dir, float *params,
			      uint64_t *step_out);

/* Counters since open. Bytes are those of messages between ranks; a rank's own shard is not
 * counted. */
typedef struct sluice_model_stats {
	size_t size;           /* set by the caller to sizeof(sluice_model_stats) */
	uint64_t steps;        /* pulls completed */
	uint64_t pushed_bytes; /* gradient messages written to other ranks */
	uint64_t pulled_bytes; /* delta messages read from other ranks */
	uint64_t dense_bytes;  /* what up=all down=all would have written and read in these steps */
	uint64_t control_bytes;     /* notices written to other ranks */
	uint64_t pushed_elements;   /* coordinates in gradient messages, own shard included */
	uint64_t pulled_elements;   /* coordinates in delta messages, own shard included */
	uint64_t deferred_elements; /* selected, but left in the residual because a slot was full */
	uint64_t nonfinite_elements; /* zeroed (nonfinite=zero) or in skipped gradients (skip) */
	uint64_t compress_ns; /* accumulate, select, encode; where a GPU does it: enqueue that,
				 write headers */
	uint64_t push_ns;     /* posting writes, waiting for free slots */
	uint64_t
		wait_ns; /* of pulls: waiting for versions, and for a GPU that makes the messages */
	uint64_t pull_ns;     /* reading deltas */
	uint64_t apply_ns;    /* validating and adding them */
	double residual_norm; /* 2-norm of the worker's residual, computed by this call */
	double density_up;    /* density of the last push as the schedule asked for it, 1 for all */
	double density_down;
	uint64_t lost_workers;     /* that the job goes on without, as far as this rank knows */
	uint64_t refused_messages; /* pushes that this rank's shards did not count: of lost workers
				    * and, with when=async, too stale after a collective or of
				    * another anchor */
	uint64_t skipped_pushes;   /* of when=lazy and lazy-server: made, but without an upload */
	uint64_t staleness[8]; /* pushes that this rank's shards counted, by how many versions their
				* gradient was behind, 7 or more in the last */
	double threshold_up;   /* up=global, down=global: the newest threshold; 0: none yet */
	double threshold_down;
	double shard_residual_norm; /* 2-norm over the residuals of this rank's shards, computed by
				       this call */
	double compression_error;   /* of the last push, see sluice_measure(); 0 where it was not
				       measured */
	double compression_error_down; /* of the last versions of this rank's shards */
	uint64_t staleness_most;       /* of these, the largest; when=async(TAU) keeps it to TAU */
	uint64_t memory_bytes; /* the most that the library takes for the model on this rank, as
				  checked at open */
	uint64_t
		device_ns; /* of wait_ns: pulls that waited for a GPU to be through with the push */
	/* Messages to and from this rank's own shards, which cross no wire, and what they would be
	 * with up=all down=all: what pushed_bytes, pulled_bytes and dense_bytes leave out. */
	uint64_t own_pushed_bytes, own_pulled_bytes, own_dense_bytes;
} sluice_model_stats;
/* Fills *stats. Takes one pass over the residual when stats->size covers residual_norm (of one that
 * lives on a GPU, waiting for a push that is under way there), and one over those of this rank's
 * shards when it covers shard_residual_norm. object. */
SLUICE_API int sluice_stats(sluice_model *model, sluice_model_stats *stats);

/* on: from the next push on, sluice_stats() tells the compression error |a - C(a)|^2 / |a|^2, where
 * a is what a step would have sent (for a push: the worker's accumulator; for a version: the
 * shard's residual and change) and C(a) what its receivers decode. Takes one or two passes over the
 * vectors in each step and, with memory=none, the memory of one vector. Results stay the same. Not
 * for pushes of which parts left before the last range (sluice_push_range with threshold). Errors:
 * EINVAL, ENOMEM. Thread class: object. */
SLUICE_API int sluice_measure(sluice_model *model, int on);

/* Text of the recipe in use, normalised, all defaults spelled out; owned by the model. */
SLUICE_API const char *sluice_recipe(const sluice_model *model);

/* ---- regions --------------------------------------------------------------- */

typedef struct sluice_region sluice_region;

/* Opens a window of `bytes` bytes on every rank (collective, equal sizes) that all peers may put to
 * and get from. The memory is the library's, zeroed, page-aligned. Errors: EINVAL, ENOMEM, EPEER,
 * ETIMEDOUT. Thread class: object (job). */
SLUICE_API int sluice_region_open(sluice_job *job, size_t bytes, sluice_region **region_out);
SLUICE_API void sluice_region_close(sluice_region **region);      /* collective, bounded */
SLUICE_API void *sluice_region_base(const sluice_region *region); /* own window. any */

/* Copies bytes into / out of the window of rank at offset; returns when the local buffer is
 * reusable (put) or filled (get). notify != 0 adds one to the count that sluice_region_wait() of
 * that rank sees, after the data is in place. data within the own window (sluice_region_base())
 * spares a copy. Errors: EINVAL (outside the window), EPEER, ETIMEDOUT. object. */
SLUICE_API int sluice_region_put(sluice_region *region, int rank, size_t offset, const void *data,
				 size_t bytes, int notify);
SLUICE_API int sluice_region_get(sluice_region *region, int rank, size_t offset, void *data,
				 size_t bytes);
/* The same between the own window, at local_offset, and the window of rank, at offset, but returns
 * as soon as the transfer is under way, so that many can be at once. Until sluice_region_flush()
 * returns, the local bytes of a put must not change and those of a get are undefined. Errors: as
 * above; a transfer that fails later fails the flush. object. */
SLUICE_API int sluice_region_post_put(sluice_region *region, int rank, size_t offset,
				      size_t local_offset, size_t bytes, int notify);
SLUICE_API int sluice_region_post_get(sluice_region *region, int rank, size_t offset,
				      size_t local_offset, size_t bytes);
/* Waits until the local bytes of all posted transfers of this region are reusable (put) or filled
 * (get). Errors: EPEER, ETIMEDOUT, EDEVICE. object. */
SLUICE_API int sluice_region_flush(sluice_region *region);
/* Waits until rank has notified this rank at least count times since open. Errors: EPEER,
 * ETIMEDOUT. */
SLUICE_API int sluice_region_wait(sluice_region *region, int rank, uint64_t count);

/* ---- pure functions -------------------------------------------------------- */

/* Exact top-k: the k coordinates of x[0..n) largest in magnitude, ties to the lower index, zeros
 * never. index[0..k) ascending, value[i] = x[index[i]] (value may be NULL); *selected <= k. n <
 * 2^32. Errors: EINVAL (n, NaN: nothing selected, index and value undefined), ENOMEM. Paper of the
 * method: Alistarh et al., The Convergence of Sparsified Gradient Methods, NeurIPS 2018. Thread
 * class: any. */
SLUICE_API int sluice_topk(const float *x, size_t n, size_t k, uint32_t *index, float *value,
			   size_t *selected);

/* residual[0..n) += grad[0..n), then the exact top-k of residual as by sluice_topk(), then what was
 * selected becomes 0 in residual: value (not NULL) is where it went. Errors: EINVAL (n, pointers:
 * nothing changed; NaN in the sum, named: residual is the sum, nothing cleared), ENOMEM. Paper:
 * Stich, Cordonnier, Jaggi, Sparsified SGD with Memory, NeurIPS 2018. Thread class: any. */
SLUICE_API int sluice_topk_residual(const float *grad, float *residual, size_t n, size_t k,
				    uint32_t *index, float *value, size_t *selected);

/* For many selections from vectors of one length: keeps the scratch (about n / 100 + k elements,
 * taken once), the threads (asleep between calls), and where the boundary was last time, by which
 * the next call is one pass over the vector. What is selected depends on none of them. */
typedef struct sluice_selector sluice_selector;

typedef struct sluice_selector_attr {
	size_t size; /* sizeof(sluice_selector_attr) */
	size_t n;    /* elements of the vectors, < 2^32 */
	size_t k;    /* the largest k of a call */
	int threads; /* that work on a call, the caller's included; 0: 1 */
	int forget;  /* 1: every call is made as if it were the first; for measurements */
} sluice_selector_attr;

/* Errors: EINVAL, ENOMEM, ENOSUPP (SLUICE_KERNELS names instructions that the processor lacks).
 * Thread class: any. */
SLUICE_API int sluice_selector_open(const sluice_selector_attr *attr,
				    sluice_selector **selector_out);
SLUICE_API void sluice_selector_close(sluice_selector **selector); /* object */

/* As sluice_topk() and sluice_topk_residual() with the selector's n; k at most the selector's. No
 * allocation. Errors: EINVAL. Thread class: object (selector). */
SLUICE_API int sluice_select(sluice_selector *selector, const float *x, size_t k, uint32_t *index,
			     float *value, size_t *selected);
SLUICE_API int sluice_select_residual(sluice_selector *selector, const float *grad, float *residual,
				      size_t k, uint32_t *index, float *value, size_t *selected);

/* 64-bit hash of bytes, the same on every machine; for comparing replicas. Thread class: any. */
SLUICE_API uint64_t sluice_digest(const void *bytes, size_t n);

/* ---- histograms and the estimation of distributions ------------------------ */

/* How many coordinates there are of each magnitude, in bins so narrow and so few that a histogram
 * can travel: those of the float's exponent and highest mantissa bits. Summed over ranks it gives
 * one threshold for all. Methods: Diakonikolas, Grigorescu, Li, Natarajan, Onak, Schmidt,
 * Communication-Efficient Distributed Learning of Discrete Distributions, NIPS 2017. */
typedef struct sluice_histogram sluice_histogram;

/* mantissa_bits: 0 .. 6; a bin ends at 2^(1 / 2^mantissa_bits) times its begin, on average. Errors:
 * EINVAL, ENOMEM. Thread class: any. */
SLUICE_API int sluice_histogram_open(int mantissa_bits, sluice_histogram **histogram_out);
SLUICE_API void sluice_histogram_close(sluice_histogram **histogram); /* object */
/* Counts |a[0..n)|, n < 2^32. Errors: EINVAL (also NaN or infinity, named: nothing was counted).
 * object. */
SLUICE_API int sluice_histogram_add(sluice_histogram *histogram, const float *a, size_t n);
/* Most bytes of a message with `bits` (1 .. 16) per count; 0 for other arguments. Thread class:
 * any. */
SLUICE_API size_t sluice_histogram_bound(const sluice_histogram *histogram, int bits);
/* Writes the histogram as message[0 .. *bytes_out), room >= sluice_histogram_bound(). Counts below
 * 2^bits are exact; larger ones are rounded to multiples of 2^(bits of the largest count - bits) so
 * that their mean is exact, with random numbers that are a function of seed: another one for each
 * rank and message. Errors: EINVAL (also counts of 2^47 or more). object. */
SLUICE_API int sluice_histogram_encode(const sluice_histogram *histogram, int bits, uint64_t seed,
				       void *message, size_t room, size_t *bytes_out);
/* Adds a message, in any order. Errors: EINVAL; EWIRE (not a message of such a histogram, or sums
 * beyond 48 bits: nothing was added). object. */
SLUICE_API int sluice_histogram_merge(sluice_histogram *histogram, const void *message,
				      size_t bytes);
/* *threshold_out: such that about share (above 0, at most 1) of all coordinates are as large or
 * larger; log-linear within a bin. 0 if fewer are not zero. Errors: EINVAL (also an empty
 * histogram). object. */
SLUICE_API int sluice_histogram_quantile(const sluice_histogram *histogram, double share,
					 float *threshold_out);
/* Coordinates counted, zeros included. object. */
SLUICE_API uint64_t sluice_histogram_total(const sluice_histogram *histogram);

/* The same coding for the counts of any n <= 65535 bins that both ends agree on. Thread class:
 * any. */
SLUICE_API size_t sluice_counts_bound(size_t n, int bits);
SLUICE_API int sluice_counts_encode(const uint64_t *count, size_t n, int bits, uint64_t seed,
				    void *message, size_t room, size_t *bytes_out);
/* count[0..n) += the message's; untouched on failure. Errors: EINVAL, EWIRE. Thread class: any. */
SLUICE_API int sluice_counts_merge(uint64_t *count, size_t n, const void *message, size_t bytes);

/* Estimates of a distribution p over 0 .. n-1 from servers that say little each; |.|_1 and |.|_2
 * are norms of the error of p[0..n), N is servers, E the mean. Paper as above. Thread class: any.
 *
 * Each server sends one sample: E|.|_2^2 <= 1/N, E|.|_1 <= sqrt(n/N). Errors: EINVAL. */
SLUICE_API int sluice_estimate_samples(const uint32_t *sample, size_t servers, uint32_t n,
				       double *p);
/* Each server, numbered 0 .. servers-1, sends one bit: whether its sample is in its subset, which
 * seed and server give to everyone (element j is in with probability 1/2). E|.|_2^2 <= n/N; p may
 * be negative. servers < 2^32. Errors: EINVAL. */
SLUICE_API int sluice_subset_bit(uint64_t seed, uint64_t server, uint32_t sample);
SLUICE_API int sluice_estimate_bits(uint64_t seed, const uint8_t *bit, size_t servers, uint32_t n,
				    double *p);
/* For p that is flat but for k - 1 steps somewhere: first 4I - 1 servers send samples, which cut 0
 * .. n-1 into I = 2k/e intervals of about equal mass; interval i begins at end[i-1] (or 0) and ends
 * before end[i]; end has room for `intervals`, *intervals_out <= intervals. Then I/e^2 servers send
 * the interval of their sample; sluice_estimate_intervals() is flat on each: E|.|_1 <= 2.25 e,
 * mostly below e. Errors: EINVAL, ENOMEM. */
SLUICE_API int sluice_intervals_cut(const uint32_t *sample, size_t servers, uint32_t n,
				    size_t intervals, uint32_t *end, size_t *intervals_out);
/* For p that does not increase: lengths grow by (1 + growth), 0 < growth <= 1, and no first step is
 * needed: E|.|_1 <= 2 growth + sqrt(I/N), I about log(1 + growth n) / growth. Errors: EINVAL (also
 * more than room). */
SLUICE_API int sluice_intervals_grow(uint32_t n, double growth, uint32_t *end, size_t room,
				     size_t *intervals_out);
/* The interval that holds sample; intervals if none does. */
SLUICE_API size_t sluice_interval_of(const uint32_t *end, size_t intervals, uint32_t sample);
/* count[i]: samples in interval i, as counted or from sluice_counts_merge(). Errors: EINVAL. */
SLUICE_API int sluice_estimate_intervals(const uint32_t *end, const uint64_t *count,
					 size_t intervals, uint32_t n, double *p);

#ifdef __cplusplus
}
#endif
#endif
