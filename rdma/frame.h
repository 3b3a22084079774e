/* SPDX-License-Identifier: BSD-3-Clause
 * The bytes that travel in the private data of rdma_cm or in datagrams (carrier.h), and the
 * descriptor of a region. Both come from other machines and are hostile until decoded. rdma_cm pads
 * private data without reporting how much was sent, so a frame has its own length. Little-endian.
 *
 *   0 magic "SL"   2 kind u8   3 length u8   4 rank of the sender u32, then
 *   HELLO       nonce 12                                                       server -> client
 *   ALIVE       tag 16                                                    (in a reject) <-
 *   PROOF       nonce 12, tag 16, notifies received u64, attempt u32           client -> server
 *   ACCEPT      tag 16, notifies received u64, slot 16, control descriptor 64,
 *               path MTU u32 (enum ibv_mtu)                                           <-
 *   REFUSAL     reason u32, tag 16                                      (in a reject) <-
 *   END         tag 16                                                                <->
 *
 * In a datagram, a PROOF or ACCEPT has 12 bytes more: number of the queue pair u32, its first
 * packet number u32, most READs at once u32. rdma_cm itself reports these values, and the end of
 * a connection.
 *
 * A request has room for 56 bytes, which the InfiniBand connection manager leaves. */
#ifndef RDMA_FRAME_H
#define RDMA_FRAME_H
#include "rdma/auth.h"
#include "rdma/region.h"
#include <stddef.h>
#include <stdint.h>

enum frame_kind {
	FRAME_HELLO = 1,
	FRAME_ALIVE,
	FRAME_PROOF,
	FRAME_ACCEPT,
	FRAME_REFUSAL,
	FRAME_END
};
enum frame_reason { REFUSAL_PROOF = 1, REFUSAL_GONE, REFUSAL_NOT_YET, REFUSAL_FAILED };

/* The location of the slot that a rank has for its peer. */
struct slot_address {
	uint64_t address;
	uint32_t rkey;
	uint32_t credits; /* the most unprocessed notifies at the owner of the slot */
};

enum { FRAME_GID_BYTES = 16 };

struct frame {
	enum frame_kind kind;
	uint32_t rank;
	uint8_t nonce[AUTH_NONCE_BYTES]; /* the nonce of the side that requests */
	uint8_t tag[AUTH_TAG_BYTES];
	uint64_t received;
	uint32_t attempt; /* number of the client's attempt: 1, 2, ... */
	struct slot_address slot;
	uint8_t control[REGION_HEAD_BYTES];
	uint32_t mtu;
	uint32_t reason;
	int ends; /* 1: qpn, psn and reads are sent */
	/* Covered by the tag: the number of the sender's queue pair, its first packet number, and
	 * the most READs under way. Over rdma_cm they are not in the frame, because rdma_cm reports
	 * the number and arranges the others. */
	uint32_t qpn, psn, reads;
	/* Covered by the tag but not sent: in a PROOF, the sender's GID. The receiver gets it from
	 * rdma_cm or from the sender's record. */
	uint8_t gid[FRAME_GID_BYTES];
};

enum {
	FRAME_HEADER_BYTES = 8,
	FRAME_REQUEST_MAX = 56,
	SLOT_ADDRESS_BYTES = 16,
	/* The client's first write into the server's slot: the client's slot and control
	 * descriptor. */
	GREETING_BYTES = SLOT_ADDRESS_BYTES + REGION_HEAD_BYTES,
	PROOF_SENT_BYTES = 8 + 4,
	ACCEPT_SENT_BYTES = 8 + GREETING_BYTES + 4,
	FRAME_ENDS_BYTES = 3 * 4,
	FRAME_SIGNED_MAX = ACCEPT_SENT_BYTES + FRAME_ENDS_BYTES + FRAME_GID_BYTES,
	FRAME_MAX = FRAME_HEADER_BYTES + AUTH_TAG_BYTES + ACCEPT_SENT_BYTES + FRAME_ENDS_BYTES
};

