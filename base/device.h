/* SPDX-License-Identifier: BSD-3-Clause
 * The seam to accelerators: one table of functions, which the module in gpu/ fills. The module is
 * loaded when memory of its kind is first seen, so one package serves nodes with and without CUDA.
 * Called by runtime/worker/device*.c, sluice-info, sluice-bench and the tests; nobody outside gpu/
 * sees a CUDA type. Single kernels, for measurements and tests, are in base/device_kernels.h.
 *
 * An operation returns 0 or -1, and after -1 error() is the sentence: operation, kernel, device,
 * CUDA's text. One that takes a stream only enqueues there unless its comment says that it waits.
 * The stream NULL is the default one. */
#ifndef BASE_DEVICE_H
#define BASE_DEVICE_H
#include "base/memory.h"
#include <stddef.h>
#include <stdint.h>

/* Coordinates begin .. end - 1 of a vector. */
struct device_span {
	uint32_t begin, end;
};

enum device_draw { DEVICE_DRAW_NONE, DEVICE_DRAW_DENSITY, DEVICE_DRAW_VARIANCE };

/* How a gradient is added to the residual, and what is selected from the sum; as struct select_call
 * (select.h). All pointers but list are device memory. */
struct device_select {
	float *residual;
	const void *grad;
	int grad_type; /* enum value_type: VALUE_F32 (0), F16 or BF16 */
	float scale;   /* residual += scale * grad */
	int judge;     /* if grad holds NaN or infinity, nothing is changed and nothing selected */
	int fresh;     /* the residual is set to zero first */
	/* What is done to grad before it is added, in this order. */
	int zero;        /* what is NaN or infinite becomes 0, and is counted (instead of judge) */
	float clip;      /* above 0: it is multiplied so that its 2-norm is at most this */
	float *velocity; /* becomes momentum * velocity + scale * grad, which is added instead;
			    NULL: none */
	float momentum;
	/* The rule of the selection. The first one is: the k largest. */
	uint64_t k;
	int by_level; /* instead: all whose magnitude is at least level; zeros never */
	float level;
	/* Instead: about k, those above a level that is refined from mean and deviation. quantile
	 * is that of k's density, from gaussian_quantile(). */
	int gaussian;
	double quantile;
	/* Instead: drawn, each by its own random number. wanted is the density, or epsilon. What is
	 * kept with a probability below 1 becomes sign / lambda, in the residual too. */
	int draw; /* enum device_draw */
	double wanted;
	uint32_t purpose, rank, seed; /* as struct random_stream (random.h) */
	uint64_t step;
	/* Instead: these coordinates, ascending, whatever their values. The list is host memory,
	 * which may be used again on return if it is pageable. No span is exempt. */
	const uint32_t *list;
	uint32_t listed;
};

/* What a selection came to; all of it in host memory. */
struct device_selected {
	size_t n;           /* as many are listed, ascending */
	int nan;            /* a NaN was met in the sum: n is 0 */
	uint64_t nonfinite; /* how many of grad are NaN or infinite, if it was judged */
	uint64_t first_nonfinite;
	uint32_t bad;    /* of a push: the first of nonfinite, as it is coded in grad */
	unsigned passes; /* over the vector that finding them took; 1 with a good hint */
	float largest;   /* magnitude of the whole vector, before a draw */
	int overfull;    /* by_level, gaussian, drawn: more passed than there is room for; n is 0 */
	int settled;     /* of a push: as its call asked */
};

/* ---- a compressor: the selections of a model's gradients, and its messages ---- */

struct device_compressor;

/* What a compressor is opened for. */
struct device_shape {
	int device;
	size_t n, k;                      /* coordinates, and the most that are selected */
	const struct device_span *exempt; /* ascending spans whose non-zeros are all selected,
					     outside of k; copied */
	size_t n_exempt;
	size_t parts;                         /* messages of a push */
	uint32_t sketch_span, sketch_columns; /* of the largest part's sketch; 0: no sketches */
};

