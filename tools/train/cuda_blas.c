/* SPDX-License-Identifier: BSD-3-Clause
 * See cuda_blas.h. cuBLAS is loaded when it is needed, so the module builds without it and reports
 * if it is missing. The code relies on its ABI, which has not changed since version 4. Products of
 * float32 are made in float32, because cuBLAS rounds to TF32 only on request. */
#include "tools/train/cuda_blas.h"
#include "gpu/failure.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { OP_N = 0, OP_T = 1 };
typedef int create_fn(void **handle);
typedef int destroy_fn(void *handle);
typedef int set_stream_fn(void *handle, cudaStream_t stream);
typedef int sgemm_fn(void *handle, int op_a, int op_b, int m, int n, int k, const float *alpha,
		     const float *a, int lda, const float *b, int ldb, const float *beta, float *c,
		     int ldc);

static struct {
	create_fn *create;
	destroy_fn *destroy;
	set_stream_fn *set_stream;
	sgemm_fn *sgemm;
} blas;

static int find(void *library, const char *name, void *function_out)
{
	void *symbol = dlsym(library, name);

	memcpy(function_out, &symbol, sizeof(symbol));
	return symbol ? 0 : cuda_refuse("cuBLAS has no %s", name);
}

/* Tries the linker's search path, then the CUDA directory of this build. */
static void *open_library(void)
{
#ifdef CUBLAS_FILE
	return dlopen(CUBLAS_FILE, RTLD_NOW | RTLD_LOCAL);
#else
	char name[512];

	snprintf(name, sizeof(name), "libcublas.so.%d", CUDART_VERSION / 1000);
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	if (library)
		return library;
	snprintf(name, sizeof(name), "%s/libcublas.so.%d", CUDA_LIBRARY_FOLDER,
		 CUDART_VERSION / 1000);
	return dlopen(name, RTLD_NOW | RTLD_LOCAL);
#endif
}

static int load(void)
{
	void *library = blas.sgemm ? NULL : open_library();

	if (blas.sgemm)
		return 0;
	if (!library)
		return cuda_refuse(
			"cuBLAS cannot be loaded (%s): install it, or add its directory to "
			"LD_LIBRARY_PATH",
			dlerror());
	return find(library, "cublasCreate_v2", &blas.create) ||
			       find(library, "cublasDestroy_v2", &blas.destroy) ||
			       find(library, "cublasSetStream_v2", &blas.set_stream) ||
			       find(library, "cublasSgemm_v2", &blas.sgemm) ?
		       -1 :
		       0;
}

int blas_open(cudaStream_t stream, void **handle_out)
{
	int status;

	if (load())
		return -1;
	status = blas.create(handle_out);
	if (status)
		return cuda_refuse("cublasCreate failed with status %d", status);
	status = blas.set_stream(*handle_out, stream);
	return status ? cuda_refuse("cublasSetStream failed with status %d", status) : 0;
}

void blas_close(void *handle)
{
	if (handle)
		blas.destroy(handle);
}

/* cuBLAS is column-major, so it sees the transposes of these matrices, and computes c' = b' a'. */
int blas_product(void *handle, const struct product *p)
{
	const float one = 1, beta = p->add ? 1 : 0;
	int status = blas.sgemm(handle, p->transpose_b ? OP_T : OP_N, p->transpose_a ? OP_T : OP_N,
				(int)p->columns, (int)p->rows, (int)p->inner, &one, p->b,
				(int)(p->transpose_b ? p->inner : p->columns), p->a,
				(int)(p->transpose_a ? p->rows : p->inner), &beta, p->c,
				(int)p->columns);

	return status ? cuda_refuse("cublasSgemm of %zu x %zu x %zu failed with status %d", p->rows,
				    p->columns, p->inner, status) :
			0;
}
