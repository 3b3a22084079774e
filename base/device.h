/* SPDX-License-Identifier: BSD-3-Clause
 * The interface to accelerators: one table of functions, which the module built from gpu/ fills.
 * The module is loaded when device memory is first seen, so one package serves nodes with and
 * without CUDA. Called by runtime/model/device_half.c, runtime/worker/device*.c,
 * runtime/shard/shard_device.c, sluice-info, sluice-bench and the tests. Only gpu/ includes CUDA's
 * types. base/device_kernels.h offers single kernels for measurements and tests.
 *
 * An operation returns 0 or -1. After -1, error() returns a sentence with the operation, the
 * kernel, the device and CUDA's text. An operation that takes a stream only enqueues work there,
 * unless its comment says that it waits. Stream NULL is CUDA's default stream. */
#ifndef BASE_DEVICE_H
#define BASE_DEVICE_H
#include "base/memory.h"
#include <stddef.h>
#include <stdint.h>

/* The coordinates begin .. end - 1 of a vector. */
struct device_span {
	uint32_t begin, end;
};

/* How a push checks the gradient for NaN and infinity. Nothing is selected from a gradient that has
 * them. FIRST checks in an extra pass before the update, and a bad gradient changes nothing. LATE
 * checks only if the sum is not finite; by then the residual and velocity contain the bad
 * values. */
enum device_judge { DEVICE_JUDGE_NOT, DEVICE_JUDGE_FIRST, DEVICE_JUDGE_LATE };

enum device_draw { DEVICE_DRAW_NONE, DEVICE_DRAW_DENSITY, DEVICE_DRAW_VARIANCE };

/* How a gradient is added to the residual, and which coordinates of the sum are selected. This
 * corresponds to struct select_call (select.h). All pointers except list point to device memory. */
struct device_select {
	float *residual;
	const void *grad;
	int grad_type;    /* enum value_type: VALUE_F32 (0), F16, BF16 or one of 8 bits */
	float grad_scale; /* 8-bit types: the gradient is this * code; other types: 1 */
	float scale;      /* residual += scale * grad */
	int judge;        /* enum device_judge */
	int fresh;        /* 1: set the residual to zero first */
	/* Operations on grad before it is added. They run in this order. */
	int zero;        /* replace NaN and infinity by 0 and count them; judge is ignored */
	float clip;      /* if above 0: scale grad so that its 2-norm is at most this value */
	float *velocity; /* if not NULL: it becomes momentum * velocity + scale * grad, and is added
			    in place of grad */
	float momentum;
	/* The rule of selection. By default, the k coordinates of largest magnitude are
	 * selected. */
	uint64_t k;
	/* If not 0: instead, each block of this many coordinates gives its k largest. Blocks count
	 * from coordinate 0. A shorter block gives block_quota() coordinates (select_rules.h). */
	uint32_t block;
	/* Instead, select all coordinates whose magnitude is at least `level`, except zeros. */
	int by_level;
	float level;
	/* Instead, select about k coordinates: those above a level that is derived from the mean
	 * and the deviation. quantile is gaussian_quantile() of the density. */
	int gaussian;
	double quantile;
	/* Instead, select each coordinate with its own probability, using its own random number.
	 * wanted is the density or epsilon. A coordinate selected with a probability below 1 gets
	 * the value sign / lambda, also in the residual. */
	int draw; /* enum device_draw */
	double wanted;
	uint32_t purpose, rank, seed; /* as struct random_stream (random.h) */
	uint64_t step;
	/* Instead, select these coordinates, in ascending order, whatever their values are. The
	 * list is in host memory. If that memory is pageable, the caller may reuse it on return.
	 * Exempt spans are ignored. */
	const uint32_t *list;
	uint32_t listed;
};

/* The result of a selection, in host memory. */
struct device_selected {
	size_t n; /* number of selected coordinates, which are listed in ascending order */
	int nan;  /* the sum contains NaN; n is then 0 */
	uint64_t nonfinite; /* number of NaN and infinite values in grad, if judge or zero is set */
	uint64_t first_nonfinite;
	float bad;       /* in a push: the first non-finite value */
	unsigned passes; /* number of passes over the vector; 1 if the hint was good */
	float largest;   /* the largest magnitude in the whole vector, before any draw */
	int overfull; /* 1 if by_level, gaussian or draw found more coordinates than fit; n is then
			 0 */
	int settled;  /* in a push: 1 if the residual was updated because `settle` was set */
};

