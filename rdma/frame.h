/* SPDX-License-Identifier: BSD-3-Clause
 * The bytes that travel in the private data of rdma_cm, and the descriptor of a region. Both come
 * from other machines and are hostile until decoded. rdma_cm pads private data and does not say how
 * much was sent, so a frame carries its own length. Little-endian.
 *
 *   0 magic "SL"   2 kind u8   3 length u8   4 rank of the sender u32, then
 *   HELLO       client nonce 12                                                client -> server
 *   CHALLENGE   server nonce 12, tag 16                                  (in a reject) <-
 *   PROOF       client nonce 12, server nonce 12, tag 16, notifies received u64       ->
 *   ACCEPT      tag 16, notifies received u64, slot 16, control descriptor 64         <-
 *   REFUSAL     reason u32                                              (in a reject) <-
 *
 * A PROOF fills the 56 bytes that the InfiniBand connection manager leaves in a request. */
#ifndef RDMA_FRAME_H
#define RDMA_FRAME_H
#include "rdma/auth.h"
#include "rdma/region.h"
#include <stddef.h>
#include <stdint.h>

enum frame_kind { FRAME_HELLO = 1, FRAME_CHALLENGE, FRAME_PROOF, FRAME_ACCEPT, FRAME_REFUSAL };
enum frame_reason { REFUSAL_PROOF = 1, REFUSAL_GONE, REFUSAL_NOT_YET, REFUSAL_FAILED };

/* A peer's small place of ours: where it takes our greeting and our credit. */
struct slot_address {
	uint64_t address;
	uint32_t rkey;
	uint32_t credits; /* notifies that may be outstanding at the owner of the slot */
};

struct frame {
	enum frame_kind kind;
	uint32_t rank;
	uint8_t nonce_client[AUTH_NONCE_BYTES], nonce_server[AUTH_NONCE_BYTES];
	uint8_t tag[AUTH_TAG_BYTES];
	uint64_t received;
	struct slot_address slot;
	uint8_t control[REGION_DESCRIPTOR_BYTES];
	uint32_t reason;
};

enum {
	FRAME_HEADER_BYTES = 8,
	FRAME_REQUEST_MAX = 56,
	SLOT_ADDRESS_BYTES = 16,
	/* What the client writes into the server's slot first: its own slot and control
	 * descriptor. */
	GREETING_BYTES = SLOT_ADDRESS_BYTES + REGION_DESCRIPTOR_BYTES,
	ACCEPT_SIGNED_BYTES = 8 + GREETING_BYTES,
	FRAME_MAX = FRAME_HEADER_BYTES + AUTH_TAG_BYTES + ACCEPT_SIGNED_BYTES
};

/* Returns the length. */
size_t frame_encode(const struct frame *frame, uint8_t out[FRAME_MAX]);
/* 0, or -1 with *why. n may be larger than the frame: padding is not looked at. */
int frame_decode(const uint8_t *bytes, size_t n, struct frame *out, const char **why);
/* The bytes beside ranks and nonces that the tag of a PROOF or ACCEPT covers. Returns their
 * number. */
size_t frame_signed(const struct frame *frame, uint8_t out[ACCEPT_SIGNED_BYTES]);

void greeting_encode(const struct slot_address *slot,
		     const uint8_t control[REGION_DESCRIPTOR_BYTES], uint8_t out[GREETING_BYTES]);
void greeting_decode(const uint8_t bytes[GREETING_BYTES], struct slot_address *slot_out,
		     uint8_t control_out[REGION_DESCRIPTOR_BYTES]);

/* How a region is reached through a network card. */
struct wire_region {
	uint64_t address, bytes;
	uint32_t rkey, owner, user; /* ranks: whose it is, who may use the key */
	unsigned access;            /* REGION_* */
	uint32_t id;                /* the owner's number for it, for as long as it is open */
	uint32_t link; /* which connection of the owner to the user the key is of: 1, 2, ... */
};
void wire_region_encode(const struct wire_region *region, uint8_t out[REGION_DESCRIPTOR_BYTES]);
/* SLUICE_EWIRE unless it is a region of owner for user. */
int wire_region_decode(const uint8_t bytes[REGION_DESCRIPTOR_BYTES], uint32_t owner, uint32_t user,
		       struct wire_region *out);
#endif
