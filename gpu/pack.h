/* SPDX-License-Identifier: BSD-3-Clause
 * The payload of a message made on the device, byte for byte what message_encode() makes (layout in
 * runtime/compress/message.h): the cheapest of raw, run, delta, bitmap and dense, then the values.
 * The header is the host's, the checksum parts.cu's. Called by selector.c for lists of a known
 * length, and by compressor.c for the part of a selection that belongs to a shard, whose length
 * only the device knows. Values in few bits are left out: quantize.cu writes them behind the
 * positions. */
#ifndef GPU_PACK_H
#define GPU_PACK_H
#include "runtime/compress/message_rules.h"
#include <cuda_runtime_api.h>

/* PACK_DONE once the payload is written. Nothing is written where there were more entries than the
 * capacity. */
enum pack_verdict { PACK_NOTHING, PACK_DONE };

/* Zeroed before each launch. The host reads what is before barrier. */
struct pack_state {
	uint32_t verdict; /* enum pack_verdict */
	uint32_t coding;  /* enum index_coding */
	uint32_t payload_bytes;
	float scale;
	uint32_t indices; /* bytes of the payload before the values */
	uint32_t barrier;
	uint32_t largest; /* magnitude, as bits */
};

/* Entries first .. first + count - 1 of a list. */
struct pack_range {
	uint32_t first, count;
};

struct pack_args {
	const uint32_t *index; /* ascending; of the whole vector: base is subtracted */
	const float *value;    /* finite */
	float *decoded;        /* what the receiver will decode; may be value */
	/* Which entries are packed, in device memory; NULL: all count. */
	const struct pack_range *range;
	int leave_rest;   /* decoded receives what is left unsent instead: value - decoded */
	uint8_t *payload; /* room as message_bound() says, less the header; 4-byte aligned */
	uint32_t base, count, span; /* with range: count is the most that is packed */
	struct value_coding values;
	struct pack_state *state;
	uint64_t *block_sums; /* of each block of the grid */
	uint8_t *widths;      /* delta_blocks(count) */
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
