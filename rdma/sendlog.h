/* SPDX-License-Identifier: BSD-3-Clause
 * The log of the transfers to one peer: the hot path out, its completions, and the credits of both
 * sides. No allocation and no system call.
 *
 * What is posted stays in the log until it is known to be complete. When a connection breaks, both
 * sides tell each other how many notifies they have received, and what the peer does not have is
 * posted again, in order, on a new queue pair: each notify arrives exactly once.
 *
 * A notify uses up a receive of the peer, so the log never has more of them outstanding than the
 * peer gave credits for. It tells the peer how many it has received itself when the peer has used
 * half of its credits. Called by verbs.c, and by link.c as connections come and go. */
#ifndef RDMA_SENDLOG_H
#define RDMA_SENDLOG_H
#include "rdma/event_queue.h"
#include "rdma/frame.h"
#include "rdma/queues.h"
#include "rdma/transport.h"

struct sendlog;

struct sendlog_config {
	int peer;
	const struct queue_sizes *sizes;
	struct event_queue *events;
	uint8_t *memory;     /* sendlog_memory() bytes, for what is sent from copies */
	uint32_t lkey;       /* of memory */
	const uint8_t *slot; /* the peer writes here how many notifies it has taken */
};

size_t sendlog_memory(const struct queue_sizes *sizes);
int sendlog_open(const struct sendlog_config *config, struct sendlog **out);
/* Whom to tell that posting failed. The log may be detached by that call, but the queue pair is not
 * to end before the call that posted has returned. */
void sendlog_watch(struct sendlog *log, void (*broken)(void *owner, const char *why), void *owner);
void sendlog_close(struct sendlog **log);

/* ---- the life of a connection ---- */
/* A new queue pair: requests that are not transfers may be posted from here on. */
void sendlog_attach(struct sendlog *log, struct ibv_qp *qp);
/* How many notifies were received here, for the peer that is told it with the connection. */
uint64_t sendlog_report_received(struct sendlog *log);
/* The peer received so many of this rank's notifies: these transfers are in place, the others will
 * be posted again. -1 and why: the count cannot be. */
int sendlog_replay(struct sendlog *log, uint64_t received, char why[200]);
/* Where the peer's slot is, and how many credits it gives. -1: that cannot be. */
int sendlog_peer_slot(struct sendlog *log, const struct slot_address *slot);
/* The transfers that wait go on with the keys that key_of() knows; it returns 0 for a region that
 * it does not know. */
void sendlog_renew_keys(struct sendlog *log,
			int (*key_of)(const void *table, uint32_t id, uint32_t *rkey),
			const void *table);
/* The connection works both ways: posts what waits. reads: READs that may be under way at once. */
void sendlog_start(struct sendlog *log, uint32_t reads);
/* Nothing more is posted on the queue pair; what is in the log waits. */
void sendlog_detach(struct sendlog *log);
/* The peer is lost: whoever waits for a transfer is told so. */
void sendlog_abandon(struct sendlog *log);

/* ---- transfers ---- */
/* Whether x can be appended now. Else ask again after a poll. */
int sendlog_room(struct sendlog *log, const struct transfer *x);
/* Whether the log sends x from a copy, so that x needs no local key. */
int sendlog_copies(const struct transfer *x);
/* Where the remote region is: its address, key and number. */
struct sendlog_target {
	uint64_t address;
	uint32_t rkey, id;
};
/* Needs room. */
void sendlog_append(struct sendlog *log, const struct transfer *x, uint32_t lkey,
		    struct sendlog_target target);

/* ---- other requests ---- */
/* 0, SLUICE_EAGAIN (no room now), or SLUICE_EPEER (the connection is broken, and is known to be).
 */
int sendlog_request(struct sendlog *log, struct ibv_send_wr *wr);
/* Both return what sendlog_request() does. The first writes n bytes into the peer's slot, from
 * SLOT_* on; the second writes them where a greeting belongs, and greets. */
int sendlog_write_slot(struct sendlog *log, size_t at, const void *bytes, size_t n);
int sendlog_greet(struct sendlog *log, enum greeting greeting, const void *bytes, size_t n);

/* ---- what completes ---- */
/* Request number wr is complete, and all before it are. */
void sendlog_completed(struct sendlog *log, uint64_t wr);
/* A notify of the peer arrived. Returns sendlog_credit_due(). */
int sendlog_received(struct sendlog *log, uint32_t imm);
/* Whether the peer has used half of its credits. */
int sendlog_credit_due(const struct sendlog *log);
/* Gives them back. 0, or SLUICE_E* as a request does. */
int sendlog_give_credit(struct sendlog *log);

/* ---- questions ---- */
/* A number that grows with every transfer that completed, and with every notify that came. */
uint64_t sendlog_moved(const struct sendlog *log);
/* Transfers in the log. */
uint64_t sendlog_waiting(const struct sendlog *log);
/* For the end of a job: posts what completes after all before it; then tells whether that, or the
 * connection, came to its end. */
void sendlog_flush(struct sendlog *log);
int sendlog_flushed(const struct sendlog *log);
#endif
