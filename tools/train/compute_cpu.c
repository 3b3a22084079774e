/* SPDX-License-Identifier: BSD-3-Clause
 * The operations of compute.h in host memory. OpenBLAS makes the products on one thread, so that
 * sums are added in the same order in every run. */
#include "tools/train/compute.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT_BYTES = 64 };

/* This function exists only in OpenBLAS. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));

static const char *error(void)
{
	return "no memory"; /* no other operation fails here */
}

static int open_cpu(void **state, char *text, size_t cap)
{
	if (openblas_set_num_threads)
		openblas_set_num_threads(1);
	*state = NULL;
	snprintf(text, cap, "the CPU");
	return 0;
}

static void close_cpu(void *state)
{
	(void)state;
}

static void *stream(void *state)
{
	return state;
}

static int alloc(void *state, size_t bytes, void **out)
{
	(void)state;
	return posix_memalign(out, ALIGNMENT_BYTES, bytes) ? -1 : 0;
}

static void release(void *state, void *p)
{
	(void)state;
	free(p);
}

static int copy(void *state, void *to, const void *from, size_t bytes)
{
	(void)state;
	if (to != from)
		memcpy(to, from, bytes);
	return 0;
}

static int zero(void *state, void *to, size_t bytes)
{
	(void)state;
	memset(to, 0, bytes);
	return 0;
}

static int product(void *state, const struct product *p)
{
	(void)state;
	cblas_sgemm(CblasRowMajor, p->transpose_a ? CblasTrans : CblasNoTrans,
		    p->transpose_b ? CblasTrans : CblasNoTrans, (int)p->rows, (int)p->columns,
		    (int)p->inner, 1, p->a, (int)(p->transpose_a ? p->rows : p->inner), p->b,
		    (int)(p->transpose_b ? p->inner : p->columns), p->add ? 1 : 0, p->c,
		    (int)p->columns);
	return 0;
}

static int bias(void *state, float *z, const float *b, size_t rows, size_t width)
{
	(void)state;
	for (size_t row = 0; row < rows; row++)
		memcpy(z + row * width, b, width * sizeof(*z));
	return 0;
}

static int relu(void *state, float *z, size_t n)
{
	(void)state;
	for (size_t i = 0; i < n; i++)
		z[i] = z[i] > 0 ? z[i] : 0;
	return 0;
}

static int relu_slope(void *state, float *slope, const float *activation, size_t n)
{
	(void)state;
	for (size_t i = 0; i < n; i++)
		slope[i] = activation[i] > 0 ? slope[i] : 0;
	return 0;
}

static int bias_slope(void *state, float *grad, const float *slope, size_t rows, size_t width)
{
	(void)state;
	for (size_t row = 0; row < rows; row++)
		for (size_t j = 0; j < width; j++)
			grad[j] += slope[row * width + j];
	return 0;
}

static int loss(void *state, const struct loss_call *call)
{
	(void)state;
	for (size_t row = 0; row < call->rows; row++)
		call->score[row] = loss_of_row(call->kind, call->z + row * call->width,
					       call->label[row], call->width, call->scale);
	return 0;
}

static int descend(void *state, float *params, const float *grad, float lr, size_t n)
{
	(void)state;
	for (size_t i = 0; i < n; i++)
		params[i] -= lr * grad[i];
	return 0;
}

const struct compute_ops compute_cpu = {
	.size = sizeof(compute_cpu),
	.in_host = 1,
	.error = error,
	.open = open_cpu,
	.close = close_cpu,
	.stream = stream,
	.alloc = alloc,
	.release = release,
	.put = copy,
	.get = copy,
	.zero = zero,
	.product = product,
	.bias = bias,
	.relu = relu,
	.relu_slope = relu_slope,
	.bias_slope = bias_slope,
	.loss = loss,
	.descend = descend,
};
