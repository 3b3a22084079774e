/* SPDX-License-Identifier: BSD-3-Clause
 * The memory in which a receiver gets PUT_NOTIFYs of the shm transport. Peers may write it. It has
 * a flag "the receiver sleeps" and, for each sender, a single-producer single-consumer ring of
 * 32-bit words. This file defines layout and memory ordering; shm.c maps the memory and uses it.
 *
 * An entry is a word and, in its upper half, the number of the sender's round through the ring,
 * which begins with 1. So only one cache line moves from sender to receiver, and no second line
 * with a position. Memory starts as zeros, which are no round.
 *
 * No wake-up is lost. The sender stores the entry and then loads the flag. The receiver stores the
 * flag and then loads the entries. All four operations are sequentially consistent, so at least one
 * side sees the other's store.
 *
 * Neither side trusts the other. Positions are in private memory, the shared words only show how
 * far the other side claims to be, and every index is masked. The functions that a notify needs are
 * inline, because calls took a tenth of its time. */
#ifndef RDMA_MAILBOX_H
#define RDMA_MAILBOX_H
#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { MAILBOX_MAX_CAPACITY = 1 << 20, MAILBOX_MAX_SENDERS = 1 << 16 };
enum {
	MAILBOX_LINE = 64
}; /* the bytes of a cache line, which separates fields that different processes write */

struct mailbox_header {
	alignas(MAILBOX_LINE) _Atomic uint32_t sleeping;
};

struct mailbox_ring {
	alignas(MAILBOX_LINE) _Atomic uint64_t
		head; /* number of words taken; written by the receiver */
	alignas(MAILBOX_LINE) _Atomic uint64_t entries[]; /* the sender's */
};
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "an entry is shared between processes");

/* Returns the number of entries per sender for a queue depth: the next power of two, or 0 if depth
 * is 0 or too large. */
uint32_t mailbox_capacity(uint32_t queue_depth);
/* Returns the size of a mailbox. senders is at most MAILBOX_MAX_SENDERS, and capacity comes from
 * mailbox_capacity(). */
size_t mailbox_bytes(uint32_t senders, uint32_t capacity);
struct mailbox_ring *mailbox_ring(void *mailbox, uint32_t sender, uint32_t capacity);

/* For the receiver, in this order: call mailbox_sleep(), check all rings once more, sleep, and call
 * mailbox_awake(). */
void mailbox_sleep(void *mailbox);
void mailbox_awake(void *mailbox);
/* For the sender, after mailbox_write(): returns 1 if the receiver sleeps and this caller must wake
 * it. */
static inline int mailbox_claim_wake(void *mailbox)
{
	struct mailbox_header *header = mailbox;

	/* The plain load keeps the line shared among senders while the receiver is awake. */
	return atomic_load(&header->sleeping) != 0 && atomic_exchange(&header->sleeping, 0) != 0;
}

/* The state of a sender or a receiver. next and round describe entry number `position`: its place,
 * and its round. */
struct mailbox_end {
	struct mailbox_ring *ring;
	_Atomic uint64_t *next;
	uint64_t position;
	uint32_t capacity, round;
};
struct mailbox_writer {
	struct mailbox_end at;
	uint64_t head_seen;
};
struct mailbox_reader {
	struct mailbox_end at;
};

/* Moves to an entry. capacity is a power of two. */
static inline void mailbox_move(struct mailbox_end *end, uint64_t position)
{
	end->position = position;
	end->next = &end->ring->entries[position & (end->capacity - 1)];
	end->round = (uint32_t)(position >> __builtin_ctz(end->capacity)) + 1;
}

void mailbox_writer_init(struct mailbox_writer *w, struct mailbox_ring *ring, uint32_t capacity);
void mailbox_reader_init(struct mailbox_reader *r, struct mailbox_ring *ring, uint32_t capacity);

int mailbox_room_now(struct mailbox_writer *w);
/* Returns 1 if there is room for a word, 0 if there is none, and -1 if the receiver's position is
 * impossible. Reads that position only if the last known one leaves no room. */
static inline int mailbox_room(struct mailbox_writer *w)
{
	return w->at.position - w->head_seen < w->at.capacity ? 1 : mailbox_room_now(w);
}

/* Requires mailbox_room(). When the receiver sees the word, it also sees earlier stores of this
 * thread. */
static inline void mailbox_write(struct mailbox_writer *w, uint32_t word)
{
	/* The release orders all data that was copied before. seq_cst pairs with
	 * mailbox_claim_wake(). */
	atomic_store(w->at.next, (uint64_t)w->at.round << 32 | word);
	mailbox_move(&w->at, w->at.position + 1);
}

/* Returns 1 with the oldest word, 0 if there is none, or -1 if the entry is impossible. */
static inline int mailbox_take(struct mailbox_reader *r, uint32_t *word_out)
{
	/* The acquire pairs with the store in mailbox_write(), and seq_cst pairs with
	 * mailbox_sleep(). */
	const uint64_t entry = atomic_load(r->at.next);
	const uint32_t ahead = (uint32_t)(entry >> 32) - r->at.round;

	if (ahead)
		return ahead == UINT32_MAX ? 0 : -1;
	*word_out = (uint32_t)entry;
	/* Release, because this thread must have read the entry before the sender reuses its
	 * place. */
	atomic_store_explicit(&r->at.ring->head, r->at.position + 1, memory_order_release);
	mailbox_move(&r->at, r->at.position + 1);
	return 1;
}

/* Returns nonzero if mailbox_take() would return 1 or -1. Pairs with mailbox_sleep(). */
static inline int mailbox_waiting(const struct mailbox_reader *r)
{
	return (uint32_t)(atomic_load(r->at.next) >> 32) != r->at.round - 1;
}
#endif
