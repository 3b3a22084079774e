/* SPDX-License-Identifier: BSD-3-Clause
 * A bounded queue of events that a transport generates itself, such as finished gets. One thread at
 * a time uses it. It allocates only when it is opened or grows. */
#ifndef RDMA_EVENT_QUEUE_H
#define RDMA_EVENT_QUEUE_H
#include "rdma/transport.h"
#include <stddef.h>
#include <stdint.h>

struct event_queue {
	struct event *slots;
	uint32_t capacity, head, count;
};

int event_queue_open(struct event_queue *queue, uint32_t capacity); /* 0 or SLUICE_ENOMEM */
/* Makes the queue larger. Its events stay in it. Returns 0 or SLUICE_ENOMEM. */
int event_queue_grow(struct event_queue *queue, uint32_t capacity);
void event_queue_close(struct event_queue *queue);
static inline int event_queue_full(const struct event_queue *queue)
{
	return queue->count == queue->capacity;
}
static inline int event_queue_empty(const struct event_queue *queue)
{
	return !queue->count;
}
/* Returns how many more events the queue can take. */
static inline uint32_t event_queue_room(const struct event_queue *queue)
{
	return queue->capacity - queue->count;
}
static inline void event_queue_forget(struct event_queue *queue)
{
	queue->count = 0;
}
/* Appends an event. The queue must not be full. */
void event_queue_put(struct event_queue *queue, const struct event *event);
int event_queue_drain(struct event_queue *queue, struct event *events, int n);
/* Moves up to n of the oldest events to out and returns their number. Called at every poll, so the
 * empty case is inline. */
static inline int event_queue_take(struct event_queue *queue, struct event *events, int n)
{
	return queue->count ? event_queue_drain(queue, events, n) : 0;
}
#endif
