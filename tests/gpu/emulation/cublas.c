/* SPDX-License-Identifier: BSD-3-Clause
 * Replaces cuBLAS where it is missing: the functions that tools/train/cuda_blas.c looks up,
 * column-major like cuBLAS, computed by OpenBLAS. */
#include "cuda_runtime_api.h"
#include <cblas.h>

int cublasCreate_v2(void **handle);
int cublasDestroy_v2(void *handle);
int cublasSetStream_v2(void *handle, cudaStream_t stream);
int cublasSgemm_v2(void *handle, int op_a, int op_b, int m, int n, int k, const float *alpha,
		   const float *a, int lda, const float *b, int ldb, const float *beta, float *c,
		   int ldc);

static int opened;

/* One thread, as in compute_cpu.c, adds the same sums in the same order. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));

int cublasCreate_v2(void **handle)
{
	if (openblas_set_num_threads)
		openblas_set_num_threads(1);
	*handle = &opened;
	return 0;
}

int cublasDestroy_v2(void *handle)
{
	return handle != &opened;
}

int cublasSetStream_v2(void *handle, cudaStream_t stream)
{
	(void)stream;
	return handle != &opened;
}

int cublasSgemm_v2(void *handle, int op_a, int op_b, int m, int n, int k, const float *alpha,
		   const float *a, int lda, const float *b, int ldb, const float *beta, float *c,
		   int ldc)
{
	if (handle != &opened || m < 1 || n < 1 || k < 1)
		return 7; /* CUBLAS_STATUS_INVALID_VALUE */
	emulated_let(1);
	cblas_sgemm(CblasColMajor, op_a ? CblasTrans : CblasNoTrans,
		    op_b ? CblasTrans : CblasNoTrans, m, n, k, *alpha, a, lda, b, ldb, *beta, c,
		    ldc);
	emulated_let(0);
	return 0;
}
