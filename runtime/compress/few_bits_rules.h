/* SPDX-License-Identifier: BSD-3-Clause
 * One value in few bits, of the types uniform and grid (few_bits.h), as the CPU and the GPU compute it. Pure,
 * inline, without a branch, so that loops over them become vectors. */
#ifndef COMPRESS_FEW_BITS_RULES_H
#define COMPRESS_FEW_BITS_RULES_H
#include "base/bytes.h"
#include <float.h>

/* ---- uniform ----------------------------------------------------------------------------------- */

HOST_AND_DEVICE static inline int uniform_levels(unsigned bits)
{
	return (1 << (bits - 1)) - 1;
}

/* The least step of which L reach this magnitude, the largest of a block. */
HOST_AND_DEVICE static inline float uniform_step(unsigned bits, float most)
{
	const float levels = (float)uniform_levels(bits);
	float step = most / levels;

	if (step * levels < most)
		step = bits_float(float_bits(step) + 1); /* the next one up */
	return step * levels > FLT_MAX ? bits_float(float_bits(step) - 1) : step;
}

/* step is above 0. */
HOST_AND_DEVICE static inline uint8_t uniform_code(float v, uint32_t random, float step, int levels)
{
	const float most = (float)levels;
	float x = v / step, below, share;
	int q;

	x = x > most ? most : x;
	x = x < -most ? -most : x;
	q = (int)x;
	q -= (float)q > x;
	below = x - (float)q;
	share = (float)(int)(random >> 8) * 0x1p-24f;
	return (uint8_t)(q + (share < below) + levels);
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

/* ---- grid -------------------------------------------------------------------------------------- */

HOST_AND_DEVICE static inline float grid_width(unsigned bits, float range)
{
	const float share = 1.0f / (float)((1 << bits) - 1);

	return 2 * (share * range);
}

/* The range of a message whose largest magnitude this is. */
HOST_AND_DEVICE static inline float grid_range(unsigned bits, float most)
{
	const float grid_most = FLT_MAX / 4; /* w code - R stays finite */

	most = most < grid_most ? most : grid_most;
	return grid_width(bits, most) > 0 ? most : 0;
}

/* most: the largest code. */
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

/* ---- lengths ----------------------------------------------------------------------------------- */

/* Bytes of n codes of so many bits, and of the step that each block of values has before them; block 0: none. */
HOST_AND_DEVICE static inline uint64_t codes_bytes(unsigned bits, unsigned block, uint64_t n)
{
	const uint64_t steps = block ? n / block + (n % block != 0) : 0;

	return steps * sizeof(float) + (n * bits + 7) / 8;
}
#endif
