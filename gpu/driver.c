/* SPDX-License-Identifier: BSD-3-Clause
 * See driver.h. Written against the driver's ABI rather than its header, which is not installed
 * everywhere: cuMemGetHandleForAddressRange(void *handle, CUdeviceptr, size_t,
 * CUmemRangeHandleType, flags), CUDA 11.7. */
#include "gpu/driver.h"
#include <cuda_runtime_api.h>
#include <string.h>

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

int driver_exports(void)
{
	return range_handle() != NULL;
}

int driver_export(void *address, size_t bytes, int *fd, uint64_t *offset)
{
	range_handle_fn *handle = range_handle();

	*offset = 0;
	*fd = -1;
	if (handle && handle(fd, (unsigned long long)(uintptr_t)address, bytes, RANGE_DMA_BUF, 0) ==
			      DRIVER_OK)
		return 0;
	*fd = -1;
	return -1;
}
