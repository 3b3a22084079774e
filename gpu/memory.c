/* SPDX-License-Identifier: BSD-3-Clause
 * See memory.h. A buffer that a network card will read is exported as a dma-buf (file, offset,
 * length) if driver and device support that. Otherwise rdma/register.c registers it in another way,
 * or its content is staged.
 *
 * A network card reads device memory and never writes it. It reads only complete data: the writes
 * of a kernel are visible over PCIe once the host has waited for the kernel, or once a later report
 * (parts.cu) has ended. */
#include "gpu/memory.h"
#include "gpu/context.h"
#include "gpu/failure.h"
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

/* ---- the driver ------------------------------------------------------------ */

/* These calls bypass CUDA's runtime. To find the owner of a pointer, the runtime first makes a
 * context on the current device. This takes 0.3 s and some 500 MB of its memory, even if the
 * process uses another device or none. The runtime also has no function for dma-bufs. This file
 * only uses a driver that is already in the process, and never loads or initialises one. It relies
 * on the driver's ABI and not on the driver's header, which is not installed everywhere:
 * cuPointerGetAttributes(number, attributes, results, CUdeviceptr), CUDA 7.0; cuDeviceGet(CUdevice
 * *, ordinal) and cuDeviceGetAttribute(int *, attribute, CUdevice), CUDA 2.0;
 * cuMemGetHandleForAddressRange(void *handle, CUdeviceptr, size_t, type, flags), CUDA 11.7. */
#ifndef DRIVER_FILE
#define DRIVER_FILE "libcuda.so.1"
#endif
typedef int pointer_attributes_fn(unsigned n, const int *attributes, void **results,
				  unsigned long long address);
typedef int device_get_fn(int *device, int ordinal);
typedef int device_attribute_fn(int *value, int attribute, int device);
typedef int range_handle_fn(void *handle, unsigned long long address, size_t bytes, int type,
			    unsigned long long flags);

enum {
	ATTRIBUTE_MEMORY_TYPE = 2,
	ATTRIBUTE_IS_MANAGED = 8,
	ATTRIBUTE_DEVICE_ORDINAL = 9,
	DRIVER_MEMORY_OF_DEVICE = 2,
	DEVICE_ATTRIBUTE_DMA_BUFS = 124,
	RANGE_DMA_BUF = 1,
	DRIVER_OK = 0
};

/* Returns a handle of the driver, or NULL if no driver is in the process. A search goes through all
 * libraries, and every step looks up the owner of each of the application's tensors. The handle is
 * therefore kept once it is found. */
static void *loaded_driver(void)
{
	static void *_Atomic kept;
	void *driver = kept;

	if (!driver)
		kept = driver = dlopen(DRIVER_FILE, RTLD_NOW | RTLD_NOLOAD);
	return driver;
}

/* *function becomes NULL if no driver is in the process, or if the driver lacks the function. */
static void driver_function(const char *name, void *function)
{
	void *driver = loaded_driver();
	void *symbol = driver ? dlsym(driver, name) : NULL;

	memcpy(function, &symbol, sizeof(symbol));
}

static pointer_attributes_fn *pointer_attributes(void)
{
	static pointer_attributes_fn *_Atomic known;
	pointer_attributes_fn *function = known;

	if (!function) {
		driver_function("cuPointerGetAttributes", &function);
		known = function;
	}
	return function;
}

/* Returns 1 if the error means that the process cannot have device memory: the driver does not know
 * the pointer, was never initialised (or only before a fork), or cannot be initialised. */
static int driver_has_no_memory(int error)
{
	switch (error) {
	case 1:   /* CUDA_ERROR_INVALID_VALUE */
	case 3:   /* CUDA_ERROR_NOT_INITIALIZED */
	case 4:   /* CUDA_ERROR_DEINITIALIZED */
	case 34:  /* CUDA_ERROR_STUB_LIBRARY */
	case 46:  /* CUDA_ERROR_DEVICE_UNAVAILABLE */
	case 100: /* CUDA_ERROR_NO_DEVICE */
	case 201: /* CUDA_ERROR_INVALID_CONTEXT */
	case 802: /* CUDA_ERROR_SYSTEM_NOT_READY */
	case 803: /* CUDA_ERROR_SYSTEM_DRIVER_MISMATCH */
	case 804: /* CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE */ return 1;
	default: return 0;
	}
}

