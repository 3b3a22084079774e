/* SPDX-License-Identifier: BSD-3-Clause
 * Operations at the coordinates of a decoded message, as in runtime/compress/sparse.c. One thread
 * handles each coordinate, with one rounding, so the bits are those of the CPU. 256 threads, any
 * grid, one entry per thread and turn. Memory per entry: 8 bytes of the list, which may be in
 * pinned host memory, and two 32-byte sectors of each vector. */
#include "gpu/apply.h"
#include "gpu/tile.h"

KERNEL(apply, device_apply)
{
	for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < a.count;
	     i += (uint64_t)gridDim.x * BLOCK) {
		const uint64_t at = a.index ? a.index[i] : i;
		float v = a.value ? a.value[i] : 0.0f;

		if (!a.assign)
			v = (a.vector ? a.vector[at] : 0.0f) + v;
		if (a.vector)
			a.vector[at] = v;
		if (a.narrow)
			a.narrow[at] = a.narrow_type == VALUE_F16 ? f16_round_inline(v) :
								    bf16_round_inline(v);
	}
}

KERNEL(gather, gather_args)
{
	for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < a.count;
	     i += (uint64_t)gridDim.x * BLOCK)
		a.value[i] = a.vector[a.index[i]];
	if (blockIdx.x == 0 && threadIdx.x == 0)
		*a.found = a.refused && *a.refused ? 0 : a.count;
}

FROM_C cudaError_t apply_load(void)
{
	const void *const kernels[] = { (const void *)apply, (const void *)gather };

	return load_kernels(kernels, sizeof(kernels) / sizeof(*kernels));
}

FROM_C cudaError_t gather_enqueue(const struct gather_args *args, unsigned grid,
				  cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchKernel((const void *)gather, blocks_of(grid), blocks_of(BLOCK), arguments,
				0, stream);
}

FROM_C cudaError_t apply_enqueue(const struct device_apply *args, unsigned grid,
				 cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchKernel((const void *)apply, blocks_of(grid), blocks_of(BLOCK), arguments,
				0, stream);
}
