/* SPDX-License-Identifier: BSD-3-Clause
 * The basis of every kernel in this folder. Kernels are written in C that both CUDA's compiler and
 * a C compiler accept. nvcc builds them for GPUs. tests/gpu/emulation, whose <cuda_runtime.h> is
 * then found first, runs the same source on the CPU, thread by thread and warp by warp.
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
/* Four blocks fit on a multiprocessor, so a thread has at most 64 registers. */
#define KERNEL(name, args)                                                                         \
	extern "C" __global__ void __launch_bounds__(BLOCK, 4)                                     \
		name(const __grid_constant__ struct args a)
/* Three blocks fit, with at most 80 registers: for sums of doubles, which need more. */
#define KERNEL_OF_SUMS(name, args)                                                                 \
	extern "C" __global__ void __launch_bounds__(BLOCK, 3)                                     \
		name(const __grid_constant__ struct args a)
#define UNROLL _Pragma("unroll")
#define FROM_C extern "C"

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

/* Stores 16 bytes at once. The compiler splits a plain store into four if another path stores
 * single words. */
__device__ static inline void store_vector(float *p, float4 v)
{
	__stcg((float4 *)p, v);
}

/* The exact value of an IEEE half, including denormals. */
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

/* Stores a word in pinned memory that the host polls, after everything that this thread has written
 * or seen. */
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

/* Returns the sum over the threads before this one; *all becomes the sum over the whole block.
 * sums: WARPS entries of shared memory. All threads of the block call this. */
__device__ static inline uint64_t block_before(uint64_t v, uint64_t *sums, uint64_t *all)
{
	uint64_t inclusive = warp_inclusive64(v), before = 0, total = 0;

	__syncthreads(); /* the last call may still read sums */
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

/* A barrier for all blocks of a cooperative launch, which are resident together. arrived is zero
 * before the launch, and *passed counts the barriers that this thread's block has passed.
 * Everything that any block wrote before the barrier is visible after it. */
__device__ static inline void grid_barrier(uint32_t *arrived, uint32_t *passed)
{
	*passed += 1;
	__syncthreads();
	if (threadIdx.x == 0) {
		__threadfence();
		atomicAdd(arrived, 1u);
		while (look(arrived) < *passed * gridDim.x)
			while_waiting();
		__threadfence();
	}
	__syncthreads();
}
#endif
