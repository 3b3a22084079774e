/* SPDX-License-Identifier: BSD-3-Clause
 * The densest coding of positions: gaps as Rice codes, within about 0.2 bit of the entropy of
 * random positions. It is slower than delta, and meant for slow networks. (R. F. Rice, Some
 * practical universal noiseless coding techniques, JPL Publication 79-22, 1979.) message.h has the
 * layout. Called by index_coding.c. */
#ifndef COMPRESS_RICE_H
#define COMPRESS_RICE_H
#include <stdint.h>

/* These do the work of index_bytes(), index_encode() and index_decode() (index_coding.h), without
 * padding. out must be all zero. */
uint64_t rice_bytes(const uint32_t *index, uint32_t count, uint32_t span);
void rice_encode(const uint32_t *index, uint32_t count, uint32_t span, uint8_t *out);
/* bytes includes the padding. *used receives the number of bytes without it. */
int rice_decode(const uint8_t *in, uint64_t bytes, uint32_t count, uint32_t span, uint32_t *index,
		uint64_t *used, const char **why);
#endif
