/* SPDX-License-Identifier: BSD-3-Clause
 * Encodes and decodes one value in few bits, for all types but round (few_bits.h), identically on
 * the CPU and the GPU. value_wide.h does the same for several values at once. Pure, inline and
 * without branches. */
#ifndef COMPRESS_FEW_BITS_RULES_H
#define COMPRESS_FEW_BITS_RULES_H
#include "base/bytes.h"
#include "value_codes.h"
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

/* Factors that turn the values of a block into whole multiples of 2^-(32 - bits) steps. A value is
 * multiplied by both, because the inverse of a tiny step is not finite. `up` is a power of two. */
struct uniform_scale {
	float step, up, factor;
};

/* Computes the factors. The step must not be 0. Products grow with the value. If the product of the
 * largest value that may have this step does not exceed the last level, no other product does, so
 * values need not be limited one by one. If it does exceed that level, the factor is reduced by one
 * unit in the last place. This reduces the product by at least half a unit in its last place. */
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

/* Returns the range of a message with this largest magnitude. An infinite magnitude (an overflowed
 * sum) gives an infinite range, which the receiver refuses. */
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

/* ---- levels: the values of all codes of a block of twomeans or e3m0, for the CPU ---- */

/* Sixteen values in bf16, four in each number, with the value of the lowest code in the lowest
 * bits. */
struct levels {
	uint64_t four[4];
};

static inline float level_value(const struct levels *l, uint8_t code)
{
	return bf16_decode_inline((uint16_t)(l->four[code >> 2] >> 16 * (code & 3)));
}

/* ---- twomeans --------------------------------------------------------------- */

/* mean is the mean of the block's magnitudes. */
HOST_AND_DEVICE static inline uint8_t twomeans_code(float v, float mean)
{
	const float magnitude = bits_float(float_bits(v) & F32_MAGNITUDE);

	return (uint8_t)((uint32_t)(magnitude > mean) | (float_bits(v) >> 30 & 2));
}

/* The sum of those magnitudes of a block that do not exceed their mean, and the sum of the other
 * magnitudes. */
struct twomeans_sums {
	float low, high;
	uint32_t n_high;
};

/* If the sum of a block's magnitudes overflows, its values are first multiplied by this factor. */
#define TWOMEANS_DOWN 0x1p-20f

/* Returns the word of a block of n values: two magnitudes in bf16, the smaller one in the lower
 * half. If no magnitude is on one side of the mean, both halves have the magnitude of the other
 * side. up is the inverse of the factor that the values were multiplied by: 1 or 1 / TWOMEANS_DOWN.
 * If a value is not finite, the receiver refuses the word. */
HOST_AND_DEVICE static inline uint32_t twomeans_word(const struct twomeans_sums *s, uint32_t n,
						     float up)
{
	const uint32_t n_low = n - s->n_high;
	const int finite = s->low <= FLT_MAX && s->high <= FLT_MAX;
	const uint32_t above = s->n_high ? bf16_encode_inline(s->high / (float)s->n_high * up) : 0;
	const uint32_t low = n_low ? bf16_encode_inline(s->low / (float)n_low * up) : above;

	/* The sums are rounded, so without this the mean of the lower magnitudes could exceed that
	 * of the higher ones. */
	return finite ? low | (above > low ? above : low) << 16 : F32_INFINITY;
}

/* Returns 1 if the magnitudes are finite and in order. */
HOST_AND_DEVICE static inline int twomeans_valid(uint32_t word)
{
	return word >> 16 <= BF16_LARGEST && (word & 0xffff) <= word >> 16;
}

HOST_AND_DEVICE static inline float twomeans_value(uint32_t word, uint32_t code)
{
	const uint32_t magnitude = code & 1 ? word & 0xffff0000 : word << 16;

	return bits_float(magnitude | (code & 2) << 30);
}

static inline struct levels twomeans_levels(uint32_t word)
{
	const uint64_t both = (uint64_t)word | (uint64_t)word << 32 | 0x8000800000000000u;

	return (struct levels){ { both, 0, 0, 0 } };
}

