/* SPDX-License-Identifier: BSD-3-Clause
 * See memory.h. A buffer is exported as a dma-buf (file, offset, length) where driver and device
 * support that. Other buffers are registered in another way or staged, by rdma/ladder.c.
 *
 * A network card reads device memory and never writes it. It reads completed data: the writes of a
 * kernel are visible over PCIe once the host has waited for it, or a later report (parts.cu)
 * follows it. Writes by a network card would have to be flushed before a kernel reads them. */
#include "gpu/memory.h"
#include "gpu/context.h"
#include "gpu/failure.h"
#include <string.h>
#include <unistd.h>

/* ---- dma-bufs -------------------------------------------------------------- */

/* The runtime has no function for this one call of the driver, so it is looked up through the
 * runtime. This allows the module to be loaded where there is no driver. It relies on the driver's
 * ABI and not on its header, which is not installed everywhere: cuMemGetHandleForAddressRange(void
 * *handle, CUdeviceptr, size_t, CUmemRangeHandleType, flags), CUDA 11.7. */
enum { SINCE_CUDA = 11070, RANGE_DMA_BUF = 1, DRIVER_OK = 0 };
typedef int range_handle_fn(void *handle, unsigned long long address, size_t bytes, int type,
			    unsigned long long flags);

static range_handle_fn *range_handle(void)
{
	enum cudaDriverEntryPointQueryResult found;
	range_handle_fn *function = NULL;
	void *entry = NULL;

	if (cudaGetDriverEntryPointByVersion("cuMemGetHandleForAddressRange", &entry, SINCE_CUDA,
					     cudaEnableDefault, &found) != cudaSuccess) {
		cudaGetLastError();
		return NULL;
	}
	if (found == cudaDriverEntryPointSuccess)
		memcpy(&function, &entry, sizeof(entry));
	return function;
}

/* Whether the driver supports dma-bufs. */
static int driver_exports(void)
{
	return range_handle() != NULL;
}

/* Exports a dma-buf that contains address[0..bytes), a whole allocation, and its offset there. *fd
 * is -1 if driver or device cannot. */
static void driver_export(void *address, size_t bytes, int *fd, uint64_t *offset)
{
	range_handle_fn *handle = range_handle();

	*offset = 0;
	*fd = -1;
	if (handle && handle(fd, (unsigned long long)(uintptr_t)address, bytes, RANGE_DMA_BUF, 0) !=
			      DRIVER_OK)
		*fd = -1;
}

/* ---- memory ---------------------------------------------------------------- */

/* The driver cuts smaller requests out of pages that are shared with others and cannot be
 * exported. */
enum { DEVICE_PAGE = 2 << 20 };

int cuda_find(const void *p, int *device)
{
	struct cudaPointerAttributes attributes;
	cudaError_t error = cudaPointerGetAttributes(&attributes, p);

	if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver) {
		cudaGetLastError();
		return 0; /* there is no device, and so no device memory */
	}
	if (error == cudaErrorInvalidValue) {
		cudaGetLastError();
		return 0; /* older runtimes return this for memory that they do not know */
	}
	if (cuda_check(error, "asking what memory a pointer is"))
		return -1;
	/* Managed and pinned memory can be used by the host as well. */
	if (attributes.type != cudaMemoryTypeDevice)
		return 0;
	int current;
	if (cuda_check(cudaGetDevice(&current), "asking for the device"))
		return -1;
	/* Buffers and the default stream would belong to another device, and would not wait for
	 * this device's kernels. */
	if (attributes.device != current)
		return cuda_refuse("it is on GPU %d, but the calling thread uses GPU %d: call "
				   "cudaSetDevice(%d) first",
				   attributes.device, current, attributes.device);
	*device = current;
	return 1;
}

static int alloc_device(size_t bytes, struct memory *out)
{
	const size_t granule = driver_exports() ? DEVICE_PAGE : 1;
	const size_t whole = (bytes + granule - 1) / granule * granule;
	int rc;

	*out = (struct memory){ .place = MEMORY_DEVICE, .bytes = bytes, .fd = -1 };
	rc = cuda_check(cudaMalloc(&out->address, whole ? whole : 1), "allocating a buffer");
	if (!rc && granule > 1)
		driver_export(out->address, whole, &out->fd, &out->fd_offset);
	return rc;
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
	rc = place == MEMORY_DEVICE ? alloc_device(bytes, &m) : alloc_host(bytes, &m);
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
	/* For every device, because it is not known here which one will push. */
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
	return cuda_check(cudaStreamSynchronize(stream), "a kernel or copy before");
}
