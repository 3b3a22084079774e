/* SPDX-License-Identifier: BSD-3-Clause
 * The log of transfers to one peer: the outgoing hot path, its completions, and the credits of both
 * sides. It makes no allocation and no system call.
 *
 * A transfer is a sequence of pieces of at most a megabyte. Only a limited number of pieces is in
 * the queue pair at once (stream.h), so that no request waits there behind a gigabyte, and
 * completions show that bytes move.
 *
 * A transfer stays in the log until it is known to be complete. When a connection breaks, both
 * sides exchange how many notifies they have received. The rest is posted again, in order, on a new
 * queue pair, so each notify arrives exactly once.
 *
 * A notify uses up a receive of the peer, so outstanding notifies never exceed the peer's credits.
 * This side reports the notifies it has received when the peer has used half of its credits. Called
 * by verbs.c, and by link.c as connections come and go. */
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
	uint8_t *memory;     /* sendlog_memory() bytes, for transfers sent from copies */
	uint32_t lkey;       /* of memory */
	const uint8_t *slot; /* the peer writes here how many notifies it has taken */
};

size_t sendlog_memory(const struct queue_sizes *sizes);
int sendlog_open(const struct sendlog_config *config, struct sendlog **out);
/* Sets the callback for failed posts. It may detach the log, but must not end the queue pair before
 * the posting call has returned. */
void sendlog_watch(struct sendlog *log, void (*broken)(void *owner, const char *why), void *owner);
void sendlog_close(struct sendlog **log);

/* ---- the life of a connection ---- */
/* Attaches a new queue pair. From here on, requests that are not transfers may be posted. */
void sendlog_attach(struct sendlog *log, struct ibv_qp *qp);
/* Returns the number of notifies received here, which the peer needs when it connects. */
uint64_t sendlog_report_received(struct sendlog *log);
/* Called when the peer has received this many of this rank's notifies. The transfers of these are
 * in place, and the others will be posted again. If the count is impossible, returns -1 and sets
 * why. */
int sendlog_replay(struct sendlog *log, uint64_t received, char why[200]);
/* Sets the peer's slot and its credits. Returns -1 if they are impossible. */
int sendlog_peer_slot(struct sendlog *log, const struct slot_address *slot);
/* Gives waiting transfers new keys from key_of(), which returns 0 for an unknown region. */
void sendlog_renew_keys(struct sendlog *log,
			int (*key_of)(const void *table, uint32_t id, uint32_t window,
				      uint32_t *rkey),
			const void *table);
/* Posts waiting transfers. Called when the connection works in both directions. reads: the most
 * outstanding READs. */
void sendlog_start(struct sendlog *log, uint32_t reads);
/* Stops posting on the queue pair. Transfers in the log then wait. */
void sendlog_detach(struct sendlog *log);
/* Ends all transfers with an error, because the peer is lost. */
void sendlog_abandon(struct sendlog *log);

/* ---- transfers ---- */
/* The remote region: its address, number and keys, as in verbs_region. */
struct sendlog_target {
	uint64_t address, window;
	uint32_t id, keys;
	const uint32_t *rkey;
};
/* Returns the number of entries that x takes. It takes one for each window that it touches. */
uint64_t sendlog_entries(const struct transfer *x, const struct sendlog_target *target);
/* Returns 1 if x, which takes this number of entries, can be appended now. If it returns 0, poll
 * and call again. */
int sendlog_room(struct sendlog *log, const struct transfer *x, uint64_t entries);
/* Returns 1 if the log sends x from a copy. x then needs no local key. */
int sendlog_copies(const struct transfer *x);
/* Appends a transfer. Requires sendlog_room(). With `later`, only sendlog_post() posts x. The
 * exception is a large READ, which would keep the log from posting the entries after it. */
void sendlog_append(struct sendlog *log, const struct transfer *x, uint32_t lkey,
		    const struct sendlog_target *target, int later);
/* Posts the waiting transfers, with one doorbell if they are few. */
void sendlog_post(struct sendlog *log);

/* ---- other requests ---- */
/* Posts a request. Returns 0; SLUICE_EAGAIN if there is no room now; SLUICE_EPEER if the connection
 * is broken, which was reported before; or SLUICE_EDEVICE if this rank's card refuses the request.
 * In the last case *refused_out is set to the errno value. The connection then stays, because the
 * peer did not cause this. */
int sendlog_request(struct sendlog *log, struct ibv_send_wr *wr, int *refused_out);
/* Both return 0, SLUICE_EAGAIN or SLUICE_EPEER, as above. sendlog_write_slot() writes n bytes into
 * the peer's slot, from SLOT_* on. sendlog_greet() writes a greeting and notifies the peer of
 * it. */
int sendlog_write_slot(struct sendlog *log, size_t at, const void *bytes, size_t n);
int sendlog_greet(struct sendlog *log, enum greeting greeting, const void *bytes, size_t n);

/* ---- what completes ---- */
/* Handles the completion of request number wr, which also completes all earlier requests. */
void sendlog_completed(struct sendlog *log, uint64_t wr);
/* Handles a notify of the peer. Returns the result of sendlog_credit_due(). */
int sendlog_received(struct sendlog *log, uint32_t imm);
/* Returns 1 if the peer has used half of its credits. */
int sendlog_credit_due(const struct sendlog *log);
/* Returns credits to the peer. Returns 0 or SLUICE_E* like sendlog_request(). */
int sendlog_give_credit(struct sendlog *log);

/* ---- questions ---- */
/* Returns a counter that grows with every completed transfer, with every completed piece of a large
 * transfer, and with every received notify. */
uint64_t sendlog_moved(const struct sendlog *log);
/* Returns the number of transfers in the log. */
uint64_t sendlog_waiting(const struct sendlog *log);
/* For the end of a job. sendlog_flush() posts a request that completes after all earlier ones.
 * sendlog_flushed() returns 1 once that request has completed or the connection has ended. */
void sendlog_flush(struct sendlog *log);
int sendlog_flushed(const struct sendlog *log);
#endif
