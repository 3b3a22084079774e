/* SPDX-License-Identifier: BSD-3-Clause
 * The payload of a message made on the device, byte for byte what message_encode() makes (layout in
 * runtime/compress/message.h): the cheapest of raw, run, delta, bitmap and dense, then the values. The header and
 * the checksums are the host's. Called by the tests; next by the push, so that messages are written where the
 * NIC reads them. */
#ifndef GPU_PACK_H
#define GPU_PACK_H
#include "runtime/compress/message_rules.h"
#include <cuda_runtime_api.h>

/* Zeroed before each launch. The host reads what is before barrier. */
struct pack_state {
	uint32_t coding;             /* enum index_coding */
	uint32_t payload_bytes;
	float scale;
	uint32_t barrier;
	uint32_t largest;            /* magnitude, as bits */
};

struct pack_args {
	const uint32_t *index;       /* ascending; of the whole vector: base is subtracted */
	const float *value;          /* finite */
	float *decoded;              /* what the receiver will decode; may be value */
	uint8_t *payload;            /* room as message_bound() says, less the header; 4-byte aligned */
	uint32_t base, count, span;
	enum value_type value_type;
	struct pack_state *state;
	uint64_t *block_sums;        /* of each block of the grid */
	uint8_t *widths;             /* delta_blocks(count) */
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
