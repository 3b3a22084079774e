/* SPDX-License-Identifier: BSD-3-Clause
 * The checks every transport makes before it posts, so that all refuse the same things. */
#ifndef RDMA_TRANSFER_H
#define RDMA_TRANSFER_H
#include "rdma/transport.h"

/* Puts of at most so many bytes need no local region (verbs sends them inline). */
enum { TRANSFER_INLINE_BYTES = 64 };

/* 0, or SLUICE_EINVAL: not this endpoint's remote, beyond its end, not permitted by its access, or
 * local bytes outside the local region. */
int transfer_check(const struct endpoint *e, const struct transfer *transfer);

/* Whether an EVENT_DONE tells its end. */
static inline int transfer_ends(const struct transfer *transfer)
{
	return transfer->kind == TRANSFER_GET ? !transfer->quiet : transfer->report;
}

/* For the final statistics: called once for each transfer that was accepted. */
static inline void transfer_count(struct transport *t, const struct transfer *transfer)
{
	struct transport_counters *c = &t->counters;

	if (transfer->kind == TRANSFER_GET) {
		c->gets++;
		c->get_bytes += transfer->bytes;
		return;
	}
	c->puts++;
	c->put_bytes += transfer->bytes;
	c->notifies += transfer->kind == TRANSFER_PUT_NOTIFY;
}
#endif
