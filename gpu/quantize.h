/* SPDX-License-Identifier: BSD-3-Clause
 * Values in few bits made on the device (quantize.cu). Called by selector.c. */
#ifndef GPU_QUANTIZE_H
#define GPU_QUANTIZE_H
#include "runtime/compress/quantize.h"
#include "runtime/compress/random.h"
#include <cuda_runtime_api.h>

/* Zeroed before each launch. */
struct quantize_state {
	float scale;                 /* the range of a grid, else 1 */
	uint32_t largest;            /* magnitude, as bits */
	uint32_t barrier;
};

struct quantize_args {
	const uint32_t *index;       /* value i is coordinate first + index[i]; NULL: first + i */
	const float *value;
	float *decoded;              /* may be value */
	uint8_t *out;                /* few_bits_bytes() */
	uint32_t count;
	struct value_coding coding;  /* uniform or grid */
	float range;
	struct random_stream stream;
	uint64_t first;
	struct quantize_state *state;
};

#ifdef __cplusplus
extern "C" {
#endif
cudaError_t quantize_residents(int *blocks_each);
cudaError_t quantize_enqueue(const struct quantize_args *args, unsigned grid, cudaStream_t stream);
#ifdef __cplusplus
}
#endif
#endif
