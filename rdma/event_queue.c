/* SPDX-License-Identifier: BSD-3-Clause
 * See event_queue.h. */
#include "rdma/event_queue.h"
#include "base/error.h"
#include "sluice.h"
#include <stdlib.h>

int event_queue_open(struct event_queue *queue, uint32_t capacity)
{
	struct event *slots = calloc(capacity, sizeof(*slots));

	if (!slots)
		return fail(SLUICE_ENOMEM, "no memory for a queue of %zu bytes",
			    (size_t)capacity * sizeof(*slots));
	*queue = (struct event_queue){ .slots = slots, .capacity = capacity };
	return SLUICE_OK;
}

int event_queue_grow(struct event_queue *queue, uint32_t capacity)
{
	struct event_queue larger;
	int rc;

	if (capacity <= queue->capacity)
		return SLUICE_OK;
	rc = event_queue_open(&larger, capacity);
	if (rc)
		return rc;
	larger.count = (uint32_t)event_queue_drain(queue, larger.slots, (int)queue->count);
	event_queue_close(queue);
	*queue = larger;
	return SLUICE_OK;
}

void event_queue_close(struct event_queue *queue)
{
	free(queue->slots);
	*queue = (struct event_queue){ 0 };
}

void event_queue_put(struct event_queue *queue, const struct event *event)
{
	uint64_t at = ((uint64_t)queue->head + queue->count) % queue->capacity;

	queue->slots[at] = *event;
	queue->count++;
}

int event_queue_drain(struct event_queue *queue, struct event *events, int n)
{
	int taken = 0;

	while (taken < n && queue->count > 0) {
		events[taken++] = queue->slots[queue->head];
		queue->head = (queue->head + 1) % queue->capacity;
		queue->count--;
	}
	return taken;
}
