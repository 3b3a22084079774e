/* SPDX-License-Identifier: BSD-3-Clause
 * The checks every transport makes before it posts, so that all refuse the same things. */
#ifndef RDMA_TRANSFER_H
#define RDMA_TRANSFER_H
#include "rdma/transport.h"

/* Puts of at most so many bytes need no local region (verbs sends them inline). */
enum { TRANSFER_INLINE_BYTES = 64 };

static inline int transfer_permitted(const struct transfer *x)
{
	const unsigned needed = x->kind == TRANSFER_GET ? REGION_READ : REGION_WRITE;

	/* A notification without bytes touches no memory: any open region carries it. */
	return x->bytes == 0 || (x->remote->access & needed) != 0;
}

static inline int transfer_within_remote(const struct transfer *x)
{
	return x->bytes <= x->remote->bytes && x->offset <= x->remote->bytes - x->bytes;
}

static inline int transfer_within_local(const struct transfer *x)
{
	const struct region *region = x->local_region;
	const uintptr_t local = (uintptr_t)x->local;

	if (x->bytes == 0)
		return 1;
	if (!region)
		return local != 0 && x->kind != TRANSFER_GET && x->bytes <= TRANSFER_INLINE_BYTES;
	return local != 0 && local >= (uintptr_t)region->base && x->bytes <= region->bytes &&
	       local - (uintptr_t)region->base <= region->bytes - x->bytes;
}

/* Whether transfer_check() finds nothing wrong. It is inline for the transports that copy. Device
 * memory can only be the source of a put, on a transport whose card reads it where it is. */
static inline int transfer_right(const struct endpoint *e, const struct transfer *x)
{
	const struct region *region = x->local_region;

	return x->kind <= TRANSFER_GET && x->remote && x->remote->endpoint == e &&
	       transfer_permitted(x) && transfer_within_remote(x) && transfer_within_local(x) &&
	       (!region || !region->device ||
		(x->kind != TRANSFER_GET && e->transport->ops->in_place));
}

/* 0, or SLUICE_EINVAL: the remote is not this endpoint's, the transfer reaches beyond its end, its
 * access does not permit the transfer, or the local bytes lie outside the local region.
 * SLUICE_ENOSUPP: the local bytes are device memory, and this transport cannot read them there. */
int transfer_check(const struct endpoint *e, const struct transfer *transfer);

/* Whether an EVENT_DONE tells its end. */
static inline int transfer_ends(const struct transfer *transfer)
{
	return transfer->kind == TRANSFER_GET ? !transfer->quiet : transfer->report;
}

/* For the final statistics and for arrivals (runtime/job/heart.c): called once for each transfer
 * that was accepted. */
static inline void transfer_count(struct endpoint *e, const struct transfer *transfer)
{
	struct transport_counters *c = &e->transport->counters;
	const int notifies = transfer->kind == TRANSFER_PUT_NOTIFY;

	if (transfer->kind == TRANSFER_GET) {
		c->gets++;
		c->get_bytes += transfer->bytes;
		return;
	}
	c->puts++;
	c->put_bytes += transfer->bytes;
	c->notifies += (uint64_t)notifies;
	e->notifies += (uint64_t)notifies;
}
#endif
