/* SPDX-License-Identifier: BSD-3-Clause
 * What the verbs transport has made of each region, and for whom. Two ways to keep a peer within
 * its rights. Memory windows of type 2B: one domain, one registration of a region, and for each
 * peer a window bound to its queue pair, which ends with that queue pair. Else: a domain for each
 * peer, and a registration in it for each peer. Used by verbs_register.c, verbs_window.c and
 * verbs_keys.c. */
#ifndef RDMA_VERBS_REGISTER_H
#define RDMA_VERBS_REGISTER_H
#include "rdma/ladder.h"
#include "rdma/verbs.h"

/* One peer's part in a region. At the own rank's place: what is common to all peers. */
struct keys {
	struct ibv_mr *remote; /* covers what the peer may reach, and nothing more */
	struct ibv_mr *local;  /* for our own work requests */
	struct ibv_mw *window; /* over remote; bound to the present queue pair of the peer */
	uint32_t rkey;
	int offered;     /* the peer was given a key, and gets the new one when that changes */
	int unreachable; /* device memory: the card was seen not to reach it */
};

struct verbs_registration {
	struct registration registration;
	struct verbs *verbs;
	struct verbs_registration *next; /* of the transport */
	const struct region *region;
	uint32_t id;      /* what peers call it when keys change */
	struct keys at[]; /* [rank] */
};

/* What the peer reaches the region through. */
static inline struct ibv_mr *keys_remote(const struct verbs_registration *r, int rank)
{
	return r->at[rank].remote != NULL ? r->at[rank].remote : r->at[r->verbs->rank].remote;
}
#endif
