/* SPDX-License-Identifier: BSD-3-Clause
 * The checks that every transport makes before it posts, so that all refuse the same transfers. */
#ifndef RDMA_TRANSFER_H
#define RDMA_TRANSFER_H
#include "rdma/transport.h"

/* Puts up to this size need no local region; verbs sends them inline. */
enum { TRANSFER_INLINE_BYTES = 64 };

static inline int transfer_permitted(const struct transfer *x)
{
	const unsigned needed = x->kind == TRANSFER_GET ? REGION_READ : REGION_WRITE;

	/* A notify without bytes touches no memory, so it may use any open region. */
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

/* Returns 1 if transfer_check() would succeed. It is inline for the transports that copy. Device
 * memory can only be the source of a put, and only on a transport whose card reads it directly. */
static inline int transfer_right(const struct endpoint *e, const struct transfer *x)
{
	const struct region *region = x->local_region;

	return x->kind <= TRANSFER_GET && x->remote && x->remote->endpoint == e &&
	       transfer_permitted(x) && transfer_within_remote(x) && transfer_within_local(x) &&
	       (!region || !region->device ||
		(x->kind != TRANSFER_GET && e->transport->ops->prepare));
}

/* Returns SLUICE_EINVAL if the remote belongs to another endpoint, if its bounds or access do not
 * allow the transfer, or if the local bytes are outside the local region. Returns SLUICE_ENOSUPP if
 * the local bytes are device memory that this transport cannot read. */
int transfer_check(const struct endpoint *e, const struct transfer *transfer);

/* Returns 1 if the transfer ends with an EVENT_DONE. */
static inline int transfer_ends(const struct transfer *transfer)
{
	return transfer->kind == TRANSFER_GET ? !transfer->quiet : transfer->report;
}

/* Counts an accepted transfer, for the statistics and for the check that notifies arrive
 * (runtime/job/heart.c). */
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
