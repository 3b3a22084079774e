/* SPDX-License-Identifier: BSD-3-Clause
 * The transport table: how one-sided operations reach a peer. The transports are self (this rank),
 * shm (the same machine), verbs (RDMA) and ofi (libfabric); transports.c lists them. A transport
 * knows regions and peers, not gradients. One thread at a time, the holder of the job's progress
 * token, calls a transport. Only wake() may be called by any thread. */
#ifndef RDMA_TRANSPORT_H
#define RDMA_TRANSPORT_H
#include "rdma/network.h"
#include "region.h"
#include <stddef.h>
#include <stdint.h>

struct transport;
struct neighbours;
struct endpoint;
struct remote;

enum transfer_kind { TRANSFER_PUT, TRANSFER_PUT_NOTIFY, TRANSFER_GET };
struct transfer {
	enum transfer_kind kind;
	struct remote *remote; /* the peer's region */
	uint64_t offset;       /* offset in the remote region, which must hold offset + bytes */
	const struct region *local_region; /* contains local; may be NULL for puts of <= 64 bytes */
	void *local;                       /* put: source, get: destination */
	size_t bytes;                      /* put: may be 0 in a PUT_NOTIFY */
	uint32_t imm;    /* PUT_NOTIFY: arrives at the peer when the bytes are in place */
	uint64_t cookie; /* returned in EVENT_DONE */
	int report;      /* put: 1 requests an EVENT_DONE when the local bytes may be changed
			    again */
	int quiet;       /* get, on a transport whose post() copies: 1 requests no EVENT_DONE */
};

enum event_kind {
	/* A PUT_NOTIFY of the peer. All bytes that this put and earlier puts of the peer wrote are
	 * visible. */
	EVENT_IMM,
	/* A get of this rank has filled its local memory, or a put for which a report was requested
	 * is in place. The event carries the cookie, and status, which is 0 or SLUICE_E*. After
	 * SLUICE_EPEER, a peer that was given up may still answer a get, because libfabric cannot
	 * cancel it. The get's local memory may therefore change until its region is closed. */
	EVENT_DONE,
	/* The peer's process ended, or its connection broke for good. The event comes once per
	   peer, and text gives the reason. */
	EVENT_GONE
};
struct event {
	enum event_kind kind;
	int peer;
	uint32_t imm;
	uint64_t cookie;
	int status;
	const char *text; /* EVENT_GONE: valid as long as the transport */
};

struct transport_config {
	int rank, size;
	uint32_t queue_depth; /* limit of unprocessed PUT_NOTIFYs from one peer */
	/* A region that peers may write. Every peer that connects gets access to it. For shm and
	 * self, its descriptor is part of the record. */
	const struct region *control;
	/* The size of a line of the control region. verbs and ofi give the peer of rank r access
	 * only to line r. 0: each peer has access to the whole region. */
	size_t control_line_bytes;
	const char *device;           /* verbs: a list; NULL or "": the first usable one */
	const char *gid_index;        /* verbs: "auto" or a number; NULL: auto */
	const char *memory_windows;   /* verbs: "auto", "yes" or "no"; NULL: auto */
	const char *gid_net;          /* verbs: its address is in this network; NULL or "": any */
	const char *relaxed_ordering; /* verbs: "auto", "no" or "all"; NULL: auto */
	const char *traffic_class;    /* verbs: "auto" or a number; NULL: auto */
	const char *service_level;    /* verbs: "auto" or a number; NULL: auto */
	const char *provider;         /* ofi: its name in libfabric; NULL or "": the best one */
	const char *interface;        /* verbs, ofi: a list; NULL or "": the first usable one */
	const char *ports; /* ofi over TCP: "LOW-HIGH", where it listens; NULL or "": anywhere */
	/* This transport of the rank, if it was opened before. A second transport is then opened on
	 * another card, number `card` of the record, for at most `peers` peers. */
	struct transport *beside;
	int card, peers;
	/* The number of peers that connect at the start; the others may connect later. 0: all. */
	int expected;
	/* self: the ranks of the same process (in_process.h), or NULL */
	struct neighbours *neighbours;
	int lost_after_ms;      /* the job's limit for a lost process */
	int link_lost_after_ms; /* the job's limit for a lost link; 0: lost_after_ms */
};

/* The keys that this rank shares with its peers. Both ends of a connection prove that they know
 * their key before a queue pair exists or an rkey is sent. A key never leaves memory, because the
 * bootstrap carries only public keys. */
struct peer_keys {
	int rank, size;
	uint32_t wire_version;
	const uint8_t (*key)[32]; /* [size]; the owner erases them after the transports' close() */
};

