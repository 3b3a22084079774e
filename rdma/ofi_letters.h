/* SPDX-License-Identifier: BSD-3-Clause
 * The messages of proofs on their way through libfabric: buffers that wait for one from anybody,
 * and for each rank one that goes to it. Called by ofi.c with its lock held. */
#ifndef RDMA_OFI_LETTERS_H
#define RDMA_OFI_LETTERS_H
#include "rdma/ofi_fabric.h"
#include "rdma/ofi_proof.h"

struct ofi_letters;

/* memory: registered, with the descriptor desc, ofi_letters_bytes() of it. */
size_t ofi_letters_bytes(int size, size_t receives);
int ofi_letters_open(struct ofi_fabric *fabric, int size, size_t receives, uint8_t *memory,
		     void *desc, struct ofi_letters **out);
void ofi_letters_close(struct ofi_letters **l);

/* Hands all buffers that libfabric does not have to it. */
void ofi_letters_receive(struct ofi_letters *l);
/* The context of a completion that is no letter: if it is of a receive, which a notice used up,
 * libfabric gets it again. */
void ofi_letters_reuse(struct ofi_letters *l, void *context);
/* What is to be said to the rank next; it replaces what was not sent yet. */
void ofi_letters_write(struct ofi_letters *l, int rank, const uint8_t message[OFI_FRAME_BYTES]);
int ofi_letters_pending(const struct ofi_letters *l, int rank);
/* Sends it, if libfabric takes it now. */
void ofi_letters_send(struct ofi_letters *l, int rank, fi_addr_t to);

enum ofi_letter {
	OFI_LETTER_NONE, /* the completion is of no letter */
	OFI_LETTER_CAME, /* message holds n bytes from anybody */
	OFI_LETTER_SENT, /* the one to that rank */
	OFI_LETTER_SPOILT
};
enum ofi_letter ofi_letters_take(struct ofi_letters *l, const struct ofi_completion *c, int *rank,
				 uint8_t message[OFI_FRAME_BYTES], size_t *n);
#endif
