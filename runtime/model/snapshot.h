/* SPDX-License-Identifier: BSD-3-Clause
 * A snapshot: all parameters of a shard at one version, as dense messages of at most SNAPSHOT_PART
 * values each, one behind the other, so that a reader needs memory for one part only. Written by
 * shard.c into the shard's log region, read by spread.c while all ranks wait for each other: one
 * snapshot per shard is enough. Pure. */
#ifndef RUNTIME_SNAPSHOT_H
#define RUNTIME_SNAPSHOT_H
#include "compress/message.h"

enum { SNAPSHOT_PART = 1 << 18 };

struct snapshot_part {
	uint32_t begin, span; /* values of the shard */
	size_t offset, bytes; /* in the snapshot; bytes: what a reader reads, at most */
};

uint32_t snapshot_parts(uint32_t span);
struct snapshot_part snapshot_part(uint32_t span, uint32_t part);
size_t snapshot_bytes(uint32_t span);
/* The largest of its parts. */
size_t snapshot_part_bytes(uint32_t span);

/* like: everything but the part's own numbers. vector[0..span) stays as it is. SLUICE_ENUMERIC: it
 * is not finite. */
int snapshot_write(const struct message *like, float *vector, uint32_t span, uint8_t *out);
/* Takes one part out of bytes[0..part->bytes), which is private memory, into its place in
 * vector[0..span). want: everything but the part's own numbers. SLUICE_EWIRE: *why says what is
 * wrong with it. */
int snapshot_take(const struct message_expect *want, uint8_t *bytes, uint32_t part, float *vector,
		  uint32_t span, const char **why);
#endif
