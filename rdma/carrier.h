/* SPDX-License-Identifier: BSD-3-Clause
 * A carrier takes the frames by which two ranks connect a queue pair to the peer. Each is a row:
 *
 *   cm   the connection manager, librdmacm, by IP addresses. Frames are its private data.
 *   ud   datagrams of a UD queue pair, by GIDs, for InfiniBand without IP addresses. They may be
 *        lost, come late or twice, and come from anybody on the fabric.
 *
 * The cards by which a pair of ranks meets choose the row (carrier_between()), also when the ranks
 * connect again. proof.c judges the frames of all rows in the same way. Called by proof.c, and by
 * connect.c, which takes the events. */
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

/* An event of rdma_cm, copied, because an id cannot end before its event is acknowledged; or a
 * datagram, which is a CONNECT_REQUEST, a CONNECT_RESPONSE, REJECTED or DISCONNECTED. */
struct carrier_event {
	enum rdma_cm_event_type type;
	int status;
	void *owner;             /* of the peer whose connection it concerns; NULL: a request */
	struct carrier_peer *at; /* datagrams: the peer that they claim to come from */
	struct rdma_cm_id *id;   /* NULL: a datagram */
	uint8_t bytes[256];
	size_t n;
	uint8_t responder_resources, initiator_depth;
	uint32_t qpn;                 /* of the other side */
	uint8_t gid[FRAME_GID_BYTES]; /* of the other side */
};

/* Functions that return an int return 0, or -1 and why, unless stated otherwise. */
struct carrier_ops {
	const char *name;
	/* 1: anybody can send an event that seems to be a peer's, so a wrong one changes nothing,
	 * and frames are sent again until they are answered. No route must be found first. */
	int open_to_all;

	/* ---- of this rank ---- */
	/* Begins to take requests. size: of the job. Returns 0 or SLUICE_E*. */
	int (*open)(const struct verbs_device *device, int size, struct carrier **out);
	/* Sets how packets travel, and the number of outstanding READs that a request asks for. */
	void (*use)(struct carrier *c, const struct path_choice *path, uint32_t reads);
	/* Takes no more requests. */
	void (*stop)(struct carrier *c);
	void (*close)(struct carrier *c);
	struct ibv_context *(*context)(const struct carrier *c);
	int (*fd)(const struct carrier *c);
	/* Adds what peers need to send requests to this rank. */
	void (*record)(const struct carrier *c, struct verbs_record *out);
	void (*text)(const struct carrier *c, char text[CARRIER_TEXT]);
	/* Takes an event. Returns 0 if there is none. */
	int (*next)(struct carrier *c, struct carrier_event *out);
	/* Writes who sent a request. */
	void (*sender)(const struct carrier_event *request, char text[CARRIER_TEXT]);

	/* ---- of one peer ---- */
	/* owner: of its events. Returns 0 or SLUICE_E*. */
	int (*meet)(struct carrier *c, const struct verbs_record *its, void *owner,
		    struct carrier_peer **out);
	void (*part)(struct carrier_peer *p);
	/* Prepares a request. Unless open_to_all, the event ROUTE_RESOLVED follows. */
	int (*start)(struct carrier_peer *p, int timeout_ms, char why[CARRIER_WHY_BYTES]);
	/* Sends a request, which is complete, for a queue pair. */
	int (*request)(struct carrier_peer *p, const struct frame *frame,
		       char why[CARRIER_WHY_BYTES]);
	/* Takes over a request. yield() gives it back, also after take() has failed. */
	int (*take)(struct carrier_peer *p, const struct carrier_event *request,
		    const struct frame *frame, char why[CARRIER_WHY_BYTES]);
	void (*yield)(struct carrier_peer *p);
	/* Accepts the request that was taken. */
	int (*accept)(struct carrier_peer *p, const struct carrier_event *request,
		      const struct frame *frame, char why[CARRIER_WHY_BYTES]);
	/* Answers a request with a frame, which ends it. */
	void (*refuse)(const struct carrier_event *request, const struct frame *frame);
	/* The peer's acceptance was judged right, and the queue pair has joined. */
	int (*confirm)(struct carrier_peer *p, char why[CARRIER_WHY_BYTES]);
	/* Ends what start() or take() began. frame: tells the peer, if the row needs one; or NULL.
	 */
	void (*end)(struct carrier_peer *p, const struct frame *frame);
	/* The device to which the route leads. */
	struct ibv_context *(*leads_to)(const struct carrier_peer *p);
	/* Completes a PROOF or an ACCEPT by what its tag covers and only this row knows. */
	void (*complete)(struct carrier_peer *p, struct frame *frame);
	/* How to join the queue pair of this side to that of the peer. frame: the peer's PROOF, or
	 * its ACCEPT. */
	struct path_ends (*ends)(const struct carrier_peer *p, const struct frame *frame);
	/* open_to_all: sends the last frame again, if that is due; and at once, if the last time is
	 * not too short ago, because the peer asked again. */
	void (*tick)(struct carrier_peer *p, uint64_t now);
	void (*again)(struct carrier_peer *p, uint64_t now);
};

extern const struct carrier_ops carrier_cm, carrier_ud;

/* Every row's struct begins with this one. */
struct carrier {
	const struct carrier_ops *ops;
};

/* The row for connections through a device. */
const struct carrier_ops *carrier_of(const struct verbs_device *device);
/* The row for a pair of ranks that meets by these cards: ud in one partition of a subnet, if at
 * least one of the cards has no IP address; cm if both have one. NULL: neither. Pure, and alike on
 * both sides. */
const struct carrier_ops *carrier_between(const struct verbs_card *a, const struct verbs_card *b);
#endif
