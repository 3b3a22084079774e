/* SPDX-License-Identifier: BSD-3-Clause
 * How a push ends on the device. 256 threads, any grid.
 *
 * settle: what messages hold leaves the residual, one thread an entry and turn; 8 bytes of lists
 * and two sectors of 32 bytes of the residual are touched an entry. Every coordinate is one
 * thread's.
 *
 * report: settles, if every part was packed, and then the last block to come tells the host: the
 * results, words of pinned memory, and after them a number that the host polls. One launch does
 * both, so whoever sees the number knows that the residual is settled, and a launch that fails has
 * done neither. Who sees it: launches of one stream follow each other, so what pack, quantize and
 * seal wrote is before this one; each thread's fence of the system orders that, and its own words,
 * before the number. So the host, or a NIC that is told by it, reads what the number stands for
 * without a call of CUDA: payloads in host memory, in a peer's window, and in the device's own.
 * Shared memory: 8 bytes. */
#include "gpu/report.h"
#include "gpu/tile.h"
#include <stddef.h>

__device__ static inline void settle_entries(const struct settle_args *a, uint32_t count)
{
	for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < count;
	     i += (uint64_t)gridDim.x * BLOCK) {
		const uint32_t at = a->index[i];

		a->residual[at] = a->value[i];
		if (a->velocity && !(a->unsent && a->unsent[i]) &&
		    !spans_reach(a->exempt, a->n_exempt, at, 1))
			a->velocity[at] = 0;
	}
}

KERNEL(settle, settle_args)
{
	settle_entries(&a, a.count);
}

/* ---- report ---------------------------------------------------------------- */

/* *unpacked: of the block; 0 before. */
__device__ static inline int all_packed(const struct report_args *a, uint32_t *unpacked)
{
	for (uint32_t p = threadIdx.x; p < a->parts; p += BLOCK)
		if (a->part[p].packing.verdict != PACK_DONE)
			atomicOr(unpacked, 1u);
	__syncthreads();
	return !*unpacked;
}

/* The bits of the first value that is not finite. */
__device__ static inline uint32_t bad_value(const struct report_args *a)
{
	const uint32_t at = ~a->summary->inverted_first;

	return a->narrow ? ((const uint16_t *)a->grad)[at] : ((const uint32_t *)a->grad)[at];
}

__device__ static inline void tell(const struct report_args *a, int settled)
{
	uint32_t *selection = (uint32_t *)(void *)a->selection;

	if (threadIdx.x == 0) {
		a->summary->settled = settled != 0;
		a->summary->bad = a->grad && a->summary->nonfinite ? bad_value(a) : 0;
	}
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < a->words; i += BLOCK)
		a->to[i] = a->from[i];
	for (uint32_t i = threadIdx.x;
	     i < offsetof(struct topk_state, barrier) / sizeof(*selection); i += BLOCK)
		selection[i] = 0;
	__threadfence_system();
	__syncthreads();
	if (threadIdx.x == 0)
		tell_host(a->done, a->turn);
}

KERNEL(report_push, report_args)
{
	__shared__ uint32_t unpacked, last;
	int settles;

	if (threadIdx.x == 0)
		unpacked = 0;
	__syncthreads();
	settles = a.settle.residual && all_packed(&a, &unpacked);
	if (settles)
		settle_entries(&a.settle, a.summary->found > a.settle.count ? 0 : a.summary->found);
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0)
		last = atomicAdd(&a.summary->blocks, 1u) == gridDim.x - 1;
	__syncthreads();
	if (last)
		tell(&a, settles);
}

/* ---- for C ----------------------------------------------------------------- */

FROM_C cudaError_t settle_enqueue(const struct settle_args *args, unsigned grid,
				  cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchKernel((const void *)settle, blocks_of(grid), blocks_of(BLOCK), arguments,
				0, stream);
}

FROM_C cudaError_t report_enqueue(const struct report_args *args, unsigned grid,
				  cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchKernel((const void *)report_push, blocks_of(grid), blocks_of(BLOCK),
				arguments, 0, stream);
}
