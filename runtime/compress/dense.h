/* SPDX-License-Identifier: BSD-3-Clause
 * The payload of a dense message of floats, a piece after the other: each byte crosses the memory
 * once, and is checked while it is in the first cache. Called by worker_dense.c and shard_dense.c.
 * Pure. */
#ifndef COMPRESS_DENSE_H
#define COMPRESS_DENSE_H
#include "message.h"

/* Values of a piece: 3 KiB, which crc32c() takes in one round. So little that the processor asks
 * the memory for the next one while it computes on this. */
enum { DENSE_PIECE = 768 };

/* 1 if the payload is a float for each coordinate and nothing else, as this machine has them in
 * memory. m passed message_peek(). */
int dense_plain(const struct message *m);

/* How many values the piece that begins at `at` has. */
static inline uint32_t dense_here(uint32_t span, uint32_t at)
{
	return span - at < DENSE_PIECE ? span - at : DENSE_PIECE;
}

/* Copies n values out of memory that a peer may be changing: reads each byte once. Continues the
 * checksum *crc with what it copied. SLUICE_EWIRE if a value is NaN or infinite. */
int dense_take(const uint8_t *from, uint32_t n, float *value, uint32_t *crc);

/* n values into a payload; continues *crc. past_caches: whoever reads it finds it in memory, and
 * this machine need not read first what it overwrites; to be ended with dense_put_end(). */
void dense_put(const float *value, uint32_t n, uint8_t *to, uint32_t *crc, int past_caches);
/* What was put past the caches is in place for whoever sees what is stored from now on. */
void dense_put_end(void);

/* So many values are not in a cache any more when their last one is written. */
static inline int dense_large(uint32_t span)
{
	return span >= 1u << 20;
}

/* value[i] = scale * from[i]. */
void dense_scaled(const float *from, float scale, uint32_t n, float *value);
#endif
