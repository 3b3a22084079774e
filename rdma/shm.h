/* SPDX-License-Identifier: BSD-3-Clause
 * What the two halves of the shm transport share: shm.c opens, meets peers and closes; shm_move.c
 * is the hot path, transfers and events. */
#ifndef RDMA_SHM_H
#define RDMA_SHM_H
#include "base/error.h"
#include "rdma/event_queue.h"
#include "rdma/mailbox.h"
#include "rdma/process.h"
#include "rdma/transport.h"
#include "sluice.h"
#include <stdint.h>

enum { SHM_WAKE_TAG = INT32_MAX }; /* in epoll's data where pidfds have the peer's rank */

enum { SHM_TICK_MS = 100 };

enum peer_state {
	PEER_ALIVE,
	PEER_ENDED,  /* its process ended; what it sent before is still handed out */
	PEER_BROKEN, /* it broke the mailbox; nothing more is taken from it */
	PEER_GONE    /* EVENT_GONE was handed out */
};

struct shm_peer {
	struct endpoint endpoint;
	enum peer_state state;
	int pidfd;     /* in the epoll set while PEER_ALIVE; -1 where there are none */
	int wake_fd;   /* the peer's pipe */
	void *mailbox; /* the peer's, mapped */
	uint64_t mailbox_bytes;
	struct process process;
	uint8_t control[REGION_DESCRIPTOR_BYTES]; /* of its control region; judged when opened */
	struct mailbox_writer out;                /* our ring in its mailbox */
	struct mailbox_reader in;                 /* its ring in ours */
};

struct shm {
	struct transport transport;
	int rank, size;
	struct process process;
	uint32_t capacity; /* of the rings of our mailbox */
	struct region *mailbox;
	const struct region *control; /* the job's, told to every peer in the card */
	int pipe_read, pipe_write;
	int epoll;
	int ticker; /* timer that wakes a sleeper to look after peers without pidfd;
		     * -1 while there are none */
	int armed;
	uint64_t next_check_ns; /* for ended peers; 0 at once */
	unsigned polls;
	struct event_queue dones;
	int n_peers, first;        /* first: where the next poll starts, so that none starves */
	struct shm_peer **peers;   /* [size], the first n_peers connected, in that order */
	struct shm_peer **by_rank; /* [size] */
};

struct shm_remote {
	struct remote remote;
	void *base;
};

static inline struct shm *shm_of(struct transport *t)
{
	return (struct shm *)(void *)t; /* its first member, as in the two below */
}

static inline struct shm_peer *peer_of(struct endpoint *e)
{
	return (struct shm_peer *)(void *)e;
}

static inline struct shm_remote *shm_remote_of(struct remote *r)
{
	return (struct shm_remote *)(void *)r;
}

static inline int shm_fail_gone(const struct shm_peer *peer)
{
	return fail_quietly(SLUICE_EPEER, "rank %d (pid %d) is gone", peer->endpoint.peer,
			    (int)peer->process.pid);
}

/* shm_move.c; see struct transport_ops. */
int shm_post(struct endpoint *e, const struct transfer *transfer);
int shm_poll(struct transport *t, struct event *events, int n);
int shm_arm(struct transport *t);
void shm_disarm(struct transport *t);
void shm_cancel(struct transport *t);
int shm_fd(struct transport *t);
void shm_wake(struct transport *t);
#endif
