/* SPDX-License-Identifier: BSD-3-Clause
 * How a value crosses the wire: f32, f16 or bf16 (round to nearest even), or in few bits
 * (few_bits.h). f16 carries a power-of-two scale per message so that the largest magnitude stays in
 * range. */
#ifndef COMPRESS_QUANTIZE_H
#define COMPRESS_QUANTIZE_H
#include <stddef.h>
#include <stdint.h>

enum value_type {
	VALUE_F32 = 0,
	VALUE_F16 = 1,
	VALUE_BF16 = 2,
	VALUE_UNIFORM = 3,
	VALUE_GRID = 4,
	VALUE_ROUND = 5
};
enum {
	VALUE_TYPES = 6,
	VALUE_BITS_MAX = 8, /* of uniform and grid */
	ROUND_BITS_MAX = 22,
	UNIFORM_BLOCK = 512,      /* where the recipe names none */
	UNIFORM_BLOCK_MAX = 65528 /* a multiple of 8, as all blocks are */
};

/* A type with what it needs to be written; what a type does not use is 0. */
struct value_coding {
	enum value_type type;
	unsigned bits;  /* uniform, grid: chosen; round: those of the message */
	unsigned block; /* uniform: values with one scale */
	float step;     /* round: the width */
};

/* The rest of this header is about the types without bits: f32, f16, bf16. */
size_t value_bytes(enum value_type type);
/* The scale a message with these values needs: 1 except for f16, where it is the power of two that
 * brings max |v| into [2^14, 2^15] (1 when all are zero). At most 2^125, so that a scaled denormal
 * is a multiple of f16's smallest step; denormal results never occur for scale. */
float value_scale(enum value_type type, const float *v, size_t n);
/* Whether a message of this type may carry the scale: 1, or for f16 a power of two whose inverse is
 * neither denormal nor infinite. */
int value_scale_valid(enum value_type type, float scale);
/* out: n * value_bytes(type), little-endian codes of v * scale; decoded[i] (may alias v, may be
 * NULL) is what values_decode gives for it, bit by bit. v is finite; scale is valid for the type.
 * Rounding that would overflow to infinity saturates to the largest finite value. */
void values_encode(enum value_type type, float scale, const float *v, size_t n, uint8_t *out,
		   float *decoded);
/* Returns 0, or SLUICE_EWIRE when a value decodes to NaN or infinity. v untouched beyond n. */
int values_decode(enum value_type type, float scale, const uint8_t *in, size_t n, float *v);

/* One value, in portable C: the definition of what the vector instructions behind the calls above
 * must give. Encoding rounds to nearest even and saturates. */
uint16_t f16_encode(float v);
float f16_decode(uint16_t code);
uint16_t bf16_encode(float v);
float bf16_decode(uint16_t code);
#endif
