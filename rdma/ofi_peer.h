/* SPDX-License-Identifier: BSD-3-Clause
 * One peer of the transport over libfabric, from its proof until its loss: its address, its flow,
 * and the token that its notices carry. Called by ofi.c with its lock held. */
#ifndef RDMA_OFI_PEER_H
#define RDMA_OFI_PEER_H
#include "rdma/event_queue.h"
#include "rdma/ofi_fabric.h"
#include "rdma/ofi_flow.h"
#include "rdma/ofi_messages.h"
#include "rdma/ofi_memory.h"
#include "rdma/ofi_proof.h"
#include "rdma/peer_memory.h"
#include "rdma/transport.h"

enum { OFI_WHY_BYTES = 160, OFI_POLL_EVENTS = 32 /* events that one poll of libfabric makes */ };

struct ofi_peer;

/* State that all peers share. */
struct ofi_peers {
	struct transport *transport;
	int size, lost_after_ms, link_lost_after_ms;
	const struct region *control; /* NULL: there is no control region */
	size_t control_line_bytes;    /* 0: a peer may write all of it */
	uint32_t token_mask;          /* bits of a token that hold the rank */
	struct ofi_fabric *fabric;
	struct ofi_memory *memory;
	struct ofi_proofs *proofs;
	struct ofi_messages *messages;
	struct event_queue *events;
	struct peer_memory copies; /* of small puts: ofi_flow_copy_bytes() for each peer */
	uint32_t promised;         /* number of events that transfers of all flows will make */
	int joining, unreported;   /* joining: peers without a complete proof; unreported: lost
				      peers whose EVENT_GONE was not delivered */
};

/* Makes room for this number of peers in all. Returns 0 or SLUICE_E*. */
int ofi_peers_grow(struct ofi_peers *all, int peers);
/* Opens a peer. number: of peers that were opened before. name: the peer's address from its record.
 * notice: how puts to it announce themselves. */
int ofi_peer_open(struct ofi_peers *all, int rank, int number, const uint8_t *name,
		  enum ofi_notice notice, struct ofi_peer **out);
void ofi_peer_close(struct ofi_peer **peer);
struct endpoint *ofi_peer_endpoint(struct ofi_peer *p);
struct ofi_peer *ofi_peer_of(struct endpoint *e);

/* Returns 1 if the peer's proof is complete, 0 if not yet, and SLUICE_EPEER if the peer is lost. */
int ofi_peer_ready(const struct ofi_peer *p);
/* Returns 0, or SLUICE_E* if the peer cannot be used now. */
int ofi_peer_check(const struct ofi_peer *p);
/* Returns 1 with the peer's EVENT_GONE, but only once. */
int ofi_peer_report(struct ofi_peer *p, struct event *out);

/* Called at regular times. Sends the next message of the proof, and declares the peer lost after a
 * long silence. */
void ofi_peer_look(struct ofi_peer *p, int was_stopped, uint64_t now_ns);
/* Sends the message that was written for the peer (ofi_messages.h). */
void ofi_peer_send(struct ofi_peer *p);
/* Called when the last message to the peer has failed. */
void ofi_peer_send_failed(struct ofi_peer *p, const char *why);

/* Opens the peer's control region. */
int ofi_peer_control(struct ofi_peer *p, struct remote **out);
/* Accepts a notice with this token. Returns 0 if the token is not this peer's. */
int ofi_peer_noticed(struct ofi_peer *p, uint32_t token, uint32_t imm, uint64_t now_ns);
/* Accepts the word of a put whose sender libfabric named (ofi_count.h). */
void ofi_peer_arrived(struct ofi_peer *p, uint32_t word, uint64_t now_ns);
fi_addr_t ofi_peer_address(const struct ofi_peer *p);
/* Returns the counter that transport_ops.moved() describes. */
uint64_t ofi_peer_moved(const struct ofi_peer *p);
int ofi_peer_post(struct ofi_peer *p, const struct transfer *x);
/* Posts waiting transfers, and delivers notices for which there was no room before. */
void ofi_peer_push(struct ofi_peer *p, uint64_t now_ns);
void ofi_peer_completed(struct ofi_peer *p, const struct ofi_completion *c, uint64_t now_ns);
/* For the end of a job. Posts a put that completes after all earlier ones. ofi_peer_is_busy() then
 * returns whether anything is under way. */
void ofi_peer_flush(struct ofi_peer *p);
/* A peer that has closed and accepts nothing does not count as busy. */
int ofi_peer_is_busy(struct ofi_peer *p, uint64_t now_ns);
#endif