/* Writes the frame and returns its length. */
size_t frame_encode(const struct frame *frame, uint8_t out[FRAME_MAX]);
/* Returns 0, or -1 and sets *why. n may exceed the length of the frame, because padding is
 * ignored. */
int frame_decode(const uint8_t *bytes, size_t n, struct frame *out, const char **why);
/* Writes those bytes that the tag of a PROOF or ACCEPT covers in addition to ranks and nonces.
 * Returns their number. */
size_t frame_signed(const struct frame *frame, uint8_t out[FRAME_SIGNED_MAX]);

void greeting_encode(const struct slot_address *slot, const uint8_t control[REGION_HEAD_BYTES],
		     uint8_t out[GREETING_BYTES]);
void greeting_decode(const uint8_t bytes[GREETING_BYTES], struct slot_address *slot_out,
		     uint8_t control_out[REGION_HEAD_BYTES]);

/* A slot is memory in which a peer writes its greeting, the number of notifies it has taken, and
 * the keys of its regions. */
enum { SLOT_GREETING = 0, SLOT_CREDIT = 128, SLOT_KEYS = 256, SLOT_BYTES = 4096 };
_Static_assert((int)GREETING_BYTES <= (int)SLOT_CREDIT, "the greeting overlaps the credit");

/* The immediates by which two ranks become connected. Each side sends them in this order; see
 * link.h. */
enum greeting { GREETING_READY = 1, GREETING_KEYS = 2 };

/* The current keys of all regions that a rank offers to a peer. In the slot: connection u32, n u32,
 * n times (id u32, rkey u32). The keys of one region are adjacent, in the order of its windows. */
enum { KEYS_MAX = 448, KEY_TABLE_BYTES = 8 + 8 * KEYS_MAX };
_Static_assert((int)KEY_TABLE_BYTES <= (int)SLOT_BYTES - (int)SLOT_KEYS,
	       "the table of keys does not fit into the slot");

struct key_table {
	uint32_t link, n; /* link: the number of the connection to which the keys belong */
	struct {
		uint32_t id, rkey;
	} key[KEYS_MAX];
};
/* Writes the table and returns its length. */
size_t key_table_encode(const struct key_table *table, uint8_t out[KEY_TABLE_BYTES]);
/* Returns 0. If the table is not valid, returns -1 and sets why, and *out does not change. The peer
 * may change the bytes during the call. */
int key_table_decode(const uint8_t bytes[KEY_TABLE_BYTES], struct key_table *out, char why[80]);
/* Returns the number of keys that a region has, at most REGION_KEYS_MOST, and sets *first to the
 * index of the first. Returns 0 if the table lacks the region. */
uint32_t key_table_find(const struct key_table *table, uint32_t id, uint32_t *first_out);

/* The data by which a network card reaches a region. */
struct verbs_region {
	uint64_t address, bytes;
	uint32_t owner, user; /* ranks: the owner, and the user of the keys */
	unsigned access;      /* REGION_* */
	uint32_t id;          /* the number that the owner gives the region while it is open */
	uint32_t link;        /* the number of the connection that the keys belong to: 1, 2, ... */
	/* Key i reaches the bytes from i * window on. A window of 0 means that the only key reaches
	 * all bytes. */
	uint64_t window;
	uint32_t keys;
	uint32_t rkey[REGION_KEYS_MOST];
};
/* Returns the number of windows of this size that cover a region. */
uint64_t verbs_region_windows(uint64_t bytes, uint64_t window);
void verbs_region_encode(const struct verbs_region *region, uint8_t out[REGION_DESCRIPTOR_BYTES]);
/* Returns SLUICE_EWIRE unless the bytes describe a region of owner for user. */
int verbs_region_decode(const uint8_t bytes[REGION_DESCRIPTOR_BYTES], uint32_t owner, uint32_t user,
			struct verbs_region *out);
#endif
