/* SPDX-License-Identifier: BSD-3-Clause
 * Makes the payload of a message on the device, byte for byte as message_encode() does (layout in
 * runtime/compress/message.h): the cheapest of raw, run, delta, bitmap, dense and, if allowed,
 * Rice, then the values. The host makes the header and parts.cu the checksum. Called by selector.c
 * for lists of a known length, and by compressor.c (compressor.h) for the shards' parts of a
 * selection, whose lengths only the device knows. If values are in few bits, quantize.cu writes
 * them after the positions. */
#ifndef GPU_PACK_H
#define GPU_PACK_H
#include "runtime/compress/message_rules.h"
#include <cuda_runtime_api.h>

/* PACK_DONE: the payload is written. PACK_NOTHING: there are more entries than the capacity, so
 * nothing is written. */
enum pack_verdict { PACK_NOTHING, PACK_DONE };

/* Must be zeroed before each launch. The host reads the members before `barrier`. */
struct pack_state {
	uint32_t verdict; /* enum pack_verdict */
	uint32_t coding;  /* enum index_coding */
	uint32_t payload_bytes;
	float scale;
	uint32_t indices; /* number of bytes before the values in the payload */
	uint32_t barrier;
	uint32_t largest; /* largest magnitude, as bits */
};

/* The entries first .. first + count - 1 of a list. */
struct pack_range {
	uint32_t first, count;
};

struct pack_args {
	const uint32_t *index; /* in ascending order, counted in the whole vector; base is
				  subtracted from it */
	const float *value;    /* finite */
	float *decoded;        /* receives the values that the receiver will decode; may equal
				  value */
	/* 1: decoded receives what is not sent, which is value - decoded. */
	int leave_rest;
	uint8_t *payload; /* room for message_bound() less the header; 4-byte aligned */
	uint32_t base, count, span;
	struct value_coding values;
	int densest; /* 1 allows Rice codes */
	struct pack_state *state;
	uint64_t *block_sums; /* 2 * GRID_MOST; each block of the grid has one in either half */
	uint8_t *widths;      /* delta_blocks(count) entries */
};

#ifdef __cplusplus
extern "C" {
#endif
cudaError_t pack_residents(int *blocks_each);
cudaError_t pack_enqueue(const struct pack_args *args, unsigned grid, cudaStream_t stream);
#ifdef __cplusplus
}
#endif
#endif
