/* SPDX-License-Identifier: BSD-3-Clause
 * The operations on layers other than products, as compute_cpu.c does them. One thread computes
 * each element, and sums go in the order of the rows, so the bits are the CPU's, except for expf
 * and logf. 256 threads, any grid, no shared memory. */
#include "tools/train/cuda_layers.h"
#include "gpu/kernel.h"

/* Each element takes one read of each argument and one write. */
KERNEL(elementwise, elementwise_args)
{
	for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < a.n;
	     i += (uint64_t)gridDim.x * BLOCK)
		switch (a.work) {
		case LAYER_BIAS: a.to[i] = a.from[i % a.width]; break;
		case LAYER_RELU: a.to[i] = a.to[i] > 0 ? a.to[i] : 0; break;
		case LAYER_RELU_SLOPE: a.to[i] = a.from[i] > 0 ? a.to[i] : 0; break;
		case LAYER_DESCEND: a.to[i] -= a.lr * a.from[i]; break;
		}
}

/* One thread handles a column, so that neighbouring threads read neighbouring elements. */
KERNEL(bias_slope, bias_slope_args)
{
	for (uint64_t j = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; j < a.width;
	     j += (uint64_t)gridDim.x * BLOCK) {
		float sum = a.grad[j];

		for (uint64_t row = 0; row < a.rows; row++)
			sum += a.slope[row * a.width + j];
		a.grad[j] = sum;
	}
}

/* One thread handles a row, which has only a few classes. */
KERNEL(loss, loss_call)
{
	for (uint64_t row = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; row < a.rows;
	     row += (uint64_t)gridDim.x * BLOCK)
		a.score[row] = loss_of_row(a.kind, a.z + row * a.width, a.label[row], a.width,
					   a.scale);
}

static cudaError_t launch(const void *kernel, const void *args, unsigned grid, cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchKernel(kernel, blocks_of(grid), blocks_of(BLOCK), arguments, 0, stream);
}

FROM_C cudaError_t elementwise_enqueue(const struct elementwise_args *args, unsigned grid,
				       cudaStream_t stream)
{
	return launch((const void *)elementwise, args, grid, stream);
}

FROM_C cudaError_t bias_slope_enqueue(const struct bias_slope_args *args, unsigned grid,
				      cudaStream_t stream)
{
	return launch((const void *)bias_slope, args, grid, stream);
}

FROM_C cudaError_t loss_enqueue(const struct loss_call *args, unsigned grid, cudaStream_t stream)
{
	return launch((const void *)loss, args, grid, stream);
}
