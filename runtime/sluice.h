/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sluice: sparse data-parallel training over one-sided memory. Begin with sluice(7); each function
 * has a manual page with the full text.
 *
 * A job is all processes of one srun step. A model is one flat vector of float32 parameters that
 * the job trains together. In each step a worker pushes a compressed gradient into the shards that
 * own the parameters, and pulls the compressed change of the model from them.
 *
 * Conventions. A function that can fail returns 0 or a negative SLUICE_E* code. After a failure
 * sluice_last_error() returns a sentence that says what failed, where, why, and what to do; the
 * same sentence is in the log. A failed call leaves its outputs untouched unless a comment says
 * otherwise. A function that closes or finalizes takes the address of the handle, accepts NULL, and
 * sets the handle to NULL. A struct of attributes begins with its own size; a field that is zero
 * takes its default. Vectors are aligned to their elements. A function fails with EINVAL for any
 * other size or address.
 *
 * Each function has a thread class: "any" may be called by any thread at any time, "object" by one
 * thread at a time per handle, "main" by one thread before and after the job. A collective call is
 * made by all ranks, or all workers, in the same order.
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

/* ---- errors and log: sluice_strerror(3) ------------------------------------- */

/* The values are part of the ABI and never change. */
enum {
	SLUICE_OK = 0,
	SLUICE_EINVAL = -1,    /* an argument, option, recipe or call order is wrong */
	SLUICE_ENOMEM = -2,    /* memory, descriptors or another local resource ran out */
	SLUICE_ENOSUPP = -3,   /* not supported here; the message names the requirement */
	SLUICE_EAGAIN = -4,    /* a queue is full; the library itself waits and retries */
	SLUICE_ETIMEDOUT = -5, /* a wait reached its limit; the message names the rank */
	SLUICE_EDEVICE = -6,   /* a transport or its device failed */
	SLUICE_EBOOT = -7,     /* the launcher or PMIx failed */
	SLUICE_EGPU = -8,      /* CUDA failed */
	SLUICE_EPEER = -9,     /* another rank is lost, left early, or differs from this rank */
	SLUICE_EWIRE = -10,    /* bytes of a peer or of a checkpoint were refused */
	SLUICE_ENUMERIC = -11, /* a gradient has NaN or infinity, or a sum overflowed */
	SLUICE_EIO = -12       /* a file could not be read or written */
};

/* Returns the name and meaning of a code, never NULL. Thread class: any. */
SLUICE_API const char *sluice_strerror(int code);

/* Returns the message of the calling thread's last failed call, or "". The text is valid until the
 * next failed call of that thread. Thread class: any. */
SLUICE_API const char *sluice_last_error(void);

/* The version of this header. */
#define SLUICE_VERSION       "0.1.0"
#define SLUICE_VERSION_MAJOR 0
#define SLUICE_VERSION_MINOR 1
#define SLUICE_VERSION_PATCH 0

/* Returns the version of the library, "MAJOR.MINOR.PATCH (wire N)", as a static string. Returns
 * NULL if the library is older than at_least, for example SLUICE_VERSION, or if at_least is not a
 * version. at_least may be NULL. Thread class: any. */
SLUICE_API const char *sluice_version(const char *at_least);

/* Writes the text of a setting such as "SLUICE_RECIPE" to value[0..bytes), ended by 0 and cut if
 * necessary: the value that a job opened now would use without attributes, from the environment,
 * sluice.conf(5) or the default. For programs and language bindings that need a setting before or
 * without a job. Returns the length of the whole text. Errors: EINVAL. Thread class: any. */
SLUICE_API int sluice_setting(const char *name, char *value, size_t bytes);

/* Receives one log line without its newline. level: 0 error, 1 warning, 2 information, 3 debug. */
typedef void (*sluice_log_fn)(int level, const char *line, void *context);

/* Sends log lines to sink instead of stderr; NULL restores stderr. The library may call sink from
 * its threads. Thread class: main. */