/* Returns 1 if driver and current device export dma-bufs. *handle receives the driver's
 * function. */
static int device_exports(range_handle_fn **handle)
{
	device_get_fn *get;
	device_attribute_fn *attribute;
	int current, device, exports = 0;

	driver_function("cuMemGetHandleForAddressRange", handle);
	driver_function("cuDeviceGet", &get);
	driver_function("cuDeviceGetAttribute", &attribute);
	return *handle && get && attribute && cudaGetDevice(&current) == cudaSuccess &&
	       get(&device, current) == DRIVER_OK &&
	       attribute(&exports, DEVICE_ATTRIBUTE_DMA_BUFS, device) == DRIVER_OK && exports;
}

/* ---- memory ---------------------------------------------------------------- */

/* Smaller requests would get pages that other allocations share, and such pages cannot be
 * exported. */
enum { DEVICE_PAGE = 2 << 20 };

/* Returns 1 if p is device memory, of device *owner, or managed memory that kernels can use.
 * Returns 0 if p is host memory. */
static int pointer_owner(const void *p, int *owner, int *is_managed)
{
	static const int attributes[] = { ATTRIBUTE_MEMORY_TYPE, ATTRIBUTE_IS_MANAGED,
					  ATTRIBUTE_DEVICE_ORDINAL };
	uint32_t type = 0, managed = 0;
	int error;
	void *results[] = { &type, &managed, owner };
	pointer_attributes_fn *const ask = pointer_attributes();

	*owner = 0;
	error = ask ? ask(3, attributes, results, (unsigned long long)(uintptr_t)p) : DRIVER_OK;
	if (driver_has_no_memory(error))
		return 0;
	if (cuda_check((cudaError_t)error, "asking what memory a pointer is"))
		return -1;
	*is_managed = managed != 0;
	/* Pinned memory is host memory. The host can also use managed memory, but only after the
	 * kernels that write it have ended. Kernels of the same stream need not wait for those
	 * kernels, so this function treats managed memory as device memory. */
	return type == DRIVER_MEMORY_OF_DEVICE || managed;
}

int cuda_find(const void *p, int *device)
{
	int owner, current, managed = 0;
	const int found = pointer_owner(p, &owner, &managed);

	if (found <= 0)
		return found;
	if (cuda_check(cudaGetDevice(&current), "asking for the device"))
		return -1;
	/* Buffers and the default stream would belong to the current device. They would not wait
	 * for the kernels of the device that owns p. */
	if (!managed && owner != current)
		return cuda_refuse("it is on GPU %d, but the calling thread uses GPU %d: call "
				   "cudaSetDevice(%d) first, or give the model a stream of GPU %d",
				   owner, current, owner, owner);
	*device = current;
	return 1;
}

int cuda_enter(const void *p, int *before)
{
	int owner, managed = 0;

	if (pointer_owner(p, &owner, &managed) <= 0 || managed ||
	    cuda_check(cudaGetDevice(before), "asking for the device") || *before == owner)
		return 0;
	return !cuda_check(cudaSetDevice(owner), "choosing the device");
}

void cuda_leave(int before)
{
	if (cudaSetDevice(before) != cudaSuccess)
		cudaGetLastError(); /* cannot fail, because this device was current before */
}

static int alloc_device(size_t bytes, struct memory *out)
{
	*out = (struct memory){ .place = MEMORY_DEVICE, .bytes = bytes, .fd = -1 };
	if (cuda_check(cudaGetDevice(&out->device), "asking for the device"))
		return -1;
	return cuda_check(cudaMalloc(&out->address, bytes ? bytes : 1), "allocating a buffer");
}

