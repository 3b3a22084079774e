/* SPDX-License-Identifier: BSD-3-Clause
 * The GPU module in a rank of ranks.h, and vectors in GPU memory. gpu.h chooses the module. If a
 * check fails, these functions end the rank. */
#ifndef TESTS_GPU_RANK_H
#define TESTS_GPU_RANK_H
#include "base/device.h"
#include "same_bits.h"
#include <stddef.h>

const struct device_ops *device(void);
/* Returns a copy of n floats in device memory. */
float *device_floats(const struct device_ops *ops, struct memory *m, const float *from, size_t n);

/* The vectors of a model whose parameters and gradients are in GPU memory. */
struct there {
	struct memory params, grad;
	const void *pulled; /* the last pulled vector */
};
void there_open(struct side *s);
/* Copies the gradient to the device and returns its address there. */
void *there_grad(struct side *s, const void *grad, size_t bytes);
void there_push(struct side *s, const float *grad);
void there_pull(struct side *s, float *target);
void there_compare(struct side *s, const float *want);
void there_close(struct side *s);
#define COMPARED_THERE .compare = there_compare, .close = there_close

/* Sets *function to the module's function of this name, which its table may lack. */
void device_look_up(const char *name, void *function);
/* Called in the parent. Returns 1 if kernels will run on a real device, which can be made neither
 * to fail nor to lag. */
int device_is_real(void);
#endif
