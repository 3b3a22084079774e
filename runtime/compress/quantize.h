/* SPDX-License-Identifier: BSD-3-Clause
 * How a value is encoded in a message: as f32, f16 or bf16 (rounded to nearest even), or in few
 * bits (few_bits.h). Messages with f16 have a power of two as scale, so that the largest magnitude
 * stays in range. */
#ifndef COMPRESS_QUANTIZE_H
#define COMPRESS_QUANTIZE_H
#include "base/both.h"
#include <stddef.h>
#include <stdint.h>

enum value_type {
	VALUE_F32 = 0,
	VALUE_F16 = 1,
	VALUE_BF16 = 2,
	VALUE_UNIFORM = 3,
	VALUE_GRID = 4,
	VALUE_ROUND = 5,
	/* only gradients have these types, and no message does */
	VALUE_F8_E4M3FN = 6,
	VALUE_F8_E5M2 = 7,
	VALUE_TWOMEANS = 8,
	VALUE_E3M0 = 9
};
enum {
	VALUE_TYPES = 10,
	VALUE_BITS_MAX = 8, /* for uniform and grid */
	ROUND_BITS_MAX = 22,
	UNIFORM_BLOCK = 512,      /* used if the recipe gives no block; always used for twomeans
				     and e3m0 */
	UNIFORM_BLOCK_MAX = 65528 /* a multiple of 8, as every block is */
};

/* A value type and its parameters. Parameters that the type does not use are 0. */
struct value_coding {
	enum value_type type;
	/* for uniform and grid: from the recipe; for round: chosen for each message; 2 for
	 * twomeans, 4 for e3m0 */
	unsigned bits;
	unsigned block; /* number of values that share a scale; 0: the type has no blocks */
	float step;     /* for round: the width */
};

/* Returns 1 if values of this type have 8 bits, and a scale for the whole vector. Messages do not
 * contain such values. */
HOST_AND_DEVICE static inline int value_eight(enum value_type type)
{
	return type == VALUE_F8_E4M3FN || type == VALUE_F8_E5M2;
}

/* Returns the number of bits of a value if it follows from the type, otherwise 0. */
HOST_AND_DEVICE static inline unsigned value_bits(enum value_type type)
{
	return type == VALUE_TWOMEANS ? 2 : type == VALUE_E3M0 ? 4 : 0;
}

/* Returns the bits of a value. Returns 0 for round, whose messages have different numbers. */
static inline unsigned value_width(const struct value_coding *c)
{
	return c->type == VALUE_F32                          ? 32 :
	       c->type == VALUE_F16 || c->type == VALUE_BF16 ? 16 :
							       c->bits;
}

/* The rest of this header concerns the types f32, f16 and bf16 and, where stated, the two 8-bit
 * types. */
/* Also works for the two 8-bit types. */
size_t value_bytes(enum value_type type);
/* Returns the scale of a message with these values. It is 1 except for f16. There it is the power
 * of two that brings max |v| into [2^14, 2^15], or 1 if all values are zero. It is at most 2^125,
 * so that a scaled denormal is a multiple of f16's smallest step. The scale is never denormal. */
float value_scale(enum value_type type, const float *v, size_t n);
/* Returns 1 if a message of this type may have the scale. This is 1, or for f16 a power of two
 * whose inverse is neither denormal nor infinite. */
int value_scale_valid(enum value_type type, float scale);
/* Writes n * value_bytes(type) bytes to out: little-endian codes of v * scale. decoded[i] receives
 * exactly the value that values_decode() returns; decoded may be v, or NULL. v must be finite, and
 * scale valid for the type. Values that would be rounded to infinity become the largest finite
 * value. */
void values_encode(enum value_type type, float scale, const float *v, size_t n, uint8_t *out,
		   float *decoded);
/* Returns 0, or SLUICE_EWIRE if a value decodes to NaN or infinity. Writes no more than n values to
 * v. */
int values_decode(enum value_type type, float scale, const uint8_t *in, size_t n, float *v);

/* Converts the n elements of a gradient to floats, including NaN and infinity. Elements of 8 bits
 * are multiplied by scale. */
void values_widen(enum value_type type, float scale, const uint8_t *in, size_t n, float *v);
#endif
