/* SPDX-License-Identifier: BSD-3-Clause
 * What is done at the coordinates of a decoded message, as runtime/compress/sparse.c does it: every coordinate is
 * touched by one thread and one rounding, so the bits are the CPU's. 256 threads, any grid, one entry a
 * thread and turn; 8 bytes of list and two sectors of 32 bytes of the vector are touched an entry. */
#include "gpu/apply.h"
#include "gpu/tile.h"

KERNEL(apply, apply_args)
{
	for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < a.count;
	     i += (uint64_t)gridDim.x * BLOCK) {
		float *at = a.vector + (a.index ? a.index[i] : i), v = a.value[i];

		switch (a.kind) {
		case APPLY_ADD: *at += v; break;
		case APPLY_SUBTRACT: *at -= v; break;
		case APPLY_ASSIGN: *at = v; break;
		}
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

KERNEL(settle, settle_args)
{
	for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < a.count;
	     i += (uint64_t)gridDim.x * BLOCK) {
		const uint32_t at = a.index[i];

		a.residual[at] = a.value[i];
		if (a.velocity && !(a.unsent && a.unsent[i]) && !spans_reach(a.exempt, a.n_exempt, at, 1))
			a.velocity[at] = 0;
	}
}

FROM_C cudaError_t settle_enqueue(const struct settle_args *args, unsigned grid, cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchKernel((const void *)settle, blocks_of(grid), blocks_of(BLOCK), arguments, 0, stream);
}

FROM_C cudaError_t gather_enqueue(const struct gather_args *args, unsigned grid, cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchKernel((const void *)gather, blocks_of(grid), blocks_of(BLOCK), arguments, 0, stream);
}

FROM_C cudaError_t apply_enqueue(const struct apply_args *args, unsigned grid, cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchKernel((const void *)apply, blocks_of(grid), blocks_of(BLOCK), arguments, 0, stream);
}
