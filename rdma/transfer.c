/* SPDX-License-Identifier: BSD-3-Clause
 * Explains why a transfer is invalid; see transfer.h. */
#include "rdma/transfer.h"
#include "base/error.h"
#include "sluice.h"
#include <inttypes.h>

int transfer_check(const struct endpoint *e, const struct transfer *x)
{
	const struct remote *remote = x->remote;
	const char *name = x->kind == TRANSFER_GET ? "get from" : "put to";

	if (transfer_right(e, x))
		return SLUICE_OK;
	if (x->kind != TRANSFER_PUT && x->kind != TRANSFER_PUT_NOTIFY && x->kind != TRANSFER_GET)
		return fail(SLUICE_EINVAL, "%d is no kind of transfer", (int)x->kind);
	if (!remote || remote->endpoint != e)
		return fail(SLUICE_EINVAL,
			    "%s rank %d: the remote region belongs to another endpoint", name,
			    e->peer);
	if (!transfer_permitted(x))
		return fail(SLUICE_EINVAL,
			    "%s rank %d: its region does not permit this kind of transfer (access "
			    "0x%x)",
			    name, e->peer, remote->access);
	if (!transfer_within_remote(x))
		return fail(SLUICE_EINVAL,
			    "%s rank %d: %zu bytes at offset %" PRIu64
			    " reach beyond its region of %" PRIu64 " bytes",
			    name, e->peer, x->bytes, x->offset, remote->bytes);
	if (!transfer_within_local(x))
		return fail(SLUICE_EINVAL,
			    "%s rank %d: %zu local bytes are not inside the local region", name,
			    e->peer, x->bytes);
	return fail(SLUICE_ENOSUPP,
		    "%s rank %d: %s cannot %s device memory; use a region of host memory", name,
		    e->peer, e->transport->ops->name, x->kind == TRANSFER_GET ? "fill" : "read");
}
