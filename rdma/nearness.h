/* SPDX-License-Identifier: BSD-3-Clause
 * How near network cards are to GPUs: how far down the PCIe tree their paths from the machine stay
 * one. Called by verbs_device.c, which prefers the card nearest to this process's GPU, and by
 * sluice-info. */
#ifndef RDMA_NEARNESS_H
#define RDMA_NEARNESS_H
#include <stddef.h>

enum { NEARNESS_GPUS = 16, NEARNESS_CARDS = 32, BUS_ID_TEXT = 32, CARD_NAME = 64 };

struct nearness {
	int depth; /* of the last thing both hang below; larger is nearer, -1: it is not known */
	const char *where; /* static: "below the same PCIe switch" */
};

/* Of each named RDMA device to the PCI device ("0000:1b:00.0"). Without hwloc, or when it cannot
 * say, none is known. */
void nearness_of(const char *bus_id, const char *const *cards, size_t n, struct nearness *out);

/* What this machine has: NVIDIA's GPUs, RDMA devices, and each pair. */
struct neighbours {
	size_t n_gpus, n_cards;
	char gpu[NEARNESS_GPUS][BUS_ID_TEXT];
	char card[NEARNESS_CARDS][CARD_NAME];
	struct nearness pair[NEARNESS_GPUS][NEARNESS_CARDS];
};
/* 0, or -1: hwloc cannot say. */
int nearness_all(struct neighbours *out);
#endif
