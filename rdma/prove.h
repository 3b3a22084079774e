/* SPDX-License-Identifier: BSD-3-Clause
 * What a card says it can do is tried before anybody relies on it: between two queue pairs of this
 * process that are connected to each other. Called by ladder.c and rights.c. */
#ifndef RDMA_PROVE_H
#define RDMA_PROVE_H
#include "rdma/verbs_device.h"

enum { PROVE_WHY_BYTES = 160 };

/* Lets the card write the first bytes of mr and read them back. What was there is put back. 0, or
 * -1 with a sentence in why. */
int prove_memory(struct ibv_pd *pd, const struct verbs_device *device, const struct ibv_mr *mr,
		 uint64_t address, size_t bytes, char why[PROVE_WHY_BYTES]);

/* 0: the device has memory windows of type 2B, and a window for writing refuses to be read. -1 and
 * why not. */
int prove_windows(struct ibv_pd *pd, const struct verbs_device *device, char why[PROVE_WHY_BYTES]);
#endif
