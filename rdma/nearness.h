/* SPDX-License-Identifier: BSD-3-Clause
 * How near network cards are to GPUs: the depth of the last common ancestor in the PCIe tree.
 * Called by card_choice.c and by sluice-info. */
#ifndef RDMA_NEARNESS_H
#define RDMA_NEARNESS_H
#include <stddef.h>

enum { NEARNESS_GPUS = 16, NEARNESS_CARDS = 32, BUS_ID_TEXT = 32, CARD_NAME = 64 };

struct nearness {
	int depth;         /* depth of the last common ancestor, or -1 if unknown; a larger depth
			      is nearer */
	const char *where; /* the relation in words, such as "below the same PCIe switch"; static */
};

/* This machine's NVIDIA GPUs and RDMA devices, and the nearness of each pair. */
struct neighbours {
	size_t n_gpus, n_cards;
	char gpu[NEARNESS_GPUS][BUS_ID_TEXT];
	char card[NEARNESS_CARDS][CARD_NAME];
	struct nearness pair[NEARNESS_GPUS][NEARNESS_CARDS];
};
/* Returns 0, or -1 if hwloc does not know. */
int nearness_all(struct neighbours *out);

extern const struct nearness nearness_unknown;
#ifdef HAVE_HWLOC
struct hwloc_topology;
struct hwloc_obj;
/* Returns the tree of this machine's hardware with its PCI devices, read from the kernel's files;
 * NULL: not known. */
struct hwloc_topology *nearness_topology(void);
/* Returns the RDMA device of this name, or NULL. */
struct hwloc_obj *nearness_card(struct hwloc_topology *t, const char *name);
int nearness_is_gpu(struct hwloc_obj *pci);
/* nearness_between() returns the nearness of two objects, either of which may be NULL.
 * nearness_at() returns the nearness of two objects whose nearest common ancestor is `meeting`. */
struct nearness nearness_between(struct hwloc_obj *gpu, struct hwloc_obj *card);
struct nearness nearness_at(struct hwloc_obj *meeting);
#endif
#endif
