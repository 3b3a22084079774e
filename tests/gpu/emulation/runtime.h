/* SPDX-License-Identifier: BSD-3-Clause
 * What the parts of the emulation ask of each other: emulation.c runs kernels, runtime.c is CUDA's
 * runtime, stream.c its streams, lag.c its queue. */
#ifndef EMULATED_RUNTIME_H
#define EMULATED_RUNTIME_H
#include "cuda_runtime.h"

/* So many blocks at once, which the caller lets touch device memory. */
void emulated_run_kernel(const void *kernel, unsigned grid, unsigned threads, const void *args,
			 unsigned at_once);
/* The call makes a context on the thread's current device. */
void emulated_context(void);
int emulated_current(void);
/* Notes that a kernel is loaded; returns whether it was before. */
int emulated_load(const void *kernel);
/* Every call's answer passes it, and may be made a failure. */
cudaError_t emulated_answer(cudaError_t error);
/* Whether p is memory of the device, or pinned. */
int emulated_knows(const void *p);
/* The same, with the allocation. */
int emulated_allocation(const void *p, const char **base, size_t *bytes);
/* The name of a kernel, and the size of its arguments. */
const char *emulated_name(const void *kernel, size_t *bytes);
/* Runs it as nvcc translated it, if EMULATED_PTX names a folder of .ptx files; else returns 0.
 * With EMULATED_PTX_LOG, says on stderr what it took. */
int emulated_run_ptx(const void *kernel, unsigned grid, unsigned threads, const void *args,
		     unsigned at_once);
#endif
