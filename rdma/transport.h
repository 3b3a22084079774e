/* SPDX-License-Identifier: BSD-3-Clause
 * The transport table: how one-sided operations reach a peer. The transports are self (the own
 * rank), shm (the same machine), verbs (RDMA) and ofi (libfabric); transports.c lists them. A
 * transport knows regions and peers, not gradients. All calls of one transport come from one thread
 * at a time, the holder of the job's progress token, except wake(), which any thread may call. */
#ifndef RDMA_TRANSPORT_H
#define RDMA_TRANSPORT_H
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
	uint64_t offset;       /* in the remote region, which must hold offset + bytes */
	const struct region *local_region; /* holds local; may be NULL for puts of <= 64 bytes */
	void *local;                       /* put: source, get: destination */
	size_t bytes;                      /* put: may be 0 with NOTIFY */
	uint32_t imm;    /* PUT_NOTIFY: it arrives at the peer after the bytes are in place */
	uint64_t cookie; /* it comes back in EVENT_DONE */
	int report;      /* put: an EVENT_DONE tells when the local bytes may be changed again */
	int quiet;       /* get, where the transport copies at post: there is no EVENT_DONE */
};

enum event_kind {
	/* A PUT_NOTIFY of the peer. All bytes that it and earlier puts of that peer wrote are
	 * visible. */
	EVENT_IMM,
	/* An own get has filled its local memory, or a put that is reported is in place. It carries
	 * the cookie, and status: 0 or SLUICE_E*. After SLUICE_EPEER a get's local memory may still
	 * be written, until its region is closed: libfabric cannot end a get, and a peer that was
	 * given up may answer it. */
	EVENT_DONE,
	/* The peer's process ended, or its connection broke for good. It comes once for each peer,
	 * and text says why. */
	EVENT_GONE
};
struct event {
	enum event_kind kind;
	int peer;
	uint32_t imm;
	uint64_t cookie;
	int status;
	const char *text; /* EVENT_GONE: it lives as long as the transport */
};

struct transport_config {
	int rank, size;
	uint32_t queue_depth; /* the most PUT_NOTIFYs that a peer may have outstanding here */
	/* A region that peers may write. Every peer that connects gets it with the connection (shm,
	 * self: its descriptor is part of the card). */
	const struct region *control;
	/* Where the transport can keep peers apart (verbs), a peer may write only so many bytes of
	 * the control region: its own line, number `rank`. 0: all of it. */
	size_t control_line_bytes;
	const char *device;         /* verbs: "name[:port]"; NULL or "": the first usable one */
	const char *gid_index;      /* verbs: "auto" or a number; NULL: auto */
	const char *memory_windows; /* verbs: "auto", "yes" or "no"; NULL: auto */
	const char *provider;       /* ofi: libfabric's name of it; NULL or "": the best one */
	const char *interface;      /* ofi: its name or address; NULL or "": the first usable one */
	/* self: the ranks of the same process (in_process.h); NULL: there are none */
	struct neighbours *neighbours;
	int lost_after_ms; /* the job's limit for a lost peer, from which all timers follow */
};

/* What both ends of a connection prove to know before a queue pair exists or a key is sent. The
 * bootstrap tells it, and SLUICE_KEY_FILE adds to it what the bootstrap does not know. The key
 * never leaves memory: it is not in arguments, the environment, logs or checkpoints. */
struct job_secret {
	uint8_t key[32]; /* rank 0 made it with getrandom(2) */
	char job[64];    /* "slurm 123.0", part of what is proved */
	uint32_t wire_version;
};

/* Every transport keeps these (transfer_count()), and statistics read them. Messages to the own
 * rank count for self. puts and put_bytes include those with a notify. Posts that were refused do
 * not count. */
struct transport_counters {
	uint64_t puts, put_bytes, notifies, gets, get_bytes;
};

enum { TRANSPORT_RECORD_BYTES = 256 };

/* How far one rank is from another one. */
enum distance {
	DISTANCE_NONE,    /* it is the same rank */
	DISTANCE_PROCESS, /* both are simulated */
	DISTANCE_KERNEL,  /* both run under one kernel */
	DISTANCE_NETWORK
};

