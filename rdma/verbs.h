/* SPDX-License-Identifier: BSD-3-Clause
 * What the parts of the verbs transport share:
 *   verbs.c          endpoints, descriptions of regions
 *   verbs_open.c     sizes, queues, memory; verbs_close.c their end
 *   verbs_device.c   which device, port and address
 *   verbs_link.c     the queue pair of one connection: made, replayed, taken down
 *   verbs_post.c     the hot path out: the log of transfers and its work requests
 *   verbs_complete.c the hot path in: completions become events
 *   verbs_poll.c     ... credits, troubles, sleeping and waking
 *   verbs_register.c memory that the card may reach, per peer
 *   connect.c        rdma_cm: events, timers, who talks to whom, reconnecting
 *   connect_try.c    rdma_cm: one try, and the next
 *   connect_client.c rdma_cm: the client's half of the proof
 *   connect_accept.c rdma_cm: the server's half
 *   ladder.c         registering device memory
 *
 * Every peer has its own protection domain, so that a key made for one peer is of no use to
 * another. All queue pairs share one completion queue and one shared receive queue; receives carry
 * no memory, as all that arrives is an immediate.
 *
 * What is posted stays in the endpoint's log until it is known to be complete. When a connection
 * breaks, both sides tell each other how many notifies they have received, and what the peer does
 * not have is posted again, in order, on a new queue pair: each notify arrives exactly once. */
#ifndef RDMA_VERBS_H
#define RDMA_VERBS_H
#include "base/error.h"
#include "rdma/event_queue.h"
#include "rdma/frame.h"
#include "rdma/ladder.h"
#include "rdma/transfer.h"
#include "rdma/transport.h"
#include "rdma/verbs_device.h"
#include "sluice.h"
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>

enum {
	VERBS_LOG_MAX = 512, /* transfers (and work requests) that one peer may have under way */
	VERBS_LOG_MIN = 16,
	VERBS_CREDITS_MIN = 8,
	VERBS_INLINE_WISH = 96, /* the greeting fits */
	VERBS_READS_MAX = 16,
	VERBS_RETRIES = 6, /* 7 means "for ever" to some devices */
	VERBS_RECEIVE_BATCH = 64,
	VERBS_PAGE = 4096
};

/* A slot is what a peer may write here: its greeting, how many notifies it has taken, and the keys
 * of its regions (verbs_keys.c). */
enum { SLOT_GREETING = 0, SLOT_CREDIT = 128, SLOT_KEYS = 256, SLOT_BYTES = VERBS_PAGE };
_Static_assert((int)GREETING_BYTES <= (int)SLOT_CREDIT, "the greeting overlaps the credit");
enum {
	KEYS_MAX = 448,
	KEYS_TABLE_BYTES = 8 + 8 * KEYS_MAX
}; /* regions that a peer may be offered */

/* The immediates of two ranks that become connected, each side in this order; connect.c draws
 * it. */
enum greeting { GREETING_NONE, GREETING_READY, GREETING_KEYS };

#define WR_RECEIVE UINT64_MAX /* wr_id of receives; sends are numbered 1, 2, ... per queue pair */

struct sent {
	uint64_t remote_address, bytes, posted; /* posted: bytes whose work requests are out */
	uint64_t last_wr; /* number of its last work request, once all are out */
	uint64_t notify;  /* its number among the notifies to this peer, 0: none */
	uint64_t cookie;
	const uint8_t *local;
	uint32_t lkey, rkey, imm;
	uint32_t region; /* the peer's number of the region, in case its key changes */
	uint8_t kind, report;
	uint8_t copied;  /* local is in the log's own memory */
	uint8_t started; /* a work request of it is out */
	uint8_t settled; /* the peer has it (known since a reconnect): not to be posted again */
};

enum link_state {
	LINK_DOWN,      /* no queue pair; the client tries, the server waits */
	LINK_PROVING,   /* client: request with the proof is out */
	LINK_ACCEPTING, /* server: accepted, the greetings have not come */
	LINK_GREETING,  /* client: accepted, the greetings have not come */
	LINK_UP,
	LINK_GONE
};

