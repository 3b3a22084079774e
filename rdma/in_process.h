/* SPDX-License-Identifier: BSD-3-Clause
 * State that the ranks in one process share (a simulated job, runtime/job/simulate.c): a list of
 * their transports, and regions that they reach by address. Memory files for hundreds of ranks
 * would need more mappings than a process may have. Used by region.c and self.c, by one thread at a
 * time. */
#ifndef RDMA_IN_PROCESS_H
#define RDMA_IN_PROCESS_H
#include "rdma/region.h"
#include "rdma/transport.h"

struct neighbours {
	int size;
	struct transport **at; /* [rank]; NULL: the transport is not open yet, or closed */
};

/* With `on` 1, region_open() on this thread makes regions of this kind. With 0, it makes memory
 * files. */
void in_process_regions(int on);
int in_process_regions_on(void);

struct common; /* memory that lives until its last user releases it */
int in_process_region_open(size_t bytes, unsigned access, const char *name, struct region **out);
void *common_base(struct common *common);
void common_release(struct common **common);

/* Writes a descriptor of the region for a neighbour. */
void in_process_describe(const struct region *region, uint8_t out[REGION_HEAD_BYTES]);
/* Finds the memory of a described region. Returns SLUICE_EWIRE unless this process wrote the
 * descriptor, and SLUICE_EPEER if the region was closed since. *common_out is valid until
 * common_release(). */
int in_process_reach(const uint8_t descriptor[REGION_HEAD_BYTES], int peer, struct remote *remote,
		     struct common **common_out);
#endif
