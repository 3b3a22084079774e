/* SPDX-License-Identifier: BSD-3-Clause
 * The bytes of a record, as the launcher passes them on, and the comparison of all records of a
 * job. Records come from other processes and are hostile until record_decode() has accepted them.
 * Called by bootstrap.c only.
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
 * never change and later versions add fields only at the end of the header, so ranks of different
 * versions can still read each other's versions. */
#ifndef SLURM_CARD_H
#define SLURM_CARD_H
#include "bootstrap.h"

enum {
	RECORD_HEADER_BYTES = 180,
	RECORD_MAX_BYTES = RECORD_HEADER_BYTES + RECORD_PAYLOAD_BYTES + 4,
	/* The largest record that is accepted from a later version. Longer records are refused
	 * unread. */
	RECORD_ACCEPT_BYTES = 64 * 1024
};

/* Writes the record of this rank into out[] and returns its length. In text fields, '?' replaces
 * characters that are not printable. payload_bytes must be <= RECORD_PAYLOAD_BYTES. */
size_t record_encode(const struct rank_record *record, uint32_t rank,
		     uint8_t out[RECORD_MAX_BYTES]);

/* Reads bytes[0..n) as the record of this rank. Returns 0, or SLUICE_EWIRE with a static text in
 * *why; *out is then unspecified. If the record has another wire version, the payload is left out
 * (payload_bytes 0), because its meaning is not known. */
int record_decode(const uint8_t *bytes, size_t n, uint32_t rank, struct rank_record *out,
		  const char **why);

/* Compares the wire and package versions. If a rank differs, returns SLUICE_EPEER with a sentence
 * about rank 0 and the lowest such rank: versions, ranks and nodes. All ranks with the same records
 * get the same sentence. Otherwise returns 0; if build ids differ, rank 0 logs a warning. */
int record_compare(const struct rank_record *records, int size, int own_rank);
#endif
