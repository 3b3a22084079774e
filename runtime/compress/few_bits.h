/* SPDX-License-Identifier: BSD-3-Clause
 * Values in few bits: the types uniform, grid, round, twomeans and e3m0 of quantize.h. Called by
 * message.c, which writes the codes after the positions of a message. Pure: no job, no network, no
 * allocation.
 *
 * uniform(b, block)  one step s per block of values, then the codes. b >= 2: code = q + L with L =
 *                    2^(b-1) - 1 and q = v / s rounded at random to one of its two neighbours, so
 *                    that the mean of the decoded s q is v; s is the least float with L s >= max
 *                    |v|. b = 1: the sign (1: negative), decoded as -s or s; s is the mean
 *                    magnitude of the block.
 * grid(b)            Sun et al., Communication-Efficient Distributed Learning via Lazily
 *                    Aggregated Quantized Gradients, NeurIPS 2019: range R = max |v| of the
 *                    message, w = 2 R / (2^b - 1), code = the nearest of 0..2^b - 1 for (v + R) /
 *                    w, decoded as w code - R.
 * round(D)           the nearest integer of v / D, ties to even, as 2 q or, negative, -2 q - 1;
 *                    as many bits as the largest code of the message has, none if all are zero.
 * twomeans           a word per block of 512 values, then codes of 2 bits: bit 1 is the sign, bit 0
 *                    is set if the magnitude is above the mean of the block's magnitudes. The word
 *                    has the mean of the magnitudes on either side, in bf16: those up to the mean
 *                    in its lower half. Magnitudes are summed in float in 32 lanes
 * (value_kernels.h); if that overflows, all are multiplied by 2^-20 first. If one side is empty, it
 *                    has the magnitude of the other.
 * e3m0               the scale S of each block of 512 values, then codes of 4 bits: bit 3 is the
 *                    sign, and the others are 0 for zero, or c for 2^(c-7) S. S is the power of two
 *                    nearest to the largest magnitude, but at least 2^-119; 0 if all values are
 *                    below 2^-126. A value becomes the nearest of these levels, the larger one of
 *                    two: the error is at most max(|v| / 3, S / 128), or |v| / 2 above 1.5 * 2^127.
 * In both, all codes of a block whose word is 0 are 0. */
#ifndef COMPRESS_FEW_BITS_H
#define COMPRESS_FEW_BITS_H
#include "base/both.h"
#include "quantize.h"
#include "random.h"

/* The random numbers for the rounding of uniform. Value i is coordinate first + index[i] of
 * the whole vector (first + i if index is NULL), so that the result does not depend on how the
 * vector is cut into shards. */
struct rounding {
	struct random_stream stream;
	uint64_t first;
	const uint32_t *index;
};

HOST_AND_DEVICE static inline int value_few_bits(enum value_type type)
{
	return type >= VALUE_UNIFORM;
}

/* Returns max |v|, or 0 if n is 0. */
float largest_magnitude(const float *v, size_t n);
/* Returns the length of n values in a message, without padding. Values of the type round take
 * c->bits each, so few_bits_fit() must be called before. */
uint64_t few_bits_bytes(const struct value_coding *c, uint32_t n);
/* Returns the scale for the header of a message with these values, and sets c->bits for the type
 * round. A grid covers at least the magnitude range; without values it is 0. */
float few_bits_fit(struct value_coding *c, const float *v, size_t n, float range);
/* Returns 1 if a message may have this coding and scale, else 0 with the reason in *why (may be
 * NULL). */
int few_bits_valid(const struct value_coding *c, float scale, const char **why);
/* Writes few_bits_bytes() bytes to out. decoded (may be v) receives exactly the values that
 * few_bits_decode() returns. Returns n, or the index of the first value that is NaN or infinite;
 * the output is then invalid. */
size_t few_bits_encode(const struct value_coding *c, float scale, const float *v, size_t n,
		       const struct rounding *rounding, uint8_t *out, float *decoded);
/* Checks everything in in[0..few_bits_bytes()): codes are in range, steps and magnitudes are finite
 * and not negative, spare bits are zero, and if the step is 0, all codes are that of zero. Returns
 * 0, or SLUICE_EWIRE and *why. */
int few_bits_decode(const struct value_coding *c, float scale, const uint8_t *in, size_t n,
		    float *v, const char **why);
#endif