SLUICE_API void sluice_set_log(sluice_log_fn sink, void *context);

/* ---- job: sluice_init(3), sluice_split(3), sluice_barrier(3) ------------------ */

typedef struct sluice_job sluice_job;

/* A key-value store that all ranks of a job can reach. The ranks find each other through it if no
 * PMIx launcher started them. The callbacks run on the thread that calls sluice_init(), and only
 * until it returns. Each returns 0 on success. If one returns another number, sluice_init() fails
 * with a message that contains the number. */
typedef struct sluice_bootstrap {
	size_t size;      /* sizeof(sluice_bootstrap) */
	int rank, ranks;  /* number of this process, 0 .. ranks - 1, and number of processes */
	const char *node; /* node name of this process, for messages; NULL: the name of the host */
	const char *name; /* prefix of all keys, different for each job; NULL: "sluice" */
	void *context;    /* the first argument of each callback */
	/* Stores value[0..bytes) under this key, so that get() returns it on all ranks. */
	int (*put)(void *context, const char *key, const void *value, size_t bytes);
	/* Waits at most timeout_ms until the key was put, and writes its value and the value's
	 * length. Returns SLUICE_ETIMEDOUT if the key was not put in time. If the value has more
	 * than room bytes, it is not written, but *bytes_out receives its length. */
	int (*get)(void *context, const char *key, void *value, size_t room, size_t *bytes_out,
		   int timeout_ms);
	/* Waits at most timeout_ms until all ranks have put their values and have called fence as
	 * often as this rank. Returns SLUICE_ETIMEDOUT if some rank is missing. May be NULL if
	 * get() works without such a call. */
	int (*fence)(void *context, int timeout_ms);
} sluice_bootstrap;

/* A field after size that is 0 has the value of the environment variable of the same name, for
 * example SLUICE_LOST_AFTER. */
typedef struct sluice_job_attr {
	size_t size; /* sizeof(sluice_job_attr) */
	int servers; /* number of dedicated servers: the last ranks, which own shards and do not
			train */
	int lost_after_ms;   /* a peer is lost if its heartbeat stops for this long */
	int warn_after_ms;   /* after this time, the log names a peer for which others wait */
	int wait_timeout_ms; /* the longest wait of any call */
	int on_failure;      /* SLUICE_ABORT or SLUICE_CONTINUE, the same on all ranks */
	const sluice_bootstrap *bootstrap; /* NULL: PMIx */
} sluice_job_attr;

/* What happens if a rank is lost. With SLUICE_ABORT every call fails with SLUICE_EPEER and names
 * the rank. With SLUICE_CONTINUE the job continues without a lost worker. This needs dedicated
 * servers, none of which may be lost. The values are part of the ABI. */
enum { SLUICE_ABORT = 1, SLUICE_CONTINUE = 2 };

/* Joins the job: finds the peers through PMIx or attr->bootstrap, connects to each of them, and
 * starts two threads, for progress and for the heartbeat. The first model of 2^20 parameters starts
 * more (SLUICE_THREADS), and SLUICE_METRICS, SLUICE_METRICS_PORT and SLUICE_TRACE start one that
 * writes metrics and traces. A process without a launcher becomes a job of one rank. Collective
 * over all ranks. attr may be NULL. While a job is open, another call joins a second job of the
 * same ranks. Errors: EINVAL, ENOMEM, EBOOT, EPEER (versions differ), EWIRE (the bootstrap
 * returned other bytes than a rank has put), ENOSUPP (no transport reaches a peer), EDEVICE,
 * ETIMEDOUT. Thread class: main. */
SLUICE_API int sluice_init(const sluice_job_attr *attr, sluice_job **job_out);

/* Leaves the job and frees everything. Waits for a limited time until the peers no longer need this
 * rank; after a failure it does not wait. In a forked child it only sets the handle to NULL. Thread
 * class: main. */
