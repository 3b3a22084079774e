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

void mailbox_writer_init(struct mailbox_writer *w, struct mailbox_ring *ring, uint32_t capacity)
{
	*w = (struct mailbox_writer){.ring = ring, .capacity = capacity};
}

void mailbox_reader_init(struct mailbox_reader *r, struct mailbox_ring *ring, uint32_t capacity)
{
	*r = (struct mailbox_reader){.ring = ring, .capacity = capacity};
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

int mailbox_room(struct mailbox_writer *w)
{
	if (w->tail - w->head_seen < w->capacity)
		return 1;
	/* Acquire: pairs with the release in mailbox_take(); the entry has been read. */
	w->head_seen = atomic_load_explicit(&w->ring->head, memory_order_acquire);
	if (w->tail - w->head_seen > w->capacity)
		return -1;
	return w->tail - w->head_seen < w->capacity;
}

void mailbox_write(struct mailbox_writer *w, uint32_t word)
{
	/* Release orders all data copied before; seq_cst for mailbox_claim_wake(). */
	atomic_store(entry_at(w->ring, w->tail, w->capacity),
		     (uint64_t)round_of(w->tail, w->capacity) << 32 | word);
	w->tail++;
}

/* 1: the next entry is there, 0: it still is that of the round before, -1: it is neither. */
static int look(const struct mailbox_reader *r, uint64_t *entry_out)
{
	/* Acquire pairs with the store in mailbox_write(); seq_cst with mailbox_sleep(). */
	const uint64_t entry = atomic_load(entry_at(r->ring, r->head, r->capacity));
	const uint32_t ahead = (uint32_t)(entry >> 32) - round_of(r->head, r->capacity);

	*entry_out = entry;
	return ahead == 0 ? 1 : ahead == UINT32_MAX ? 0 : -1;
}

int mailbox_take(struct mailbox_reader *r, uint32_t *word_out)
{
	uint64_t entry;
	const int found = look(r, &entry);

	if (found <= 0)
		return found;
	*word_out = (uint32_t)entry;
	r->head++;
	/* Release: the entry was read before the sender may reuse its place. */
	atomic_store_explicit(&r->ring->head, r->head, memory_order_release);
	return 1;
}

int mailbox_waiting(const struct mailbox_reader *r)
{
	uint64_t entry;

	return look(r, &entry) != 0;
}