struct verbs_endpoint {
	struct endpoint endpoint;
	enum link_state state;
	int client;                      /* this rank is the lower one: it connects */
	struct sockaddr_storage address; /* of the peer's listener */
	char device[32];                 /* of the peer, for messages */
	struct ibv_pd *pd;
	struct ibv_mr *slot_mr, *copies_mr;
	struct ibv_mw *slot_window; /* where rights are windows */
	uint32_t slot_rkey;
	uint8_t *slot;   /* written by the peer */
	uint8_t *copies; /* bytes of small puts: TRANSFER_INLINE_BYTES per log entry, then those of
			  * its slot there */
	uint8_t control[REGION_DESCRIPTOR_BYTES]; /* of the peer's control region */
	uint8_t own_control[REGION_DESCRIPTOR_BYTES];
	struct slot_address peer_slot;
	struct verbs_remote *remotes;        /* of this peer, open */
	uint8_t peer_keys[KEYS_TABLE_BYTES]; /* the n entries of its table */
	uint32_t n_peer_keys, peer_link;     /* of its connection number peer_link */
	uint32_t link;                       /* queue pairs made for it so far */

	/* log: entries [first, end), of which those before next_post are in the queue pair */
	struct sent *log;
	uint64_t first, next_post, end;
	uint64_t wr_sent, wr_done, wr_signalled; /* of the present queue pair */
	uint32_t reads, reads_max;
	uint64_t notify_sent, notify_done; /* numbers; done: popped from the log */
	uint64_t credit_seen;              /* notifies the peer says it has taken */
	uint64_t received, credit_given;   /* notifies taken here; last told to the peer */

	/* connection; see connect.c */
	struct rdma_cm_id *hello; /* asks for a challenge; a server probes whether the peer lives */
	struct rdma_cm_id *id;    /* has the queue pair */
	uint32_t qpn;
	enum greeting awaits,
		greeted; /* the next one from it; the one that came and is not yet answered */
	struct auth_context auth;
	struct auth_context hello_auth;
	uint64_t hello_deadline_ns, link_deadline_ns, retry_at_ns, give_up_ns; /* 0: not running */
	uint64_t accepted_ms; /* when the last proof was accepted: older challenges are void */
	unsigned tries, refusals, breaks;
	int was_up;
	int revoked;     /* dropped from the job: it has no key any more and gets none */
	int cut;         /* broken while the own port is down: nothing is sent before it is up */
	int failing;     /* a completion failed: take the link down after this poll */
	int fatal;       /* ... and do not make it again */
	char why[200];   /* the last trouble */
	char broke[200]; /* why the connection was lost, while it is being made again */
	char gone_text[256];
};

struct verbs_remote {
	struct remote remote;
	struct verbs_remote *next;
	uint64_t address;
	uint32_t rkey, id;
};

struct verbs {
	struct transport transport;
	int rank, size;
	uint32_t queue_depth;
	int lost_after_ms;
	const struct region *control;
	size_t control_line_bytes;
	struct verbs_device device;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	/* the listener's; rdma_cm shares it among all ids of the device */
	struct ibv_context *context;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	struct ibv_pd *pd; /* of the shared receive queue; with windows, of everything */
	int windows;       /* rights by memory windows, not by a domain for each peer */
	struct ibv_srq *srq;
	struct region *slots, *copies; /* of all peers, a page-aligned part each */
	size_t copies_stride;

	uint32_t log_entries, receives, credits, inline_bytes, reads, cq_entries;
	uint64_t max_message;
	uint8_t ack_timeout; /* 4.096 us * 2^this */

	int admitted;
	struct job_secret secret;
	uint8_t nonce_key[AUTH_KEY_BYTES];
	uint64_t refused; /* connections */

	int epoll, timer, wake_fd;
	int ticking;           /* some endpoint is neither up nor gone */
	uint64_t next_look_ns; /* at rdma_cm and the timers */
	uint32_t polls;
	struct event_queue events;
	uint32_t receives_missing;
	int credit_due; /* some peer has used half of what it may send */
	int trouble;    /* some endpoint is failing */
	int greeted;    /* some endpoint was greeted */

	int n_peers;
	struct verbs_endpoint **peers, **by_rank;
	uint32_t qpn_mask; /* open addressing; at most a quarter full */
	struct verbs_endpoint **by_qpn;

	pthread_mutex_t
		registering; /* registrations: region_close() may come from another thread */
	struct verbs_registration *registrations;
	uint32_t last_region; /* ids given out */
};

static inline struct verbs *verbs_of(struct transport *t)
{
	return (struct verbs *)(void *)t; /* its first member, as below */
}

