/* SPDX-License-Identifier: BSD-3-Clause
 * The parts of a mailbox that are not executed for each notify; see mailbox.h. */
#include "rdma/mailbox.h"

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

	return sizeof(struct mailbox_ring) +
	       (entries + MAILBOX_LINE - 1) / MAILBOX_LINE * MAILBOX_LINE;
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

static struct mailbox_end first(struct mailbox_ring *ring, uint32_t capacity)
{
	struct mailbox_end end = { .ring = ring, .capacity = capacity };

	mailbox_move(&end, 0);
	return end;
}

void mailbox_reader_init(struct mailbox_reader *r, struct mailbox_ring *ring, uint32_t capacity)
{
	*r = (struct mailbox_reader){ .at = first(ring, capacity) };
}

void mailbox_writer_init(struct mailbox_writer *w, struct mailbox_ring *ring, uint32_t capacity)
{
	*w = (struct mailbox_writer){ .at = first(ring, capacity) };
}

int mailbox_room_now(struct mailbox_writer *w)
{
	/* This acquire pairs with the release in mailbox_take(), so the receiver has finished
	 * reading every entry below head_seen. */
	w->head_seen = atomic_load_explicit(&w->at.ring->head, memory_order_acquire);
	if (w->at.position - w->head_seen > w->at.capacity)
		return -1;
	return w->at.position - w->head_seen < w->at.capacity;
}
