/* SPDX-License-Identifier: BSD-3-Clause
 * CUDA's device functions for the CPU: a kernel's threads are coroutines of one system thread per
 * block, and take turns at every warp function and barrier (emulation.c). Enough of CUDA for the
 * .cu files of gpu/, as C. */
#ifndef EMULATED_CUDA_RUNTIME_H
#define EMULATED_CUDA_RUNTIME_H
#include "cuda_runtime_api.h"
#include "runtime/compress/value_codes.h"
#include <string.h>

/* The functions must have the parameters of the functions that they replace. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define __device__
#define __global__
#define __host__
/* A block runs on one system thread, so thread-local data belong to the block. */
#define __shared__ static _Thread_local
#define UNROLL
#define FROM_C
#define TOUCH(bytes) emulated_touch(bytes)
__attribute__((visibility("default"))) void emulated_touch(unsigned bytes);

#define KERNEL(name, args)                                                                         \
	static void name##_of(const struct args a);                                                \
	static void name(const void *p)                                                            \
	{                                                                                          \
		name##_of(*(const struct args *)p);                                                \
	}                                                                                          \
	__attribute__((constructor)) static void name##_known(void)                                \
	{                                                                                          \
		emulated_kernel((const void *)name, sizeof(struct args), #name);                   \
	}                                                                                          \
	static void name##_of(const struct args a)

#define KERNEL_OF_SUMS(name, args) KERNEL(name, args)

/* Records a kernel's name and the size of its arguments, which a queue must copy. */
void emulated_kernel(const void *kernel, size_t bytes, const char *name);

struct emulated_place {
	dim3 thread, block, grid, threads;
};
const struct emulated_place *emulated_here(void);
#define threadIdx (emulated_here()->thread)
#define blockIdx  (emulated_here()->block)
#define gridDim   (emulated_here()->grid)
#define blockDim  (emulated_here()->threads)

/* Every lane of the warp passes a value and gets all 32 values. */
const uint64_t *emulated_exchange(uint64_t mine);
void emulated_block_barrier(void);

/* For a barrier between blocks: a block arrives, or waits until another block arrives. */
void emulated_arrive(uint32_t *counter);
void emulated_await_arrival(void);

static inline void __syncthreads(void)
{
	emulated_block_barrier();
}
static inline void __syncwarp(uint32_t mask)
{
	emulated_exchange(0);
}
static inline void __threadfence(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void __threadfence_system(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void store_vector(float *p, float4 v)
{
	*(float4 *)(void *)p = v;
}
static inline void while_waiting(void)
{
	emulated_await_arrival();
}
static inline void tell_host(uint32_t *there, uint32_t v)
{
	__atomic_store_n(there, v, __ATOMIC_SEQ_CST);
}
static inline uint32_t look(const uint32_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_SEQ_CST);
}

static inline void arrive(uint32_t *counter)
{
	emulated_arrive(counter);
}
static inline uint32_t arrivals(const uint32_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

static inline float half_value(uint16_t code)
{
	return f16_decode_inline(code);
}

static inline uint64_t shuffle_up64(uint64_t v, unsigned by)
{
	unsigned lane = threadIdx.x % 32;

	return emulated_exchange(v)[lane < by ? lane : lane - by];
}
static inline double shuffle_xor_double(double v, unsigned by)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof bits);
	bits = emulated_exchange(bits)[threadIdx.x % 32 ^ by];
	memcpy(&v, &bits, sizeof v);
	return v;
}
static inline uint32_t __shfl_up_sync(uint32_t mask, uint32_t v, unsigned by)
{
	return (uint32_t)shuffle_up64(v, by);
}
static inline uint32_t __shfl_sync(uint32_t mask, uint32_t v, unsigned lane)
{
	return (uint32_t)emulated_exchange(v)[lane % 32];
}
static inline uint32_t __reduce_add_sync(uint32_t mask, uint32_t v)
{
	const uint64_t *all = emulated_exchange(v);
	uint32_t sum = 0;

	for (int i = 0; i < 32; i++)
		sum += (uint32_t)all[i];
	return sum;
}
static inline uint32_t __reduce_max_sync(uint32_t mask, uint32_t v)
{
	const uint64_t *all = emulated_exchange(v);
	uint32_t most = 0;

	for (int i = 0; i < 32; i++)
		most = (uint32_t)all[i] > most ? (uint32_t)all[i] : most;
	return most;
}
static inline uint32_t __reduce_or_sync(uint32_t mask, uint32_t v)
{
	const uint64_t *all = emulated_exchange(v);
	uint32_t any = 0;

	for (int i = 0; i < 32; i++)
		any |= (uint32_t)all[i];
	return any;
}
static inline uint32_t __reduce_xor_sync(uint32_t mask, uint32_t v)
{
	const uint64_t *all = emulated_exchange(v);
	uint32_t sum = 0;

	for (int i = 0; i < 32; i++)
		sum ^= (uint32_t)all[i];
	return sum;
}
static inline uint32_t __ballot_sync(uint32_t mask, int predicate)
{
	const uint64_t *all = emulated_exchange(predicate != 0);
	uint32_t ballot = 0;

	for (int i = 0; i < 32; i++)
		ballot |= (uint32_t)all[i] << i;
	return ballot;
}
static inline int __any_sync(uint32_t mask, int predicate)
{
	return __ballot_sync(mask, predicate) != 0;
}
static inline int __all_sync(uint32_t mask, int predicate)
{
	return __ballot_sync(mask, predicate) == ~0u;
}
static inline int __popc(int v)
{
	return __builtin_popcount((unsigned)v);
}
static inline int __ffs(int v)
{
	return __builtin_ffs(v);
}
static inline int __clz(int v)
{
	return v ? __builtin_clz((unsigned)v) : 32;
}

static inline uint32_t atomicAdd(uint32_t *p, uint32_t v)
{
	return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);
}
static inline uint32_t atomicOr(uint32_t *p, uint32_t v)
{
	return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST);
}
static inline uint32_t atomicXor(uint32_t *p, uint32_t v)
{
	return __atomic_fetch_xor(p, v, __ATOMIC_SEQ_CST);
}
static inline uint32_t atomicMax(uint32_t *p, uint32_t v)
{
	uint32_t was = __atomic_load_n(p, __ATOMIC_SEQ_CST);

	while (was < v &&
	       !__atomic_compare_exchange_n(p, &was, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		continue;
	return was;
}
#endif
