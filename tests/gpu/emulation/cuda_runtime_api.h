/* SPDX-License-Identifier: BSD-3-Clause
 * The part of CUDA's runtime that gpu/ uses, for tests on machines without a GPU: device memory is
 * registered host memory, and everything happens at once unless a test makes it lag. Implemented by
 * runtime.c. Not for production. */
#ifndef EMULATED_CUDA_RUNTIME_API_H
#define EMULATED_CUDA_RUNTIME_API_H
#include "counts.h"
#include <stddef.h>
#include <stdint.h>

#define CUDART_VERSION 13000
typedef enum {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInsufficientDriver = 35,
	cudaErrorNoDevice = 100,
	cudaErrorNotReady = 600,
	cudaErrorHostMemoryAlreadyRegistered = 712,
	cudaErrorLaunchFailure = 719,
	cudaErrorStreamCaptureUnsupported = 900,
	cudaErrorStreamCaptureInvalidated = 901,
	cudaErrorStreamCaptureImplicit = 906
} cudaError_t;
typedef struct emulated_stream *cudaStream_t;
typedef struct emulated_graph *cudaGraph_t;
typedef struct {
	unsigned x, y, z;
} dim3;
typedef struct {
	float x, y, z, w;
} float4;
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
enum cudaMemoryType {
	cudaMemoryTypeUnregistered,
	cudaMemoryTypeHost,
	cudaMemoryTypeDevice,
	cudaMemoryTypeManaged
};
struct cudaDeviceProp {
	char name[256];
	size_t totalGlobalMem;
	int multiProcessorCount, major, minor;
};
struct cudaFuncAttributes {
	size_t sharedSizeBytes;
};
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16 };
enum {
	cudaHostAllocDefault = 0,
	cudaHostRegisterPortable = 1,
	cudaHostRegisterMapped = 2,
	cudaStreamNonBlocking = 1
};
enum cudaStreamCaptureMode {
	cudaStreamCaptureModeGlobal,
	cudaStreamCaptureModeThreadLocal,
	cudaStreamCaptureModeRelaxed
};
enum cudaStreamCaptureStatus {
	cudaStreamCaptureStatusNone,
	cudaStreamCaptureStatusActive,
	cudaStreamCaptureStatusInvalidated
};

const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorName(cudaError_t error);
cudaError_t cudaGetLastError(void);
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetPCIBusId(char *text, int bytes, int device);
cudaError_t cudaStreamCreate(cudaStream_t *out);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status);
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaMalloc(void **out, size_t bytes);
cudaError_t cudaFree(void *p);
cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *p);
cudaError_t cudaHostGetDevicePointer(void **there, void *p, unsigned flags);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
			    cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel,
							  int block, size_t shared);
cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared,
			     cudaStream_t stream);
cudaError_t cudaLaunchCooperativeKernel(const void *kernel, dim3 grid, dim3 block, void **args,
					size_t shared, cudaStream_t stream);

/* ---- for tests ---- */
enum { EMULATED_MULTIPROCESSORS = 3, EMULATED_DEVICES_MOST = 8 };
/* Makes the call fail that follows `after` other calls. */
__attribute__((visibility("default"))) void emulated_fail(unsigned after, cudaError_t error);
/* Sets the number of devices, initially 1. 0: there is not even a driver. */
__attribute__((visibility("default"))) void emulated_device(int present);
/* Memory of the device becomes managed memory. */
__attribute__((visibility("default"))) void emulated_manage(void *p);
/* Sets whether the devices export dma-bufs; initially they do not. */
__attribute__((visibility("default"))) void emulated_export(int exports);
/* When enqueued work runs: in the call, when somebody waits for it, or a little later on another
 * thread. */
enum emulated_lag { EMULATED_AT_ONCE, EMULATED_LAGGING, EMULATED_BESIDE };
__attribute__((visibility("default"))) void emulated_lag(enum emulated_lag how);
/* With EMULATED_LAGGING: runs at most this number of operations now. Returns how many ran. */
__attribute__((visibility("default"))) unsigned emulated_run(unsigned most);
/* With EMULATED_LAGGING: makes the operation fail that follows `after` others, and drops the
 * operations after it. 0: none fails. */
__attribute__((visibility("default"))) void emulated_fail_running(unsigned after,
								  cudaError_t error);
/* Lets host code access device memory, for replacements of other CUDA libraries. */
__attribute__((visibility("default"))) void emulated_let(int touch);
#endif
