/* SPDX-License-Identifier: BSD-3-Clause
 * The basis of every kernel in this directory. Kernels are written in C that both CUDA's compiler
 * and a C compiler accept. nvcc builds them for GPUs. tests/gpu/emulation runs the same source on
 * the CPU, thread by thread and warp by warp; its <cuda_runtime.h> is then found first.
 *
 * A kernel takes one struct by value, named a. All 32 lanes call a warp function. */
#ifndef GPU_KERNEL_H
#define GPU_KERNEL_H
#include <cuda_runtime.h>
#include "base/both.h"
#include "base/bytes.h"
#include <stdint.h>

enum { LANES = 32, BLOCK = 256, WARPS = BLOCK / LANES };
#define ALL_LANES 0xffffffffu

#ifdef __CUDACC__
/* Four blocks fit on a multiprocessor, so a thread may use at most 64 registers. */
#define KERNEL(name, args)                                                                         \
	extern "C" __global__ void __launch_bounds__(BLOCK, 4)                                     \
		name(const __grid_constant__ struct args a)
/* Three blocks fit on a multiprocessor, so a thread may use 80 registers, which sums of doubles
 * need. */
#define KERNEL_OF_SUMS(name, args)                                                                 \
	extern "C" __global__ void __launch_bounds__(BLOCK, 3)                                     \
		name(const __grid_constant__ struct args a)
#define UNROLL _Pragma("unroll")
#define FROM_C extern "C"
/* Does nothing on a GPU. The emulation counts here the bytes of vectors that kernels access. */
#define TOUCH(bytes)

__device__ static inline void while_waiting(void)
{
	__nanosleep(64);
}

__device__ static inline uint64_t shuffle_up64(uint64_t v, unsigned by)
{
	return __shfl_up_sync(ALL_LANES, (unsigned long long)v, by);
}

__device__ static inline double shuffle_xor_double(double v, unsigned mask)
{
	return __shfl_xor_sync(ALL_LANES, v, (int)mask);
}

/* Stores 16 bytes at once. The compiler would split a plain store into four if another branch
 * stores single words. */
__device__ static inline void store_vector(float *p, float4 v)
{
	__stcg((float4 *)p, v);
}

/* Returns the exact value of an IEEE half, including denormals. */
__device__ static inline float half_value(uint16_t code)
{
	float v;

	asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(code));
	return v;
}

/* Reads a counter that other blocks change. */
__device__ static inline uint32_t look(const uint32_t *counter)
{
	return *(const volatile uint32_t *)counter;
}

/* Counts a block that has arrived at a barrier. A thread of the same GPU that sees this count
 * through arrivals() also sees everything that the block's threads wrote before __syncthreads(). */
__device__ static inline void arrive(uint32_t *counter)
{
	asm volatile("red.release.gpu.global.add.u32 [%0], 1;" : : "l"(counter) : "memory");
}

__device__ static inline uint32_t arrivals(const uint32_t *counter)
{
	uint32_t v;

	asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(counter) : "memory");
	return v;
}

/* Stores a word in pinned memory that the host polls. When the host sees the word, it also sees
 * everything that this thread has written or seen before. */
__device__ static inline void tell_host(uint32_t *there, uint32_t v)
{
	__threadfence_system();
	*(volatile uint32_t *)there = v;
}
#endif

static inline dim3 blocks_of(unsigned n)
{
	dim3 d;

	d.x = n;
	d.y = d.z = 1;
	return d;
}

/* Loads kernels on the current device. Otherwise CUDA would load them at the first launch, and
 * might then wait for all kernels that run on the device. If one of these waits for a peer, and the
 * peer waits for this push, that would be a deadlock. */
static inline cudaError_t load_kernels(const void *const *kernels, unsigned n)
{
	cudaError_t error = cudaSuccess;

	for (unsigned i = 0; i < n && error == cudaSuccess; i++) {
		struct cudaFuncAttributes unused;

		error = cudaFuncGetAttributes(&unused, kernels[i]);
	}
	return error;
}