/* ---- a compressor: the selections of a model's gradients, and its messages ---- */

struct device_compressor;

/* The sizes for which a compressor is opened. */
struct device_shape {
	int device;
	size_t n, k; /* number of coordinates, and the most that are selected */
	const struct device_span *exempt; /* ascending spans; all their non-zero coordinates are
					     selected, in addition to k; the list is copied */
	size_t n_exempt;
	size_t parts;    /* messages per push */
	unsigned blocks; /* the most blocks per kernel; 0: as many as are resident */
	/* total columns of the sketches of all parts; 0: there are no sketches */
	uint32_t sketch_columns;
	size_t landed; /* the most entries of a list for which land() reserves memory */
};

/* How values are encoded: as f32, f16 or bf16, or in few bits (all types but round). This
 * corresponds to struct value_coding (quantize.h). One grid covers the whole vector. */
struct device_values {
	int type; /* enum value_type */
	unsigned bits, block;
	uint32_t purpose, rank, seed; /* for uniform: as in struct random_stream (random.h) */
	uint64_t step;
	uint64_t first; /* coordinate i of the vector uses the random number of first + i */
};

/* One part of the vector and the destination of its message's payload. Parts are in ascending
 * order. */
struct device_part {
	uint32_t begin, span;
	uint32_t capacity; /* the most coordinates in the message; if there are more, no message
			      is made */
	uint8_t *payload; /* device memory, 4-byte aligned, with room for message_bound() bytes less
			     the header */
	uint8_t *copy; /* if not NULL, receives the payload as well: host memory from pin(), 4-byte
			  aligned */
	/* `bytes` is the length of the payload, for sketches and values. `index` has the requested
	 * coordinates, relative to begin, for values. It is in host memory, which the caller may
	 * reuse on return. */
	uint32_t bytes;
	const uint32_t *index;
};

enum device_payload {
	DEVICE_LISTS,    /* no payload is made; the caller fetches the selection */
	DEVICE_PAIRS,    /* the selection, encoded as by message_encode() (message.h) */
	DEVICE_SKETCHES, /* nothing is selected; the payload is the count sketch of the part:
			    `rows` rows of bytes / 4 / rows cells, with the number of the part as
			    seed */
	DEVICE_VALUES,   /* nothing is added or selected; each payload has the values of `vector`
			    at bytes / 4 coordinates of its part as f32, in all parts at most
			    `landed` */
	/* Each payload has the sum of residual and gradient at all coordinates of its part, without
	 * positions, in the format of message_encode(). Whatever the messages do not carry stays in
	 * the residual, unless select.fresh is set. Nothing is selected, so only the members of
	 * select that describe how to add the gradient are used. If the gradient is refused, the
	 * payloads are those of messages without coordinates, unless sends_left is set. */
	DEVICE_DENSE
};

struct device_push {
	enum device_payload payload;
	struct device_select select;
	struct device_values values; /* for DEVICE_PAIRS and DEVICE_DENSE */
	int densest;                 /* for DEVICE_PAIRS: 1 allows Rice codes (message.h) */
	/* For DEVICE_PAIRS. If this is set and every part was packed, the push itself settles, as
	 * settle() does, and clears the velocity `masked`. */
	int settle;
	float *masked;
	int sends_left; /* for DEVICE_DENSE: 1 sends the residual even if the gradient is refused */
	uint32_t rows;  /* for sketches */
	const float *vector; /* for values */
	const struct device_part *parts;
};

/* The outcome of a push for one part. */
struct device_sent {
	uint32_t first, count; /* range of its entries in the list of selected coordinates */
	int packed;            /* 0 if count exceeds the capacity, or if no payload was
				  requested; otherwise 1 */
	int coding; /* enum index_coding; this and the following members are valid only if packed */
	uint32_t payload_bytes, crc; /* crc: CRC32C of the payload */
	float scale;
	int nonfinite; /* for DEVICE_SKETCHES and DEVICE_VALUES: a value is NaN or infinite */
};

/* Computes vector[index[i]] += value[i], or = value[i] if `assign` is set. If narrow is not NULL,
 * narrow[index[i]] becomes the same value, rounded to narrow_type to nearest even; values beyond
 * its range become infinite. The lists are in device memory or come from land(), and must not
 * change until the stream has used them. */
