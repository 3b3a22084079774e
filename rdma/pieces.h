/* SPDX-License-Identifier: BSD-3-Clause
 * The registrations through which a card reads and fills local memory of one region, in one
 * protection domain. Without memory windows each peer has its own domain, and gets pieces only for
 * the parts of the region that its transfers use, so that the card does not register the whole
 * region once per peer. Called by rights.c, which adds and ends pieces with its lock held. */
#ifndef RDMA_PIECES_H
#define RDMA_PIECES_H
#include "rdma/region.h"
#include "rdma/register.h"
#include "rdma/verbs_device.h"

struct piece; /* a list of pieces; NULL is the empty list */

/* Finds the key of the n bytes at `at`. Returns 1, or 0 if no single piece covers all of them. */
int pieces_find(const struct piece *first, const void *at, size_t n, uint32_t *lkey_out);
/* Registers these bytes. *method: for device memory, how the card reaches the region. Returns 0 or
 * SLUICE_E*, as register.h does. */
int pieces_add(struct piece **first, struct ibv_pd *pd, const struct verbs_device *device,
	       const struct region *region, enum relaxed relaxed, const void *at, size_t n,
	       enum method *method);
/* Ends all pieces. */
void pieces_end(struct piece **first);
#endif
