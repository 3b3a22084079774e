/* SPDX-License-Identifier: BSD-3-Clause
 * A block of memory that can be registered with a network card: host memory by its address, device
 * memory by a description from its allocator. gpu/ allocates and exports it, rdma/ registers it. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H
#include <stddef.h>
#include <stdint.h>

/* MEMORY_EXPORTED only occurs in a request. The result of the request is MEMORY_DEVICE, with a
 * dma-buf if one could be exported. */
enum memory_place { MEMORY_HOST, MEMORY_DEVICE, MEMORY_EXPORTED };

struct memory {
	enum memory_place place;
	void *address; /* host address, or the virtual address on the device, which the host
			  cannot read */
	size_t bytes;
	int fd; /* for device memory: a dma-buf that contains it, or -1 if it was not exported */
	uint64_t fd_offset; /* for device memory: its offset in the dma-buf */
	int device;         /* for device memory: the number of the device in this process */
};
#endif
