/* SPDX-License-Identifier: BSD-3-Clause
 * The slot ring: fixed-size slots in the reader's region, written by one peer, one message per
 * slot. This file has only the arithmetic; a transport moves the bytes. Each half of a model has
 * one of the two structures below per peer.
 *
 * Messages carry sequence numbers 1, 2, 3, ... (64 bits: they never wrap); number seq lives in slot
 * seq mod depth. The reader takes messages in order and reports its progress (consumed_seq, in a
 * notice). This is the writer's credit: a slot and its staging buffer are free once consumed_seq
 * has reached the message in the slot. So at most depth messages are unread.
 *
 *      consumed_seq             next_seq
 *   ... 4   5 | 6   7   8   9 | 10 ...          depth 8: 10 to 13 may be written
 *      read   |  in the ring  | not written yet
 */
#ifndef RDMA_RING_H
#define RDMA_RING_H
#include <stddef.h>
#include <stdint.h>

struct ring_writer {
	uint32_t depth;
	size_t slot_bytes;
	uint64_t next_seq;     /* sequence number of the next message, >= 1 */
	uint64_t consumed_seq; /* the last value that the reader has reported; < next_seq */
};

struct ring_reader {
	uint32_t depth;
	size_t slot_bytes;
	uint64_t next_seq; /* the only number accepted now, >= 1 */
};

/* Prepares a writer. SLUICE_EINVAL means that depth or slot_bytes is 0, or that the ring is larger
 * than an address space. */
int ring_writer_init(struct ring_writer *w, uint32_t depth, size_t slot_bytes);
int ring_reader_init(struct ring_reader *r, uint32_t depth, size_t slot_bytes);

/* Returns the position of message seq, in bytes from the start of the ring or of its staging
 * copy. */
static inline uint64_t ring_offset(uint32_t depth, size_t slot_bytes, uint64_t seq)
{
	return seq % depth * slot_bytes;
}

/* Returns nonzero if message next_seq may be written now. */
static inline int ring_writer_free(const struct ring_writer *w)
{
	return w->next_seq - w->consumed_seq <= w->depth;
}

/* Advances to the next sequence number. The message with the number w->next_seq must have been
 * posted. Requires ring_writer_free(). */
uint64_t ring_writer_advance(struct ring_writer *w);

/* Takes consumed_seq from peer's notice, which may be hostile. The value may repeat. If it
 * decreases or exceeds the number of the last written message, returns SLUICE_EWIRE and changes
 * nothing. */
int ring_writer_acknowledge(struct ring_writer *w, int peer, uint64_t consumed_seq);

/* Checks the sequence number of a message from peer and advances next_seq. If seq is not next_seq,
 * returns SLUICE_EWIRE and changes nothing. */
int ring_reader_accept(struct ring_reader *r, int peer, uint64_t seq);

/* Returns the writer's credit: the number of the last message that has been copied out of the ring.
 */
static inline uint64_t ring_reader_consumed(const struct ring_reader *r)
{
	return r->next_seq - 1;
}
#endif
