/* SPDX-License-Identifier: BSD-3-Clause
 * The bytes of a card, as they travel through the launcher, and the comparison of all cards of a
 * job. Cards come from other processes and are hostile until card_decode() accepted them. Called by
 * bootstrap.c only.
 *
 *   offset size field                      offset size field
 *        0    4 magic "SLCD"                   20   32 package version, text
 *        4    4 header bytes, >= 180           52   48 build id, text
 *        8    4 payload bytes                 100   16 boot id
 *       12    4 wire version                  116   64 node, text
 *       16    4 rank
 *   then the payload, then 4 bytes CRC32C of everything before them.
 *
 * Little-endian; texts are printable ASCII, padded with zeros, at least one zero. These offsets
 * never change and a later version adds fields at the end of the header only, so that ranks of
 * different versions can still tell each other which they are. */
#ifndef SLURM_CARD_H
#define SLURM_CARD_H
#include "bootstrap.h"

enum {
	CARD_HEADER_BYTES = 180,
	CARD_MAX_BYTES = CARD_HEADER_BYTES + CARD_PAYLOAD_BYTES + 4,
	/* The most that a later version may send. Longer cards are refused unread. */
	CARD_ACCEPT_BYTES = 64 * 1024
};

/* Writes the card of this rank into out[] and returns its length. In text fields, '?' replaces
 * characters that are not printable. payload_bytes must be <= CARD_PAYLOAD_BYTES. */
size_t card_encode(const struct card *card, uint32_t rank, uint8_t out[CARD_MAX_BYTES]);

/* Reads bytes[0..n) as the card of this rank. Returns 0, or SLUICE_EWIRE with a static text in
 * *why; *out is then unspecified. The payload of another wire version is left out (payload_bytes
 * 0), because its meaning is not known. */
int card_decode(const uint8_t *bytes, size_t n, uint32_t rank, struct card *out, const char **why);

/* Compares wire and package versions. Returns 0, or SLUICE_EPEER with a sentence that names the
 * versions, ranks and nodes of rank 0 and of the lowest rank that differs from it. Every rank that
 * has the same cards gets the same sentence. Different build ids are a warning, logged by rank
 * 0. */
int card_compare(const struct card *cards, int size, int own_rank);
#endif
