/* SPDX-License-Identifier: BSD-3-Clause
 * Rounds values to whole multiples of a width: the type round of few_bits.h. Called by few_bits.c.
 * Pure. */
#ifndef COMPRESS_FEW_BITS_ROUND_H
#define COMPRESS_FEW_BITS_ROUND_H
#include <stddef.h>
#include <stdint.h>

/* Returns the number of bits that the largest code needs. */
unsigned round_bits(float width, const float *v, size_t n);
/* Does the work of few_bits_encode() for this type. bits is the result of round_bits(). */
size_t round_encode(unsigned bits, float width, const float *v, size_t n, uint8_t *out,
		    float *decoded);
/* Does the work of few_bits_decode() for this type. Returns NULL, or a text that states what is
 * wrong. */
const char *round_decode(unsigned bits, float width, const uint8_t *in, size_t n, float *v);
#endif
