/* SPDX-License-Identifier: BSD-3-Clause
 * Where PUT_NOTIFYs of the shm transport arrive: memory of the receiver that peers may write, with
 * a flag "the receiver sleeps" and one single-producer single-consumer ring of 32-bit words per
 * sender. Only layout and memory ordering are here; shm.c maps the memory, shm_move.c uses it.
 *
 * Neither side believes the other: positions live in private memory, what is read from the shared
 * words only tells how far the other side claims to be, and every index is masked. */
#ifndef RDMA_MAILBOX_H
#define RDMA_MAILBOX_H
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { MAILBOX_MAX_CAPACITY = 1 << 20, MAILBOX_MAX_SENDERS = 1 << 16 };

struct mailbox_ring;

/* Entries per sender for a queue depth: the next power of two; 0 if depth is 0 or too large. */
uint32_t mailbox_capacity(uint32_t queue_depth);
/* Bytes of a mailbox; senders <= MAILBOX_MAX_SENDERS, capacity from mailbox_capacity(). */
size_t mailbox_bytes(uint32_t senders, uint32_t capacity);
struct mailbox_ring *mailbox_ring(void *mailbox, uint32_t sender, uint32_t capacity);

/* Receiver: before sleeping, then look into all rings once more, and after it. */
void mailbox_sleep(void *mailbox);
void mailbox_awake(void *mailbox);
/* Sender, after mailbox_write(): 1 if the receiver sleeps and this caller is the one to wake it. */
int mailbox_claim_wake(void *mailbox);

/* next, round: where entry number tail goes, and the round it is of. */
struct mailbox_writer {
	struct mailbox_ring *ring;
	_Atomic uint64_t *next;
	uint64_t tail, head_seen;
	uint32_t capacity, round;
};
/* next, round: where entry number head will be, and the round it is of. */
struct mailbox_reader {
	struct mailbox_ring *ring;
	const _Atomic uint64_t *next;
	uint64_t head;
	uint32_t capacity, round;
};

void mailbox_writer_init(struct mailbox_writer *w, struct mailbox_ring *ring, uint32_t capacity);
void mailbox_reader_init(struct mailbox_reader *r, struct mailbox_ring *ring, uint32_t capacity);

int mailbox_room_now(struct mailbox_writer *w);
/* 1 if there is room for a word, 0 if not, -1 if the receiver's position is impossible. Looks at that position only
 * where what was seen of it does not do. */
static inline int mailbox_room(struct mailbox_writer *w)
{
	return w->tail - w->head_seen < w->capacity ? 1 : mailbox_room_now(w);
}
/* Needs room. All that this thread wrote before is visible to whoever takes the word. */
void mailbox_write(struct mailbox_writer *w, uint32_t word);

/* 1 and the oldest word, 0 if there is none, -1 if what lies there is impossible. */
int mailbox_take(struct mailbox_reader *r, uint32_t *word_out);
/* Nonzero if mailbox_take() would not return 0: the entry is not that of the round before. Inline, because who polls
 * asks for nothing else. Pairs with mailbox_sleep(). */
static inline int mailbox_waiting(const struct mailbox_reader *r)
{
	return (uint32_t)(atomic_load(r->next) >> 32) != r->round - 1;
}
#endif
