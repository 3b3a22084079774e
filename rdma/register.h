/* SPDX-License-Identifier: BSD-3-Clause
 * Registers memory with a card. A capability that the card claims is tested between two queue pairs
 * of this process before Sluice relies on it. A GPU's memory, which can only be a source of puts,
 * is registered by its dma-buf, or else through the driver's peer memory. Called by rights.c. */
#ifndef RDMA_REGISTER_H
#define RDMA_REGISTER_H
#include "base/memory.h"
#include "rdma/region.h"
#include "rdma/verbs_device.h"

enum { PROVE_WHY_BYTES = 160 };

/* Regions for which a card may use relaxed ordering. */
enum relaxed { RELAXED_NONE, RELAXED_MARKED, RELAXED_ALL };

/* Returns the access rights of a registration by which peers reach a region, either through its
 * windows or directly. */
int register_access(const struct region *region, int windows, enum relaxed relaxed);
/* Returns the access rights of a registration for work requests of this rank. */
int register_local_access(const struct region *region, enum relaxed relaxed);

/* Registers host memory by ibv_reg_mr(). If the driver refuses relaxed ordering, registers without
 * it. Checks the limit on locked memory first, and then fails with a message that names the
 * remedy. */
int register_host(struct ibv_pd *pd, void *base, size_t bytes, int access, const char *what,
		  struct ibv_mr **out);

/* Ends a registration, and sets it to NULL. Accepts NULL. */
void register_end(struct ibv_mr **mr);

/* How the card reaches device memory. */
enum method { METHOD_UNTRIED, METHOD_DMABUF, METHOD_PEER_MEMORY, METHOD_NONE };

/* Registers device memory in pd of the open device `device`. If *method is METHOD_UNTRIED, tests
 * the methods until the card can write that memory and read it back, restores the old content, and
 * sets *method. Otherwise uses *method without the test, which takes time. Whenever the method
 * changes, logs it, and the reason why no better one works. SLUICE_ENOSUPP is not logged. It means
 * that the card cannot reach that memory, and the message lists the methods that were tried. */
int register_device_memory(struct ibv_pd *pd, const struct verbs_device *device,
			   const struct memory *memory, enum method *method, struct ibv_mr **out);

/* Returns 0 if the device has memory windows of type 2B and a window for writing refuses to be
 * read, otherwise -1 and why. *most_out: the length of the longest window that the driver accepts.
 * *relaxed becomes RELAXED_NONE if windows work only over registrations without relaxed ordering.
 */
int prove_windows(struct ibv_pd *pd, const struct verbs_device *device, enum relaxed *relaxed,
		  uint64_t *most_out, char why[PROVE_WHY_BYTES]);
#endif
