/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels of a GPU module one by one. No push of the library calls them: they are for
 * sluice-bench, for tests/gpu/speed.cu and for the tests that compare each kernel with its
 * counterpart on the CPU. Operations return values as in base/device.h. */
#ifndef BASE_DEVICE_KERNELS_H
#define BASE_DEVICE_KERNELS_H
#include "base/device.h"

/* Scratch memory for selections from vectors of up to n elements. It serves one selection at a
 * time. */
struct device_selector;

/* The arguments of a selection outside of a push. */
struct device_selection {
	struct device_select call;
	const float *x; /* if not NULL: select from this vector, add nothing and change nothing */
	int clear;      /* set the selected coordinates of the residual to 0 */
	int forget;     /* ignore the hint of earlier selections */
};

/* Makes the payload of a message, as message_encode() does (message.h). All pointers point to
 * device memory. */
struct device_pack {
	const uint32_t *index; /* in ascending order; base is subtracted */
	const float *value;
	float *decoded;   /* receives what the receiver will decode; may be the same as value */
	uint8_t *payload; /* message_bound() bytes, 4-byte aligned */
	uint32_t base, count, span;
	int value_type; /* enum value_type */
	int densest;    /* 1 allows Rice codes */
};

struct device_packed {
	int coding; /* enum index_coding */
	uint32_t payload_bytes;
	float scale;
};

/* Encodes values in few bits, as few_bits_encode() does (few_bits.h). All pointers point to device
 * memory. */
struct device_quantize {
	/* Value i is rounded with the random number of coordinate first + index[i], or of first + i
	 * if index is NULL. */
	const uint32_t *index;
	const float *value;
	float *decoded; /* receives what the receiver will decode; may be the same as value */
	uint8_t *out;   /* few_bits_bytes() bytes */
	uint32_t count;
	int value_type; /* a type in few bits other than VALUE_ROUND */
	unsigned bits, block;
	float range;                  /* for a grid: at least the largest magnitude */
	uint32_t purpose, rank, seed; /* as struct random_stream (random.h) */
	uint64_t step, first;
};

/* Scratch memory for adding vectors to count sketches, one vector at a time. */
struct device_sketch;

/* Arguments of sketch(), which does what sketch_add() does (sketch.h). x and cells are device
 * memory. n and columns are at most the sizes for which the scratch memory was opened. */
struct device_sketch_call {
	const float *x;
	float *cells; /* rows * columns */
	uint32_t n, rows, columns;
	uint64_t seed;
};

struct device_kernels {
	size_t size; /* sizeof(struct device_kernels) */
	/* Opens a selector for the shape, whose parts and sketches are ignored. */
	int (*selector_open)(const struct device_shape *shape, struct device_selector **out);
	void (*selector_close)(struct device_selector **selector);
	int (*select)(struct device_selector *s, const struct device_selection *selection,
		      void *stream);
	/* Waits for the selection, and copies it to index and value. These are host memory with
	 * room for as many entries as the selector was opened for; value may be NULL. */
	int (*selected)(struct device_selector *s, uint32_t *index, float *value,
			struct device_selected *out, void *stream);
	/* A call takes at most as many entries as the selector has room for: k and the exempt
	 * coordinates. */
	int (*pack)(struct device_selector *s, const struct device_pack *call, void *stream);
	/* Waits for pack(). */
	int (*packed)(struct device_selector *s, struct device_packed *out, void *stream);
	int (*quantize)(struct device_selector *s, const struct device_quantize *call,
			void *stream);
	/* Waits for quantize(), and returns the scale of the message. */
	int (*quantized)(struct device_selector *s, float *scale, void *stream);
	int (*sketch_open)(int device, uint32_t n, uint32_t columns, struct device_sketch **out);
	void (*sketch_close)(struct device_sketch **sketch);
	int (*sketch_add)(struct device_sketch *sketch, const struct device_sketch_call *call,
			  void *stream);
};

/* The type of the function by which a module returns its table of kernels. The macro is that
 * function's name. */
typedef const struct device_kernels *device_kernels_fn(void);
#define DEVICE_KERNELS_SYMBOL "sluice_device_kernels"
#endif