SLUICE_API void sluice_finalize(sluice_job **job);

/* The thread class of the following five functions is any. */
SLUICE_API int sluice_rank(const sluice_job *job);    /* number of this process, 0 .. size-1 */
SLUICE_API int sluice_size(const sluice_job *job);    /* number of ranks */
SLUICE_API int sluice_workers(const sluice_job *job); /* ranks 0 .. workers-1 are workers */
/* Returns the number of workers that are not lost, as far as this rank knows. */
SLUICE_API int sluice_living(const sluice_job *job);
/* Returns the node name of a rank, or "" if there is no such rank. The string belongs to the
 * job. */
SLUICE_API const char *sluice_node(const sluice_job *job, int rank);
/* Returns 1 if this rank is a worker, 0 if it is a dedicated server. */
static inline int sluice_is_worker(const sluice_job *job)
{
	return sluice_rank(job) < sluice_workers(job);
}

/* Makes groups. A group is a job of the ranks that give the same color, which is 0 or more. In a
 * group, ranks are numbered by key and then by rank, with dedicated servers last. A rank with a
 * negative color is in no group, and its *sub becomes NULL. Collective over all ranks. May be
 * called any number of times, and also for a group. Models and regions open in a group as in a job.
 * A group shares connections, threads and timers with its job, and must be finalized before the
 * job. If a rank is lost, every group that contains it fails, and no other group does. Errors:
 * EINVAL (255 groups on one rank; only servers of one color), ENOSUPP (SLUICE_CONTINUE), ENOMEM,
 * EPEER, EWIRE, EDEVICE, ETIMEDOUT. Thread class: object (the job with all its groups). */
SLUICE_API int sluice_split(sluice_job *job, int color, int key, sluice_job **sub);

/* Barrier, sum, gather and broadcast are collective over the workers. A dedicated server takes part
 * inside sluice_serve(). If a worker is lost during the call, either all ranks count its
 * contribution or none does. Errors: EINVAL (ranks called different collectives or sizes), ENOMEM,
 * EPEER, EWIRE, EDEVICE, ETIMEDOUT. Thread class: object. */
SLUICE_API int sluice_barrier(sluice_job *job);
/* Replaces values[0..n) by their sums over the workers. They are added in rank order, so every
 * worker gets the same bits. */
SLUICE_API int sluice_sum(sluice_job *job, double *values, size_t n);
/* Collects `bytes` bytes of each worker, at most SLUICE_GATHER_MAX. all has memory for workers *
 * bytes. Row r receives the bytes `mine` of worker r, or zeros if that worker is lost. */
#define SLUICE_GATHER_MAX 512
SLUICE_API int sluice_gather(sluice_job *job, const void *mine, size_t bytes, void *all);
/* Copies bytes[0..n) of worker root to all workers. The bytes may be in host memory or GPU memory,
 * and n has no limit. root and n must be equal on all workers. If they differ, the call fails on
 * all workers and names two ranks, and the job continues. */
SLUICE_API int sluice_broadcast(sluice_job *job, void *bytes, size_t n, int root);

/* ---- model: sluice_model_open(3) --------------------------------------------- */

typedef struct sluice_model sluice_model;

typedef struct sluice_tensor {
	const char *name; /* copied; used in messages and by dense=PATTERN of the recipe */
	uint64_t count;   /* elements; the tensors follow each other in the flat vector */
} sluice_tensor;

/* The settings of one tensor in the update at the shard. Without a rule, lr is 1 and decay is the
 * recipe's decay=. */
typedef struct sluice_tensor_rule {
	float lr;    /* factor of the learning rate, 0 or more */
	float decay; /* weight decay in place of the recipe's, 0 or more */
} sluice_tensor_rule;

