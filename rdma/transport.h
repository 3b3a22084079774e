/* SPDX-License-Identifier: BSD-3-Clause
 * The transport table: how one-sided operations reach a peer. Instances: self (own rank), shm (same
 * machine), verbs (RDMA). A transport knows regions and peers, not gradients. All calls of one
 * transport come from one thread at a time (the holder of the job's progress token), except
 * wake(). */
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
	uint64_t offset;       /* in the remote region; offset + bytes within it or SLUICE_EINVAL */
	const struct region *local_region; /* holds local; may be NULL for puts of <= 64 bytes */
	void *local;                       /* put: source, get: destination */
	size_t bytes;                      /* put: may be 0 with NOTIFY */
	uint32_t imm;    /* PUT_NOTIFY: arrives at the peer after the bytes are in place */
	uint64_t cookie; /* comes back in EVENT_DONE */
	int report;      /* put: EVENT_DONE too, when the local bytes may be changed again */
	int quiet;       /* get, where the transport copies at post: no EVENT_DONE */
};

enum event_kind {
	EVENT_IMM,  /* peer's PUT_NOTIFY: all bytes it and earlier puts of that peer wrote are
		       visible */
	EVENT_DONE, /* own GET finished: local memory is filled (or a reported put is placed);
		     * cookie; status 0 or SLUICE_E* */
	EVENT_GONE  /* the peer's process ended or its connection broke; once per peer; text says
		     * why */
};
struct event {
	enum event_kind kind;
	int peer;
	uint32_t imm;
	uint64_t cookie;
	int status;
	const char *text; /* EVENT_GONE: static */
};

struct transport_config {
	int rank, size;
	uint32_t queue_depth; /* most PUT_NOTIFYs a peer may have outstanding here */
	/* REGION_WRITE; every peer that connects gets it with the connection (shm, self: its
	 * descriptor is part of the card) */
	const struct region *control;
	size_t control_line_bytes;  /* a peer may write its own line of control only, number `rank`,
				     * where  the transport can tell (verbs); 0: all of it */
	const char *device;         /* verbs: "name[:port]"; NULL or "": the first usable one */
	const char *gid_index;      /* verbs: "auto" or a number; NULL: auto */
	const char *memory_windows; /* verbs: "auto", "yes" or "no"; NULL: auto */
	/* self: ranks of the same process (in_process.h); NULL: none */
	struct neighbours *neighbours;
	int lost_after_ms; /* the job's budget: retries, reconnects and timers derive from it */
};

/* What both ends of a connection prove to know before a queue pair exists or a key is sent. Known
 * after the bootstrap; the key never leaves memory (not in argv, environment, logs,
 * checkpoints). */
struct job_secret {
	uint8_t key[32]; /* rank 0 made it with getrandom(2) */
	char job[64];    /* "slurm 123.0", part of what is proved */
	uint32_t wire_version;
};

/* Kept by every transport (transfer_count()), read by statistics; messages of the own rank count
 * for self. puts and put_bytes include those with a notify; refused and full posts do not count. */
struct transport_counters {
	uint64_t puts, put_bytes, notifies, gets, get_bytes;
};

enum { TRANSPORT_CARD_BYTES = 256 };

struct transport_ops {
	size_t size; /* of this struct */
	const char *name;
	/* Makes what peers need before they can connect. Neither blocks for a peer. */
	int (*open)(const struct transport_config *config, struct transport **out);
	void (*close)(struct transport **t);
	/* The address part of this rank's card, <= TRANSPORT_CARD_BYTES. */
	int (*card)(struct transport *t, uint8_t *bytes, size_t *len_out);
	/* 1 if the peer with this card can be reached by this transport, 0 with *why (static) if
	 * not. boot_id_same: both ranks run under one kernel. */
	int (*reaches)(struct transport *t, int peer, int boot_id_same, const char **why);
	/* After the bootstrap, before the first connect; may be NULL (nothing to prove on one
	 * machine). */
	int (*admit)(struct transport *t, const struct job_secret *secret);
	/* Begins to connect and never waits for the peer; the card came through the bootstrap and
	 * is hostile input. Both sides call it; the endpoint is owned by t. */
	int (*connect)(struct transport *t, int peer, const uint8_t *card, size_t len,
		       struct endpoint **out);
	/* 1: connected, control() may be asked. 0: not yet (poll, then ask again). Else SLUICE_E*.
	 * NULL: connect() finished it. */
	int (*ready)(struct endpoint *e);
	/* The control region of this endpoint's peer, learnt when connecting; remote_close() ends
	 * it. */
	int (*control)(struct endpoint *e, struct remote **out);
	/* Bytes that let this endpoint's peer reach the region. After ready(); where a connection
	 * broke it waits until that is made again, or the peer is gone. */
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
	 * acknowledged them by protocol. */
	int (*post)(struct endpoint *e, const struct transfer *transfer);
	/* Up to n events; never sleeps. */
	int (*poll)(struct transport *t, struct event *events, int n);
	/* Before sleeping: arranges that fd becomes readable at the next event. Returns 1 if events
	 * are already there (do not sleep), else 0. disarm() after waking drains fd. cancel() ends
	 * arm() where nobody slept, without a system call: if fd became readable meanwhile it stays
	 * so, and the next sleeper wakes once for nothing. */
	int (*arm)(struct transport *t);
	void (*disarm)(struct transport *t);
	void (*cancel)(struct transport *t);
	int (*fd)(struct transport *t);
	/* Makes fd readable (wakes an armed sleeper). Any thread, async-signal-safe. */
	void (*wake)(struct transport *t);
	/* Where a peer's region that this rank may write lies in this process, for who fills it by
	 * other means than post() and then posts a PUT_NOTIFY: what was stored before that call is
	 * in place when it arrives. NULL, also in place of the function (verbs): nowhere. It stays
	 * until remote_close(). */
	void *(*address)(struct remote *remote);
	/* Where a peer's region that this rank may read lies in this process. The peer may be
	 * changing it: what is taken from there is judged on a private copy. NULL, also in place of
	 * the function (verbs): nowhere. It stays until remote_close(). */
	const void *(*readable)(struct remote *remote);
	/* Whether the card reads puts from this region of device memory where it is: 1 or 0, or
	 * SLUICE_E*. The call registers the region, which is slow. Where the answer is 0, and
	 * where this is NULL (shm, self), such a put is refused. */
	int (*in_place)(struct endpoint *e, const struct region *device);
	/* 1 (shm, self): post() itself copies. When it returns, a put's local bytes may be changed
	 * and a get's are filled (EVENT_DONE comes unless it is quiet), and local_region need not
	 * be an opened region: base and bytes are enough. 0: only EVENT_DONE says so. */
	int copies_at_post;
};

struct transport {
	const struct transport_ops *ops;
	struct transport_counters counters;
	const char *device; /* "mlx5_0"; NULL where it has none */
};
struct endpoint {
	struct transport *transport;
	int peer;
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
/* NULL-terminated, in order of preference. */
extern const struct transport_ops *const transports[];
#endif
