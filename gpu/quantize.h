/* SPDX-License-Identifier: BSD-3-Clause
 * Encodes values in few bits on the device (quantize.cu). Called by selector.c, and by compressor.c
 * for the values of a message whose positions pack.cu has written. */
#ifndef GPU_QUANTIZE_H
#define GPU_QUANTIZE_H
#include "gpu/pack.h"
#include "runtime/compress/quantize.h"
#include "runtime/compress/random.h"
#include <cuda_runtime_api.h>

/* Must be zeroed before each launch. */
struct quantize_state {
	float scale;      /* the range of a grid; otherwise 1 */
	uint32_t largest; /* largest magnitude, as bits */
	uint32_t barrier;
};

struct quantize_args {
	/* Value i uses the random number of coordinate first + index[i], or of first + i if index
	 * is NULL. */
	const uint32_t *index;
	const float *value;
	float *decoded; /* receives the decoded values; may equal value */
	int leave_rest; /* 1: decoded receives what is not sent instead */
	uint8_t *out;   /* few_bits_bytes() bytes */
	uint32_t count;
	struct value_coding coding; /* any type but round */
	/* A grid covers at least this magnitude. It also covers the magnitude whose bits are at
	 * `most` in device memory, unless `most` is NULL. */
	float range;
	const uint32_t *most;
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