/* Types of the elements of a gradient, all little-endian: float, IEEE half precision, bfloat16 (the
 * upper half of a float), and two 8-bit types of the Open Compute Project. The latter have a scale:
 * an element is scale * code. Parameters and means cannot have 8-bit types. The values are part of
 * the ABI. */
enum { SLUICE_F32 = 0, SLUICE_F16 = 1, SLUICE_BF16 = 2, SLUICE_F8_E4M3FN = 6, SLUICE_F8_E5M2 = 7 };

typedef struct sluice_model_attr {
	size_t size;                  /* sizeof(sluice_model_attr) */
	uint64_t count;               /* parameters, 1 .. 2^32-1 */
	const sluice_tensor *tensors; /* optional; their counts must add up to count */
	size_t n_tensors;
	const char *recipe;       /* see sluice_recipe(7); NULL: SLUICE_RECIPE, or the default if
				     that is unset */
	uint32_t shards;          /* 0: the smaller of workers and ceil(count / 65536); if every
				     step is dense, up to 32 for each worker */
	float lr;                 /* first learning rate; 0: 0.01; not used with signal=drift */
	uint64_t steps_per_epoch; /* for a recipe that counts epochs; 0: unknown */
	uint64_t memory_bytes; /* open fails if a rank needs more; 0: the value of SLUICE_MEMORY */
	void *stream;          /* cudaStream_t for vectors in GPU memory; NULL: the default
				  stream */
	int grad_type;         /* type of the gradients that this rank pushes; 0: SLUICE_F32 */
	int uneven;            /* 1: workers may run out of gradients (sluice_idle_step()) */
	/* The type of params and mean, which must be equal on all workers; 0: SLUICE_F32. 16-bit
	 * parameters are rounded from a 32-bit copy that the library keeps and updates. */
	int param_type;
	/* The parameters in pieces, used if params is NULL. Optional; the list is copied. */
	const struct sluice_segment *segments; /* sluice_vector.h */
	size_t n_segments;
	const sluice_tensor_rule *rules; /* optional; one rule for each tensor; copied */
	/* 1: the shards of this rank sum, update and publish on a GPU. This is the GPU of params if
	 * params is in GPU memory. Otherwise it is the GPU that the local rank selects, which
	 * becomes the calling thread's current GPU. 0: the shards are where
	 * SLUICE_DEVICE_SHARDS says, by default on the GPU if params is in its memory and the
	 * recipe allows it. Ranks may differ, because the bits are the same. */
	int device_shards;
	/* Optional, for each of tensors the length of its rows, which divides its count; 0: it is
	 * a single row. Recipes with transform= use the shapes. Copied. */
	const uint64_t *columns;
} sluice_model_attr;

/* Opens a model. Collective over all ranks, with equal attributes; if they differ, the error names
 * a difference. The params[0..count) of rank 0 become version 0 on every rank. params remains the
 * caller's memory. It may be NULL on a dedicated server, or if the attributes have segments.
 * params, grad and mean, here and below, may be in host memory or GPU memory; the library tells the
 * two apart by the address. Errors: EINVAL (attributes, recipe), ENOMEM, ENOSUPP, EPEER, EWIRE,
 * EDEVICE, EGPU, ETIMEDOUT. Thread class: object (job). */
SLUICE_API int sluice_model_open(sluice_job *job, const sluice_model_attr *attr, void *params,
				 sluice_model **model_out);

/* Opens n models as n calls of sluice_model_open() do, but each exchange between the ranks serves
 * all of them. Only the parameters are copied model by model. attrs, params and models_out have n
 * elements, and all attributes have the same size. All models are opened on all ranks, or none is.
 * Until the call returns, rank 0 keeps another copy of all parameters. n: 1 .. 65535, the same on
 * all ranks. Errors: as sluice_model_open(). Thread class: object (job). */
SLUICE_API int sluice_models_open(sluice_job *job, size_t n, const sluice_model_attr *attrs,
				  void *const *params, sluice_model **models_out);

