/* SPDX-License-Identifier: BSD-3-Clause
 * Gradients in 16 and 8 bits for tests, and their values, computed without the library's
 * conversions. */
#ifndef TESTS_UNIT_NARROW_H
#define TESTS_UNIT_NARROW_H
#include "sluice.h"
#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* Sign, exponent (bias, mantissa bits) and mantissa, as specified by IEEE 754 and the OCP's 8-bit
 * floating point. */
struct narrow_type {
	int exponent_bits, mantissa_bits;
	int finite; /* 1: there is no infinity, and only the largest magnitude is NaN */
};

static inline struct narrow_type narrow_type(int type)
{
	switch (type) {
	case SLUICE_F16: return (struct narrow_type){ 5, 10, 0 };
	case SLUICE_BF16: return (struct narrow_type){ 8, 7, 0 };
	case SLUICE_F8_E5M2: return (struct narrow_type){ 5, 2, 0 };
	default: return (struct narrow_type){ 4, 3, 1 }; /* SLUICE_F8_E4M3FN */
	}
}

static inline float narrow_value(uint16_t code, int type)
{
	const struct narrow_type t = narrow_type(type);
	const int bias = (1 << (t.exponent_bits - 1)) - 1, ones = (1 << t.exponent_bits) - 1;
	const int most = (1 << t.mantissa_bits) - 1, mantissa = code & most;
	const int exponent = code >> t.mantissa_bits & ones;
	double magnitude;

	if (exponent == ones && (!t.finite || mantissa == most))
		magnitude = mantissa ? (double)NAN : (double)INFINITY;
	else if (exponent == 0)
		magnitude = ldexp(mantissa, 1 - bias - t.mantissa_bits);
	else
		magnitude = ldexp(mantissa + most + 1, exponent - bias - t.mantissa_bits);
	return (float)(code >> (t.exponent_bits + t.mantissa_bits) & 1 ? -magnitude : magnitude);
}

static inline size_t narrow_bytes(int type)
{
	return type == SLUICE_F8_E4M3FN || type == SLUICE_F8_E5M2 ? 1 : 2;
}

/* The scale that tests set. Multiplying by it rounds. */
static inline float narrow_scale(int type)
{
	return narrow_bytes(type) == 1 ? 0.3f : 1.0f;
}

static inline float narrow_scaled(uint16_t code, int type)
{
	return narrow_scale(type) * narrow_value(code, type);
}

/* codes has 16 bits for each code. */
static inline void narrow_put(void *codes, size_t i, uint16_t code, int type)
{
	if (narrow_bytes(type) == 1)
		((uint8_t *)codes)[i] = (uint8_t)code;
	else
		((uint16_t *)codes)[i] = code;
}

/* Returns a code that is not zero, of a magnitude up to about 4, or with 8 bits up to 16. */
static inline uint16_t narrow_code(uint32_t bits, int type)
{
	const struct narrow_type t = narrow_type(type);
	const int bias = (1 << (t.exponent_bits - 1)) - 1;
	const uint16_t end = (uint16_t)((bias + (narrow_bytes(type) == 1 ? 4 : 2))
					<< t.mantissa_bits);
	const uint16_t sign = (uint16_t)(1u << (t.exponent_bits + t.mantissa_bits));

	return (uint16_t)((bits & 0x8000 ? sign : 0) | (1 + (bits >> 16) % (end - 1u)));
}

/* Returns NaN, or -infinity if the type has it. */
static inline uint16_t narrow_spoilt(int type, int nan)
{
	const struct narrow_type t = narrow_type(type);
	const int exponent = ((1 << t.exponent_bits) - 1) << t.mantissa_bits;
	const int most = (1 << t.mantissa_bits) - 1,
		  sign = 1 << (t.exponent_bits + t.mantissa_bits);

	return (uint16_t)(nan || t.finite ? exponent | most : sign | exponent);
}
#endif
