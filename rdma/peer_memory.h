/* SPDX-License-Identifier: BSD-3-Clause
 * Memory of which each peer has a part. Room is made for several peers at a time, because only few
 * ranks of a large job connect, and parts never move, because a card may use them. Used by verbs.c
 * and ofi.c. */
#ifndef RDMA_PEER_MEMORY_H
#define RDMA_PEER_MEMORY_H
#include "rdma/region.h"
#include <stddef.h>
#include <stdint.h>

struct peer_memory {
	const char *name; /* of its regions */
	unsigned access;
	size_t stride; /* bytes of each part */
	struct peer_room {
		int first; /* the number of the first peer in this region */
		struct region *region;
	} * rooms;
	int n, peers; /* number of rooms, and of the peers for which they are enough */
};

static inline struct peer_memory peer_memory_new(const char *name, unsigned access, size_t stride)
{
	return (struct peer_memory){ .name = name, .access = access, .stride = stride };
}
void peer_memory_close(struct peer_memory *m);

/* Returns the number of peers for which there is room. */
static inline int peer_memory_peers(const struct peer_memory *m)
{
	return m->peers;
}
/* Makes room for this number of peers in all. Returns 0 or SLUICE_ENOMEM. */
int peer_memory_grow(struct peer_memory *m, int peers);
/* Returns for how many more peers to make room when the next one connects, because others may
 * follow. most: the peers that may connect in all. */
int peer_memory_more(const struct peer_memory *m, int most);

/* Returns the part of peer number i, for which there is room, and the region that contains it.
 * region_out may be NULL. */
uint8_t *peer_memory_at(const struct peer_memory *m, int i, const struct region **region_out);
#endif