/* ---- sums over a warp and a block ------------------------------------------ */

__device__ static inline unsigned lane_id(void)
{
	return threadIdx.x % LANES;
}

__device__ static inline unsigned warp_id(void)
{
	return threadIdx.x / LANES;
}

__device__ static inline uint32_t warp_inclusive(uint32_t v)
{
	for (unsigned by = 1; by < LANES; by *= 2) {
		uint32_t below = __shfl_up_sync(ALL_LANES, v, by);

		v += lane_id() >= by ? below : 0;
	}
	return v;
}

__device__ static inline uint64_t warp_inclusive64(uint64_t v)
{
	for (unsigned by = 1; by < LANES; by *= 2) {
		uint64_t below = shuffle_up64(v, by);

		v += lane_id() >= by ? below : 0;
	}
	return v;
}

/* Returns the sum over the threads before this one; *all receives the sum over the whole block.
 * sums: WARPS entries of shared memory. All threads of the block call this. */
__device__ static inline uint64_t block_before(uint64_t v, uint64_t *sums, uint64_t *all)
{
	uint64_t inclusive = warp_inclusive64(v), before = 0, total = 0;

	__syncthreads(); /* threads may still read sums of the previous call */
	if (lane_id() == LANES - 1)
		sums[warp_id()] = inclusive;
	__syncthreads();
	for (unsigned w = 0; w < WARPS; w++) {
		before += w < warp_id() ? sums[w] : 0;
		total += sums[w];
	}
	*all = total;
	return before + inclusive - v;
}

/* ---- a barrier of all blocks ----------------------------------------------- */

/* Blocks of a cooperative launch that work on the same list. The calling block has the number
 * `block` in the team, and the team's first block the number `first` in the grid. */
struct team {
	unsigned first, block, blocks;
};

__device__ static inline struct team whole_grid(void)
{
	struct team t;

	t.first = 0;
	t.block = blockIdx.x;
	t.blocks = gridDim.x;
	return t;
}

/* Returns the team of this block in a launch for `lists` lists, and sets *list to the team's first
 * list. If there are more blocks than lists, each list has a team of consecutive blocks. Otherwise
 * each block is a team of one, and handles every gridDim.x-th list from its first one on. */
__device__ static inline struct team team_of(uint32_t lists, uint32_t *list)
{
	struct team t;
	uint32_t end;

	*list = blockIdx.x;
	t.first = blockIdx.x;
	t.block = 0;
	t.blocks = 1;
	if (lists >= gridDim.x)
		return t;
	/* This inverts first = gridDim.x * list / lists, rounded down. */
	*list = (uint32_t)((((uint64_t)blockIdx.x + 1) * lists - 1) / gridDim.x);
	t.first = (uint32_t)((uint64_t)gridDim.x * *list / lists);
	end = (uint32_t)((uint64_t)gridDim.x * (*list + 1) / lists);
	t.block = blockIdx.x - t.first;
	t.blocks = end - t.first;
	return t;
}

/* A barrier for `blocks` blocks of a cooperative launch, which are resident at the same time.
 * arrived is zero before the launch, and *passed counts the barriers that this thread's block has
 * passed. All writes of these blocks before the barrier are visible after it. */
__device__ static inline void team_barrier(uint32_t *arrived, uint32_t *passed, unsigned blocks)
{
	*passed += 1;
	__syncthreads();
	if (threadIdx.x == 0) {
		arrive(arrived);
		while (arrivals(arrived) < *passed * blocks)
			while_waiting();
	}
	__syncthreads();
}

/* A barrier for all blocks of the launch. */
__device__ static inline void grid_barrier(uint32_t *arrived, uint32_t *passed)
{
	team_barrier(arrived, passed, gridDim.x);
}
#endif
