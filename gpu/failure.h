/* SPDX-License-Identifier: BSD-3-Clause
 * The module's errors: one sentence per thread, written where CUDA reported the error. */
#ifndef GPU_FAILURE_H
#define GPU_FAILURE_H
#include <cuda_runtime_api.h>

/* Returns 0 for cudaSuccess. Otherwise stores "what failed on device N: CUDA's name (CUDA's text)"
 * as the last error and returns -1. `what` names the operation or the kernel. */
int cuda_check(cudaError_t error, const char *what);
/* Does the same as cuda_check() for failures that have no CUDA error code. */
int cuda_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *cuda_failure(void);
#endif
