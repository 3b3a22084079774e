/* SPDX-License-Identifier: BSD-3-Clause
 * Selections on a GPU by other programs, for tools/bench/rivals.h: CUB's radix sort of pairs and,
 * if the headers have it, CUB's DeviceTopK, each after the same addition that Sluice makes.
 * sluice-bench --rivals loads this as a module, and speed.cu is linked with it. Built by
 * tests/gpu/run: nvcc -std=c++17 -shared -Xcompiler -fPIC. */
#include "tools/bench/rivals.h"
#if __has_include(<cub/device/device_radix_sort.cuh>)
#include <cub/device/device_radix_sort.cuh>
#define HAVE_CUB 1
#endif
#if __has_include(<cub/device/device_topk.cuh>)
#include <cub/device/device_topk.cuh>
#define HAVE_CUB_TOPK 1
#endif
#include <cuda_runtime.h>
#include <new>
#include <stdio.h>

enum { BLOCK = 256, GRID = 1024, KEY_BITS = 31 };

/* keys and positions, followed by as many of each for results */
struct rivals {
	size_t n, k;
	uint32_t *memory;
	void *scratch;
	size_t scratch_bytes;
};

static char text[256];

static const char *rivals_error(void)
{
	return text;
}

static int failed(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return 0;
	snprintf(text, sizeof(text), "%s: %s", what, cudaGetErrorString(error));
	cudaGetLastError();
	return -1;
}

__global__ static void keys_of(const float *x, uint32_t *key, uint32_t *index, size_t n)
{
	for (size_t i = blockIdx.x * (size_t)BLOCK + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * BLOCK) {
		key[i] = __float_as_uint(x[i]) & 0x7fffffff;
		index[i] = (uint32_t)i;
	}
}

__global__ static void add(float *residual, const float *grad, size_t n)
{
	for (size_t i = blockIdx.x * (size_t)BLOCK + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * BLOCK)
		residual[i] += grad[i];
}

#ifdef HAVE_CUB
static cudaError_t radix_sort(const struct rivals *r, void *scratch, size_t &bytes,
			      cudaStream_t stream)
{
	const size_t n = r->n;

	return cub::DeviceRadixSort::SortPairsDescending(scratch, bytes, r->memory,
							 r->memory + 2 * n, r->memory + n,
							 r->memory + 3 * n, n, 0, KEY_BITS, stream);
}

static int rivals_sort(struct rivals *r, float *residual, const float *grad, void *stream)
{
	size_t bytes = r->scratch_bytes;

	add<<<GRID, BLOCK, 0, (cudaStream_t)stream>>>(residual, grad, r->n);
	return failed(radix_sort(r, r->scratch, bytes, (cudaStream_t)stream), "CUB's radix sort");
}
#endif

#ifdef HAVE_CUB_TOPK
static cudaError_t top_k(const struct rivals *r, void *scratch, size_t &bytes, cudaStream_t stream)
{
	const auto environment = cuda::std::execution::env{
		cuda::stream_ref{ stream },
		cuda::execution::require(cuda::execution::determinism::not_guaranteed,
					 cuda::execution::output_ordering::unsorted)
	};
	const size_t n = r->n;

	return cub::DeviceTopK::MaxPairs(scratch, bytes, r->memory, r->memory + 2 * n,
					 r->memory + n, r->memory + 3 * n, (uint32_t)n,
					 (uint32_t)r->k, environment);
}

static int rivals_topk(struct rivals *r, float *residual, const float *grad, void *stream)
{
	size_t bytes = r->scratch_bytes;

	add<<<GRID, BLOCK, 0, (cudaStream_t)stream>>>(residual, grad, r->n);
	return failed(top_k(r, r->scratch, bytes, (cudaStream_t)stream), "CUB's DeviceTopK");
}
#endif

/* Returns the most scratch memory that any of them needs. */
static int measure_scratch(struct rivals *r)
{
	size_t bytes = 0;

#ifdef HAVE_CUB
	if (failed(radix_sort(r, NULL, bytes, NULL), "CUB's radix sort"))
		return -1;
	r->scratch_bytes = bytes;
#endif
#ifdef HAVE_CUB_TOPK
	bytes = 0;
	if (failed(top_k(r, NULL, bytes, NULL), "CUB's DeviceTopK"))
		return -1;
	r->scratch_bytes = bytes > r->scratch_bytes ? bytes : r->scratch_bytes;
#endif
	(void)bytes;
	return 0;
}

static void rivals_close(struct rivals **rivals)
{
	struct rivals *r = *rivals;

	if (!r)
		return;
	cudaFree(r->scratch);
	cudaFree(r->memory);
	delete r;
	*rivals = NULL;
}

static int rivals_open(size_t n, size_t k, struct rivals **out)
{
	struct rivals *r = *out = new (std::nothrow) struct rivals();

	if (!r) {
		snprintf(text, sizeof(text), "no memory");
		return -1;
	}
	r->n = n;
	r->k = k;
	if (!failed(cudaMalloc((void **)&r->memory, n * 4 * sizeof(uint32_t)),
		    "memory for keys and positions") &&
	    !measure_scratch(r) &&
	    !failed(cudaMalloc(&r->scratch, r->scratch_bytes + 1), "scratch"))
		return 0;
	rivals_close(out);
	return -1;
}

static int rivals_keys(struct rivals *r, const float *x, void *stream)
{
	keys_of<<<GRID, BLOCK, 0, (cudaStream_t)stream>>>(x, r->memory, r->memory + r->n, r->n);
	return failed(cudaGetLastError(), "making keys");
}

extern "C" __attribute__((visibility("default"))) const struct rivals_ops *sluice_bench_rivals(void)
{
	static struct rivals_ops ops;

	ops.size = sizeof(ops);
	ops.error = rivals_error;
	ops.open = rivals_open;
	ops.close = rivals_close;
	ops.keys = rivals_keys;
#ifdef HAVE_CUB
	ops.sort = rivals_sort;
#endif
#ifdef HAVE_CUB_TOPK
	ops.topk = rivals_topk;
#endif
	return &ops;
}
