/* SPDX-License-Identifier: BSD-3-Clause
 * A snapshot: all parameters of a shard at one version, as a sequence of dense messages of at most
 * SNAPSHOT_PART values each, so that a reader needs memory for only one part. shard.c writes it
 * into the shard's log region, and spread.c reads it while all ranks wait for each other, so one
 * snapshot per shard is enough. Pure. */
#ifndef RUNTIME_SNAPSHOT_H
#define RUNTIME_SNAPSHOT_H
#include "compress/message.h"

enum { SNAPSHOT_PART = 1 << 18 };

struct snapshot_part {
	uint32_t begin, span; /* range of the values in the shard */
	size_t offset, bytes; /* offset in the snapshot, and the most bytes that a reader reads
				 there */
};

uint32_t snapshot_parts(uint32_t span);
struct snapshot_part snapshot_part(uint32_t span, uint32_t part);
size_t snapshot_bytes(uint32_t span);
/* Returns the size of the largest part in bytes. */
size_t snapshot_part_bytes(uint32_t span);

/* Writes the snapshot of a shard. like: the header of all parts, without the numbers that differ
 * between parts. vector[0..span) is unchanged on return. SLUICE_ENUMERIC means that the vector is
 * not finite. */
int snapshot_write(const struct message *like, float *vector, uint32_t span, uint8_t *out);
/* Decodes one part from bytes[0..part->bytes), which is private memory, to the part's range in
 * vector[0..span). want: the expected header, without the numbers that differ between parts. If its
 * version (seq) is MESSAGE_ANY, it is set to that of the part. If the part is refused, returns
 * SLUICE_EWIRE and sets *why. */
int snapshot_take(struct message_expect *want, uint8_t *bytes, uint32_t part, float *vector,
		  uint32_t span, const char **why);
#endif
