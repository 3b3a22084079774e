/* SPDX-License-Identifier: BSD-3-Clause
 * Values in few bits: the types uniform, grid, round, twomeans and e3m0 of quantize.h. Called by
 * message.c, which writes the codes after the positions of a message. Pure: no job, no network, no
 * allocation.
 *
 * uniform(b, block)  one step s per block of values, then the codes. For b >= 2, code = q + L with
 *                    L = 2^(b-1) - 1, and q is v / s, rounded at random to one of its two
 *                    neighbours so that the mean of the decoded s q is v. s is the least float with
 *                    L s >= max |v|. For b = 1, the code is the sign (1: negative), decoded as -s
 *                    or s, and s is the mean magnitude of the block.
 * grid(b)            Sun et al., Communication-Efficient Distributed Learning via Lazily
 *                    Aggregated Quantized Gradients, NeurIPS 2019. The range R is max |v| of the
 *                    message, and w = 2 R / (2^b - 1). The code is the number of 0..2^b - 1 nearest
 *                    to (v + R) / w, decoded as w code - R.
 * round(D)           q is the integer nearest to v / D, with ties to even. The code is 2 q, or
 *                    -2 q - 1 if q is negative. Codes have as many bits as the largest one of the
 *                    message needs, and none if all are zero.
 * twomeans           a word per block of 512 values, then codes of 2 bits. Bit 1 is the sign, and
 *                    bit 0 is set if the magnitude is above the mean of the block's magnitudes. The
 *                    word has two means in bf16: of the magnitudes up to that mean in its lower
 *                    half, and of the others in its upper half. If there are none of one kind, both
 *                    halves are equal. Magnitudes are summed in float in 32 lanes
 *                    (value_kernels.h). If the sum overflows, all are multiplied by 2^-20 first.
 * e3m0               the scale S of each block of 512 values, then codes of 4 bits. Bit 3 is the
 *                    sign, and the others are 0 for zero, or c for 2^(c-7) S. S is the power of two
 *                    nearest to the largest magnitude, but at least 2^-119; 0 if all values are
 *                    below 2^-126. A value becomes the nearest of these levels, or the larger of
 *                    two equally near ones. The error is at most max(|v| / 3, S / 128), or |v| / 2
 *                    above 1.5 * 2^127.
 * In twomeans and e3m0, all codes of a block whose word is 0 are 0. */
#ifndef COMPRESS_FEW_BITS_H
#define COMPRESS_FEW_BITS_H
#include "base/both.h"
#include "quantize.h"
#include "random.h"

struct team;

/* The random numbers for the rounding of uniform. Value i is coordinate first + index[i] of the
 * whole vector, or first + i if index is NULL. The result therefore does not depend on how the
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
 * round. A grid covers at least the magnitude `range`. Without values, the scale of a grid is 0. */
float few_bits_fit(struct value_coding *c, const float *v, size_t n, float range);
/* Returns 1 if a message may have this coding and scale. Otherwise returns 0, with the reason in
 * *why. why may be NULL. */
int few_bits_valid(const struct value_coding *c, float scale, const char **why);
/* Writes few_bits_bytes() bytes to out. decoded (may be v) receives exactly the values that
 * few_bits_decode() returns. Returns n, or the index of the first value that is NaN or infinite;
 * the output is then invalid. team: threads that may help, or NULL. */
size_t few_bits_encode(struct team *team, const struct value_coding *c, float scale, const float *v,
		       size_t n, const struct rounding *rounding, uint8_t *out, float *decoded);
/* Checks everything in in[0..few_bits_bytes()): codes are in range, steps and magnitudes are finite
 * and not negative, and spare bits are zero. If the step is 0, all codes must be the code of zero.
 * Returns 0, or SLUICE_EWIRE and sets *why. team: threads that may help, or NULL. */
int few_bits_decode(struct team *team, const struct value_coding *c, float scale, const uint8_t *in,
		    size_t n, float *v, const char **why);
#endif
