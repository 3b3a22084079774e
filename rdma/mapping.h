/* SPDX-License-Identifier: BSD-3-Clause
 * How a process reaches a region on the same machine: its descriptor as bytes, and a mapping of its
 * memory file, which is made only if the file begins with the same bytes. Used by region.c, which
 * writes these bytes, and by the transports self and shm. */
#ifndef RDMA_MAPPING_H
#define RDMA_MAPPING_H
#include "rdma/huge.h"
#include "rdma/region.h"
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct descriptor {
	pid_t pid;       /* the owner's process */
	int fd;          /* number of the memory file in the owner's table of files */
	unsigned access; /* REGION_*; a peer refuses 0 */
	uint64_t bytes;
	uint64_t nonce;
};

/* Returns the size of the file: one header page and the region, in whole pages. */
size_t region_header_bytes(void);
/* Returns the bytes of the file: one header page and the region, in whole pages. Returns 0 if no
 * file can have that size. Only HUGE_RESERVED changes the size. */
size_t region_file_bytes(size_t bytes, enum huge huge);

void descriptor_of(const struct region *region, uint8_t out[REGION_HEAD_BYTES]);
/* Decodes a descriptor, which may be hostile. Returns SLUICE_EWIRE unless every field is possible.
 * The message names `peer`. */
int descriptor_decode(const uint8_t bytes[REGION_HEAD_BYTES], int peer, struct descriptor *out);

/* A region that is mapped into this process. start and bytes describe the whole mapping. On huge
 * pages the mapping includes the header, because it must begin where a huge page does. */
struct mapping {
	void *base;
	void *start;
	size_t bytes;
};
/* Maps a region's file. Returns 0, or -1 and sets errno. */
int mapping_make(int fd, size_t bytes, int protection, enum huge huge, struct mapping *out);

/* Maps the region of fd, writable if access allows it, and never inherited by a child. The caller
 * still owns fd and may close it. Fails with SLUICE_EPEER (the file is not the described region),
 * SLUICE_EDEVICE or SLUICE_ENOMEM (cannot map). */
int mapping_open(int fd, int peer, const struct descriptor *descriptor, struct mapping *out);
void mapping_close(struct mapping *mapping);
#endif
