/* SPDX-License-Identifier: BSD-3-Clause
 * The messages of proofs through libfabric: receive buffers for all peers, and one send buffer for
 * each rank. Called by ofi.c with its lock held. */
#ifndef RDMA_OFI_MESSAGES_H
#define RDMA_OFI_MESSAGES_H
#include "rdma/ofi_fabric.h"
#include "rdma/ofi_proof.h"

struct ofi_messages;

/* Opens the messages. memory has ofi_messages_bytes() bytes, which are registered with the
 * descriptor desc. */
size_t ofi_messages_bytes(int size, size_t receives);
int ofi_messages_open(struct ofi_fabric *fabric, int size, size_t receives, uint8_t *memory,
		      void *desc, struct ofi_messages **out);
void ofi_messages_close(struct ofi_messages **messages);

/* Posts every receive that libfabric does not hold. */
void ofi_messages_receive(struct ofi_messages *messages);
/* Takes the context of a completion that belongs to no message. If the context is a receive that a
 * notice has used up, posts the receive again. */
void ofi_messages_reuse(struct ofi_messages *messages, void *context);
/* Sets the next message to the rank. It replaces a message that was not sent yet. */
void ofi_messages_write(struct ofi_messages *messages, int rank,
			const uint8_t message[OFI_FRAME_BYTES]);
int ofi_messages_pending(const struct ofi_messages *messages, int rank);
/* Sends the message, if libfabric accepts it now. */
void ofi_messages_send(struct ofi_messages *messages, int rank, fi_addr_t to);

enum ofi_message {
	OFI_MESSAGE_NONE, /* the completion is not of a message */
	OFI_MESSAGE_CAME, /* message holds n bytes from some rank */
	OFI_MESSAGE_SENT, /* the message to that rank was sent */
	OFI_MESSAGE_FAILED
};
enum ofi_message ofi_messages_take(struct ofi_messages *messages, const struct ofi_completion *c,
				   int *rank, uint8_t message[OFI_FRAME_BYTES], size_t *n);
#endif