/* Closes the model on all ranks. Collective, and waits only for a limited time. All workers must
 * close it after the same number of steps. If a worker waits for a push of another worker that has
 * closed the model, its call fails at once with EPEER. Thread class: object. */
SLUICE_API void sluice_model_close(sluice_model **model);

/* Returns the recipe in use with all defaults spelled out; the text belongs to the model. Thread
 * class: object. */
SLUICE_API const char *sluice_recipe_text(const sluice_model *model);

enum {
	SLUICE_PLAN_TEXT = 0, /* for people; the words may change */
	SLUICE_PLAN_KEYS = 1  /* for programs: lines KEY=VALUE, see sluice_plan(3) */
};

/* Describes a recipe in a job of this size: stages, exchanges, vectors, messages and memory. It
 * also describes which faster paths the recipe takes and which attributes it can have, and gives
 * the reasons where it cannot. Needs no job and trains nothing. form is one of the constants above.
 * Assumes on_failure=abort. Writes at most cap bytes to text, including the terminating zero; cap
 * may be 0. Returns the length of the whole text without the zero, as snprintf() does. Errors:
 * EINVAL (form, attributes, recipe, as for sluice_model_open()), ENOMEM. Thread class: any. */
SLUICE_API int sluice_plan(const sluice_model_attr *attr, int workers, int servers, int form,
			   char *text, size_t cap);

/* ---- step: sluice_push(3) ----------------------------------------------------- */

/* Compresses grad[0..count), the mean gradient of this worker's samples, by the recipe, and sends
 * it to the shards, which take the mean over the workers. With update=average, grad is this
 * worker's parameters, from which the recipe selects. With signal=drift, grad is also this worker's
 * parameters, and the push sends their change since the last exchange. The caller may reuse grad on
 * return. Memory of a GPU may be reused by later work of the model's stream. Each step is one push
 * and then one pull. Errors: EINVAL (the last push was not pulled), ENUMERIC (NaN or infinity; the
 * message names tensor and index), EPEER, EWIRE, EDEVICE, ETIMEDOUT, EGPU (CUDA failed; or the call
 * is refused, because grad is memory of another GPU, or the stream is being captured). All but
 * EINVAL and a refusal end the job. Thread class: object. */
SLUICE_API int sluice_push(sluice_model *model, const void *grad);

/* Waits until the shards have answered the last push, and updates target[0..count) by the recipe.
 * Usually target is params, to which the decoded change is added, with the same bits on every
 * worker. params must still have the values of the last pull, open or restore. With update=none,
 * target becomes the decoded mean of the workers' gradients, for the program's own optimizer. With
 * update=average the selected parameters become their mean. With signal=drift, target becomes the
 * new common parameters at an exchange, and does not change between exchanges. With when=async the
 * pull overwrites params, which then differ between workers. A pull without a push before it brings
 * the newest parameters. Errors: those of sluice_push(), because the work of a push on a GPU may
 * fail after sluice_push() has returned. Thread class: object. */
SLUICE_API int sluice_pull(sluice_model *model, void *target);

/* ---- settings and state between steps: sluice_set(3) --------------------------- */

/* Values that sluice_set() can set. The numbers are part of the ABI. */
enum {
	/* The learning rate of the following pushes: finite, 0 or above, and equal on all workers
	 * of a step. Unequal rates end the job with a message that names ranks and rates. A step
	 * with rate 0 changes no parameter and loses no value of a residual. Recipes that cannot
	 * have such a step refuse the rate and give the reason. With signal=drift, the program's
	 * own optimizer has the rate, so every rate is refused. */
	SLUICE_LR = 1,
	/* The scale of 8-bit gradients for the following pushes: an element is scale * code. It
	 * must be finite and above 0, and is 1 at first. Each worker has its own scale. */
	SLUICE_GRAD_SCALE = 2,
	/* For when=lazy-server: the Lipschitz constant of the gradient of this worker's loss,
	 * finite and above 0. Until it is set, every step needs a gradient. */
	SLUICE_SMOOTHNESS = 3,
	/* 1: measure compression errors from the next push on; 0: do not. An error is |a - C(a)|^2
	 * / |a|^2. Here a is the vector before compression, and C(a) is the vector that the
	 * receivers decode. Measuring takes one or two passes over the vectors in each step and
	 * does not change the training. */
	SLUICE_MEASURE = 4,
	/* With quorum= in the recipe: the weight of this worker's following drifts in the mean of
	 * an exchange, such as the number of rows or tokens that it has trained on. Finite and
	 * above 0; initially 1. Each worker has its own. */
	SLUICE_WEIGHT = 5
};

