/* SPDX-License-Identifier: BSD-3-Clause
 * Replaces CUDA's runtime: devices, memory, and enqueued work, which runs at once or later (lag.h).
 * emulation.c runs kernels. */
#include "runtime.h"
#include "stream.h"
#include "lag.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* The functions must have the parameters of the functions that they replace. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define EXPORTED __attribute__((visibility("default")))
enum { BLOCKS_AT_ONCE = 2, PAGE = 4096 };

struct allocation {
	struct allocation *next;
	char *base;
	size_t bytes, mapped;
	enum cudaMemoryType type;
	int device;
};

static struct {
	pthread_mutex_t lock;
	struct allocation *all;
	unsigned fail_in;
	cudaError_t failure;
	int devices, exports;
	struct emulated_counts counts;
} runtime = { .lock = PTHREAD_MUTEX_INITIALIZER, .devices = 1 };
static _Thread_local int current_device;
static _Thread_local cudaError_t last;

static cudaError_t answer(cudaError_t error)
{
	return emulated_answer(error);
}

/* Only kernels and copies can access device memory. An access of the host faults, as with a GPU. */
static void let(int access)
{
	pthread_mutex_lock(&runtime.lock);
	for (struct allocation *a = runtime.all; a; a = a->next)
		if (a->type == cudaMemoryTypeDevice && mprotect(a->base, a->mapped, access))
			abort();
	pthread_mutex_unlock(&runtime.lock);
}

/* ---- the runtime ----------------------------------------------------------- */

void emulated_fail(unsigned after, cudaError_t error)
{
	runtime.failure = error;
	__atomic_store_n(&runtime.fail_in, after + 1, __ATOMIC_SEQ_CST);
}

void emulated_device(int present)
{
	runtime.devices = present;
}

void emulated_manage(void *p)
{
	for (struct allocation *a = runtime.all; a; a = a->next)
		if (a->base == p)
			a->type = cudaMemoryTypeManaged;
}

void emulated_export(int exports)
{
	runtime.exports = exports;
}

void emulated_context(void)
{
	__atomic_fetch_or(&runtime.counts.contexts, 1u << current_device, __ATOMIC_SEQ_CST);
}

int emulated_current(void)
{
	return current_device;
}

void emulated_count(struct emulated_counts *out)
{
	*out = runtime.counts;
	runtime.counts = (struct emulated_counts){ 0 };
}

void emulated_touch(unsigned bytes)
{
	__atomic_fetch_add(&runtime.counts.vector_bytes, bytes, __ATOMIC_RELAXED);
}

void emulated_let(int touch)
{
	let(touch ? PROT_READ | PROT_WRITE : PROT_NONE);
}