/* Counters that transfer_count() keeps for every transport, for statistics. The transport self
 * counts a rank's messages to itself. puts and put_bytes include puts with a notify. Refused posts
 * do not count. */
struct transport_counters {
	uint64_t puts, put_bytes, notifies, gets, get_bytes;
};

enum { TRANSPORT_RECORD_BYTES = 1536 };

/* The distance between two ranks. */
enum distance {
	DISTANCE_NONE,    /* both are the same rank */
	DISTANCE_PROCESS, /* both are simulated */
	DISTANCE_KERNEL,  /* both run under one kernel */
	DISTANCE_NETWORK
};

/* A trial that shows whether packets reach a peer and come back. */
struct route {
	const uint8_t *record; /* of the peer */
	size_t bytes;
	int answered; /* 1: the peer has answered the trial */
};

/* The functions by which a thread sleeps until the next event, and is woken. */
struct sleep_ops {
	/* arm() is called before sleeping and makes fd readable at the next event. It returns 1 if
	 * events are already waiting, so that the caller must not sleep, and otherwise 0. disarm()
	 * drains fd after waking. cancel() undoes arm() without a system call if no thread slept.
	 * An fd that has become readable meanwhile stays readable, and causes one spurious wake-up
	 * of the next sleeper. */
	int (*arm)(struct transport *t);
	void (*disarm)(struct transport *t);
	void (*cancel)(struct transport *t);
	int (*fd)(struct transport *t);
	/* Makes fd readable, which wakes an armed sleeper. Any thread and a signal handler may call
	 * it. */
	void (*wake)(struct transport *t);
};