struct device_apply {
	float *vector; /* device memory; NULL if only narrow is used, and the old values then count
			  as zeros */
	uint16_t *narrow;
	int narrow_type;       /* enum value_type: VALUE_F16 or BF16 */
	const uint32_t *index; /* ascending; NULL: the coordinates 0 .. count - 1 */
	const float *value;    /* NULL: zeros */
	uint32_t count;
	int assign;
};

/* Turns the sum of a step's messages into the change of a shard by the update rule, as
 * update_apply() does (runtime/model/update.h). Each operation rounds. Without a variance, the
 * rule computes, in this order:
 *     mean     = sum * share + decay * params
 *     velocity = keep * velocity + take * mean
 *     sum      = by * (mean + keep * velocity)    if `ahead` is set
 *                by * velocity                    otherwise, if velocity is not NULL
 *                by * mean                        otherwise
 *
 * With a variance (Adam), the mean and the velocity are computed in the same way. If velocity is
 * NULL, the mean replaces it below:
 *     square   = take_square * (mean * mean)
 *     variance = keep_square * variance + square  if `frozen` is 0
 *                square                           otherwise, where the variance is 0
 *                unchanged                        otherwise
 *     sum      = by * (velocity / (sqrt(variance) * unbias + epsilon)) - apart * params
 *
 * The sum becomes infinite where the variance is not finite. */
struct device_change {
	float *sum;          /* becomes the change */
	float *velocity;     /* NULL: the rule has none */
	float *variance;     /* NULL: the rule has none */
	const float *params; /* read only if decay or apart is above 0 */
	uint32_t count;
	float share, decay, keep, take, by;
	int ahead;
	float keep_square, take_square, unbias, epsilon, apart;
	int frozen;
};

struct device_ops {
	size_t size; /* sizeof(struct device_ops); a module with a different size belongs to another
			build and is refused */
	const char *(*error)(void); /* the last error of the calling thread */

	/* -- devices -- */
	/* Lists the usable devices in one line of text (name, memory, compute capability). */
	int (*describe)(char *text, size_t cap);
	/* Writes the PCI bus id ("0000:1b:00.0") of the device that this process uses or will use.
	 * This is the current device if there is one, and otherwise the one that gpu/choose.h
	 * derives from the local rank. */
	int (*bus_id)(char *text, size_t cap);
	/* Makes a device current for the calling thread: the local rank's, or the only one. Writes
	 * to text which device was chosen and why. */
	int (*choose)(char *text, size_t cap);
	/* Returns 1 if p is memory of the calling thread's current device or managed memory, and
	 * sets *device to the device's number. Returns 0 if p is host memory, and -1 on failure or
	 * if p belongs to another device. Makes no context on any device. In a process that cannot
	 * use CUDA, all memory is host memory. */
	int (*find)(const void *p, int *device);
	/* If p is memory of a device other than the current one, makes that device current for the
	 * calling thread, sets *before for leave(), and returns 1. Otherwise returns 0. */
	int (*enter)(const void *p, int *before);
	void (*leave)(int before);

	/* -- memory -- */
	/* MEMORY_EXPORTED is device memory that a network card will read. It is exported as a
	 * dma-buf if the driver and the device allow it. MEMORY_HOST is pinned, so copies overlap
	 * with kernels. release() accepts all kinds of memory, and also accepts empty memory. */
	int (*alloc)(enum memory_place place, size_t bytes, struct memory *out);
	void (*release)(struct memory *memory);
	/* Pins the caller's host memory and maps it for kernels, until unpin() is called. *there
	 * becomes its address on the device. */
	int (*pin)(void *host, size_t bytes, void **there);
	void (*unpin)(void *host);
	/* Either address may be host memory. If that memory is pageable, the caller may reuse it on
	 * return. */
	int (*copy)(void *to, const void *from, size_t bytes, void *stream);
	int (*zero)(void *to, size_t bytes, void *stream);
	int (*wait)(void *stream);
	/* Opens a stream of the current device. The stream does not wait for the default stream. */
	int (*stream_open)(void **stream);
	void (*stream_close)(void *stream);
	/* Returns -1 if the stream is being captured into a graph, or if it cannot be used because
	 * another stream is being captured. push and functions that wait must not be called then.
	 * ready() does not invalidate a capture, and neither do the functions that open, allocate,
	 * close or release. */
	int (*ready)(void *stream);