/* Allocates device memory. If driver and device support it, exports a dma-buf that contains all of
 * this memory. */
static int alloc_exported(size_t bytes, struct memory *out)
{
	const size_t whole = (bytes + DEVICE_PAGE - 1) / DEVICE_PAGE * DEVICE_PAGE;
	range_handle_fn *handle;
	int fd;

	if (!bytes || !device_exports(&handle))
		return alloc_device(bytes, out);
	if (alloc_device(whole, out))
		return -1;
	out->bytes = bytes;
	if (handle(&fd, (unsigned long long)(uintptr_t)out->address, whole, RANGE_DMA_BUF, 0) ==
	    DRIVER_OK)
		out->fd = fd;
	return 0;
}

static int alloc_host(size_t bytes, struct memory *out)
{
	*out = (struct memory){ .place = MEMORY_HOST, .bytes = bytes, .fd = -1 };
	return cuda_check(cudaHostAlloc(&out->address, bytes, cudaHostAllocDefault),
			  "allocating pinned memory");
}

int cuda_alloc(enum memory_place place, size_t bytes, struct memory *out)
{
	enum cudaStreamCaptureMode mode;
	struct memory m;
	int rc;

	capture_allow(&mode);
	rc = place == MEMORY_EXPORTED ? alloc_exported(bytes, &m) :
	     place == MEMORY_DEVICE   ? alloc_device(bytes, &m) :
					alloc_host(bytes, &m);
	capture_restore(mode);
	if (!rc)
		*out = m;
	return rc;
}

void cuda_release(struct memory *memory)
{
	enum cudaStreamCaptureMode mode;
	cudaError_t error;

	if (!memory || !memory->address)
		return;
	if (memory->fd >= 0)
		close(memory->fd);
	capture_allow(&mode);
	error = memory->place == MEMORY_DEVICE ? cudaFree(memory->address) :
						 cudaFreeHost(memory->address);
	if (error != cudaSuccess)
		cudaGetLastError(); /* the application must not see this error */
	capture_restore(mode);
	*memory = (struct memory){ .fd = -1 };
}

int cuda_pin(void *host, size_t bytes, void **there)
{
	/* The memory is pinned for every device, because it is not known here which device will
	 * push. */
	const unsigned flags = cudaHostRegisterPortable | cudaHostRegisterMapped;
	enum cudaStreamCaptureMode mode;
	int rc;

	capture_allow(&mode);
	rc = cuda_check(cudaHostRegister(host, bytes, flags), "pinning memory of messages");
	capture_restore(mode);
	if (rc)
		return -1;
	if (!cuda_check(cudaHostGetDevicePointer(there, host, 0),
			"asking for pinned memory's address"))
		return 0;
	cuda_unpin(host);
	return -1;
}

void cuda_unpin(void *host)
{
	enum cudaStreamCaptureMode mode;

	if (!host)
		return;
	capture_allow(&mode);
	if (cudaHostUnregister(host) != cudaSuccess)
		cudaGetLastError(); /* the application must not see this error */
	capture_restore(mode);
}

int cuda_copy(void *to, const void *from, size_t bytes, void *stream)
{
	if (!bytes)
		return 0;
	return cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "a copy");
}

int cuda_zero(void *to, size_t bytes, void *stream)
{
	if (!bytes)
		return 0;
	return cuda_check(cudaMemsetAsync(to, 0, bytes, stream), "clearing memory");
}

int cuda_wait(void *stream)
{
	return cuda_check(cudaStreamSynchronize(stream), "an earlier kernel or copy");
}

int cuda_stream_open(void **stream)
{
	enum cudaStreamCaptureMode mode;
	cudaStream_t made = NULL;
	int rc;

	capture_allow(&mode);
	rc = capture_stream_open(&made);
	capture_restore(mode);
	*stream = made;
	return rc;
}

void cuda_stream_close(void *stream)
{
	if (stream && cudaStreamDestroy(stream) != cudaSuccess)
		cudaGetLastError(); /* the application must not see this error */
}
