/* SPDX-License-Identifier: BSD-3-Clause
 * The transfers that are under way to one peer over libfabric: the hot path out, and its
 * completions. A transfer is a run of pieces of at most a megabyte, so that something completes
 * all the time while bytes move; the last piece of a put carries the notice. Where the provider
 * does not place puts in order, a put begins when all before it are in place, and so does its last
 * piece.
 *
 * Over TCP everything between two ranks shares one stream: a request for a get, its answer and a
 * notice wait behind all puts that were handed to the kernel before, which takes megabytes. So only
 * so many large pieces are under way as ofi_stream.h says, and a put counts until it is in place.
 *
 * A notice is 64 bits: the immediate, and a token that the receiver made for the sender of it. It
 * names the sender, as libfabric does not, and nobody else knows it. Its upper half is mixed with a
 * checksum of the immediate, so that one which was changed on the way is nobody's notice. A
 * provider that has room for 32 bits names the sender itself. Where a put cannot announce itself, a
 * message of those 64 bits follows when the put, and all before it, are in place.
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

/* The token of a notice with this immediate, from that of the sender, and back. The bits of a token
 * that are a rank are among the lower 16. */
static inline uint32_t ofi_flow_mix(uint32_t token, uint32_t imm)
{
	uint8_t bytes[4];

	put_le32(bytes, imm);
	return token ^ (crc32c(0, bytes, sizeof(bytes)) & 0xffff0000u);
}

struct ofi_flow_config {
	int peer;
	fi_addr_t address;
	struct ofi_fabric *fabric;
	struct ofi_memory *memory;
	struct event_queue *events;
	int by_message;              /* the peer cannot be told of puts but by messages */
	uint32_t *promised;          /* events that transfers of all flows will make */
	const struct region *copies; /* registered memory for small puts, */
	uint8_t *copy;               /* and of it ofi_flow_copy_bytes() for this peer */
};
size_t ofi_flow_copy_bytes(void);
int ofi_flow_open(const struct ofi_flow_config *config, struct ofi_flow **out);
void ofi_flow_close(struct ofi_flow **flow);

/* The peer told which token this rank's notices to it are to carry. */
void ofi_flow_use_token(struct ofi_flow *flow, uint32_t token);

/* Whether x can be appended now. Else ask again after a poll. */
int ofi_flow_room(const struct ofi_flow *flow, const struct transfer *x);
/* Needs room. 0, or SLUICE_E*: the local memory cannot be registered. */
int ofi_flow_append(struct ofi_flow *flow, const struct transfer *x, uint64_t now_ns);
/* Posts what can be posted. 0, or -1 and why: libfabric refuses. */
int ofi_flow_push(struct ofi_flow *flow, uint64_t now_ns, char why[160]);
/* Transfers wait that were not posted whole. */
int ofi_flow_waits(const struct ofi_flow *flow);
/* Transfers wait, and libfabric takes none although nothing else is under way. */
int ofi_flow_is_refused(const struct ofi_flow *flow);
/* Nothing waits, and nothing is under way. */
int ofi_flow_is_idle(const struct ofi_flow *flow);

/* The flow of a piece, by the context that libfabric gives back. */
struct ofi_flow *ofi_flow_of(void *context);
int ofi_flow_peer(const struct ofi_flow *flow);
/* 0, or -1 and why: a piece failed. */
int ofi_flow_completed(struct ofi_flow *flow, const struct ofi_completion *completion,
		       uint64_t now_ns, char why[160]);
/* How long nothing has moved while something was under way; 0: nothing is, or it moves. */
uint64_t ofi_flow_silent_ns(const struct ofi_flow *flow, uint64_t now_ns);
/* Something came from the peer, or this process was stopped meanwhile: count from now. */
void ofi_flow_moved(struct ofi_flow *flow, uint64_t now_ns);
/* The peer is lost: whoever waits for a transfer is told so. Completions that still come count for
 * nothing. */
void ofi_flow_abandon(struct ofi_flow *flow);
#endif
