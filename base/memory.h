/* SPDX-License-Identifier: BSD-3-Clause
 * A piece of memory that a network card may be given: host memory by its address, device memory by
 * what its allocator can say about it. gpu/ allocates and exports it, rdma/ registers it. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H
#include <stddef.h>
#include <stdint.h>

enum memory_place { MEMORY_HOST, MEMORY_DEVICE };

struct memory {
	enum memory_place place;
	void *address; /* host: where it is; device: its virtual address there, not to be read
			* here */
	size_t bytes;
	int fd;             /* device: a dma-buf that holds it, -1 if it could not be exported */
	uint64_t fd_offset; /* device: where in the dma-buf it begins */
};
#endif
