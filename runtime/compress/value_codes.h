/* SPDX-License-Identifier: BSD-3-Clause
 * Encodes and decodes one value in portable C. quantize.c's vector instructions and the GPU's
 * kernels give the same results. Encoding rounds to nearest even, and limits the result to finite
 * values. */
#ifndef COMPRESS_VALUE_CODES_H
#define COMPRESS_VALUE_CODES_H
#include "base/bytes.h"

enum {
	F32_MAGNITUDE = 0x7fffffff,
	F32_INFINITY = 0x7f800000,
	F32_QUIET_NAN = 0x7fc00000,
	F32_SIGN_SHIFT = 31,
	F16_INFINITY = 0x7c00,
	F16_LARGEST = 0x7bff,
	BF16_LARGEST = 0x7f7f,
	SCALE_EXPONENT_MAX = 125, /* 2^-149 * 2^125 = 2^-24, the smallest f16 */
	SCALED_EXPONENT = 14
};

/* Returns the largest scaled value that decodes to a finite one. It is the largest f16, or, if f32
 * overflows first, the largest f32 with f16's precision. */
HOST_AND_DEVICE static inline float f16_limit(float scale)
{
	return scale < 0x1p-112f ? 0x1.ffcp127f * scale : 0x1.ffcp15f;
}

/* Returns the scale of a message with this largest magnitude (bits without sign). */
HOST_AND_DEVICE static inline float f16_scale_of(uint32_t largest)
{
	int exponent = SCALED_EXPONENT - ((int)(largest >> 23) - 127);

	if (!largest)
		return 1;
	/* always true for a denormal, whose exponent field is 0 */
	if (exponent > SCALE_EXPONENT_MAX)
		exponent = SCALE_EXPONENT_MAX;
	return bits_float((uint32_t)(exponent + 127) << 23);
}

HOST_AND_DEVICE static inline uint16_t f16_encode_inline(float v)
{
	uint32_t bits = float_bits(v);
	uint32_t sign = bits >> 16 & 0x8000;
	uint32_t magnitude = bits & F32_MAGNITUDE;

	if (magnitude >= 0x477ff000) /* 65520 and above would round to infinity */
		return (uint16_t)(sign | F16_LARGEST);
	if (magnitude < 0x38800000) /* below 2^-14: in [0.5, 1) the last place is 2^-24, as here */
		return (uint16_t)(sign | (float_bits(bits_float(magnitude) + 0.5f) - 0x3f000000));
	magnitude += 0xfff + (magnitude >> 13 & 1);
	return (uint16_t)(sign | (magnitude - 0x38000000) >> 13);
}

HOST_AND_DEVICE static inline float f16_decode_inline(uint16_t code)
{
	uint32_t sign = (uint32_t)(code & 0x8000) << 16;
	uint32_t magnitude = code & 0x7fff;

	if (magnitude >= F16_INFINITY)
		return bits_float(sign | F32_INFINITY | (magnitude & 0x3ff) << 13);
	if (magnitude < 0x400)
		return bits_float(sign | float_bits((float)magnitude * 0x1p-24f));
	return bits_float(sign | ((magnitude << 13) + 0x38000000));
}

/* Decodes a sign, four bits of exponent (bias 7) and three of mantissa. There is no infinity, and
 * only the largest magnitude is NaN. */
HOST_AND_DEVICE static inline float e4m3fn_decode_inline(uint8_t code)
{
	const uint32_t sign = (uint32_t)(code & 0x80) << 24, magnitude = code & 0x7f;
	const uint32_t normal = magnitude == 0x7f ? F32_QUIET_NAN : (magnitude << 20) + 0x3c000000;

	return bits_float(sign | (magnitude < 8 ? float_bits((float)magnitude * 0x1p-9f) : normal));
}

/* The code is the upper half of an f16. */
HOST_AND_DEVICE static inline float e5m2_decode_inline(uint8_t code)
{
	return f16_decode_inline((uint16_t)(code << 8));
}

HOST_AND_DEVICE static inline uint16_t bf16_encode_inline(float v)
{
	uint32_t bits = float_bits(v);
	uint32_t code = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;

	if ((code & 0x7fff) > BF16_LARGEST)
		code = (bits >> 16 & 0x8000) | BF16_LARGEST;
	return (uint16_t)code;
}

/* Rounds parameters and means: values beyond the range become infinite. */
HOST_AND_DEVICE static inline uint16_t f16_round_inline(float v)
{
	const uint32_t bits = float_bits(v);

	return (bits & F32_MAGNITUDE) >= 0x477ff000 ?
		       (uint16_t)((bits >> 16 & 0x8000) | F16_INFINITY) :
		       f16_encode_inline(v);
}

HOST_AND_DEVICE static inline uint16_t bf16_round_inline(float v)
{
	const uint32_t bits = float_bits(v);

	return (bits & F32_MAGNITUDE) >= 0x7f7f8000 ?
		       (uint16_t)((bits >> 16 & 0x8000) | F32_INFINITY >> 16) :
		       bf16_encode_inline(v);
}

HOST_AND_DEVICE static inline float bf16_decode_inline(uint16_t code)
{
	return bits_float((uint32_t)code << 16);
}
#endif
