/* SPDX-License-Identifier: BSD-3-Clause
 * The objects of a card that all peers share: one completion queue, one shared receive queue, and
 * the table from queue pairs to their owners. On a card without shared receive queues each queue
 * pair has its own receives. Receives have no memory, because only immediates
 * arrive. Called by verbs.c, which polls, and by link.c, which makes a queue pair for each
 * connection. */
#ifndef RDMA_QUEUES_H
#define RDMA_QUEUES_H
#include "rdma/event_queue.h"
#include "rdma/verbs_device.h"
#include <stdint.h>

enum {
	QUEUES_RETRIES = 6,   /* not 7, which some devices treat as infinite */
	QUEUES_GREETINGS = 2, /* number of receives that a peer needs to become connected */
	QUEUES_AT_ONCE = 32   /* the most completions that one poll takes */
};

/* The wr_id of receives. The sends of each queue pair are numbered 1, 2, ... */
#define QUEUES_RECEIVE UINT64_MAX

/* Sizes that follow from the job and the device. They do not change while the queues are open. */
struct queue_sizes {
	uint32_t log_entries;       /* the most transfers and work requests that are open with
				       one peer; a power of two */
	uint32_t peers;             /* number of peers for which the queues have room at first; see
				       queues_grow() */
	uint32_t receives, credits; /* receives for all these peers; credits for each of them */
	uint32_t later_credits;     /* credits for each peer that connects later */
	uint32_t receives_most;     /* receives for all peers that may connect */
	int apart; /* 1: each queue pair has its own receives, one for each credit and greeting */
	uint32_t completions, reads, inline_bytes; /* completions: for the first `peers` peers */
	uint32_t completions_most;                 /* the card's limit */
	uint64_t max_message;
	uint64_t pair_pinned; /* bytes that the driver pins for a queue pair */
};

/* Called first. At most `most` peers connect, and `expected` of them soon. Returns SLUICE_ENOSUPP,
 * without logging, if the device is too small. */
int queue_sizes_choose(const struct verbs_device *device, uint32_t most, uint32_t expected,
		       uint32_t queue_depth, struct queue_sizes *out);

struct queues;
/* Sets sizes->inline_bytes to the value that a queue pair of the device reports, and pair_pinned to
 * the memory that the driver pins for it. most: the number of peers that may connect. completed()
 * gets each completion with the owner of its queue pair; events must have room for the events that
 * it adds.
 */
int queues_open(struct ibv_pd *pd, const char *device, int ranks, uint32_t most,
		struct queue_sizes *sizes, struct event_queue *events,
		void (*completed)(void *owner, const struct ibv_wc *wc), struct queues **out);
void queues_close(struct queues **queues);
/* The bytes that the driver pins to make room for `peers` peers: while it replaces the completion
 * queue, and once it has released the old one. */
struct queues_growth {
	uint64_t meanwhile, after;
};
struct queues_growth queues_growth(const struct queues *q, uint32_t peers);
/* Makes room for a total of `peers` peers. Must be called before a peer beyond the present room
 * gets its queue pair, and events must have room for that peer's events by then. Returns 0 or
 * SLUICE_E*. */
int queues_grow(struct queues *q, uint32_t peers);

/* Makes a queue pair in pd, for a peer with this number of credits. Returns NULL on failure, with
 * the reason in errno. */
struct ibv_qp *queues_pair_make(struct queues *q, struct ibv_pd *pd, void *owner, uint32_t credits);
/* Posts the receives that only this queue pair takes, if the card shares none. Called once the
 * queue pair has joined its peer's, before the peer sends. Returns 0 or SLUICE_E*. */
int queues_pair_start(struct queues *q, struct ibv_qp *qp);
/* Stops the queue pair and passes all its completions to completed(). Waits a short time until the
 * card reports that it takes no more receives. */
void queues_pair_stop(struct queues *q, struct ibv_qp *qp);
/* Called after queues_pair_stop(). Replaces the receives that the queue pair may have kept. */
void queues_pair_end(struct queues *q, struct ibv_qp *qp);

/* Returns the number of READs that a connected queue pair may have outstanding. */
uint32_t queues_pair_reads(const struct queues *q, struct ibv_qp *qp);

/* Explains a completion's status to a user. *survives_out is 1 if reconnecting may help. */
const char *queues_explain(enum ibv_wc_status status, int *survives_out);

/* Takes the device's events. Returns the reason why these queues no longer work, or NULL if they
 * do. Other users of the device in this process have their own queues. */
const char *queues_look(struct queues *q);

/* Takes up to QUEUES_AT_ONCE completions and returns their number. */
int queues_poll(struct queues *q);
/* Posts receives in place of the used ones, if many are used or at_once is set. Returns 0 or
 * SLUICE_E*. If the card refuses the receives that only one queue pair takes, that pair gets a
 * completion with an error instead. */
int queues_refill(struct queues *q, int at_once);

/* After queues_arm(), a completion makes this descriptor readable. */
int queues_fd(const struct queues *q);
int queues_arm(struct queues *q);
void queues_disarm(struct queues *q);
#endif
