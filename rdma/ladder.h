/* SPDX-License-Identifier: BSD-3-Clause
 * Registering memory that may be a GPU's: as host memory, by its dma-buf, through the driver's peer
 * memory, and if none of these works by staging in pinned host memory. A rung is taken only after
 * the card has really written that memory and read it back. Called by the verbs transport. */
#ifndef RDMA_LADDER_H
#define RDMA_LADDER_H
#include "base/memory.h"
#include "rdma/region.h"
#include "rdma/verbs_device.h"

enum ladder_rung { LADDER_HOST, LADDER_DMABUF, LADDER_PEERMEM, LADDER_STAGING };

struct ladder_memory {
	enum ladder_rung rung;
	struct ibv_mr *mr;
	uint64_t address;       /* what work requests say */
	struct region *staging; /* LADDER_STAGING: the bytes are copied through it */
	char reason[256];       /* why this rung and not one above it */
};

/* Registers with access (IBV_ACCESS_*, local write is added for device memory) in pd; device is the
 * open device of pd. Logs the choice once. Errors: SLUICE_ENOMEM, SLUICE_EDEVICE (not even
 * staging). */
int ladder_register(struct ibv_pd *pd, const struct verbs_device *device,
		    const struct memory *memory, int access, struct ladder_memory *out);
/* Accepts one that is all zero. */
void ladder_end(struct ladder_memory *memory);

/* Lets the card write the first bytes of mr and read them back, through a pair of queue pairs that
 * are connected to each other. What was there is put back. 0, or -1 with the sentence in why. */
int ladder_prove(struct ibv_pd *pd, const struct verbs_device *device, const struct ibv_mr *mr,
		 uint64_t address, size_t bytes, char why[160]);
#endif
