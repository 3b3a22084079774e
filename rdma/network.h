/* SPDX-License-Identifier: BSD-3-Clause
 * The networks of a rank's cards, and the choice of the network through which two ranks connect.
 * Pure: the choice depends only on the two lists of networks, so both ranks make the same choice. A
 * transport reads the networks from a record (transport.h); runtime/job/reach.c compares them.
 *
 * A port of InfiniBand without an IP address belongs to the network of its subnet prefix and
 * partition. Ranks connect in it by GIDs and not by IP addresses (see carrier.h). No route
 * leads out of it, because rdma_cm finds routes by IP addresses. */
#ifndef RDMA_NETWORK_H
#define RDMA_NETWORK_H
#include <stdint.h>

enum { NETWORKS_MOST = 16 };

/* Networks are equal if memcmp() finds all bytes equal. */
struct network {
	uint8_t kind;   /* two networks of different kinds have no route to each other */
	uint8_t prefix; /* number of leading bits that name the network; the others are 0 */
	uint8_t address[16];
};

enum { NETWORK_BY_GID = 0 }; /* the family of a network without IP addresses */

/* Makes a network. The address is of family 4 or 6, in network order, or of NETWORK_BY_GID. A
 * prefix that is too long stands for a full address. */
struct network network_of(uint8_t kind, int family, const uint8_t address[16], unsigned prefix);

enum pairing_kind {
	PAIRING_OWN,   /* the first cards of both ranks share a network */
	PAIRING_OTHER, /* only other cards of the ranks' nodes share a network */
	PAIRING_ROUTE, /* no cards share a network; a route may lead between the first cards */
	/* the first cards are of different kinds or have no IP address, or a rank has none */
	PAIRING_NONE
};
struct pairing {
	enum pairing_kind kind;
	int a, b; /* the cards, as indices in the two lists; -1: none */
};

/* Chooses the cards by which two ranks connect. Each list begins with the card that its rank
 * prefers. The best choice is the first cards of both ranks, then the first card of one, then the
 * cards nearest to the fronts of the lists. If several networks are then equally good, the sum of
 * the bytes of their addresses decides: the ranks use the lowest network if it is odd, and the
 * highest network if it is even. This keeps one network from serving all pairs of ranks. */
struct pairing network_pairing(const struct network *a, int n_a, const struct network *b, int n_b);
#endif
