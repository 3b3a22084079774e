/* SPDX-License-Identifier: BSD-3-Clause
 * Reads and writes the payload of a dense message of floats piece by piece. Each byte crosses the
 * memory bus once, and is checked while it is in the first-level cache. Called by worker/dense.c
 * and shard_dense.c. Pure. */
#ifndef COMPRESS_DENSE_H
#define COMPRESS_DENSE_H
#include "message.h"

/* Number of values in a piece, which has 3 KiB. crc32c() handles a piece in one round, and the
 * processor prefetches the next piece while it works on the current one. */
enum { DENSE_PIECE = 768 };

/* Returns 1 if the payload is exactly one float per coordinate, in this machine's representation. m
 * has passed message_peek(). */
int dense_plain(const struct message *m);

/* Returns the number of values in the piece that begins at value `at` of a payload of span values.
 * All pieces but the first begin at a cache line. */
static inline uint32_t dense_here(const uint8_t *payload, uint32_t span, uint32_t at)
{
	const uintptr_t in_line = ((uintptr_t)payload / sizeof(float) + at) % 16;
	const uint32_t piece = DENSE_PIECE - (uint32_t)in_line;

	return span - at < piece ? span - at : piece;
}

/* Copies n values out of memory that a peer may be changing, and reads each byte once. Continues
 * the checksum *crc over the copy. Returns SLUICE_EWIRE if a value is NaN or infinite. */
int dense_take(const uint8_t *from, uint32_t n, float *value, uint32_t *crc);

/* Writes n values into a payload and continues *crc. With past_caches, the values are written to
 * memory directly, so this machine need not read the memory before overwriting it. Then
 * dense_put_end() must follow. */
void dense_put(const float *value, uint32_t n, uint8_t *to, uint32_t *crc, int past_caches);
/* Orders the stores that bypass the caches before all later stores. */
void dense_put_end(void);

/* Returns 1 if a vector of this length does not fit into the cache. */
static inline int dense_large(uint64_t count)
{
	return count >= 1u << 20;
}

/* Sets value[i] = scale * from[i]. */
void dense_scaled(const float *from, float scale, uint32_t n, float *value);
#endif
