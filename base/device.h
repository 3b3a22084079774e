/* SPDX-License-Identifier: BSD-3-Clause
 * The seam to accelerators: one table of functions, which the module in gpu/ fills. The module is
 * loaded when memory of its kind is first seen, so one package serves nodes with and without CUDA.
 * Called by runtime/worker/on_device.c, sluice-info and the tests; nobody outside gpu/ sees a CUDA
 * type.
 *
 * Operations return 0 or -1, and after -1 error() is the sentence: operation, kernel, device,
 * CUDA's text. Those with a stream only enqueue there unless they say that they wait. NULL is the
 * default stream. */
#ifndef BASE_DEVICE_H
#define BASE_DEVICE_H
#include "base/memory.h"
#include <stddef.h>
#include <stdint.h>

/* Coordinates begin .. end - 1 of a vector. */
struct device_span {
	uint32_t begin, end;
};

/* Scratch for selections from vectors of up to n elements; one selection at a time. */
struct device_selector;

enum device_draw { DEVICE_DRAW_NONE, DEVICE_DRAW_DENSITY, DEVICE_DRAW_VARIANCE };

/* As struct select_call (select.h). All pointers are device memory. */
struct device_select {
	const float *x; /* NULL: residual += scale * grad, and select from that */
	float *residual;
	const void *grad;
	int grad_type; /* enum value_type: VALUE_F32 (0), F16 or BF16 */
	float scale;
	int clear;  /* selected coordinates of residual become 0 */
	int judge;  /* if grad holds NaN or infinity, nothing is changed and nothing selected */
	int forget; /* made as if it were the first; for measurements */
	uint64_t k;
	int by_level; /* instead of k: all |x| >= level, zeros never */
	float level;
	/* Instead: about k, those above a level that is refined from mean and deviation; quantile:
	 * for k's density, as gaussian_quantile() has it. */
	int gaussian;
	double quantile;
	/* Instead: drawn by each one's number, x being NULL; wanted: the density, or epsilon. What
	 * is kept with a probability below 1 becomes sign / lambda, in the residual too. */
	int draw; /* enum device_draw */
	double wanted;
	uint32_t purpose, rank, seed; /* as struct random_stream (random.h) */
	uint64_t step;
	/* Instead: these coordinates, ascending, whatever their values; in host memory, which may
	 * be used again on return if it is pageable. Nothing is exempt. */
	const uint32_t *list;
	uint32_t listed;
	int fresh; /* the residual is set to zero first */
	/* What is done to grad before it is added, in this order; x being NULL. */
	int zero;        /* what is NaN or infinite becomes 0, and is counted (instead of judge) */
	float clip;      /* above 0: it is multiplied so that its 2-norm is at most this */
	float *velocity; /* becomes momentum * velocity + scale * grad, which is added instead;
			    NULL: none */
	float momentum;
	/* Of a push, as push_settle() does it, if every part was packed: what messages hold leaves
	 * residual; masked: and velocity; NULL: none. */
	int settle;
	float *masked;
};

/* What a selection came to; all of it in host memory. */
struct device_selected {
	size_t n;           /* of the selector's room, ascending */
	int nan;            /* a NaN was met in the sum: n is 0 */
	uint64_t nonfinite; /* judge: how many of grad are NaN or infinite */
	uint64_t first_nonfinite;
	unsigned passes; /* over the vector that finding them took; 1 with a good hint */
	float largest;   /* magnitude of the whole vector, before a draw */
	int overfull;    /* by_level, gaussian, drawn: more than the room passed; n is 0 */
	uint32_t bad;    /* of a push: the first of nonfinite, as it is coded in grad */
	int settled;     /* of a push: as its call asked */
};

/* A message's payload, as message_encode() makes it (message.h). All pointers are device memory. */
struct device_pack {
	const uint32_t *index; /* ascending; base is subtracted */
	const float *value;
	float *decoded;   /* what the receiver will decode; may be value */
	uint8_t *payload; /* message_bound() bytes, 4-byte aligned */
	uint32_t base, count, span;
	int value_type; /* enum value_type */
};

struct device_packed {
	int coding; /* enum index_coding */
	uint32_t payload_bytes;
	float scale;
};

/* Values in few bits, as few_bits_encode() makes them (few_bits.h). All pointers are device
 * memory. */