/* Returns 1 if this call must fail. Several threads may call it at the same time. */
static int its_turn(void)
{
	unsigned left = __atomic_load_n(&runtime.fail_in, __ATOMIC_SEQ_CST);

	while (left && !__atomic_compare_exchange_n(&runtime.fail_in, &left, left - 1, 0,
						    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	return left == 1;
}

cudaError_t emulated_answer(cudaError_t error)
{
	if (!runtime.devices)
		error = cudaErrorInsufficientDriver;
	else if (its_turn())
		error = runtime.failure;
	if (error)
		last = error;
	return error;
}

const char *cudaGetErrorName(cudaError_t error)
{
	switch (error) {
	case cudaSuccess: return "cudaSuccess";
	case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
	case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
	case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
	case cudaErrorNoDevice: return "cudaErrorNoDevice";
	case cudaErrorHostMemoryAlreadyRegistered: return "cudaErrorHostMemoryAlreadyRegistered";
	case cudaErrorNotReady: return "cudaErrorNotReady";
	case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
	case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
	case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
	case cudaErrorStreamCaptureImplicit: return "cudaErrorStreamCaptureImplicit";
	}
	return "unknown";
}

const char *cudaGetErrorString(cudaError_t error)
{
	switch (error) {
	case cudaSuccess: return "no error";
	case cudaErrorInvalidValue: return "invalid argument";
	case cudaErrorMemoryAllocation: return "out of memory";
	case cudaErrorInsufficientDriver:
		return "CUDA driver version is insufficient for CUDA runtime version";
	case cudaErrorNoDevice: return "no CUDA-capable device is detected";
	case cudaErrorHostMemoryAlreadyRegistered:
		return "part or all of the requested memory range is already mapped";
	case cudaErrorNotReady: return "device not ready";
	case cudaErrorLaunchFailure: return "unspecified launch failure";
	case cudaErrorStreamCaptureUnsupported:
		return "operation not permitted when stream is capturing";
	case cudaErrorStreamCaptureInvalidated:
		return "operation failed due to a previous error during capture";
	case cudaErrorStreamCaptureImplicit:
		return "operation would make the legacy stream depend on a capturing one";
	}
	return "unknown error";
}

cudaError_t cudaGetLastError(void)
{
	cudaError_t got = last;

	last = cudaSuccess;
	return got;
}

cudaError_t cudaGetDeviceCount(int *n)
{
	*n = runtime.devices;
	return answer(cudaSuccess);
}

cudaError_t cudaGetDevice(int *device)
{
	*device = current_device;
	return answer(cudaSuccess);
}

cudaError_t cudaSetDevice(int device)
{
	cudaError_t error = answer(device < 0 || device >= runtime.devices ? cudaErrorInvalidValue :
									     cudaSuccess);

	if (!error)
		current_device = device;
	return error;
}

/* Each device is below a different bridge. */
cudaError_t cudaDeviceGetPCIBusId(char *text, int bytes, int device)
{
	snprintf(text, (size_t)bytes, "0000:%02x:00.0", (unsigned)(16 * device + 0x11));
	return answer(cudaSuccess);
}

cudaError_t cudaStreamCreate(cudaStream_t *out)
{
	*out = NULL; /* the default stream, in which everything happens at once */
	return answer(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
	*properties = (struct cudaDeviceProp){ .name = "emulated on the CPU",
					       .totalGlobalMem = 1u << 30,
					       .multiProcessorCount = EMULATED_MULTIPROCESSORS,
					       .major = 9 };
	return answer(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
	*value = attribute == cudaDevAttrMultiProcessorCount ? EMULATED_MULTIPROCESSORS : 0;
	return answer(cudaSuccess);
}

static struct allocation *allocation_of(const void *p)
{
	struct allocation *a = runtime.all;

	while (a && !((const char *)p >= a->base && (const char *)p < a->base + a->bytes))
		a = a->next;
	return a;
}

static cudaError_t allocate(void **out, size_t bytes, enum cudaMemoryType type)
{
	struct allocation *a;
	cudaError_t error = answer(stream_unsafe());

	emulated_context();
	if (error)
		return error;
	a = calloc(1, sizeof *a);
	if (!a)
		return answer(cudaErrorMemoryAllocation);
	a->mapped = (bytes / PAGE + 1) * PAGE;
	a->base = mmap(NULL, a->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (a->base == MAP_FAILED) {
		free(a);
		return answer(cudaErrorMemoryAllocation);
	}
	memset(a->base, 0xa5, bytes); /* memory that was not written must not be used */
	a->bytes = bytes ? bytes : 1;
	a->type = type;
	a->device = current_device;
	if (type == cudaMemoryTypeDevice && mprotect(a->base, a->mapped, PROT_NONE))
		abort();
	pthread_mutex_lock(&runtime.lock);
	a->next = runtime.all;
	runtime.all = a;
	pthread_mutex_unlock(&runtime.lock);
	*out = a->base;
	return cudaSuccess;
}

static cudaError_t release(void *p)
{
	struct allocation **at = &runtime.all, *a;
	cudaError_t error = stream_unsafe();

	if (error)
		return answer(error);
	if (!p)
		return cudaSuccess;
	lag_settle(); /* CUDA waits for the device here */
	pthread_mutex_lock(&runtime.lock);
	while (*at && (*at)->base != (char *)p)
		at = &(*at)->next;
	a = *at;
	if (a)
		*at = a->next;
	pthread_mutex_unlock(&runtime.lock);
	if (!a)
		return answer(cudaErrorInvalidValue);
	if (a->mapped) /* otherwise it is registered memory of somebody else */
		munmap(a->base, a->mapped);
	free(a);
	return cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
	return allocate(out, bytes, cudaMemoryTypeDevice);
}
cudaError_t cudaFree(void *p)
{
	return release(p);
}
cudaError_t cudaFreeHost(void *p)
{
	return release(p);
}
cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
	__atomic_fetch_add(&runtime.counts.pinned, 1, __ATOMIC_RELAXED);
	return allocate(out, bytes, cudaMemoryTypeHost);
}

/* Registers pages, none of which may be registered twice. */
cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
	const uintptr_t from = (uintptr_t)p / PAGE * PAGE,
			to = ((uintptr_t)p + bytes + PAGE - 1) / PAGE * PAGE;
	cudaError_t error = answer(stream_unsafe());
	struct allocation *a;

	pthread_mutex_lock(&runtime.lock);
	for (a = runtime.all; a && !error; a = a->next)
		if (a->type == cudaMemoryTypeHost && (uintptr_t)a->base < to &&
		    (uintptr_t)a->base + a->bytes > from)
			error = answer(cudaErrorHostMemoryAlreadyRegistered);
	a = error ? NULL : calloc(1, sizeof *a);
	if (a) {
		*a = (struct allocation){ runtime.all, p, bytes, 0, cudaMemoryTypeHost, 0 };
		runtime.all = a;
	}
	pthread_mutex_unlock(&runtime.lock);
	return error ? error : a ? cudaSuccess : answer(cudaErrorMemoryAllocation);
}

cudaError_t cudaHostUnregister(void *p)
{
	return release(p);
}

cudaError_t cudaHostGetDevicePointer(void **there, void *p, unsigned flags)
{
	*there = p;
	return answer(cudaSuccess);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel,
							  int threads, size_t shared)
{
	emulated_context();
	emulated_load(kernel);
	*blocks = 1;
	return answer(cudaSuccess);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel)
{
	emulated_context();
	emulated_load(kernel);
	attributes->sharedSizeBytes = 0;
	return answer(cudaSuccess);
}

/* ---- what is enqueued ------------------------------------------------------ */

void emulated_do(const struct node *n)
{
	let(PROT_READ | PROT_WRITE);
	switch (n->kind) {
	case NODE_COPY: memmove(n->to, n->from, n->bytes); break;
	case NODE_SET: memset(n->to, n->byte, n->bytes); break;
	case NODE_KERNEL:
		emulated_run_kernel(n->kernel, n->grid.x, n->threads.x, n->from,
				    n->grid.x < BLOCKS_AT_ONCE ? n->grid.x : BLOCKS_AT_ONCE);
		break;
	case NODE_TOGETHER:
		emulated_run_kernel(n->kernel, n->grid.x, n->threads.x, n->from, n->grid.x);
		break;
	}
	let(PROT_NONE);
}

int emulated_knows(const void *p)
{
	pthread_mutex_lock(&runtime.lock);
	const int known = allocation_of(p) != NULL;
	pthread_mutex_unlock(&runtime.lock);
	return known;
}

int emulated_allocation(const void *p, const char **base, size_t *bytes)
{
	pthread_mutex_lock(&runtime.lock);
	const struct allocation *a = allocation_of(p);
	if (a) {
		*base = a->base;
		*bytes = a->bytes;
	}
	pthread_mutex_unlock(&runtime.lock);
	return a != NULL;
}

static void count(const struct node *node)
{
	struct emulated_counts *c = &runtime.counts;
	unsigned *of = node->kind == NODE_COPY ? &c->copies :
		       node->kind == NODE_SET  ? &c->sets :
						 &c->kernels;

	__atomic_fetch_add(of, 1, __ATOMIC_RELAXED);
	if (node->kind == NODE_COPY && node->bytes &&
	    (!emulated_knows(node->to) || !emulated_knows(node->from)))
		__atomic_fetch_add(&c->pageable, 1, __ATOMIC_RELAXED);
	if (node->kernel && node->grid.x > __atomic_load_n(&c->widest, __ATOMIC_RELAXED))
		__atomic_store_n(&c->widest, node->grid.x, __ATOMIC_RELAXED);
	if (node->kernel && !emulated_load(node->kernel))
		__atomic_fetch_add(&c->loaded_late, 1, __ATOMIC_RELAXED);
}

static cudaError_t enqueue(cudaStream_t stream, cudaError_t error, struct node node)
{
	if (!stream)
		emulated_context();
	count(&node);
	if (node.kernel && !stream_is_here(stream))
		error = cudaErrorInvalidValue;
	error = answer(error ? error : stream_enqueues(stream));
	if (error || ((node.kind == NODE_COPY || node.kind == NODE_SET) && !node.bytes))
		return error;
	if (lag_lags())
		return answer(lag_put(&node));
	lag_do(&node);
	return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
			    cudaStream_t stream)
{
	return enqueue(stream, cudaSuccess,
		       (struct node){ .kind = NODE_COPY, .to = to, .from = from, .bytes = bytes });
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
	return enqueue(stream, cudaSuccess,
		       (struct node){ .kind = NODE_SET, .to = to, .byte = byte, .bytes = bytes });
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 threads, void **args,
			     size_t shared, cudaStream_t stream)
{
	return enqueue(stream, cudaSuccess,
		       (struct node){ .kind = NODE_KERNEL,
				      .kernel = kernel,
				      .from = args[0],
				      .grid = grid,
				      .threads = threads });
}

/* More blocks than fit would wait for each other for ever, so CUDA refuses them too. */
cudaError_t cudaLaunchCooperativeKernel(const void *kernel, dim3 grid, dim3 threads, void **args,
					size_t shared, cudaStream_t stream)
{
	return enqueue(stream,
		       grid.x > EMULATED_MULTIPROCESSORS ? cudaErrorInvalidValue : cudaSuccess,
		       (struct node){ .kind = NODE_TOGETHER,
				      .kernel = kernel,
				      .from = args[0],
				      .grid = grid,
				      .threads = threads });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	const cudaError_t error = answer(stream_enqueues(stream));

	if (!stream)
		emulated_context();
	return error ? error : answer(lag_drain());
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	const cudaError_t error = answer(stream_enqueues(stream));

	if (!stream)
		emulated_context();
	return error ? error : answer(lag_state());
}

/* ---- the driver ------------------------------------------------------------ */

/* The functions of CUDA's driver that gpu/memory.c calls, with the types that it expects. */
enum { MEMORY_TYPE = 2, IS_MANAGED = 8, DEVICE_ORDINAL = 9, OF_DEVICE = 2, UNINITIALIZED = 3 };
EXPORTED int cuPointerGetAttributes(unsigned n, const int *attributes, void **results,
				    unsigned long long address);
EXPORTED int cuDeviceGet(int *device, int ordinal);
EXPORTED int cuDeviceGetAttribute(int *value, int attribute, int device);
EXPORTED int cuMemGetHandleForAddressRange(void *handle, unsigned long long address, size_t bytes,
					   int type, unsigned long long flags);

int cuPointerGetAttributes(unsigned n, const int *attributes, void **results,
			   unsigned long long address)
{
	const cudaError_t error = answer(cudaSuccess);
	struct allocation *a;

	if (error)
		return error == cudaErrorInsufficientDriver ? UNINITIALIZED : (int)error;
	pthread_mutex_lock(&runtime.lock);
	a = allocation_of((const void *)(uintptr_t)address);
	for (unsigned i = 0; i < n; i++) {
		const int managed = a && a->type == cudaMemoryTypeManaged;
		const int of_device = managed || (a && a->type == cudaMemoryTypeDevice);

		*(int *)results[i] = attributes[i] == MEMORY_TYPE ? (of_device ? OF_DEVICE : !!a) :
				     attributes[i] == IS_MANAGED  ? managed :
				     attributes[i] == DEVICE_ORDINAL ? (a ? a->device : -2) :
								       0;
	}
	pthread_mutex_unlock(&runtime.lock);
	return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal;
	return answer(cudaSuccess);
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	*value = attribute == 124 /* DMA_BUF_SUPPORTED */ && runtime.exports;
	return answer(cudaSuccess);
}

int cuMemGetHandleForAddressRange(void *handle, unsigned long long address, size_t bytes, int type,
				  unsigned long long flags)
{
	runtime.counts.dma_bufs++;
	*(int *)handle = memfd_create("emulated dma-buf", MFD_CLOEXEC);
	return answer(cudaSuccess);
}
