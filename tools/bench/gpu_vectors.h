/* SPDX-License-Identifier: BSD-3-Clause
 * --device cuda: vectors in GPU memory, through the library's own module. Called by select_gpu.c
 * and step.c. */
#ifndef BENCH_GPU_VECTORS_H
#define BENCH_GPU_VECTORS_H
#include "base/device_kernels.h"
#include <stdio.h>

/* The module, with the GPU of this process made current; device: which one and why. NULL after
 * saying on stderr why there is none. */
const struct device_ops *gpu_open(char *device, size_t cap);
/* Its kernels one by one. NULL after saying on stderr that it gives none. */
const struct device_kernels *gpu_kernels(void);
/* n floats with the bytes of from, or (NULL) zeros. 0, or -1 after saying what failed. */
int gpu_vector(const struct device_ops *ops, const float *from, size_t n, struct memory *out);
/* The median time of copies of n floats on the GPU, from the call until it is idle. 0, or -1 after
 * saying what failed. */
int gpu_copy_ms(const struct device_ops *ops, float *to, const float *from, size_t n, double *ms);
/* Called after a failed operation of the table. Writes its error and returns -1. */
int gpu_failed(const struct device_ops *ops);
#endif
