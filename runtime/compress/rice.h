/* SPDX-License-Identifier: BSD-3-Clause
 * The densest coding of positions: gaps as Rice codes, within about 0.2 bit of what random
 * positions cost at least. Slower than delta; for networks that are slower than the processor. (R.
 * F. Rice, Some practical universal noiseless coding techniques, JPL Publication 79-22, 1979.)
 * Layout in message.h. Called by index_coding.c. */
#ifndef COMPRESS_RICE_H
#define COMPRESS_RICE_H
#include <stdint.h>

/* out is all zero.
 * As index_bytes(), index_encode() and index_decode() of index_coding.h, not yet padded. */
uint64_t rice_bytes(const uint32_t *index, uint32_t count, uint32_t span);
void rice_encode(const uint32_t *index, uint32_t count, uint32_t span, uint8_t *out);
/* bytes: what is there, padding included; *used of them are the code. */
int rice_decode(const uint8_t *in, uint64_t bytes, uint32_t count, uint32_t span, uint32_t *index,
		uint64_t *used, const char **why);
#endif
