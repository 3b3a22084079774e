/* SPDX-License-Identifier: BSD-3-Clause
 * Sequence numbers and credits of a slot ring; see ring.h. Values from a peer are compared with
 * this side's own before they change anything. */
#include "rdma/ring.h"
#include "base/error.h"
#include "sluice.h"
#include <inttypes.h>

static int check_shape(uint32_t depth, size_t slot_bytes)
{
	if (depth == 0 || slot_bytes == 0 || slot_bytes > (size_t)PTRDIFF_MAX / depth)
		return fail(SLUICE_EINVAL, "a ring of %" PRIu32 " slots of %zu bytes is not valid",
			    depth, slot_bytes);
	return SLUICE_OK;
}

int ring_writer_init(struct ring_writer *w, uint32_t depth, size_t slot_bytes)
{
	int rc = check_shape(depth, slot_bytes);

	if (rc)
		return rc;
	*w = (struct ring_writer){ .depth = depth, .slot_bytes = slot_bytes, .next_seq = 1 };
	return SLUICE_OK;
}

int ring_reader_init(struct ring_reader *r, uint32_t depth, size_t slot_bytes)
{
	int rc = check_shape(depth, slot_bytes);

	if (rc)
		return rc;
	*r = (struct ring_reader){ .depth = depth, .slot_bytes = slot_bytes, .next_seq = 1 };
	return SLUICE_OK;
}

uint64_t ring_writer_advance(struct ring_writer *w)
{
	return w->next_seq++;
}

int ring_writer_acknowledge(struct ring_writer *w, int peer, uint64_t consumed_seq)
{
	if (consumed_seq < w->consumed_seq || consumed_seq >= w->next_seq)
		return fail(SLUICE_EWIRE,
			    "rank %d reports that it has read message %" PRIu64
			    " of this rank, after %" PRIu64
			    ", but the last one written is %" PRIu64,
			    peer, consumed_seq, w->consumed_seq, w->next_seq - 1);
	w->consumed_seq = consumed_seq;
	return SLUICE_OK;
}

int ring_reader_accept(struct ring_reader *r, int peer, uint64_t seq)
{
	if (seq != r->next_seq)
		return fail(SLUICE_EWIRE,
			    "rank %d sent message %" PRIu64 " instead of message %" PRIu64 "%s",
			    peer, seq, r->next_seq,
			    seq < r->next_seq ? " (a repeated one)" :
						" (one before it is missing)");
	r->next_seq++;
	return SLUICE_OK;
}