static inline struct verbs_endpoint *verbs_endpoint_of(struct endpoint *e)
{
	return (struct verbs_endpoint *)(void *)e;
}

static inline struct verbs *verbs_of_endpoint(const struct verbs_endpoint *ep)
{
	return verbs_of(ep->endpoint.transport);
}

static inline struct verbs_remote *verbs_remote_of(struct remote *r)
{
	return (struct verbs_remote *)(void *)r;
}

static inline struct sent *sent_at(const struct verbs *v, const struct verbs_endpoint *ep,
				   uint64_t n)
{
	return &ep->log[n & (v->log_entries - 1)]; /* a power of two */
}

/* ---- verbs_open.c, verbs_close.c ---- */
int verbs_open(const struct transport_config *config, struct transport **out);
void verbs_close(struct transport **t);
/* Fails with the call and errno. */
int verbs_failed(const char *call);

/* ---- verbs_link.c ---- */
/* Makes the queue pair of ep->id. */
int link_make(struct verbs_endpoint *ep);
/* After the proof: what the peer received of ours is settled, the rest will be posted again. -1:
 * the peer's count cannot be. */
int link_replay(struct verbs_endpoint *ep, uint64_t received);
/* Takes the queue pair of ep->id down; what arrived before is handed out. */
void link_unmake(struct verbs_endpoint *ep);
/* The link works both ways from here on. */
void link_up(struct verbs_endpoint *ep);
/* Takes down queue pair and id; hands out everything that arrived before. */
void link_drop(struct verbs_endpoint *ep);
/* The peer is lost for good: its keys end, EVENT_GONE. */
void link_gone(struct verbs_endpoint *ep, const char *text);

/* ---- verbs_qpn.c ---- */
struct verbs_endpoint *link_of_qpn(const struct verbs *v, uint32_t qpn);
void link_index(struct verbs *v); /* after every change of a queue pair */

/* ---- verbs_post.c ---- */
int verbs_post(struct endpoint *e, const struct transfer *transfer);
/* Turns log entries into work requests as far as there is room. */
void post_log(struct verbs_endpoint *ep);
/* All work requests up to this number are complete. */
void post_completed(struct verbs_endpoint *ep, uint64_t wr);
/* A write outside the log into the peer's slot, from SLOT_* on; n may be 0. -1: no room. */
int post_slot(struct verbs_endpoint *ep, size_t at, const void *bytes, size_t n, int signalled);
/* ... with an immediate. */
int post_greeting(struct verbs_endpoint *ep, enum greeting greeting, const void *bytes, size_t n);
/* Any other request; counted, and signalled when it is time. -1: no room now, or ep->failing. */
int post_request(struct verbs_endpoint *ep, struct ibv_send_wr *wr);

/* ---- verbs_complete.c ---- */
enum { COMPLETIONS_AT_ONCE = 32 };
/* Moves completions to the event queue; returns how many there were. */
int poll_completions(struct verbs *v);
int poll_post_receives(struct verbs *v, uint32_t n);
/* An immediate came before the link was up: noted, for greet_answer(). */
void greet_take(struct verbs_endpoint *ep, uint32_t imm);

/* ---- verbs_poll.c ---- */
int verbs_poll(struct transport *t, struct event *events, int n);
int verbs_arm(struct transport *t);
void verbs_disarm(struct transport *t);
void verbs_cancel(struct transport *t);
int verbs_fd(struct transport *t);
void verbs_wake(struct transport *t);
/* Serves all links until this one, which was up before, is up or gone; the events wait. */
void poll_until_linked(struct verbs_endpoint *ep);

/* ---- verbs_register.c ---- */
/* The key for local use of a region in the peer's domain; registers it at its first use. */
int register_local(struct verbs_endpoint *ep, const struct region *region, int write,
		   uint32_t *lkey_out);
/* Whether puts from device memory are read by the card where it is; registers it. 1, 0 or
 * SLUICE_E*. */
int register_in_place(struct verbs_endpoint *ep, const struct region *region);
/* Registers bytes [from, from + n) of a region for the peer, and while it is connected gives it a
 * key. */
int register_remote(struct verbs_endpoint *ep, const struct region *region, size_t from, size_t n);
/* ... and what it needs to know of it, once there is a queue pair. */
int register_describe(struct verbs_endpoint *ep, const struct region *region,
		      uint8_t descriptor[REGION_DESCRIPTOR_BYTES]);
