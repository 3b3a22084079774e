/* SPDX-License-Identifier: BSD-3-Clause
 * Rings of words between processes and the sleeping flag; see mailbox.h.
 *
 * No wake-up is lost: the sender stores the tail and then loads the flag, the receiver stores the
 * flag and then loads the tails, all four sequentially consistent; in the one order of these four,
 * at least one side sees the other's store. */
#include "rdma/mailbox.h"
#include <stdalign.h>

enum { LINE = 64 }; /* bytes of a cache line: sender's, receiver's and common words apart */

struct mailbox_header {
	alignas(LINE) _Atomic uint32_t sleeping;
};

struct mailbox_ring {
	alignas(LINE) _Atomic uint32_t tail; /* words ever written, the sender's */
	alignas(LINE) _Atomic uint32_t head; /* words ever taken, the receiver's */
	alignas(LINE) _Atomic uint32_t words[];
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
	size_t words = (size_t)capacity * sizeof(uint32_t);

	return sizeof(struct mailbox_ring) + (words + LINE - 1) / LINE * LINE;
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
	*w = (struct mailbox_writer){.ring = ring, .mask = capacity - 1};
}

void mailbox_reader_init(struct mailbox_reader *r, struct mailbox_ring *ring, uint32_t capacity)
{
	*r = (struct mailbox_reader){.ring = ring, .mask = capacity - 1};
}

int mailbox_room(struct mailbox_writer *w)
{
	if (w->tail - w->head_seen <= w->mask)
		return 1;
	/* Acquire: pairs with the release in mailbox_take(); the slot has been read. */
	w->head_seen = atomic_load_explicit(&w->ring->head, memory_order_acquire);
	if (w->tail - w->head_seen > w->mask + 1)
		return -1;
	return w->tail - w->head_seen <= w->mask;
}

void mailbox_write(struct mailbox_writer *w, uint32_t word)
{
	atomic_store_explicit(&w->ring->words[w->tail & w->mask], word, memory_order_relaxed);
	w->tail++;
	/* Release orders the word and all data copied before; seq_cst for mailbox_claim_wake(). */
	atomic_store(&w->ring->tail, w->tail);
}

/* How many words the sender claims to have put since our head. */
static uint32_t look(struct mailbox_reader *r)
{
	/* Acquire pairs with the store in mailbox_write(); seq_cst with mailbox_sleep(). */
	r->tail_seen = atomic_load(&r->ring->tail);
	return r->tail_seen - r->head;
}

int mailbox_take(struct mailbox_reader *r, uint32_t *word_out)
{
	if (r->tail_seen == r->head) {
		uint32_t claimed = look(r);

		if (claimed == 0)
			return 0;
		if (claimed > r->mask + 1) {
			r->tail_seen = r->head;
			return -1;
		}
	}
	*word_out = atomic_load_explicit(&r->ring->words[r->head & r->mask], memory_order_relaxed);
	r->head++;
	/* Release: the word was read before the sender may reuse its place. */
	atomic_store_explicit(&r->ring->head, r->head, memory_order_release);
	return 1;
}

int mailbox_waiting(struct mailbox_reader *r)
{
	uint32_t tail;

	if (r->tail_seen != r->head)
		return 1;
	tail = atomic_load(&r->ring->tail);
	return tail != r->head;
}