struct transport_ops {
	const char *name;
	enum distance farthest; /* the largest distance between two ranks that it covers */
	/* 1: ranks open it only if the earlier transports of the table leave two ranks unconnected,
	 * or if the user names it. */
	int last_resort;
	/* The packages to install if this build lacks the transport. Then only the members above
	 * are set. */
	const char *absent;
	/* open() makes the objects that peers need before they can connect. open() and close()
	 * never wait for a peer. */
	int (*open)(const struct transport_config *config, struct transport **out);
	void (*close)(struct transport **t);
	/* Writes this transport's part of the rank's record, at most TRANSPORT_RECORD_BYTES. */
	int (*record)(struct transport *t, uint8_t *bytes, size_t *len_out);
	/* NULL means that two ranks at most `farthest` apart reach each other. Otherwise they need
	 * cards in one network. The function reads the networks of a rank's cards from its record;
	 * the card that the rank uses comes first. Returns the number of networks, or SLUICE_E*,
	 * which is not logged. */
	int (*networks)(const uint8_t *record, size_t len, struct network out[NETWORKS_MOST]);
	/* Writes the name of a card of a record, such as "mlx5_0 10.3.0.1/24 (RoCE)". */
	void (*card)(const uint8_t *record, size_t len, int card, char *text, size_t cap);
	/* Tests for at most timeout_ms whether this rank's card reaches peers outside its network.
	 * The peers need not poll meanwhile. why receives the reason of the first peer that does
	 * not answer. */
	void (*try_routes)(struct transport *t, struct route *routes, int n, int timeout_ms,
			   char *why, size_t cap);
	/* Receives the keys after the bootstrap, before the first connect(). NULL for a transport
	 * within one machine, which needs no keys. */
	int (*admit)(struct transport *t, const struct peer_keys *keys);
	/* Begins to connect, and never waits for the peer. Both sides call it. The record came
	 * through the bootstrap and may be hostile. t owns the endpoint. */
	int (*connect)(struct transport *t, int peer, const uint8_t *record, size_t len,
		       struct endpoint **out);
	/* Returns 1 once the peer is connected and control() may be called, 0 before that (poll,
	 * then call again), or SLUICE_E*. NULL means that connect() returns with the peer
	 * connected. */
	int (*ready)(struct endpoint *e);
	/* Opens the control region of this endpoint's peer, which came with the connection.
	 * remote_close() ends it. */
	int (*control)(struct endpoint *e, struct remote **out);
	/* Writes a descriptor by which this endpoint's peer can reach the region. Requires ready().
	 * Returns SLUICE_EAGAIN while the connection is broken or a queue is full: poll, and call
	 * again. */
	int (*describe)(struct endpoint *e, const struct region *region,
			uint8_t descriptor[REGION_DESCRIPTOR_BYTES]);
	/* Opens a peer's region from its descriptor, which may be hostile. */
	int (*remote_open)(struct endpoint *e, const uint8_t descriptor[REGION_DESCRIPTOR_BYTES],
			   struct remote **out);
	void (*remote_close)(struct remote **remote);
	/* Called when the job continues without this peer. All its keys become invalid, even if its
	 * process still runs, and it gets no new keys. Transfers to the peer continue. NULL for shm
	 * and self, because a process keeps memory that it has mapped. There, checks of private
	 * copies and membership epochs make the peer's writes ineffective. */
	void (*revoke)(struct endpoint *e);
	/* Posts one transfer. Fails with SLUICE_EAGAIN when a queue is full (poll, then post
	 * again), with SLUICE_EINVAL if the transfer is out of bounds or not permitted, and with
	 * SLUICE_EPEER after EVENT_GONE. Never allocates or blocks. A put's local bytes must not
	 * change until the peer's protocol has acknowledged them. When a get completes, the peer
	 * has received every PUT_NOTIFY that was posted before it, unless the network lost it. On a
	 * transport without this order, a PUT_NOTIFY may be late by one piece. */
	int (*post)(struct endpoint *e, const struct transfer *transfer);
	/* With `on` 1, holds back the transfers that are posted next. With 0, passes them to the
	 * card, with one doorbell for each peer. Between the two calls, only post() is called. NULL
	 * means that post() holds nothing back. */
	void (*gather)(struct transport *t, int on);
	/* Returns up to n events. Never sleeps. */
	int (*poll)(struct transport *t, struct event *events, int n);
	struct sleep_ops sleep;
	/* Returns the address in this process of a peer's region that this rank may write. The
	 * caller fills it without post() and then posts a PUT_NOTIFY. Its stores are in place when
	 * the notify arrives. The address is valid until remote_close(). If the region is not
	 * mapped here, returns NULL; verbs never maps one and has no such function. */
	void *(*address)(struct remote *remote);
	/* Does the same for a peer's region that this rank may read. The peer may
	 * change the region at any time, so validate a private copy. */
	const void *(*readable)(struct remote *remote);
	/* Prepares n bytes at `at` of a local region for transfers with this endpoint's peer. This
	 * may be slow, because a card registers them. Without this call, the first post() does so,
	 * for the whole region. Returns 1, or SLUICE_E*, or 0 if the region is device memory from
	 * which the card cannot read puts. After 0, such puts are refused; they are also refused if
	 * this function is NULL (shm, self). region NULL: returns 1 if the result can be 1 for some
	 * device memory. */
	int (*prepare)(struct endpoint *e, const struct region *region, const void *at, size_t n);
	/* Returns a counter that grows while transfers to and from the peer proceed. It need not
	 * grow for a peer that only answers slowly. NULL means that post() itself copies. */
	uint64_t (*moved)(struct endpoint *e);
	/* Makes the connection to the peer again, as after a failure. Nothing that was posted is
	 * lost or done twice. NULL: the transport cannot. */
	void (*renew)(struct endpoint *e, const char *why);
	/* Returns 1 if this rank's own port is known to be down, in which case the silence of the
	 * peer proves nothing. NULL means that this is never known. */
	int (*away)(struct endpoint *e);
	/* 1 (shm, self): post() itself copies. When it returns, a put's local bytes may be changed
	 * and a get's are filled, and an EVENT_DONE comes unless the get is quiet. local_region
	 * then needs only base and bytes. 0: all this holds only after EVENT_DONE. */
	int copies_at_post;
	/* 1 (ofi): puts of peers arrive here, and their gets are answered, only while this rank
	 * polls. */
	int moves_by_polling;
};

struct transport {
	const struct transport_ops *ops;
	struct transport_counters counters;
	const char *device; /* "mlx5_0"; NULL: none */
	int card;           /* its number in this rank's record; the job sets it */
	/* A warning for users before they measure, or NULL. The lowest rank that the transport
	 * connects logs it. Valid as long as the transport. */
	const char *caution;
};
struct endpoint {
	struct transport *transport;
	int peer;
	uint64_t notifies; /* number of PUT_NOTIFYs that post() accepted; the job compares it
			      with arrivals */
};
struct remote {
	struct endpoint *endpoint;
	uint64_t bytes;
	unsigned access;
};

extern const struct transport_ops self_transport, shm_transport;
#ifdef HAVE_VERBS
extern const struct transport_ops verbs_transport;
#endif
#ifdef HAVE_LIBFABRIC
extern const struct transport_ops ofi_transport;
#endif
/* NULL-terminated, with the preferred transport first. All builds have the same table. */
extern const struct transport_ops *const transports[];
#endif