/* No key that this peer was given works any more; those for our own use do. */
void register_revoke_keys(struct verbs_endpoint *ep);
/* Everything of this peer ends. */
void register_revoke(struct verbs_endpoint *ep);
/* Before the transport closes: all registrations end, regions forget them. */
void register_close(struct verbs *v);

/* ---- verbs_window.c; all do nothing, or are not called, where rights are domains ---- */
/* 0: the device has windows that keep what they promise. -1: why not. */
int window_prove(struct ibv_pd *pd, const struct verbs_device *device, char why[160]);
/* A window and the key that it will have. */
int window_make(struct verbs_endpoint *ep, struct ibv_mw **window, uint32_t *rkey_out);
/* Posts its binding to the whole of mr. Polls for room, at most a second. */
int window_bind(struct verbs_endpoint *ep, struct ibv_mw *window, uint32_t rkey, struct ibv_mr *mr,
		unsigned access);
void window_end(struct ibv_mw **window);
unsigned window_access(const struct region *region);
/* Those of a new queue pair, for all that the peer was offered before; then binds them; ends
 * them. */
int windows_make(struct verbs_endpoint *ep);
int windows_bind(struct verbs_endpoint *ep);
void windows_end(struct verbs_endpoint *ep);

/* ---- verbs_keys.c ---- */
/* Regions that the rank was offered; the lock held. */
int keys_offered(const struct verbs *v, int rank);
/* The table for the peer. Returns its length. */
size_t keys_table(const struct verbs_endpoint *ep, uint8_t out[KEYS_TABLE_BYTES]);
/* Takes over the table that the peer wrote. -1: impossible, ep->why. */
int keys_take(struct verbs_endpoint *ep);
/* The present key of a region that the peer described. */
int keys_of(const struct verbs_endpoint *ep, const struct wire_region *wire, uint32_t *rkey_out);

/* ---- connect.c ---- */
/* An event of rdma_cm, copied, as an id cannot end before its event is acknowledged. */
struct cm_event {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id, *listener;
	uint8_t bytes[256];
	size_t n;
	uint8_t responder_resources, initiator_depth;
};

enum { CONNECT_PROBE_EVERY_MS = 500 };
static inline uint64_t connect_ms_to_ns(uint64_t ms)
{
	return ms * 1000000;
}
int connect_port_active(const struct verbs *v);
int connect_listen(struct verbs *v);
void connect_close(struct verbs *v);
/* Reads all events of rdma_cm, then runs the timers. */
void connect_events(struct verbs *v);
void connect_tick(struct verbs *v, uint64_t now);
/* The link failed: take it down and, while there is time, make it again. */
void connect_broken(struct verbs_endpoint *ep, const char *why);

/* ---- connect_try.c ---- */
/* Ends the present try, to begin anew soon. why may be ep->why. */
void connect_try_later(struct verbs_endpoint *ep, const char *why);
uint64_t connect_try_ns(const struct verbs_endpoint *ep);
void connect_end_hello(struct verbs_endpoint *ep);

/* ---- connect_client.c ---- */
void connect_start_hello(struct verbs_endpoint *ep, uint64_t now);
/* When the route of the hello's, of the link's id is known. */
void connect_send_hello(struct verbs_endpoint *ep);
void connect_send_proof(struct verbs_endpoint *ep);
/* The answers: to either, to a proof. */
void connect_rejected(struct verbs_endpoint *ep, const struct cm_event *event, int of_hello,
		      uint64_t now);
void connect_accepted(struct verbs_endpoint *ep, const struct cm_event *event);

/* ---- connect_accept.c ---- */
void connect_requested(struct verbs *v, const struct cm_event *event, uint64_t now);

/* ---- connect_greet.c ---- */
/* Both queue pairs work: the client's first words. */
void greet_begin(struct verbs_endpoint *ep);
/* Answers the greetings that came. */
void greet_answer(struct verbs *v);
struct slot_address connect_own_slot(const struct verbs_endpoint *ep);
/* Takes over what the peer says of its slot and control region. -1: impossible. */
int connect_take_slot(struct verbs_endpoint *ep, const struct slot_address *slot,
		      const uint8_t control[REGION_DESCRIPTOR_BYTES]);
#endif
