/* SPDX-License-Identifier: BSD-3-Clause
 * The payload of a dense message of floats, a piece after the other: each byte crosses the memory once, and is
 * checked while it is in the first cache. Called by worker_dense.c and shard_dense.c. Pure. */
#ifndef COMPRESS_DENSE_H
#define COMPRESS_DENSE_H
#include "message.h"

/* Values of a piece: one of a message and one of a sum fit the first cache. 12 KiB, which crc32c() takes in whole
 * rounds. */
enum { DENSE_PIECE = 3072 };

/* 1 if the payload is a float for each coordinate and nothing else, as this machine has them in memory. m passed
 * message_peek(). */
int dense_plain(const struct message *m);

/* How many values the piece that begins at `at` has. */
static inline uint32_t dense_here(uint32_t span, uint32_t at)
{
	return span - at < DENSE_PIECE ? span - at : DENSE_PIECE;
}

/* Copies n values out of memory that a peer may be changing: reads each byte once. Continues the checksum *crc with
 * what it copied. SLUICE_EWIRE if a value is NaN or infinite. */
int dense_take(const uint8_t *from, uint32_t n, float *value, uint32_t *crc);

/* n values into a payload, where they need not stay in a cache; continues *crc. */
void dense_put(const float *value, uint32_t n, uint8_t *to, uint32_t *crc);
#endif