struct transport_ops {
	const char *name;
	enum distance farthest; /* to which it reaches */
	/* 1: it is opened where the transports before it in the table leave two ranks without a way
	 * to each other, or where the user names it. */
	int last_resort;
	/* What it takes to build it, if this build lacks it: then nothing but the above is set. */
	const char *absent;
	/* open() makes what peers need before they can connect. Neither call waits for a peer. */
	int (*open)(const struct transport_config *config, struct transport **out);
	void (*close)(struct transport **t);
	/* Writes this transport's part of the rank's card, at most TRANSPORT_RECORD_BYTES. */
	int (*record)(struct transport *t, uint8_t *bytes, size_t *len_out);
	/* Tells the job's secret after the bootstrap, before the first connect(). NULL: on one
	 * machine there is nothing to prove. */
	int (*admit)(struct transport *t, const struct job_secret *secret);
	/* Begins to connect, and never waits for the peer. Both sides call it. The card came
	 * through the bootstrap and is hostile input. The endpoint is owned by t. */
	int (*connect)(struct transport *t, int peer, const uint8_t *record, size_t len,
		       struct endpoint **out);
	/* Returns 1 once the peer is connected and control() may be called, 0 before (poll, then
	 * ask again), else SLUICE_E*. NULL: connect() has done it all. */
	int (*ready)(struct endpoint *e);
	/* Opens the control region of this endpoint's peer, which came with the connection.
	 * remote_close() ends it. */
	int (*control)(struct endpoint *e, struct remote **out);
	/* Writes bytes that let this endpoint's peer reach the region. It needs ready(). Where a
	 * connection broke, the call waits until that is made again or the peer is gone. */
	int (*describe)(struct endpoint *e, const struct region *region,
			uint8_t descriptor[REGION_DESCRIPTOR_BYTES]);
	/* Opens a peer's region from its descriptor (hostile input). */
	int (*remote_open)(struct endpoint *e, const uint8_t descriptor[REGION_DESCRIPTOR_BYTES],
			   struct remote **out);
	void (*remote_close)(struct remote **remote);
	/* The job goes on without this peer: no key that it was given works any more, whether or
	 * not its process still runs, and none is given again. What is under way towards it goes
	 * on. NULL (shm, self): memory that a process has mapped cannot be taken back from it;
	 * there the readers' checks of private copies, and membership epochs, keep what it still
	 * writes from counting. */
	void (*revoke)(struct endpoint *e);
	/* Posts one transfer. SLUICE_EAGAIN when a queue is full (poll, then post again),
	 * SLUICE_EINVAL out of bounds or not permitted, SLUICE_EPEER after EVENT_GONE. Never
	 * allocates, never blocks. A put's local bytes must stay unchanged until the peer has
	 * acknowledged them by protocol. Where the peer answers a get, it has received every
	 * PUT_NOTIFY that was posted before, unless the network lost it; a transport without
	 * that order may be late by one piece. */
	int (*post)(struct endpoint *e, const struct transfer *transfer);
	/* Hands out up to n events, and never sleeps. */
	int (*poll)(struct transport *t, struct event *events, int n);
	/* arm() is called before sleeping and arranges that fd becomes readable at the next event.
	 * It returns 1 if events are there already, so that nobody should sleep, else 0. disarm()
	 * drains fd after waking. cancel() ends arm() where nobody slept, without a system call: if
	 * fd became readable meanwhile it stays so, and the next sleeper wakes once for nothing. */
	int (*arm)(struct transport *t);
	void (*disarm)(struct transport *t);
	void (*cancel)(struct transport *t);
	int (*fd)(struct transport *t);
	/* Makes fd readable, which wakes an armed sleeper. Any thread may call it, and a signal
	 * handler. */
	void (*wake)(struct transport *t);
	/* Where a peer's region that this rank may write lies in this process, for a caller that
	 * fills it by other means than post() and then posts a PUT_NOTIFY: what was stored before
	 * that call is in place when the notify arrives. The address holds until remote_close().
	 * NULL, also in place of the function (verbs): the region is nowhere in this process. */
	void *(*address)(struct remote *remote);
	/* The same of a peer's region that this rank may read. The peer may be changing it, so what
	 * is taken from there is judged on a private copy. */
	const void *(*readable)(struct remote *remote);
	/* Whether the card reads puts from this region of device memory where it is: 1 or 0, or
	 * SLUICE_E*. The call registers the region, which is slow. Where the answer is 0, and
	 * where this is NULL (shm, self), such a put is refused. device NULL: whether the answer
	 * may be 1 for any region. */
	int (*in_place)(struct endpoint *e, const struct region *device);
	/* 1 (shm, self): post() itself copies. When it returns, a put's local bytes may be changed
	 * and a get's are filled; EVENT_DONE comes unless the get is quiet. local_region need not
	 * be an opened region then, as its base and bytes are enough. 0: only EVENT_DONE tells
	 * these things. */
	int copies_at_post;
	/* 1 (ofi): what peers put here arrives, and what they get from here leaves, only while this
	 * rank polls. */
	int moves_by_polling;
};

struct transport {
	const struct transport_ops *ops;
	struct transport_counters counters;
	const char *device; /* "mlx5_0"; NULL where it has none */
	/* What a user should know before measuring; the lowest rank that it connects logs it. NULL:
	 * nothing. It lives as long as the transport. */
	const char *caution;
};
struct endpoint {
	struct transport *transport;
	int peer;
	uint64_t notifies; /* PUT_NOTIFYs that post() accepted, for the job's check of arrivals */
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
/* All that there are, NULL-terminated, in order of preference: the same in every build. */
extern const struct transport_ops *const transports[];
#endif