struct device_quantize {
	/* value i is rounded as coordinate first + index[i]; NULL: first + i */
	const uint32_t *index;
	const float *value;
	float *decoded; /* what the receiver will decode; may be value */
	uint8_t *out;   /* few_bits_bytes() */
	uint32_t count;
	int value_type; /* VALUE_UNIFORM or VALUE_GRID */
	unsigned bits, block;
	float range;                  /* grid: covers at least this magnitude */
	uint32_t purpose, rank, seed; /* as struct random_stream (random.h) */
	uint64_t step, first;
};

/* Scratch for adding vectors to count sketches; one at a time. */
struct device_sketch;

/* As sketch_add() (sketch.h). x and cells are device memory, n and columns at most as opened. */
struct device_sketch_call {
	const float *x;
	float *cells; /* rows * columns */
	uint32_t n, rows, columns;
	uint64_t seed;
};

/* ---- a push: one selection, then a message a part, made where the selection lies ---- */

struct device_push;

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
	/* For push_sketches() and push_values(): of the payload; and the coordinates that are
	 * wanted, relative to begin, in host memory that may be used again on return if it is
	 * pageable. */
	uint32_t bytes;
	const uint32_t *index;
};

/* What became of it. */
struct device_sent {
	uint32_t first, count;       /* its entries in the lists of the selection */
	int packed;                  /* 0: count exceeds the capacity, or none was to be packed */
	int coding;                  /* enum index_coding; with what follows only if packed */
	uint32_t payload_bytes, crc; /* crc: CRC32C of the payload */
	float scale;
	int nonfinite; /* push_sketches(), push_values(): some value of the payload is NaN or
			  infinite */
};

struct device_ops {
	size_t size;      /* sizeof(struct device_ops): another one is another build, and refused */
	const char *name; /* "cuda" */
	const char *(*error)(void); /* of the calling thread */
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

	int (*alloc)(size_t bytes,
		     struct memory *out); /* exported as far as driver and device can */
	void (*release)(struct memory *memory);
	int (*pinned_alloc)(size_t bytes,
			    void **out); /* host memory that copies run beside kernels from */
	void (*pinned_release)(void *pinned);
	/* Makes host memory of somebody else's reachable for kernels and pinned, until unpin():
	 * *there is its address for them. */
	int (*pin)(void *host, size_t bytes, void **there);
	void (*unpin)(void *host);
	/* Either side may be host memory; pageable host memory may be used again on return. */
	int (*copy)(void *to, const void *from, size_t bytes, void *stream);
	int (*zero)(void *to, size_t bytes, void *stream);
	int (*wait)(void *stream);
	/* -1: the stream is being captured into a graph, or cannot be used beside one that is: only
	 * select() (without a list), pack(), quantize() and sketch_add() may be called. Asking and
	 * being refused spoils no capture, and neither do the functions that open, allocate, close
	 * or release. */
	int (*ready)(void *stream);

	/* exempt: ascending spans whose non-zeros are all selected, outside of k; copied. */
	int (*selector_open)(int device, size_t n, size_t k, const struct device_span *exempt,
			     size_t n_exempt, struct device_selector **out);
	void (*selector_close)(struct device_selector **selector);
	int (*select)(struct device_selector *s, const struct device_select *call, void *stream);
	/* Waits for it; index and value (host memory, room as opened; value may be NULL) are
	 * filled. */
	int (*selected)(struct device_selector *s, uint32_t *index, float *value,
			struct device_selected *out, void *stream);

	/* At most as many entries as the selector has room for: k and the exempt ones. */
	int (*pack)(struct device_selector *s, const struct device_pack *call, void *stream);
	/* Waits for it. */
	int (*packed)(struct device_selector *s, struct device_packed *out, void *stream);

	int (*quantize)(struct device_selector *s, const struct device_quantize *call,
			void *stream);
	/* Waits for it; the scale of the message. */
	int (*quantized)(struct device_selector *s, float *scale, void *stream);

	int (*sketch_open)(int device, uint32_t n, uint32_t columns, struct device_sketch **out);
	void (*sketch_close)(struct device_sketch **sketch);
	int (*sketch_add)(struct device_sketch *sketch, const struct device_sketch_call *call,
			  void *stream);