/* How values are written: f32, f16 or bf16, or in few bits, uniform or grid; as struct value_coding
 * (quantize.h). A grid covers the whole vector. */
struct device_values {
	int type; /* enum value_type */
	unsigned bits, block;
	uint32_t purpose, rank, seed; /* uniform: as struct random_stream (random.h) */
	uint64_t step;
};

/* A part of the vector, the parts ascending, and where its message's payload goes. */
struct device_part {
	uint32_t begin, span;
	uint32_t capacity; /* most coordinates of the message; where there are more, none is made */
	uint8_t *payload; /* device memory, 4-byte aligned, message_bound() bytes less the header */
	uint8_t *copy;    /* receives the payload's bytes too: host memory as pin() gave it, 4-byte
			   * aligned; NULL: nothing does */
	/* Of sketches and values: the payload's length, and the coordinates that are wanted,
	 * relative to begin, in host memory that may be used again on return if it is pageable. */
	uint32_t bytes;
	const uint32_t *index;
};

enum device_payload {
	DEVICE_LISTS,    /* there is none: what is selected is fetched */
	DEVICE_PAIRS,    /* the selection, as message_encode() makes it (message.h) */
	DEVICE_SKETCHES, /* nothing is selected: each part's count sketch, rows times
			    bytes / 4 / rows cells with the part's number as seed */
	DEVICE_VALUES    /* nothing is added or selected: what vector holds at the parts' bytes / 4
			    coordinates, as f32; of all parts together at most k */
};

struct device_push {
	enum device_payload payload;
	struct device_select select;
	/* Of pairs. If every part was packed, what the messages hold leaves the residual, as
	 * settle() does it; masked is its velocity. */
	struct device_values values;
	int settle;
	float *masked;
	uint32_t rows;       /* of sketches */
	const float *vector; /* of values */
	const struct device_part *parts;
};

/* What became of a part. */
struct device_sent {
	uint32_t first, count;       /* its entries in the list of the selection */
	int packed;                  /* 0: count exceeds the capacity, or none was to be packed */
	int coding;                  /* enum index_coding; with what follows only if packed */
	uint32_t payload_bytes, crc; /* crc: CRC32C of the payload */
	float scale;
	int nonfinite; /* of sketches and values: some value is NaN or infinite */
};

struct device_ops {
	size_t size;      /* sizeof(struct device_ops): another one is another build, and refused */
	const char *name; /* "cuda" */
	const char *(*error)(void); /* of the calling thread */

	/* -- devices -- */
	/* Devices that can be used, as one line of text (name, memory, compute capability). */
	int (*describe)(char *text, size_t cap);
	/* The PCI bus id ("0000:1b:00.0") of the device that this process uses, or will: the
	 * current one, else by SLURM_LOCALID (gpu/choose.h). */
	int (*bus_id)(char *text, size_t cap);
	/* Makes that of SLURM_LOCALID, or the only one, current for the calling thread; text: which
	 * and why. */
	int (*choose)(char *text, size_t cap);
	/* 1: p is memory of the calling thread's current device (its number in *device); 0: it is
	 * the host's; -1, also if it is another device's. */
	int (*find)(const void *p, int *device);

	/* -- memory -- */
	/* MEMORY_DEVICE: exported as far as driver and device can. MEMORY_HOST: pinned, so that
	 * copies run beside kernels. release() takes either, and memory that is empty. */
	int (*alloc)(enum memory_place place, size_t bytes, struct memory *out);
	void (*release)(struct memory *memory);
	/* Makes host memory of somebody else's reachable for kernels and pinned, until unpin():
	 * *there is its address for them. */
	int (*pin)(void *host, size_t bytes, void **there);
	void (*unpin)(void *host);
	/* Either side may be host memory; pageable host memory may be used again on return. */
	int (*copy)(void *to, const void *from, size_t bytes, void *stream);
	int (*zero)(void *to, size_t bytes, void *stream);
	int (*wait)(void *stream);
	/* -1: the stream is being captured into a graph, or cannot be used beside one that is: push
	 * and whatever waits may not be called. Asking and being refused spoils no capture, and
	 * neither do the functions that open, allocate, close or release. */
	int (*ready)(void *stream);

