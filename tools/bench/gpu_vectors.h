/* SPDX-License-Identifier: BSD-3-Clause
 * --device cuda: vectors in GPU memory, through the library's own module. Called by select_gpu.c
 * and step.c. */
#ifndef BENCH_GPU_VECTORS_H
#define BENCH_GPU_VECTORS_H
#include "base/device_kernels.h"
#include <stdio.h>

/* Returns the module, after making the GPU of this process current. device receives a text about
 * that GPU and the reason for it. Returns NULL after printing the reason on stderr. */
const struct device_ops *gpu_open(char *device, size_t cap);
/* Returns the module's single kernels, or NULL after printing the reason on stderr. */
const struct device_kernels *gpu_kernels(void);
/* Allocates n floats: a copy of `from`, or zeros if it is NULL. Returns 0, or -1 after printing the
 * failure. */
int gpu_vector(const struct device_ops *ops, const float *from, size_t n, struct memory *out);
/* Measures the median time of copies of n floats on the GPU, from the call until the GPU is idle.
 * Returns 0, or -1 after printing the failure. */
int gpu_copy_ms(const struct device_ops *ops, float *to, const float *from, size_t n, double *ms);
/* Called after a failed operation of the table. Prints its error and returns -1. */
int gpu_failed(const struct device_ops *ops);
#endif
