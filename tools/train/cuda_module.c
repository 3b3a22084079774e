/* SPDX-License-Identifier: BSD-3-Clause
 * The operations of compute.h in the memory of a GPU: the table that sluice-train gets from this
 * module, through its one symbol. cuBLAS makes the products (cuda_blas.c), and cuda_layers.cu has
 * the other operations. */
#include "gpu/choose.h"
#include "gpu/failure.h"
#include "gpu/plan.h"
#include "tools/train/cuda_blas.h"
#include "tools/train/cuda_layers.h"
#include <stdlib.h>

enum { BLOCKS_EACH = 8 };

struct cuda {
	int device;
	unsigned multiprocessors;
	cudaStream_t stream;
	void *blas;
};

static void close_cuda(void *state)
{
	struct cuda *c = state;

	if (!c)
		return;
	blas_close(c->blas);
	if (c->stream)
		cudaStreamDestroy(c->stream);
	free(c);
}

/* The stream and the default stream wait for each other, because the library uses the default
 * stream for copies that are not part of a step. */
static int begin(struct cuda *c, char *text, size_t cap)
{
	int multiprocessors;

	if (choose_gpu(&c->device, text, cap) ||
	    cuda_check(cudaSetDevice(c->device), "choosing the GPU") ||
	    cuda_check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount,
					      c->device),
		       "asking for multiprocessors") ||
	    cuda_check(cudaStreamCreate(&c->stream), "making a stream"))
		return -1;
	c->multiprocessors = (unsigned)multiprocessors;
	return blas_open(c->stream, &c->blas);
}

static int open_cuda(void **state, char *text, size_t cap)
{
	struct cuda *c = calloc(1, sizeof(*c));

	if (!c)
		return cuda_refuse("no memory");
	if (begin(c, text, cap)) {
		close_cuda(c);
		return -1;
	}
	*state = c;
	return 0;
}

static void *stream(void *state)
{
	return ((struct cuda *)state)->stream;
}

/* ---- memory ---------------------------------------------------------------- */

static int alloc(void *state, size_t bytes, void **out)
{
	(void)state;
	return cuda_check(cudaMalloc(out, bytes ? bytes : 1), "allocating a vector");
}

static void release(void *state, void *p)
{
	(void)state;
	if (p && cudaFree(p) != cudaSuccess)
		cudaGetLastError();
}

/* A copy from pageable memory returns when CUDA has read the bytes. */
static int put(void *state, void *to, const void *from_host, size_t bytes)
{
	struct cuda *c = state;

	return cuda_check(cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyDefault, c->stream),
			  "a copy to the GPU");
}

static int get(void *state, void *to_host, const void *from, size_t bytes)
{
	struct cuda *c = state;

	return cuda_check(cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDefault, c->stream),
			  "a copy from the GPU") ||
			       cuda_check(cudaStreamSynchronize(c->stream),
					  "an earlier kernel or copy") ?
		       -1 :
		       0;
}

static int zero(void *state, void *to, size_t bytes)
{
	struct cuda *c = state;

	return cuda_check(cudaMemsetAsync(to, 0, bytes, c->stream), "clearing memory");
}

/* ---- layers ---------------------------------------------------------------- */

static unsigned grid(const struct cuda *c, size_t threads)
{
	return list_grid(threads, LAYER_BLOCK, c->multiprocessors, BLOCKS_EACH);
}

static int product(void *state, const struct product *p)
{
	return blas_product(((struct cuda *)state)->blas, p);
}

static int elementwise(const struct cuda *c, const struct elementwise_args *args, const char *what)
{
	return cuda_check(elementwise_enqueue(args, grid(c, args->n), c->stream), what);
}

static int bias(void *state, float *z, const float *from, size_t rows, size_t width)
{
	return elementwise(state,
			   &(struct elementwise_args){ .work = LAYER_BIAS,
						       .to = z,
						       .from = from,
						       .n = rows * width,
						       .width = width },
			   "the kernel bias");
}

static int relu(void *state, float *z, size_t n)
{
	return elementwise(state, &(struct elementwise_args){ .work = LAYER_RELU, .to = z, .n = n },
			   "the kernel relu");
}

static int relu_slope(void *state, float *slope, const float *activation, size_t n)
{
	return elementwise(
		state,
		&(struct elementwise_args){
			.work = LAYER_RELU_SLOPE, .to = slope, .from = activation, .n = n },
		"the kernel relu_slope");
}

static int descend(void *state, float *params, const float *grad, float lr, size_t n)
{
	return elementwise(
		state,
		&(struct elementwise_args){
			.work = LAYER_DESCEND, .to = params, .from = grad, .n = n, .lr = lr },
		"the kernel descend");
}

static int bias_slope(void *state, float *grad, const float *slope, size_t rows, size_t width)
{
	struct cuda *c = state;
	const struct bias_slope_args args = {
		.grad = grad, .slope = slope, .rows = rows, .width = width
	};

	return cuda_check(bias_slope_enqueue(&args, grid(c, width), c->stream),
			  "the kernel bias_slope");
}

static int loss(void *state, const struct loss_call *call)
{
	struct cuda *c = state;

	return cuda_check(loss_enqueue(call, grid(c, call->rows), c->stream), "the kernel loss");
}

static const struct compute_ops ops = {
	.size = sizeof(ops),
	.error = cuda_failure,
	.open = open_cuda,
	.close = close_cuda,
	.stream = stream,
	.alloc = alloc,
	.release = release,
	.put = put,
	.get = get,
	.zero = zero,
	.product = product,
	.bias = bias,
	.relu = relu,
	.relu_slope = relu_slope,
	.bias_slope = bias_slope,
	.loss = loss,
	.descend = descend,
};

/* Symbols are hidden by default, but this one is looked up by name. */
__attribute__((visibility("default"))) compute_module_fn sluice_train_module;

const struct compute_ops *sluice_train_module(void)
{
	return &ops;
}
