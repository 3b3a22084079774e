/* SPDX-License-Identifier: BSD-3-Clause
 * The connection to one peer, made through a carrier (carrier.h). The lower rank of a pair is the
 * client:
 *
 *   client                                   server
 *     makes a queue pair
 *     PROOF tag                        ->    checks it, makes a queue pair
 *     <-  ACCEPT tag, keys of slot and control region
 *     checks the tag, binds its windows
 *     READY (an immediate)             ->    binds its windows: the keys it sent work from now on
 *     <-  READY
 *     KEYS: writes its own, then an immediate ->  takes them over
 *     <-  KEYS, and is up
 *     takes them over, is up
 *
 * READY needs no key, because it has no bytes. A lost connection is restored the same way until the
 * time to reconnect is over. A server that has lost its connection sends HELLO. The reply ALIVE
 * shows that the client's process lives, and "nobody listens" shows that it has ended. Everything
 * from the carrier or a peer is only an input to the table in link.c. Every answer has a timer,
 * because a stopped process answers nothing.
 *
 * The table has a row for each state and event. link.c moves the peer's log (sendlog.h) and rights
 * (rights.h) from one queue pair to the next. Called by connect.c, which receives the carrier's
 * events and runs the timers, and by verbs.c. */
#ifndef RDMA_LINK_H
#define RDMA_LINK_H
#include "rdma/frame.h"
#include "rdma/proof.h"
#include "rdma/queue_pair.h"
#include "rdma/queues.h"
#include "rdma/rights.h"
#include "rdma/sendlog.h"
#include "rdma/transport.h"
#include <rdma/rdma_cma.h>

struct link;

/* Requests of a link to the next poll. */
enum { LINK_SETTLES = 1, LINK_OWES_CREDIT = 2 };

/* All ranks connect at the same time, and a rank answers its requests one after another, each in
 * milliseconds. Every rank begins with the ranks that follow it, so a rank gets about
 * LINK_TRIES_MOST requests at a time, and answers them before their senders give up. */
enum { LINK_TRIES_MOST = 32 };

/* State that all links of a transport use. */
struct link_shared {
	int lost_after_ms, link_lost_after_ms;
	const struct verbs_device *device;
	struct ibv_context *context;
	const struct proofs *proofs;
	struct queues *queues;
	const struct queue_sizes *sizes;
	struct event_queue *events;
	unsigned *wants; /* LINK_* flags, which links set and the poll clears */
	int *trying;     /* number of links that try to connect, or that test whether the peer
			    lives */
};

struct link_config {
	int peer, client;               /* client: 1 if this rank connects to the peer */
	const struct verbs_record *its; /* the peer's record; only for link_open() */
	char device[32];                /* the peer's device, for messages */
	struct sendlog *log;
	struct rights_peer *rights;
	struct queue_pair *pair; /* carries the log and the rights from one queue pair to the
				    next */
};

/* Opens a link. shared must stay valid until the link is closed. */
int link_open(const struct link_shared *shared, const struct link_config *config,
	      struct link **out);
/* Takes the connection down. All links must be taken down before any of them is closed. */
void link_down(struct link *l);
void link_close(struct link **l);

/* ---- questions ---- */
/* Returns 1 if the connection works in both directions. */
int link_is_up(const struct link *l);
/* Returns 1 if the connection broke and this rank's port is down. */
int link_is_cut(const struct link *l);
/* Returns 1 if the link is lost for good; link_why() gives the reason. */
int link_is_gone(const struct link *l);
/* Returns 1 if the peer was given up, or dropped from the job. */
int link_refuses(const struct link *l);
/* Returns 1 if the link has been up. Unless such a link is gone, it is up or will be up again. */
int link_was_up(const struct link *l);
const char *link_why(const struct link *l);

/* ---- what happens ---- */
void link_answer(struct link *l, const struct carrier_event *event, uint64_t now);
/* Called when the peer asks to connect, with a valid proof. Returns 0, and the link then owns the
 * request. To refuse, returns the reason and sets *why_out, and the caller keeps the request. */
int link_accept(struct link *l, const struct carrier_event *request, const struct frame *proof,
		uint64_t now, const char **why_out);
/* Takes a completion of the link's queue pair from queues.h. Links change state only when the poll
 * is over. */
void link_completed(void *link, const struct ibv_wc *wc);
/* Handles events that completions recorded, after a poll that ended with LINK_SETTLES. */
void link_settle(struct link *l);
/* Runs the timers. Returns 1 if any of them still runs. No try begins while LINK_TRIES_MOST tries
 * are under way. */
int link_tick(struct link *l, uint64_t now);
/* Drops the peer from the job and ends its keys. The connection stays up for the last messages to
 * the peer, and is not restored. */
void link_expel(struct link *l);
/* Ends the link for good, because the peer is lost. */
void link_end(struct link *l, const char *why);
/* Lets the next poll give up a connection that is up, and make it again. */
void link_renew(struct link *l, const char *why);
#endif
