/* SPDX-License-Identifier: BSD-3-Clause
 * Functions that the parts of the emulation call in each other: emulation.c runs kernels, runtime.c
 * is CUDA's runtime, stream.c its streams, lag.c its queue. */
#ifndef EMULATED_RUNTIME_H
#define EMULATED_RUNTIME_H
#include "cuda_runtime.h"

/* Runs this number of blocks at once. The caller lets them access device memory. */
void emulated_run_kernel(const void *kernel, unsigned grid, unsigned threads, const void *args,
			 unsigned at_once);
/* Records that a call makes a context on the thread's current device. */
void emulated_context(void);
int emulated_current(void);
/* Records that a kernel is loaded. Returns 1 if it was loaded before. */
int emulated_load(const void *kernel);
/* Every call returns its result through this function, which may turn it into a failure. */
cudaError_t emulated_answer(cudaError_t error);
/* Returns 1 if p is device memory or pinned memory. */
int emulated_knows(const void *p);
/* As emulated_knows(), and returns the allocation. */
int emulated_allocation(const void *p, const char **base, size_t *bytes);
/* The name of a kernel, and the size of its arguments. */
const char *emulated_name(const void *kernel, size_t *bytes);
/* Runs the kernel as nvcc translated it, if EMULATED_PTX names a directory of .ptx files; otherwise
 * returns 0. With EMULATED_PTX_LOG, prints its cost on stderr. */
int emulated_run_ptx(const void *kernel, unsigned grid, unsigned threads, const void *args,
		     unsigned at_once);
#endif