	/* For vectors in so many parts; of s, which must outlive it. */
	int (*push_open)(struct device_selector *s, size_t parts, struct device_push **out);
	void (*push_close)(struct device_push **push);
	/* Selects as select() does (without clear), and packs each part. values NULL: nothing is
	 * packed. The residual keeps what was selected, unless call->settle. Not on a stream that
	 * is not ready(). This and the next two only enqueue: grad is read, parts' index too, in
	 * the order of the stream. */
	int (*push)(struct device_push *p, const struct device_select *call,
		    const struct device_part *parts, const struct device_values *values,
		    void *stream);
	/* Instead: adds as select() does and selects nothing; then the
	 * payload of part i is its count sketch, rows times bytes / 4 / rows cells with seed i,
	 * zero before. */
	int (*push_sketches)(struct device_push *p, struct device_sketch *sketch,
			     const struct device_select *call, const struct device_part *parts,
			     uint32_t rows, void *stream);
	/* Payloads are the values of the vector at the parts' bytes / 4 coordinates, f32: of all
	 * parts together at most as many as the selector has room for. */
	int (*push_values)(struct device_push *p, const float *vector,
			   const struct device_part *parts, void *stream);
	/* 1: the device has reported the last push, all that it made can be read, and pushed() will
	 * not wait; else 0. Looks at a word of host memory, and calls nothing of CUDA: any thread,
	 * beside the one that pushes. */
	int (*push_done)(const struct device_push *p);
	/* -1: the last push will never be reported, because CUDA failed; error() says how. 0: it
	 * may be, or while the stream is not ready() that cannot be asked. Does not wait. */
	int (*push_lost)(struct device_push *p, void *stream);
	/* What the device is at in the last push: "GPU 0: its selection (kernel topk), or what is
	 * before it in the stream". As push_done(). */
	void (*push_stage)(const struct device_push *p, char *text, size_t cap);
	/* Waits for it. sent: one for each part. */
	int (*pushed)(struct device_push *p, struct device_selected *out, struct device_sent *sent,
		      void *stream);
	/* Entries of the lists, for a part that was not packed. Waits. */
	int (*push_fetch)(struct device_push *p, uint32_t first, uint32_t count, uint32_t *index,
			  float *value, void *stream);
	/* What messages made elsewhere leave unsent of these entries, and which of them were not
	 * sent at all, or are exempt (not 0; NULL: none); both may be used again on return. */
	int (*push_leave)(struct device_push *p, uint32_t first, uint32_t count, const float *rest,
			  const uint32_t *unsent, void *stream);
	/* residual = what messages left of each selected coordinate, and velocity (NULL: none) = 0
	 * where one was sent that is not exempt. */
	int (*push_settle)(struct device_push *p, float *residual, float *velocity, void *stream);

	/* vector[index[i]] += value[i], or = value[i]; vector is device memory. Lists in pageable
	 * host memory may be used again on return. index NULL: coordinates 0..count - 1. Scratch
	 * comes from the selector. */
	int (*add)(struct device_selector *s, float *vector, const uint32_t *index,
		   const float *value, uint32_t count, void *stream);
	int (*assign)(struct device_selector *s, float *vector, const uint32_t *index,
		      const float *value, uint32_t count, void *stream);
};

/* The one symbol of a module. */
typedef const struct device_ops *device_module_fn(void);
#define DEVICE_MODULE_SYMBOL "sluice_device_module"

/* Whose memory is p? *ops_out becomes NULL for host memory, else the table for it. Loads the module
 * when needed. SLUICE_EGPU: p is (or must be taken for) device memory, and there is no way to use
 * it: the sentence says why. Thread class: any. */
int device_of(const void *p, const struct device_ops **ops_out);

/* Loads the module, for those who ask about it. NULL: *why is a static sentence. */
const struct device_ops *device_load(const char **why);
/* The PCI bus id of the GPU that this process uses, or will use. -1: it is not known to use one:
 * there is no module that works, or nothing (CUDA's driver in the process, CUDA_VISIBLE_DEVICES,
 * GPUs that Slurm gave, SLUICE_GPU) says so; a job without GPUs does not pay for asking. */
int device_bus_id(char *text, size_t cap);
/* The file that device_load() opens. */
const char *device_module_path(void);

/* SLUICE_EGPU with what the table's last failure was, after "function: ". */
int device_fail(const struct device_ops *ops, const char *function);
#endif
