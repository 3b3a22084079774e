/* SPDX-License-Identifier: BSD-3-Clause
 * The transfers to one peer over libfabric: the outgoing hot path, and its completions. A transfer
 * is a sequence of pieces of at most a megabyte, so that completions show progress while bytes
 * move. The last piece of a put carries the notice. If the provider does not place puts in order,
 * there are two methods. Either the first and the last piece of a put wait until all earlier pieces
 * are in place, or the pieces carry numbers and need no order (ofi_count.h).
 *
 * Over TCP everything between two ranks shares one stream. A request for a get, its answer and a
 * notice wait for all bytes of earlier puts that the kernel has accepted, which can be megabytes.
 * So stream.h limits the large pieces under way, and a piece of a put counts until it is in place.
 *
 * A notice has 64 bits: the immediate, and a token that the receiver made for the sender. libfabric
 * does not name the sender, but the token does, and no other rank knows the token. Its upper half
 * is mixed with a checksum of the immediate, so a changed notice matches no peer. If a provider has
 * room for only 32 bits, it names the sender itself, and puts carry numbers. If a put cannot
 * announce itself, a message with the 64 bits follows once this put and all earlier ones are in
 * place.
 *
 * Called by ofi_peer.c with the transport's lock held. Nothing is allocated after opening. */
#ifndef RDMA_OFI_FLOW_H
#define RDMA_OFI_FLOW_H
#include "base/bytes.h"
#include "rdma/event_queue.h"
#include "rdma/ofi_fabric.h"
#include "rdma/ofi_memory.h"
#include "rdma/transport.h"

enum { FLOW_NOTICE_BYTES = 8, FLOW_TRANSFERS = 256, FLOW_PIECES = 32, FLOW_PIECE_BYTES = 1 << 20 };

struct ofi_flow;

/* XORs a checksum of the immediate into the upper half of the token. Applied to the sender's token,
 * it gives the token that the notice carries; applied again, it gives the sender's token. The lower
 * 16 bits, which are the rank, do not change. */
static inline uint32_t ofi_flow_mix(uint32_t token, uint32_t imm)
{
	uint8_t bytes[4];

	put_le32(bytes, imm);
	return token ^ (crc32c(0, bytes, sizeof(bytes)) & 0xffff0000u);
}

struct ofi_flow_config {
	int peer, lost_after_ms;
	fi_addr_t address;
	struct ofi_fabric *fabric;
	struct ofi_memory *memory;
	struct event_queue *events;
	int by_message;              /* 1: messages announce puts to this peer */
	uint32_t *promised;          /* the number of events that transfers of all flows will
					make */
	const struct region *copies; /* registered memory for small puts */
	uint8_t *copy; /* this peer's part of copies, of ofi_flow_copy_bytes() bytes */
};
size_t ofi_flow_copy_bytes(void);
int ofi_flow_open(const struct ofi_flow_config *config, struct ofi_flow **out);
void ofi_flow_close(struct ofi_flow **flow);

/* Sets the token that this rank's notices to the peer must carry. */
void ofi_flow_use_token(struct ofi_flow *flow, uint32_t token);

/* Returns 1 if x can be appended now. If it returns 0, poll and ask again. */
int ofi_flow_room(const struct ofi_flow *flow, const struct transfer *x);
/* Appends a transfer. Requires ofi_flow_room(). Fails with SLUICE_E* if the local memory cannot be
 * registered. */
int ofi_flow_append(struct ofi_flow *flow, const struct transfer *x, uint64_t now_ns);
/* Posts what can be posted now. Returns 0. If libfabric refuses, returns -1 and sets why. */
int ofi_flow_push(struct ofi_flow *flow, uint64_t now_ns, char why[160]);
/* Returns 1 if some transfers are not fully posted. */
int ofi_flow_waits(const struct ofi_flow *flow);
/* Returns 1 if transfers wait, and libfabric refuses them although nothing is under way. */
int ofi_flow_is_refused(const struct ofi_flow *flow);
/* Returns how many attempts in a row were refused, and 0 if ofi_flow_is_refused() returns 0. */
uint64_t ofi_flow_refusals(const struct ofi_flow *flow);
/* Returns 1 if nothing waits and nothing is under way. */
int ofi_flow_is_idle(const struct ofi_flow *flow);

/* Returns the flow to which a piece belongs. The context of a completion identifies the piece. */
struct ofi_flow *ofi_flow_of(void *context);
int ofi_flow_peer(const struct ofi_flow *flow);
/* Handles a completion. Returns 0, or -1 and sets why if a piece failed. */
int ofi_flow_completed(struct ofi_flow *flow, const struct ofi_completion *completion,
		       uint64_t now_ns, char why[160]);
/* Returns how long transfers have been under way without any progress, or 0 if none is. */
uint64_t ofi_flow_silent_ns(const struct ofi_flow *flow, uint64_t now_ns);
/* Returns a counter of completions of this flow and of arrivals from the peer. */
uint64_t ofi_flow_moves(const struct ofi_flow *flow);
/* Restarts the time of ofi_flow_silent_ns(). Called when something came from the peer, or when this
 * process was stopped. */
void ofi_flow_moved(struct ofi_flow *flow, uint64_t now_ns);
/* Ends all transfers with an error, because the peer is lost. Later completions are ignored. */
void ofi_flow_abandon(struct ofi_flow *flow);
#endif
