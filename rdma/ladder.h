/* SPDX-License-Identifier: BSD-3-Clause
 * Registering a GPU's memory as a source of puts: by its dma-buf, else through the driver's peer
 * memory. A rung counts only after the card has really written that memory and read it back. Also
 * the plain registration of host memory. Called by the verbs transport. */
#ifndef RDMA_LADDER_H
#define RDMA_LADDER_H
#include "base/memory.h"
#include "rdma/verbs_device.h"

/* ibv_reg_mr with the memory limit checked before it, and an error that says what to do. */
int register_host(struct ibv_pd *pd, void *base, size_t bytes, int access, const char *what,
		  struct ibv_mr **out);

/* Registers device memory in pd, whose open device is described by device. Logs which rung was
 * taken, and why not one above it, whenever that changes. SLUICE_ENOSUPP, which is not logged: the
 * card does not reach that memory; the message says what was tried. */
int ladder_register(struct ibv_pd *pd, const struct verbs_device *device,
		    const struct memory *memory, struct ibv_mr **out);
#endif