/* ---- e3m0 ------------------------------------------------------------------- */

/* The values of a block are compared with 2^-7 to 1 times its scale. Even with the least scale, all
 * of these are normal numbers. */
enum { E3M0_LEVELS = 7, E3M0_SIGN = 8, E3M0_LEAST = 8, E3M0_MOST = 254, F32_NORMAL = 0x00800000 };

/* Returns the word of a block. `largest` has the bits of the block's largest magnitude. The word is
 * the power of two nearest to that magnitude, as a float, or 0 if no value of the block is a normal
 * number. If the magnitude is infinite (an overflowed sum), the word is infinite too, and the
 * receiver refuses it. */
HOST_AND_DEVICE static inline uint32_t e3m0_word(uint32_t largest)
{
	uint32_t exponent = (largest + F32_NORMAL / 2) >> 23;

	exponent = exponent < E3M0_LEAST ? E3M0_LEAST : exponent;
	exponent = exponent > E3M0_MOST ? E3M0_MOST : exponent;
	return largest < F32_NORMAL ? 0 : largest >= F32_INFINITY ? F32_INFINITY : exponent << 23;
}

/* Returns 1 if the word is 0 or a power of two that e3m0_word() may return. */
HOST_AND_DEVICE static inline int e3m0_valid(uint32_t word)
{
	return !word ||
	       (!(word & (F32_NORMAL - 1)) && word >> 23 >= E3M0_LEAST && word >> 23 <= E3M0_MOST);
}

/* Returns the smallest exponent of a value whose code is not the code of zero. */
HOST_AND_DEVICE static inline int32_t e3m0_least(uint32_t word)
{
	return (int32_t)(word >> 23) - E3M0_LEVELS;
}

/* Returns the code of v. Adding half a mantissa rounds to the nearest power of two. Below the
 * smallest level this does not round to the nearer of zero and that level: any value with an
 * exponent of at least `least` becomes that level. least is e3m0_least() of a word that is not
 * 0. */
HOST_AND_DEVICE static inline uint8_t e3m0_code(float v, int32_t least)
{
	const uint32_t magnitude = float_bits(v) & F32_MAGNITUDE;
	int32_t code = (int32_t)((magnitude + F32_NORMAL / 2) >> 23) - least;
	const int32_t sent = (int32_t)(magnitude >> 23) >= least;

	code = code > sent ? code : sent;
	code = code < E3M0_LEVELS ? code : E3M0_LEVELS;
	return (uint8_t)((uint32_t)code | (float_bits(v) >> 28 & E3M0_SIGN));
}

/* Returns the value of a code. word must not be 0. */
HOST_AND_DEVICE static inline float e3m0_value(uint32_t word, uint32_t code)
{
	const uint32_t level = code & E3M0_LEVELS;
	const uint32_t exponent = level ? (uint32_t)e3m0_least(word) + level : 0;

	return bits_float(exponent << 23 | (code & E3M0_SIGN) << 28);
}

/* The exponent of a float is its upper nine bits, including the sign. This is also true of a number
 * in bf16. */
static inline struct levels e3m0_levels(uint32_t word)
{
	const uint64_t each = 0x0001000100010001u, negative = 0x8000 * each;
	const uint64_t least = ((uint64_t)e3m0_least(word) << 7) * each;
	const uint64_t low = (least + (0x0003000200010000u << 7)) & ~(uint64_t)0xffff;
	const uint64_t high = least + (0x0007000600050004u << 7);

	return (struct levels){ { low, high, low | negative, high | negative } };
}

/* ---- lengths --------------------------------------------------------------- */

/* Returns the length in bytes of n codes of `bits` bits, including the words before them, one for
 * each block. block 0 means that there are no words. */
HOST_AND_DEVICE static inline uint64_t codes_bytes(unsigned bits, unsigned block, uint64_t n)
{
	const uint64_t steps = block ? n / block + (n % block != 0) : 0;

	return steps * sizeof(float) + (n * bits + 7) / 8;
}
#endif
