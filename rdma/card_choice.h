/* SPDX-License-Identifier: BSD-3-Clause
 * Chooses the network card that each rank of a node uses: the card nearest to its GPU or, without
 * a GPU, nearest to its processors. If several cards are equally near, ranks take them in turn, so
 * that the ranks of a node use all of them. The same rules serve verbs and libfabric. The decision
 * is pure; cards_order_here() makes it for this process. */
#ifndef RDMA_CARD_CHOICE_H
#define RDMA_CARD_CHOICE_H
#include "rdma/nearness.h"
#include <stdint.h>

enum { CARDS_MOST = 64 };

struct card {
	const char *name; /* the operating system's name, such as "mlx5_0" */
	const char *bus;  /* PCI bus id; "": hwloc finds the card by its name */
	/* Ranks are spread only over cards with the same number. For libfabric the number stands
	 * for a network. For verbs, which opens another card for peers in another network, it
	 * stands for a link layer and a speed. */
	uint64_t fabric;
};

/* The properties of a rank that decide its choice of a card. */
struct card_user {
	const char *gpu; /* PCI bus id; "": none */
	/* The processors that the rank may use (a hwloc_const_bitmap_t); NULL: not known. */
	const struct hwloc_bitmap_s *processors;
	/* the rank's number among the n_local ranks of the node; n_local is 0 if the number is not
	 * known */
	int local, n_local;
};

struct card_choice {
	int card;
	/* the nearness of the card to the GPU or, without a GPU, to the processors */
	struct nearness near;
	int as_near; /* the number of cards that are as near as this one, which is included */
};

struct hwloc_topology;
/* Sets out[0 .. n-1] to the cards in the order in which this rank tries them; n <= CARDS_MOST. A
 * rank without a GPU begins with the fabric of cards[0], as its peers do. If topology is NULL,
 * nothing is known about the node, and ranks are spread over all cards. */
void cards_order(struct hwloc_topology *topology, const struct card *cards, size_t n,
		 const struct card_user *user, struct card_choice *out);

/* Does the same for this process. It uses the process's GPU, its processors, and the local rank
 * that the launcher set (Slurm, torchrun, Open MPI, MPICH). gpu receives the GPU's bus id, or
 * "". */
void cards_order_here(const struct card *cards, size_t n, struct card_choice *out,
		      char gpu[BUS_ID_TEXT]);

/* Does the same for another rank of this node, which uses this GPU ("" means none) and is not bound
 * to processors. */
void cards_order_of(const struct card *cards, size_t n, const char *gpu, int local, int n_local,
		    struct card_choice *out);

/* Writes why a card was chosen among n usable ones, for example "below the same PCIe switch as GPU
 * 0000:1b:00.0, one of 2 that ranks take in turn". */
void card_choice_text(const struct card_choice *choice, const char *gpu, size_t n, char *text,
		      size_t cap);
#endif
