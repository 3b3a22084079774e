/* SPDX-License-Identifier: BSD-3-Clause
 * Encodes and decodes one value in few bits, for the types uniform and grid (few_bits.h),
 * identically on the CPU and the GPU. Pure, inline and without branches, so that compilers
 * vectorise loops over these functions. */
#ifndef COMPRESS_FEW_BITS_RULES_H
#define COMPRESS_FEW_BITS_RULES_H
#include "base/bytes.h"
#include <float.h>

/* ---- uniform --------------------------------------------------------------- */

HOST_AND_DEVICE static inline int uniform_levels(unsigned bits)
{
	return (1 << (bits - 1)) - 1;
}

/* Returns the smallest step for which L steps reach `most`, the largest magnitude of a block. For
 * an infinite magnitude (an overflowed sum) the step is infinite, which the receiver refuses. */
HOST_AND_DEVICE static inline float uniform_step(unsigned bits, float most)
{
	const float levels = (float)uniform_levels(bits);
	float step = most / levels;

	step = bits_float(float_bits(step) +
			  (step * levels < most)); /* the next larger float, without a branch */
	return step * levels > FLT_MAX && most <= FLT_MAX ? bits_float(float_bits(step) - 1) : step;
}

/* Factors that turn the values of a block into whole multiples of 2^-(32 - bits) steps. There are
 * two factors, because the inverse of a tiny step is not finite; `up` is a power of two. */
struct uniform_scale {
	float step, up, factor;
};

/* Not valid for a step of 0. Products grow with the value. So if the largest value that may have
 * this step does not exceed the last level, no value does, and values need not be limited one by
 * one. Reducing the factor by one unit in the last place reduces that product by at least half a
 * unit in its last place. */
HOST_AND_DEVICE static inline struct uniform_scale uniform_scale(unsigned bits, float step)
{
	const float levels = (float)uniform_levels(bits), unit = (float)(1u << (32 - bits));
	const float reach = step * levels,
		    largest = reach < 0x1.fffffp127f ? reach : FLT_MAX; /* uniform_step() */
	struct uniform_scale s = { step, step < 0x1p-64f ? 0x1p64f : 1, 0 };
	int32_t beyond;

	s.factor = unit / (step * s.up);
	beyond = (int32_t)(float_bits(largest * s.up * s.factor) - float_bits(levels * unit));
	s.factor = bits_float(float_bits(s.factor) - 2 * (uint32_t)(beyond > 0 ? beyond : 0));
	return s;
}

/* Adds a random fraction of a step, with the same number of bits, and rounds down. */
HOST_AND_DEVICE static inline uint8_t uniform_code(float v, uint32_t random,
						   const struct uniform_scale *s, unsigned bits)
{
	const unsigned shift = 32 - bits;
	const uint32_t share = random >> bits, zero_s = (uint32_t)uniform_levels(bits) << shift;

	return (uint8_t)((zero_s + (uint32_t)(int32_t)(v * s->up * s->factor) + share) >> shift);
}

HOST_AND_DEVICE static inline float uniform_value(uint8_t code, float step, int levels)
{
	return (float)(code - levels) * step;
}

HOST_AND_DEVICE static inline uint8_t sign_code(float v)
{
	return v < 0;
}

HOST_AND_DEVICE static inline float sign_value(uint8_t code, float step)
{
	return bits_float(float_bits(step) ^ (uint32_t)code << 31);
}

/* ---- grid ------------------------------------------------------------------ */

HOST_AND_DEVICE static inline float grid_width(unsigned bits, float range)
{
	const float share = 1.0f / (float)((1 << bits) - 1);

	return 2 * (share * range);
}

/* Returns the range of a message with this largest magnitude. For an infinite magnitude (an
 * overflowed sum) it is infinite, which the receiver refuses. */
HOST_AND_DEVICE static inline float grid_range(unsigned bits, float most)
{
	const float grid_most = FLT_MAX / 4; /* a limit that keeps width * code - range finite */

	if (!(most <= FLT_MAX))
		return most;
	most = most < grid_most ? most : grid_most;
	return grid_width(bits, most) > 0 ? most : 0;
}

/* most is the largest code. */
HOST_AND_DEVICE static inline uint8_t grid_code(float v, float range, float width, int most)
{
	float x = v;
	int code;

	x = x > range ? range : x;
	x = x < -range ? -range : x;
	code = (int)((x + range) / width + 0.5f);
	return (uint8_t)(code > most ? most : code);
}

HOST_AND_DEVICE static inline float grid_value(uint8_t code, float range, float width)
{
	return width * (float)code - range;
}

/* ---- lengths --------------------------------------------------------------- */

/* Returns the length in bytes of n codes of `bits` bits and of the steps before the blocks of
 * values. block 0: there are no steps. */
HOST_AND_DEVICE static inline uint64_t codes_bytes(unsigned bits, unsigned block, uint64_t n)
{
	const uint64_t steps = block ? n / block + (n % block != 0) : 0;

	return steps * sizeof(float) + (n * bits + 7) / 8;
}
#endif