	/* -- compressors -- */
	int (*open)(const struct device_shape *shape, struct device_compressor **out);
	void (*close)(struct device_compressor **compressor);
	/* Adds, selects and makes the payloads. Refused on a stream that is not ready(). It only
	 * enqueues: grad and the parts' index are read in the order of the stream. What was
	 * selected stays in the residual until it is settled. */
	int (*push)(struct device_compressor *c, const struct device_push *push, void *stream);
	/* 1: the device has reported the last push, all that it made can be read, and pushed() will
	 * not wait. 0: not yet. This looks at a word of host memory and calls nothing of CUDA: any
	 * thread may, beside the one that pushes. asks: CUDA is asked as well, unless the stream is
	 * captured; -1: the push will never be reported, because CUDA failed. Does not wait. */
	int (*poll)(struct device_compressor *c, int asks, void *stream);
	/* What the device is at in the last push: "GPU 0: its selection (kernel topk), or what is
	 * before it in the stream". Any thread. */
	void (*stage)(const struct device_compressor *c, char *text, size_t cap);
	/* Waits for the last push. sent: one for each part. */
	int (*pushed)(struct device_compressor *c, struct device_selected *out,
		      struct device_sent *sent, void *stream);
	/* Entries first .. first + count - 1 of the list of the selection. Waits. */
	int (*fetch)(struct device_compressor *c, uint32_t first, uint32_t count, uint32_t *index,
		     float *value, void *stream);
	/* residual = what messages left of each selected coordinate, and velocity (NULL: none) = 0
	 * where one was sent that is not exempt. rest and unsent say it, entry by entry of the
	 * list, for the parts that were not packed: what is left, and whether the coordinate was
	 * not sent at all (NULL: all were). Both may be used again on return. */
	int (*settle)(struct device_compressor *c, float *residual, float *velocity,
		      const struct device_sent *sent, const float *rest, const uint32_t *unsent,
		      void *stream);
	/* vector[index[i]] += value[i], or = value[i] if assign; vector is device memory. Lists in
	 * pageable host memory may be used again on return. index NULL: coordinates 0 ..
	 * count - 1. */
	int (*apply)(struct device_compressor *c, float *vector, const uint32_t *index,
		     const float *value, uint32_t count, int assign, void *stream);
};

/* The symbol of a module that gives its table. */
typedef const struct device_ops *device_module_fn(void);
#define DEVICE_MODULE_SYMBOL "sluice_device_module"

/* Whose memory is p? *ops_out becomes NULL for host memory, else the table for it. Loads the module
 * when needed. SLUICE_EGPU: p is (or must be taken for) device memory, and there is no way to use
 * it: the sentence says why. Thread class: any. */
int device_of(const void *p, const struct device_ops **ops_out);

/* Loads the module, for those who ask about it. NULL: *why is a static sentence. */
const struct device_ops *device_load(const char **why);
/* Another symbol of the module that device_load() has loaded; NULL: it has none of this name. */
void *device_symbol(const char *name);
/* The PCI bus id of the GPU that this process uses, or will use. -1: it is not known to use one:
 * there is no module that works, or nothing (CUDA's driver in the process, CUDA_VISIBLE_DEVICES,
 * GPUs that Slurm gave, SLUICE_GPU) says so; a job without GPUs does not pay for asking. */
int device_bus_id(char *text, size_t cap);
/* The file that device_load() opened, or tried to; "" if there is none. */
const char *device_module_path(void);

/* SLUICE_EGPU with what the table's last failure was, after "function: ". */
int device_fail(const struct device_ops *ops, const char *function);
#endif
