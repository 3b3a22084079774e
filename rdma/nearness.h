/* SPDX-License-Identifier: BSD-3-Clause
 * How near network cards are to GPUs: the depth of the last common ancestor in the PCIe tree.
 * Called by verbs_device.c, which prefers the card nearest to this process's GPU, and by
 * sluice-info. */
#ifndef RDMA_NEARNESS_H
#define RDMA_NEARNESS_H
#include <stddef.h>

enum { NEARNESS_GPUS = 16, NEARNESS_CARDS = 32, BUS_ID_TEXT = 32, CARD_NAME = 64 };

struct nearness {
	int depth;         /* of the last common ancestor; larger is nearer, -1: unknown */
	const char *where; /* static: "below the same PCIe switch" */
};

/* Sets out[i] to the nearness of RDMA device cards[i] and the PCI device bus_id ("0000:1b:00.0").
 * Without hwloc, all are unknown. */
void nearness_of(const char *bus_id, const char *const *cards, size_t n, struct nearness *out);

/* This machine's NVIDIA GPUs and RDMA devices, and each pair. */
struct neighbours {
	size_t n_gpus, n_cards;
	char gpu[NEARNESS_GPUS][BUS_ID_TEXT];
	char card[NEARNESS_CARDS][CARD_NAME];
	struct nearness pair[NEARNESS_GPUS][NEARNESS_CARDS];
};
/* Returns 0, or -1 if hwloc does not know. */
int nearness_all(struct neighbours *out);
#endif
