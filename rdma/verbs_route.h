/* SPDX-License-Identifier: BSD-3-Clause
 * Trials of routes to addresses outside a card's network. A trial is a request to connect to a port
 * at which nobody listens: the peer's kernel rejects it, so the answer proves the path there
 * and back although the peer's process does nothing. Called by verbs.c. */
#ifndef RDMA_VERBS_ROUTE_H
#define RDMA_VERBS_ROUTE_H
#include "rdma/transport.h"
#include "rdma/verbs_device.h"

/* Tries all peers, a few at a time, and sets `answered` of each. why receives the reason of the
 * first peer that does not answer. */
void verbs_routes_try(const struct verbs_device *own, struct route *routes, int n, int timeout_ms,
		      char *why, size_t cap);
#endif
