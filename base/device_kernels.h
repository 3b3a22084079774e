/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels of a GPU module one by one, as no push of the library calls them: for sluice-bench,
 * for tests/gpu/speed.cu and for the tests that compare each with its counterpart on the CPU. All
 * can be captured into a graph, but for those that wait, and for selections of a list. Operations
 * return as those of base/device.h. */
#ifndef BASE_DEVICE_KERNELS_H
#define BASE_DEVICE_KERNELS_H
#include "base/device.h"

/* Scratch for selections from vectors of up to n elements; one selection at a time. */
struct device_selector;

/* A selection alone. */
struct device_selection {
	struct device_select call;
	const float *x; /* instead of adding: what is selected from, and not written */
	int clear;      /* selected coordinates of the residual become 0 */
	int forget;     /* made as if it were the first */
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

struct device_kernels {
	size_t size; /* sizeof(struct device_kernels) */
	/* parts and sketch of the shape are not looked at */
	int (*selector_open)(const struct device_shape *shape, struct device_selector **out);
	void (*selector_close)(struct device_selector **selector);
	int (*select)(struct device_selector *s, const struct device_selection *selection,
		      void *stream);
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
};

/* The symbol of a module that gives these. */
typedef const struct device_kernels *device_kernels_fn(void);
#define DEVICE_KERNELS_SYMBOL "sluice_device_kernels"
#endif
