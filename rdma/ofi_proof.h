/* SPDX-License-Identifier: BSD-3-Clause
 * The exchange of messages in which two ranks prove to each other that they hold the job's key,
 * before either tells a key of its memory. The rank with the lower number begins:
 *
 *   client                          server
 *     HELLO      nonce         ->
 *                              <-   CHALLENGE  nonce, tag
 *     PROOF      nonces, tag   ->
 *                              <-   ACCEPT     tag; its greeting
 *     GREETING   tag; its greeting ->
 *
 * A message says who sends it, and what it says is believed after its tag was checked. Every answer
 * goes to the address in the rank's card, so who claims to be another rank gets none. The server
 * recognises its challenge without having kept it (auth.h), and strangers cost no memory. Messages
 * to and from libfabric are ofi.c's part. */
#ifndef RDMA_OFI_PROOF_H
#define RDMA_OFI_PROOF_H
#include "rdma/auth.h"
#include "rdma/region.h"
#include <stddef.h>
#include <stdint.h>

/* Of each message; and its first four bytes, little-endian: "SLUO". */
enum { OFI_FRAME_BYTES = 120, OFI_FRAME_MAGIC = 0x4f554c53 };

/* What a rank tells its peer with the connection. */
struct ofi_greeting {
	uint32_t token;                           /* the peer's notices carry it (ofi_flow.h) */
	uint8_t control[REGION_DESCRIPTOR_BYTES]; /* all zero: there is no control region */
};

struct ofi_proofs; /* of this rank */
int ofi_proofs_open(int rank, int size, struct ofi_proofs **out);
void ofi_proofs_close(struct ofi_proofs **p);
/* The job's key is known from here on. */
void ofi_proofs_admit(struct ofi_proofs *p, const struct job_secret *secret);
int ofi_proofs_admitted(const struct ofi_proofs *p);

/* Begins with a peer, to whom this greeting may be told once it has proved itself. */
void ofi_proof_begin(struct ofi_proofs *p, int peer, const struct ofi_greeting *own);
/* The peer has proved itself, and this is its greeting; else NULL. */
const struct ofi_greeting *ofi_proof_greeting(const struct ofi_proofs *p, int peer);

/* Both return 1 with a message for the peer, or 0. */
/* What is to be said without being asked; a message that may be lost is said again. */
int ofi_proof_hello(struct ofi_proofs *p, int peer, uint64_t now_ns,
		    uint8_t message[OFI_FRAME_BYTES]);
/* The answer to a message that came from anybody: *peer is whom it is for. */
int ofi_proof_answer(struct ofi_proofs *p, const uint8_t *bytes, size_t n, uint64_t now_ns,
		     int *peer, uint8_t message[OFI_FRAME_BYTES]);
/* Messages that were no part of such an exchange, or whose tag was wrong. */
uint64_t ofi_proofs_refused(const struct ofi_proofs *p);
#endif
