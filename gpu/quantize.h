/* SPDX-License-Identifier: BSD-3-Clause
 * Values in few bits made on the device (quantize.cu). Called by selector.c, and by compressor.c
 * for the values of a message whose positions pack.cu has written. */
#ifndef GPU_QUANTIZE_H
#define GPU_QUANTIZE_H
#include "gpu/pack.h"
#include "runtime/compress/quantize.h"
#include "runtime/compress/random.h"
#include <cuda_runtime_api.h>

/* Zeroed before each launch. */
struct quantize_state {
	float scale;      /* the range of a grid, else 1 */
	uint32_t largest; /* magnitude, as bits */
	uint32_t barrier;
};

struct quantize_args {
	const uint32_t *index; /* value i is coordinate first + index[i]; NULL: first + i */
	const float *value;
	float *decoded; /* may be value */
	int leave_rest; /* decoded receives what is left unsent instead: value - decoded */
	/* Which entries are quantised, and what pack made of their positions, in device memory. The
	 * values go behind the positions, if pack made any. NULL: all count entries are. */
	const struct pack_range *entries;
	const struct pack_state *packed;
	uint8_t *out; /* few_bits_bytes(); with entries: the payload */
	uint32_t count;
	struct value_coding coding; /* uniform or grid */
	/* A grid covers at least this magnitude, and the one whose bits are at most, in device
	 * memory (NULL: none is). */
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