/* Sets the value `what` to x, converted to float. Errors: EINVAL, ENOMEM. Thread class: object. */
SLUICE_API int sluice_set(sluice_model *model, int what, double x);

/* A worker's state between two steps. */
typedef struct sluice_model_step {
	size_t size;     /* sizeof(sluice_model_step), set by the caller */
	uint64_t steps;  /* completed steps, including those before a sluice_restore() */
	unsigned raised; /* the flags that any worker raised in the last step (sluice_raise()) */
	/* 1 if all workers skipped the last push because a gradient of some worker had NaN or
	 * infinity (nonfinite=skip-all). In that case nothing was exchanged or changed, a mean is
	 * zero, and `steps` does not count the step. */
	int skipped;
	/* 1 if params has the same bits on all workers after the last pull. This can be 0 only with
	 * when=every, when=async, keep= or up=block. With quorum= it is 1 if the newest exchange of
	 * this worker counted all workers. Another worker may already have a later one. */
	int in_sync;
	/* 0 if the next step needs no gradient (when=lazy-server): sluice_push() then accepts NULL.
	 * Otherwise 1. */
	int wanted;
	/* 1 if the next push is at an anchor (signal=svrg): the program must then pass the full
	 * gradient of this worker's data to sluice_push(). Otherwise 0. */
	int anchor_due;
	/* With quorum=: the number of workers in the newest exchange (0: unknown), and the number
	 * of exchanges that closed without this worker between its last two. Each shard closes by
	 * itself, so these are the smallest and the largest number of all shards. With other
	 * recipes: the number of living workers, and 0. */
	unsigned counted;
	uint64_t missed;
	/* The number of exchanges of the job that this worker's common parameters include. With
	 * quorum= this counts exchanges that it has missed, too, and is the smallest number of all
	 * shards. */
	uint64_t exchanges;
} sluice_model_step;

/* Fills the first step->size bytes of *step. Errors: EINVAL. Thread class: object. */
SLUICE_API int sluice_step_info(const sluice_model *model, sluice_model_step *step);

/* On a dedicated server: serves the server's shards until the workers close the model, and then
 * returns 0. Errors: as for sluice_pull(). Thread class: object. */
SLUICE_API int sluice_serve(sluice_model *model);

/* Makes a step without a gradient, for a worker that has no gradients left while other workers may
 * have some. It pushes nothing, and pulls into target as sluice_pull() does. *more_out becomes 1 on
 * all workers if any worker pushed a gradient in this step, and otherwise 0. If each worker repeats
 * this call until *more_out is 0, all workers end after the same step with the same parameters.
 * Needs a model with uneven=1. Errors: as for sluice_push() and sluice_pull(), and EINVAL. Thread
 * class: object. */
SLUICE_API int sluice_idle_step(sluice_model *model, void *target, int *more_out);

/* Adds flags to the next push: the low eight bits, or the low seven in a model with uneven=1. After
 * the pull of that step, sluice_step_info() returns on every worker the flags that any worker
 * raised, with quorum= after different steps. Workers can thus agree to write a checkpoint or to
 * stop. Thread class: object. */
SLUICE_API void sluice_raise(sluice_model *model, unsigned flags);

