/* SPDX-License-Identifier: BSD-3-Clause
 * Many counts in few bytes, without bias, for sums over ranks: histograms and the phases of
 * distribution estimation. Small counts are exact, and large ones are rounded at random to
 * multiples of one power of two, the scale. Pure; input bytes may be hostile.
 *
 *   bits  field            bits LSB first
 *      4  tag              chosen by the caller
 *      4  b - 1            counts of up to b bits are exact, b = 1..16
 *      6  shift            the scale is 2^shift
 *      *  n + 1            n counts follow, from the first to the last that is not zero
 *      *  first + 1        the position of the first one; only if n > 0
 *
 * n + 1 and first + 1 are in Elias' gamma code: the length in unary zeros, then the number from its
 * leading one down. Each of the n counts has two fields:
 *
 * - its length L in bits (0 for the count 0). d is the difference from the previous length, which
 *   is 0 before the first count. For d = 0, 1, -1, 2, ... the number z is 0, 1, 2, 3, ..., and it
 *   is written as z zeros and a one. From z = 7 on, seven zeros and 6 bits of L follow instead.
 * - the bits below its leading one: L - 1 bits if L <= b, else the L - 1 - shift bits that the
 *   scale leaves.
 *
 * The last byte is padded with zeros. Readers accept nothing else. */
#ifndef COMPRESS_COUNTS_H
#define COMPRESS_COUNTS_H
#include "random.h"
#include <stddef.h>

enum { COUNTS_BITS_MAX = 16, COUNTS_LENGTH_MAX = 48, COUNTS_MOST = 65535 };

/* Returns the most bytes that counts_encode() needs for n counts of b bits. */
size_t counts_bound(size_t n, unsigned b);
/* Writes n <= COUNTS_MOST counts, each below 2^(COUNTS_LENGTH_MAX - 1), to out, which has room for
 * the bound. Counts below 2^b are read back exactly. A larger count c becomes scale * floor(c /
 * scale + u) with u uniform, so its mean is c and its standard error at most scale / 2. The scale
 * is 2^(length of the largest - b), or 1. u is a function of the stream and the count's position.
 * Returns the number of bytes. */
size_t counts_encode(const uint64_t *count, size_t n, unsigned b, unsigned tag,
		     const struct random_stream *stream, uint8_t *out);
/* Adds the counts in bytes[0..n_bytes) to count[0..n). This is linear, so messages may be added in
 * any order. Returns SLUICE_EWIRE, sets *why and does not change count[] if counts_encode() never
 * writes such bytes, if the tag is another one, or if a sum would have more than 48 bits. */
int counts_merge(const uint8_t *bytes, size_t n_bytes, unsigned tag, uint64_t *count, size_t n,
		 const char **why);
#endif
