/* SPDX-License-Identifier: BSD-3-Clause
 * The one function of cuBLAS that layers need. Called by cuda_module.c. */
#ifndef TRAIN_CUDA_BLAS_H
#define TRAIN_CUDA_BLAS_H
#include "tools/train/compute.h"
#include <cuda_runtime_api.h>

/* Makes a handle whose products run in the stream. The first call loads the library. Returns 0, or
 * -1 (gpu/failure.h). */
int blas_open(cudaStream_t stream, void **handle_out);
void blas_close(void *handle); /* accepts NULL */
int blas_product(void *handle, const struct product *p);
#endif