/* ---- checkpoints: sluice_checkpoint(3) ---------------------------------------- */

/* Writes the whole state of the training below directory dir, which must have the same name on all
 * ranks. Must be called between two steps. Collective over the workers. The previous checkpoint
 * stays valid until the new one is complete on disk. With signal=drift the call also reads the
 * vector of the last pull. Errors: EINVAL (inside a step), EIO, ENUMERIC, ENOMEM, EPEER, ETIMEDOUT.
 * Thread class: object. */
SLUICE_API int sluice_checkpoint(sluice_model *model, const char *dir);

/* Restores a checkpoint into a newly opened model with the same count, recipe, ranks, workers and
 * shards. params[0..count) receives the parameters, except with update=none. *step_out receives the
 * number of completed steps, unless step_out is NULL. Collective over the workers. Errors: EINVAL
 * (made by another model, recipe or job), EIO, EWIRE (damaged), ENOMEM, EPEER, ETIMEDOUT. Thread
 * class: object. */
SLUICE_API int sluice_restore(sluice_model *model, const char *dir, void *params,
			      uint64_t *step_out);

/* ---- statistics: sluice_stats(3) ---------------------------------------------- */

/* Counters of this rank since the model was opened. Bytes count the messages between ranks, but not
 * those to and from a rank's own shards. */
typedef struct sluice_model_stats {
	size_t size;                 /* sizeof(sluice_model_stats), set by the caller */
	uint64_t steps;              /* completed pulls */
	uint64_t pushed_bytes;       /* gradient messages written to other ranks */
	uint64_t pulled_bytes;       /* delta messages read from other ranks */
	uint64_t dense_bytes;        /* bytes that up=all down=all would have written and read */
	uint64_t control_bytes;      /* notices written to other ranks */
	uint64_t pushed_elements;    /* coordinates in gradient messages, including those to own
					shards */
	uint64_t pulled_elements;    /* coordinates in delta messages, including those of own
					shards */
	uint64_t deferred_elements;  /* selected coordinates that stayed in the residual because
					the slot was full */
	uint64_t nonfinite_elements; /* NaN or infinite values in gradients that were zeroed or
					skipped */
	uint64_t compress_ns;        /* accumulating, selecting and encoding */
	uint64_t push_ns;            /* posting writes and waiting for free slots */
	uint64_t wait_ns;            /* in pulls: waiting for versions, and for a GPU */
	uint64_t pull_ns;            /* reading deltas */
	uint64_t apply_ns;           /* checking deltas and adding them */
	double residual_norm;        /* 2-norm of the worker's residual, computed by this call */
	double density_up;           /* density of the last step by the schedule; 1 for up=all */
	double density_down;
	uint64_t lost_workers;     /* lost workers without which the job continues */
	uint64_t refused_messages; /* pushes that this rank's shards refused to count */
	uint64_t skipped_pushes;   /* when=lazy, lazy-server: pushes without an upload */
	uint64_t staleness[8]; /* number of counted pushes that were 0, 1, ... versions behind; the
				  last entry counts 7 or more */
	double threshold_up;   /* up=global, down=global: the newest thresholds, or 0 */
	double threshold_down;
	double shard_residual_norm; /* 2-norm over the residuals of this rank's shards */
	/* compression error of the last push if SLUICE_MEASURE is on, otherwise NaN */
	double compression_error;
	/* compression error of the last deltas of this rank's shards */
	double compression_error_down;
	uint64_t staleness_most; /* the most versions that any push was behind */
	uint64_t memory_bytes;   /* most memory that the library takes for the model on this rank */
	uint64_t device_ns;      /* the part of wait_ns in which a GPU had not finished the push */
	/* The bytes of messages to and from this rank's own shards, which are not sent. */
	uint64_t own_pushed_bytes, own_pulled_bytes, own_dense_bytes;
	uint64_t guard_raises; /* guard=raise: number of times that the densities were doubled */
	/* quorum=: exchanges that closed without this worker's drift; and how often a worker was
	 * missing when a shard of this rank closed an exchange */
	uint64_t missed_exchanges, absent_workers;
	uint64_t bits_up; /* bits of a value in the messages of the last step; 0: round(WIDTH) */
	uint64_t bits_down;
} sluice_model_stats;

