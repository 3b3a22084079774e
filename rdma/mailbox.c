/* SPDX-License-Identifier: BSD-3-Clause
 * Rings of words between processes and the sleeping flag; see mailbox.h.
 *
 * An entry is a word and, above it, how many times the sender has come round the ring, this time
 * included: so one cache line goes from sender to receiver, and not another one with a position.
 * Memory begins as zeros, which is what entries look like before the first time.
 *
 * No wake-up is lost: the sender stores the entry and then loads the flag, the receiver stores the
 * flag and then loads the entries, all four sequentially consistent; in the one order of these four,
 * at least one side sees the other's store. */
#include "rdma/mailbox.h"
#include <stdalign.h>

enum { LINE = 64 }; /* bytes of a cache line: what sender, receiver and all write apart */

struct mailbox_header {
	alignas(LINE) _Atomic uint32_t sleeping;
};

struct mailbox_ring {
	alignas(LINE) _Atomic uint64_t head; /* words ever taken, the receiver's */
	alignas(LINE) _Atomic uint64_t entries[]; /* the sender's */
};

uint32_t mailbox_capacity(uint32_t queue_depth)
{
	uint32_t capacity = 1;

	if (queue_depth == 0 || queue_depth > MAILBOX_MAX_CAPACITY)
		return 0;
	while (capacity < queue_depth)
		capacity *= 2;
	return capacity;
}

static size_t ring_bytes(uint32_t capacity)
{
	size_t entries = (size_t)capacity * sizeof(uint64_t);

	return sizeof(struct mailbox_ring) + (entries + LINE - 1) / LINE * LINE;
}

size_t mailbox_bytes(uint32_t senders, uint32_t capacity)
{
	return sizeof(struct mailbox_header) + (size_t)senders * ring_bytes(capacity);
}

struct mailbox_ring *mailbox_ring(void *mailbox, uint32_t sender, uint32_t capacity)
{
	char *rings = (char *)mailbox + sizeof(struct mailbox_header);

	return (struct mailbox_ring *)(void *)(rings + (size_t)sender * ring_bytes(capacity));
}

void mailbox_sleep(void *mailbox)
{
	struct mailbox_header *header = mailbox;

	atomic_store(&header->sleeping, 1);
}

void mailbox_awake(void *mailbox)
{
	struct mailbox_header *header = mailbox;

	atomic_store(&header->sleeping, 0);
}

int mailbox_claim_wake(void *mailbox)
{
	struct mailbox_header *header = mailbox;

	/* The plain load keeps the line shared among senders while the receiver is awake. */
	return atomic_load(&header->sleeping) != 0 && atomic_exchange(&header->sleeping, 0) != 0;
}

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "an entry is shared between processes");

/* The number of the round that position is in, from 1. capacity: a power of two. */
static uint32_t round_of(uint64_t position, uint32_t capacity)
{
	return (uint32_t)(position >> __builtin_ctz(capacity)) + 1;
}

static _Atomic uint64_t *entry_at(struct mailbox_ring *ring, uint64_t position, uint32_t capacity)
{
	return &ring->entries[position & (capacity - 1)];
}

/* From now on the reader waits for the entry at this position. */
static void await_entry(struct mailbox_reader *r, uint64_t position)
{
	r->head = position;
	r->next = entry_at(r->ring, position, r->capacity);
	r->round = round_of(position, r->capacity);
}

void mailbox_reader_init(struct mailbox_reader *r, struct mailbox_ring *ring, uint32_t capacity)
{
	*r = (struct mailbox_reader){.ring = ring, .capacity = capacity};
	await_entry(r, 0);
}

static void prepare_entry(struct mailbox_writer *w, uint64_t position)
{
	w->tail = position;
	w->next = entry_at(w->ring, position, w->capacity);
	w->round = round_of(position, w->capacity);
}

void mailbox_writer_init(struct mailbox_writer *w, struct mailbox_ring *ring, uint32_t capacity)
{
	*w = (struct mailbox_writer){.ring = ring, .capacity = capacity};
	prepare_entry(w, 0);
}

int mailbox_room_now(struct mailbox_writer *w)
{
	/* Acquire: pairs with the release in mailbox_take(); the entry has been read. */
	w->head_seen = atomic_load_explicit(&w->ring->head, memory_order_acquire);
	if (w->tail - w->head_seen > w->capacity)
		return -1;
	return w->tail - w->head_seen < w->capacity;
}

void mailbox_write(struct mailbox_writer *w, uint32_t word)
{
	/* Release orders all data copied before; seq_cst for mailbox_claim_wake(). */
	atomic_store(w->next, (uint64_t)w->round << 32 | word);
	prepare_entry(w, w->tail + 1);
}

int mailbox_take(struct mailbox_reader *r, uint32_t *word_out)
{
	/* Acquire pairs with the store in mailbox_write(); seq_cst with mailbox_sleep(). */
	const uint64_t entry = atomic_load(r->next);
	const uint32_t ahead = (uint32_t)(entry >> 32) - r->round;

	if (ahead)
		return ahead == UINT32_MAX ? 0 : -1;
	*word_out = (uint32_t)entry;
	/* Release: the entry was read before the sender may reuse its place. */
	atomic_store_explicit(&r->ring->head, r->head + 1, memory_order_release);
	await_entry(r, r->head + 1);
	return 1;
}
