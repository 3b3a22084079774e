/* SPDX-License-Identifier: BSD-3-Clause
 * A carrier transports the frames by which two ranks connect a queue pair. Each is a row of
 * functions:
 *
 *   cm   the connection manager (librdmacm), by IP addresses. Frames are its private data.
 *   ud   datagrams of a UD queue pair, by GIDs, for InfiniBand without IP addresses. Datagrams may
 *        be lost, come late or twice, and come from anybody on the fabric.
 *
 * The two cards through which a pair of ranks connects determine the row (carrier_between()), even
 * when the ranks connect again. proof.c checks the frames of all rows in the same way. Called by
 * proof.c, and by connect.c, which takes the events. */
#ifndef RDMA_CARRIER_H
#define RDMA_CARRIER_H
#include "rdma/frame.h"
#include "rdma/path.h"
#include "rdma/verbs_record.h"
#include <rdma/rdma_cma.h>

enum { CARRIER_WHY_BYTES = 200, CARRIER_TEXT = 80 };

/* The state of a row for the whole rank, and for one peer. */
struct carrier;
struct carrier_peer;

/* A copy of an event of rdma_cm, or a datagram. Events are copied because an id cannot end before
 * its events are acknowledged. A datagram is converted to a CONNECT_REQUEST, a CONNECT_RESPONSE,
 * REJECTED or DISCONNECTED. */
struct carrier_event {
	enum rdma_cm_event_type type;
	int status;
	void *owner;             /* owner of the peer that it concerns; NULL: a request, or an
				    event that concerns no peer */
	struct carrier_peer *at; /* for a datagram: the peer from which it claims to come */
	struct rdma_cm_id *id;   /* NULL: a datagram */
	uint8_t bytes[256];
	size_t n;
	uint8_t responder_resources, initiator_depth;
	uint32_t qpn;                 /* the queue pair's number on the other side */
	uint8_t gid[FRAME_GID_BYTES]; /* the GID of the other side */
};

/* Functions that return an int return 0, or -1 with the reason in why, unless stated otherwise. */
struct carrier_ops {
	const char *name;
	/* 1: anybody can send an event that seems to come from a peer, so a wrong event changes
	 * nothing. Frames are repeated until they are answered, and no route has to be found
	 * first. */
	int open_to_all;

	/* ---- of this rank ---- */
	/* Begins to accept requests. size is the number of ranks in the job. Returns 0 or
	 * SLUICE_E*. */
	int (*open)(const struct verbs_device *device, int size, struct carrier **out);
	/* Sets how packets travel, and the number of outstanding READs that a request asks for. */
	void (*use)(struct carrier *c, const struct path_choice *path, uint32_t reads);
	/* Stops accepting requests. */
	void (*stop)(struct carrier *c);
	void (*close)(struct carrier *c);
	struct ibv_context *(*context)(const struct carrier *c);
	int (*fd)(const struct carrier *c);
	/* Adds the data that peers need to send requests to this rank. */
	void (*record)(const struct carrier *c, struct verbs_record *out);
	void (*text)(const struct carrier *c, char text[CARRIER_TEXT]);
	/* Takes an event. Returns 0 if there is none. */
	int (*next)(struct carrier *c, struct carrier_event *out);
	/* Writes who sent a request. */
	void (*sender)(const struct carrier_event *request, char text[CARRIER_TEXT]);

	/* ---- of one peer ---- */
	/* Prepares for a peer, whose events will carry `owner`. Returns 0 or SLUICE_E*. */
	int (*meet)(struct carrier *c, const struct verbs_record *its, void *owner,
		    struct carrier_peer **out);
	void (*part)(struct carrier_peer *p);
	/* Prepares a request. Unless open_to_all, the event ROUTE_RESOLVED follows. */
	int (*start)(struct carrier_peer *p, int timeout_ms, char why[CARRIER_WHY_BYTES]);
	/* Sends a request for a queue pair. The frame is complete. */
	int (*request)(struct carrier_peer *p, const struct frame *frame,
		       char why[CARRIER_WHY_BYTES]);
	/* Takes over a request. yield() gives it back, even after take() has failed. */
	int (*take)(struct carrier_peer *p, const struct carrier_event *request,
		    const struct frame *frame, char why[CARRIER_WHY_BYTES]);
	void (*yield)(struct carrier_peer *p);
	/* Accepts the request that was taken. */
	int (*accept)(struct carrier_peer *p, const struct carrier_event *request,
		      const struct frame *frame, char why[CARRIER_WHY_BYTES]);
	/* Answers a request with a frame, which ends it. */
	void (*refuse)(const struct carrier_event *request, const struct frame *frame);
	/* Called when the peer's acceptance has proved valid and the queue pair has joined. */
	int (*confirm)(struct carrier_peer *p, char why[CARRIER_WHY_BYTES]);
	/* Ends what start() or take() began. A row that informs the peer of the end sends `frame`
	 * for that. frame may be NULL. */
	void (*end)(struct carrier_peer *p, const struct frame *frame);
	/* Returns the device to which the route leads. */
	struct ibv_context *(*leads_to)(const struct carrier_peer *p);
	/* Sets those fields of a PROOF or an ACCEPT that the tag covers and only this row knows. */
	void (*complete)(struct carrier_peer *p, struct frame *frame);
	/* Returns the data that join this side's queue pair to the peer's. frame is the peer's
	 * PROOF or ACCEPT. */
	struct path_ends (*ends)(const struct carrier_peer *p, const struct frame *frame);
	/* Only if open_to_all: tick() repeats the last frame when it is time. again() is called
	 * when the peer has repeated its request. It repeats the last frame at once, unless that
	 * was sent only a short time ago. */
	void (*tick)(struct carrier_peer *p, uint64_t now);
	void (*again)(struct carrier_peer *p, uint64_t now);
};

extern const struct carrier_ops carrier_cm, carrier_ud;

/* Every row's struct begins with this one. */
struct carrier {
	const struct carrier_ops *ops;
};

/* Returns the row for connections through a device. */
const struct carrier_ops *carrier_of(const struct verbs_device *device);
/* Returns the row for two ranks that connect by these cards. This is cm if both cards have an IP
 * address, and ud if neither has one and both are in one partition of a subnet. Otherwise it is
 * NULL. Both sides get the same row. */
const struct carrier_ops *carrier_between(const struct verbs_card *a, const struct verbs_card *b);
#endif
