/* SPDX-License-Identifier: BSD-3-Clause
 * Gradients in 16 bits for tests, and what they mean, by arithmetic alone: none of the library's
 * conversions. */
#ifndef TESTS_UNIT_NARROW_H
#define TESTS_UNIT_NARROW_H
#include "sluice.h"
#include <math.h>
#include <stdint.h>

/* sign, exponent (bias, mantissa bits) and mantissa, as IEEE 754 says. */
static inline float narrow_value(uint16_t code, int type)
{
	const int mantissa_bits = type == SLUICE_F16 ? 10 : 7, exponent_bits = 15 - mantissa_bits;
	const int bias = (1 << (exponent_bits - 1)) - 1,
		  mantissa = code & ((1 << mantissa_bits) - 1);
	const int exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1);
	double magnitude;

	if (exponent == (1 << exponent_bits) - 1)
		magnitude = mantissa ? (double)NAN : (double)INFINITY;
	else if (exponent == 0)
		magnitude = ldexp(mantissa, 1 - bias - mantissa_bits);
	else
		magnitude = ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
	return (float)(code >> 15 ? -magnitude : magnitude);
}

/* A code of magnitudes up to about 4. */
static inline uint16_t narrow_code(uint32_t bits, int type)
{
	const uint16_t four = type == SLUICE_F16 ? 0x4400 : 0x4080;

	return (uint16_t)((bits & 0x8000) | (bits >> 16) % four);
}
#endif