/* Fills the first stats->size bytes of *stats. If these include the norms, makes one pass over the
 * worker's residual and one over the residuals of this rank's shards. Errors: EINVAL. Thread class:
 * object. */
SLUICE_API int sluice_stats(sluice_model *model, sluice_model_stats *stats);

/* Traffic of one transport for this rank since sluice_init(). It includes Sluice's own messages. */
typedef struct sluice_transport_stats {
	size_t size; /* in the first element: sizeof(sluice_transport_stats), set by the caller */
	const char *name;   /* "self" (this rank), "shm", "verbs" or "ofi"; static */
	uint64_t puts;      /* writes into the memory of other ranks */
	uint64_t put_bytes; /* their bytes */
	uint64_t notifies;  /* puts that carried a notification */
	uint64_t gets;      /* reads of the memory of other ranks */
	uint64_t get_bytes; /* their bytes */
	/* 1 if puts of peers arrive in this rank's memory only while this rank calls the library or
	 * its progress thread polls, which it does seldom. Otherwise 0. */
	uint64_t by_polling;
} sluice_transport_stats;

/* Fills stats[0 .. min(n, *n_out)) with one element per open transport, in order of preference, and
 * sets *n_out to their number. n may be 0. Errors: EINVAL. Thread class: object. */
SLUICE_API int sluice_transports(sluice_job *job, sluice_transport_stats *stats, size_t n,
				 size_t *n_out);

/* Asks the progress thread to log every wait of this rank with its peer, reason and duration. A
 * signal handler may call this. Thread class: any. */
SLUICE_API void sluice_log_waits(sluice_job *job);

/* ---- gradients at two points: sluice_point(3) ---------------------------------- */

/* For signal=storm and svrg: pushes the gradients of the same sample at params (grad) and at the
 * point of sluice_point() (before). The caller may reuse both on return. Errors: as for
 * sluice_push(), and EINVAL with another signal. Thread class: object. */
SLUICE_API int sluice_push_pair(sluice_model *model, const void *grad, const void *before);

/* Writes into point[0..count) the point at which the recipe needs a gradient. params is the result
 * of the last pull or open. The point is ahead along the last step (igt), one step back (storm), at
 * the anchor (svrg), at the common parameters (drift), or otherwise params itself. Called between a
 * pull and the next push. Errors: EINVAL. Thread class: object. */
SLUICE_API int sluice_point(sluice_model *model, const float *params, float *point);

/* ---- many ranks in one process: sluice_simulate(3) ---------------------------- */

/* Runs a job of `size` ranks, 1 .. 4096, inside the calling process, without a launcher or network.
 * Calls rank_main(job, context) once per rank. Each rank has its own thread, and only one of them
 * runs at any time. The results have the bits of a real job of equal size; times are not
 * meaningful. attr may be NULL. Returns 0, or the first value other than 0 that a rank_main
 * returned. Errors: EINVAL, ENOMEM, those of sluice_init(), and ETIMEDOUT (all ranks wait for each
 * other). Thread class: main. */
SLUICE_API int sluice_simulate(const sluice_job_attr *attr, int size,
			       int (*rank_main)(sluice_job *job, void *context), void *context);

/* ---- comparing replicas: sluice_digest(3) --------------------------------------- */

/* Returns a 64-bit hash of bytes for comparing replicas. The hash is the same on every machine.
 * Thread class: any. */
SLUICE_API uint64_t sluice_digest(const void *bytes, size_t n);

#ifdef __cplusplus
}
#endif
#endif
