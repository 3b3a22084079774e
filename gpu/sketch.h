/* SPDX-License-Identifier: BSD-3-Clause
 * Count sketches on the device: the arguments of sketch.cu, and the operations of
 * base/device_kernels.h that sketcher.c implements. */
#ifndef GPU_SKETCH_H
#define GPU_SKETCH_H
#include "base/device_kernels.h"
#include "runtime/compress/sketch_rules.h"
#include <cuda_runtime_api.h>

/* The sketch of a range of the vector. Its buckets follow those of the preceding range. */
struct sketch_part {
	uint32_t begin, span, columns, first_bucket;
	struct sketch_hashes hashes;
};

struct push_place;
struct sketch_args {
	const float *x;
	float *cells; /* the cells of a single part; NULL: the cells of each part are its payload */
	const struct push_place *place;
	const struct sketch_part *part;   /* in ascending order; device memory */
	uint32_t n, parts, rows, columns; /* columns: total of all parts */
	int fresh;                        /* 1: treat the old content of the cells as 0 */
	uint32_t *barrier;                /* must be zero before the launch */
	uint32_t *begin, *end;            /* [columns]: begin and end of each bucket's list */
	uint32_t *list;                   /* n entries */
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

/* The sizes for which a sketcher is opened. It sketches vectors of up to n coordinates in `parts`
 * parts, and the sketches of all parts together have up to `columns` columns. Its kernel uses at
 * most `blocks` blocks; 0 stands for any number. */
struct sketcher_shape {
	int device;
	uint32_t n, columns;
	size_t parts;
	unsigned blocks;
};
int sketcher_open(const struct sketcher_shape *shape, struct device_sketch **out);
/* Makes the sketches of all parts of a push, in their payloads. The seed of a sketch is the number
 * of its part. The work of the previous call must have ended. */
int sketcher_push(struct device_sketch *sketch, const float *x, const struct device_part *parts,
		  const struct push_place *places, uint32_t rows, void *stream);

int cuda_sketch_open(int device, uint32_t n, uint32_t columns, struct device_sketch **out);
void cuda_sketch_close(struct device_sketch **sketch);
int cuda_sketch_add(struct device_sketch *sketch, const struct device_sketch_call *call,
		    void *stream);
#endif
