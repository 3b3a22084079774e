/* SPDX-License-Identifier: BSD-3-Clause
 * Puts that carry numbers, for providers that keep no order and report a put as complete before it
 * is in place. Each put has 32 bits of data: a number of 14 bits, which counts the puts to the
 * peer, a kind of 2 bits, and 16 bits of a notice. The peer's card reports the data of a put once
 * the bytes of that put are in place. So the peer delivers a notice when all numbers up to the last
 * put of that notice have arrived, in whatever order. Called by ofi_flow.c for the sender, and by
 * ofi_peer.c for the receiver. */
#ifndef RDMA_OFI_COUNT_H
#define RDMA_OFI_COUNT_H
#include <stdint.h>

enum {
	COUNT_PLACES = 1024, /* the most numbers that may arrive before an earlier number */
	/* The sender's next put is at most this far ahead of its oldest put that is not complete.
	 * The other half of the places is for complete puts that the peer's card has not reported
	 * yet. */
	COUNT_AHEAD = COUNT_PLACES / 2
};

enum count_kind {
	COUNT_BYTES, /* no notice */
	COUNT_LOW,   /* the lower half of the immediate of the next notice */
	COUNT_HIGH,  /* a notice: the upper half, after a COUNT_LOW */
	COUNT_SAME   /* a notice: the lower half, and the upper half of the notice before it */
};

uint32_t count_word(enum count_kind kind, uint32_t number, uint16_t half);

struct arrivals;
int arrivals_open(struct arrivals **out);
void arrivals_close(struct arrivals **a);
/* Takes the word of a put that has arrived. Returns 0. Returns -1 if the number was already taken
 * or is out of reach, which means that the sender breaks the rules. */
int arrivals_take(struct arrivals *a, uint32_t word);
/* Returns 1 and the immediate of the next notice, 0 if the next number has not arrived, or -1 if
 * the sender breaks the rules. */
int arrivals_next(struct arrivals *a, uint32_t *imm);
#endif
