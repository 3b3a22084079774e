/* SPDX-License-Identifier: BSD-3-Clause
 * Measures the properties of a card that Sluice depends on: opens the card twice and connects both
 * to each other over the network. Called by sluice-info. */
#ifndef RDMA_CARD_FACTS_H
#define RDMA_CARD_FACTS_H
#include "rdma/register.h"
#include "rdma/transport.h"

struct card_facts {
	char device[64];
	int port;
	char no_windows[PROVE_WHY_BYTES]; /* the reason why memory windows are not used; "": they
					     are */
	uint64_t longest_window;          /* the most bytes that the driver binds to one window */
	uint32_t requests, inline_bytes;  /* limits of a queue pair */
	uint64_t pair_pinned;             /* bytes that the driver pins for a queue pair */
	int relaxed;                      /* a registration with relaxed ordering is accepted */
	int dmabuf; /* 0, or the errno value with which the card refuses a dma-buf */
	struct ibv_qp_attr side[2]; /* the client's and the server's, once connected */
};
/* Measures the facts of a card. config has the settings that choose the card. Returns 0 or
 * SLUICE_E*. */
int card_facts_measure(const struct transport_config *config, struct card_facts *out);

/* Converts the code of InfiniBand's "receiver not ready" (RNR) timer to microseconds. */
double card_facts_rnr_us(unsigned code);

/* The parts of a connected endpoint. verbs.c has the function. */
struct verbs_parts {
	const struct verbs_device *device;
	const struct queue_sizes *sizes;
	struct ibv_qp *qp;
};
struct verbs_parts verbs_parts_of(struct endpoint *e);
#endif
