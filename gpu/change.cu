/* SPDX-License-Identifier: BSD-3-Clause
 * The update rule of a shard, as update_apply() computes it (runtime/model/update.c). One thread
 * handles each coordinate, with the roundings of the CPU in the CPU's order, so the bits are the
 * same. 256 threads, any grid, one coordinate per thread and turn. Memory per coordinate: the sum
 * is read and written, and so are the velocity and the variance of a rule that has them; with a
 * decay, the parameters are read. */
#include "gpu/change.h"
#include "gpu/tile.h"
#include "base/shrink.h"
#include <float.h>
#include <math.h>

/* Returns Adam's change at coordinate i. first: the coordinate's first moment. */
__device__ static inline float divide_by_root(const struct device_change *a, uint64_t i, float mean,
					      float first)
{
	const float square = a->take_square * (mean * mean);
	float variance = a->variance[i], change;

	if (!a->frozen)
		variance = shrunk_square(a->keep_square * variance + square);
	else if (!(variance > 0))
		variance = square;
	a->variance[i] = variance;
	change = a->by * (first / (sqrtf(variance) * a->unbias + a->epsilon));
	if (a->apart > 0)
		change = change - a->apart * a->params[i];
	return variance <= FLT_MAX ? change : INFINITY;
}

KERNEL(change, device_change)
{
	for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < a.count;
	     i += (uint64_t)gridDim.x * BLOCK) {
		float mean = a.sum[i] * a.share, moved;

		if (a.decay > 0)
			mean = mean + a.decay * a.params[i];
		moved = mean;
		if (a.velocity) {
			moved = shrunk(a.keep * a.velocity[i] + a.take * mean);
			a.velocity[i] = moved;
		}
		if (a.variance)
			a.sum[i] = divide_by_root(&a, i, mean, moved);
		else
			a.sum[i] = a.by * (a.ahead ? mean + a.keep * moved : moved);
	}
}

FROM_C cudaError_t change_load(void)
{
	const void *const kernels[] = { (const void *)change };

	return load_kernels(kernels, sizeof(kernels) / sizeof(*kernels));
}

FROM_C cudaError_t change_enqueue(const struct device_change *args, unsigned grid,
				  cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchKernel((const void *)change, blocks_of(grid), blocks_of(BLOCK), arguments,
				0, stream);
}
