/* SPDX-License-Identifier: BSD-3-Clause
 * The messages by which two ranks prove to each other that they hold the key of the pair, before
 * either sends a key of its memory. The lower rank begins:
 *
 *   client                          server
 *     HELLO      nonce         ->
 *                              <-   CHALLENGE  nonce, tag
 *     PROOF      nonces, tag   ->
 *                              <-   ACCEPT     tag; its greeting
 *     GREETING   tag; its greeting ->
 *
 * A message names its sender, and is trusted only after its tag was checked. Every answer goes to
 * the address in the record of the named rank, so an impostor gets no answer. The server recognises
 * its challenge without storing it (auth.h), so strangers cost no memory. ofi.c sends and receives
 * the messages.
 */
#ifndef RDMA_OFI_PROOF_H
#define RDMA_OFI_PROOF_H
#include "rdma/auth.h"
#include "rdma/region.h"
#include <stddef.h>
#include <stdint.h>

/* The size of each message, and its first four bytes, little-endian: "SLUO". */
enum { OFI_FRAME_BYTES = 120, OFI_FRAME_MAGIC = 0x4f554c53 };

/* The data that a rank sends to its peer when the two become connected. */
struct ofi_greeting {
	uint32_t token;                     /* the token that the peer's notices must carry
					       (ofi_flow.h) */
	uint8_t control[REGION_HEAD_BYTES]; /* all zero: there is no control region */
};

struct ofi_proofs; /* the exchanges of this rank with all its peers */
int ofi_proofs_open(int rank, int size, struct ofi_proofs **out);
void ofi_proofs_close(struct ofi_proofs **p);
/* Sets the keys of the peers. */
void ofi_proofs_admit(struct ofi_proofs *p, const struct peer_keys *keys);
int ofi_proofs_admitted(const struct ofi_proofs *p);

/* Begins the exchange with a peer, which gets this greeting after its proof. */
void ofi_proof_begin(struct ofi_proofs *p, int peer, const struct ofi_greeting *own);
/* Returns the peer's greeting once its proof is complete, otherwise NULL. */
const struct ofi_greeting *ofi_proof_greeting(const struct ofi_proofs *p, int peer);

/* The next two functions return 1 if they have made a message for the peer, and otherwise 0. */
/* Makes the client's HELLO if it is due. A HELLO may be lost, so it is repeated. */
int ofi_proof_hello(struct ofi_proofs *p, int peer, uint64_t now_ns,
		    uint8_t message[OFI_FRAME_BYTES]);
/* Makes the answer to a message from any sender, for rank *peer. */
int ofi_proof_answer(struct ofi_proofs *p, const uint8_t *bytes, size_t n, uint64_t now_ns,
		     int *peer, uint8_t message[OFI_FRAME_BYTES]);
/* Returns the number of messages that belonged to no exchange or had a wrong tag. */
uint64_t ofi_proofs_refused(const struct ofi_proofs *p);
#endif
