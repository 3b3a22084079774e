/* SPDX-License-Identifier: BSD-3-Clause
 * Count sketches on the device: the arguments of sketch.cu, and the host's part (sketcher.c), whose
 * operations are those of base/device_kernels.h. */
#ifndef GPU_SKETCH_H
#define GPU_SKETCH_H
#include "base/device_kernels.h"
#include "runtime/compress/sketch_rules.h"
#include <cuda_runtime_api.h>

struct sketch_args {
	const float *x;
	float *cells;
	uint32_t n, rows, columns;
	struct sketch_hashes hashes;
	uint32_t *barrier;     /* zero before the launch */
	uint32_t *begin, *end; /* columns entries: where each bucket's list begins and ends */
	uint32_t *list;        /* n entries */
	uint64_t *block_sums;
};

#ifdef __cplusplus
extern "C" {
#endif
cudaError_t sketch_residents(int *blocks_each);
cudaError_t sketch_enqueue(const struct sketch_args *args, unsigned grid, cudaStream_t stream);
#ifdef __cplusplus
}
#endif

/* From now on its kernel takes at most so many blocks; 0: any number. */
void sketch_limit(struct device_sketch *sketch, unsigned blocks);
int cuda_sketch_open(int device, uint32_t n, uint32_t columns, struct device_sketch **out);
void cuda_sketch_close(struct device_sketch **sketch);
int cuda_sketch_add(struct device_sketch *sketch, const struct device_sketch_call *call,
		    void *stream);
#endif
