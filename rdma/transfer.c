/* SPDX-License-Identifier: BSD-3-Clause
 * Bounds and permissions of one transfer; see transfer.h. On the hot path: no calls. */
#include "rdma/transfer.h"
#include "base/error.h"
#include "sluice.h"
#include <inttypes.h>

static int local_within_region(const struct transfer *x)
{
	uintptr_t base, local = (uintptr_t)x->local;

	if (x->bytes == 0)
		return 1;
	if (x->local == NULL)
		return 0;
	if (x->local_region == NULL)
		return x->kind != TRANSFER_GET && x->bytes <= TRANSFER_INLINE_BYTES;
	base = (uintptr_t)x->local_region->base;
	return local >= base && x->bytes <= x->local_region->bytes &&
	       local - base <= x->local_region->bytes - x->bytes;
}

int transfer_check(const struct endpoint *e, const struct transfer *x)
{
	const struct remote *remote = x->remote;
	const char *name;
	unsigned needed;

	switch (x->kind) {
	case TRANSFER_PUT:
	case TRANSFER_PUT_NOTIFY:
		name = "put to";
		needed = REGION_WRITE;
		break;
	case TRANSFER_GET:
		name = "get from";
		needed = REGION_READ;
		break;
	default:
		return fail(SLUICE_EINVAL, "%d is no kind of transfer", (int)x->kind);
	}
	if (remote == NULL || remote->endpoint != e)
		return fail(SLUICE_EINVAL, "%s rank %d: the remote region belongs to another endpoint", name,
			    e->peer);
	/* A notification without bytes touches no memory: any open region carries it. */
	if (x->bytes != 0 && (remote->access & needed) == 0)
		return fail(SLUICE_EINVAL, "%s rank %d: its region does not permit that (access 0x%x)", name,
			    e->peer, remote->access);
	if (x->bytes > remote->bytes || x->offset > remote->bytes - x->bytes)
		return fail(SLUICE_EINVAL, "%s rank %d: %zu bytes at offset %" PRIu64 " reach beyond its "
			    "region of %" PRIu64 " bytes", name, e->peer, x->bytes, x->offset, remote->bytes);
	if (!local_within_region(x))
		return fail(SLUICE_EINVAL, "%s rank %d: %zu local bytes are not inside the local region", name,
			    e->peer, x->bytes);
	if (x->local_region != NULL && x->local_region->device != NULL && e->transport->ops->copies_at_post)
		return fail(SLUICE_ENOSUPP, "%s rank %d: %s copies by this processor and cannot reach device "
			    "memory; use a region of host memory", name, e->peer, e->transport->ops->name);
	return SLUICE_OK;
}