	/* -- compressors -- */
	int (*open)(const struct device_shape *shape, struct device_compressor **out);
	void (*close)(struct device_compressor **compressor);
	/* Adds the gradient, selects coordinates and makes the payloads. The call fails if the
	 * stream is not ready(). It only enqueues: grad and the parts' index are read in stream
	 * order. The selected values stay in the residual until settle() or push->settle subtracts
	 * them. */
	int (*push)(struct device_compressor *c, const struct device_push *push, void *stream);
	/* Returns 1 when the device has reported the last push: all results can be read, and
	 * pushed() will not wait. Before that, returns 0. Without `asks`, it reads one word of host
	 * memory and does not call CUDA, so any thread may call it while another one pushes. With
	 * `asks`, it also queries CUDA, unless the stream is being captured; -1 then means that
	 * CUDA failed and the push will never be reported. It never waits. */
	int (*poll)(struct device_compressor *c, int asks, void *stream);
	/* Describes what the device is doing in the last push, for example "GPU 0: its selection
	 * (kernel topk), or earlier work in the stream". Any thread may call it. */
	void (*stage)(const struct device_compressor *c, char *text, size_t cap);
	/* Waits for the last push. sent has room for one entry per part. */
	int (*pushed)(struct device_compressor *c, struct device_selected *out,
		      struct device_sent *sent, void *stream);
	/* Copies entries first .. first + count - 1 of the list of selected coordinates. Waits. */
	int (*fetch)(struct device_compressor *c, uint32_t first, uint32_t count, uint32_t *index,
		     float *value, void *stream);
	/* Subtracts from the residual, at each selected coordinate, the value that the messages
	 * carry. Clears velocity (may be NULL) at each coordinate that was sent and is not exempt.
	 * For parts that were not packed on the device, the caller passes two arrays over the list:
	 * rest has the values that remain, and unsent is 1 where the coordinate was not sent (NULL
	 * if all were sent). The caller may reuse both on return. */
	int (*settle)(struct device_compressor *c, float *residual, float *velocity,
		      const struct device_sent *sent, const float *rest, const uint32_t *unsent,
		      void *stream);
	/* Reserves pinned memory for a list of count entries, which apply() reads in place. If that
	 * memory holds earlier lists, waits until the stream has used them. */
	int (*land)(struct device_compressor *c, uint32_t count, uint32_t **index, float **value,
		    void *stream);
	/* Returns 1 if land() would not have to wait now, and 0 if it would. */
	int (*lands)(struct device_compressor *c, uint32_t count, void *stream);
	int (*apply)(struct device_compressor *c, const struct device_apply *call, void *stream);
	/* Applies the update rule of a shard. */
	int (*change)(struct device_compressor *c, const struct device_change *call, void *stream);
};

/* The type of the function by which a module returns its table, and that function's name. */
typedef const struct device_ops *device_module_fn(void);
#define DEVICE_MODULE_SYMBOL "sluice_device_module"

/* Determines which device holds p. *ops_out becomes NULL for host memory, and otherwise the table
 * for that kind of device. Loads the module when needed. Returns SLUICE_EGPU if p is, or must be
 * assumed to be, device memory that cannot be used; the message says why. Thread class: any. */
int device_of(const void *p, const struct device_ops **ops_out);

/* A scope within which the device of p is the calling thread's current device, for a call that
 * works on p in this stream. The default stream (NULL) belongs to the current device, so for it the
 * scope changes nothing, and device_of() refuses memory of another device. scope->ops is NULL if
 * nothing was changed. */
struct device_scope {
	const struct device_ops *ops;
	int before;
};
void device_scope_begin(const void *p, void *stream, struct device_scope *scope);
/* Returns rc. */
int device_scope_end(const struct device_scope *scope, int rc);

/* Loads the module. If that fails, returns NULL and sets *why to a static sentence. */
const struct device_ops *device_load(const char **why);
/* Returns another symbol of the loaded module, or NULL if the module does not have it. */
void *device_symbol(const char *name);
/* Writes the PCI bus id of the GPU that this process uses or will use. Returns -1 if no module
 * works, or if the process does not seem to use a GPU. Signs of a GPU are CUDA's driver in the
 * process, CUDA_VISIBLE_DEVICES, GPUs assigned by Slurm, and SLUICE_GPU. A job without GPUs
 * therefore pays nothing for this call. */
int device_bus_id(char *text, size_t cap);
/* The file that device_load() opened or tried to open; "" if there is none. */
const char *device_module_path(void);

/* Fails with SLUICE_EGPU and the last error of the table's module, prefixed by "function: ". */
int device_fail(const struct device_ops *ops, const char *function);
#endif
