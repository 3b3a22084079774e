/* SPDX-License-Identifier: BSD-3-Clause
 * See network.h. Called by reach.c and verbs_record.c. */
#include "rdma/network.h"
#include <stddef.h>
#include <string.h>

enum { BYTE_BITS = 8, V4_BYTES = 4, V6_BYTES = 16, FAMILIES = 16 };

struct network network_of(uint8_t kind, int family, const uint8_t address[16], unsigned prefix)
{
	const unsigned bytes = family == 4 ? V4_BYTES : V6_BYTES;
	struct network n = { .kind = (uint8_t)(kind * FAMILIES + family) };

	if (prefix > bytes * BYTE_BITS)
		prefix = bytes * BYTE_BITS;
	n.prefix = (uint8_t)prefix;
	memcpy(n.address, address, prefix / BYTE_BITS);
	if (prefix % BYTE_BITS)
		n.address[prefix / BYTE_BITS] = (uint8_t)(address[prefix / BYTE_BITS] &
							  0xff00 >> prefix % BYTE_BITS);
	return n;
}

static int has_routes(const struct network *n)
{
	return n->kind % FAMILIES != NETWORK_BY_GID;
}

/* Returns a cost for the entries a and b of the two ranks' lists; lower is better. Entry 0 is the
 * card that a rank prefers, and costs less than the others. An earlier entry costs less than a
 * later one. */
static int cost(int a, int b)
{
	return 2 * NETWORKS_MOST * ((a != 0) + (b != 0)) + a + b;
}

/* The networks that serve a pair equally well. Two pairs of cards with the same cost never share a
 * network, because pairing one card of each pair would then cost less. The network alone therefore
 * identifies the two cards, on both sides. */
struct tie {
	int cost;
	unsigned sum; /* sum of all bytes of these networks */
	struct pairing least, most;
};

static void take_network(struct tie *tie, const struct network *a, const struct pairing *it)
{
	const struct network *n = &a[it->a];
	const int costs = cost(it->a, it->b);

	if (tie->least.a >= 0 && costs > tie->cost)
		return;
	if (tie->least.a < 0 || costs < tie->cost)
		*tie = (struct tie){ costs, 0, *it, *it };
	for (size_t i = 0; i < sizeof(n->address); i++)
		tie->sum += n->address[i];
	if (memcmp(n, &a[tie->least.a], sizeof(*n)) < 0)
		tie->least = *it;
	if (memcmp(n, &a[tie->most.a], sizeof(*n)) > 0)
		tie->most = *it;
}

struct pairing network_pairing(const struct network *a, int n_a, const struct network *b, int n_b)
{
	struct tie tie = { .least = { PAIRING_NONE, -1, -1 } };

	for (int i = 0; i < n_a; i++)
		for (int j = 0; j < n_b; j++)
			if (!memcmp(&a[i], &b[j], sizeof(*a)))
				take_network(&tie, a,
					     &(struct pairing){
						     i || j ? PAIRING_OTHER : PAIRING_OWN, i, j });
	if (tie.least.a >= 0)
		return tie.sum % 2 ? tie.least : tie.most;
	if (n_a && n_b && a[0].kind == b[0].kind && has_routes(&a[0]))
		return (struct pairing){ PAIRING_ROUTE, 0, 0 };
	return tie.least;
}
