/* SPDX-License-Identifier: BSD-3-Clause
 * The messages of proofs on their way through libfabric: buffers that wait for one from anybody,
 * and for each rank one that goes to it. Called by ofi.c with its lock held. */
#ifndef RDMA_OFI_MESSAGES_H
#define RDMA_OFI_MESSAGES_H
#include "rdma/ofi_fabric.h"
#include "rdma/ofi_proof.h"

struct ofi_messages;

/* memory: registered, with the descriptor desc, ofi_messages_bytes() of it. */
size_t ofi_messages_bytes(int size, size_t receives);
int ofi_messages_open(struct ofi_fabric *fabric, int size, size_t receives, uint8_t *memory,
		      void *desc, struct ofi_messages **out);
void ofi_messages_close(struct ofi_messages **l);

/* Hands all buffers that libfabric does not have to it. */
void ofi_messages_receive(struct ofi_messages *l);
/* The context of a completion that is no letter: if it is of a receive, which a notice used up,
 * libfabric gets it again. */
void ofi_messages_reuse(struct ofi_messages *l, void *context);
/* What is to be said to the rank next; it replaces what was not sent yet. */
void ofi_messages_write(struct ofi_messages *l, int rank, const uint8_t message[OFI_FRAME_BYTES]);
int ofi_messages_pending(const struct ofi_messages *l, int rank);
/* Sends it, if libfabric takes it now. */
void ofi_messages_send(struct ofi_messages *l, int rank, fi_addr_t to);

enum ofi_message {
	OFI_MESSAGE_NONE, /* the completion is of no letter */
	OFI_MESSAGE_CAME, /* message holds n bytes from anybody */
	OFI_MESSAGE_SENT, /* the one to that rank */
	OFI_MESSAGE_FAILED
};
enum ofi_message ofi_messages_take(struct ofi_messages *l, const struct ofi_completion *c,
				   int *rank, uint8_t message[OFI_FRAME_BYTES], size_t *n);
#endif
