/* SPDX-License-Identifier: BSD-3-Clause
 * One value of a message as f32, f16 or bf16, as values_encode() writes it
 * (runtime/compress/quantize.h). Called by pack.cu and dense.cu. */
#ifndef GPU_VALUES_H
#define GPU_VALUES_H
#include "gpu/kernel.h"
#include "runtime/compress/quantize.h"
#include "runtime/compress/value_codes.h"

__device__ static inline void put_word(uint8_t *p, uint32_t word)
{
	*(uint32_t *)(void *)p = word; /* devices are little-endian */
}

/* Writes the code of one value and returns the decoded value. limit: f16_limit(scale). */
__device__ static inline float write_value(enum value_type type, float scale, float limit, float v,
					   uint8_t *to)
{
	uint16_t code;
	float scaled, decoded;

	switch (type) {
	case VALUE_F32: put_word(to, float_bits(v)); return v;
	case VALUE_F16:
		scaled = v * scale;
		scaled = scaled > limit ? limit : scaled < -limit ? -limit : scaled;
		code = f16_encode_inline(scaled);
		decoded = f16_decode_inline(code) * (1 / scale);
		break;
	default:
		code = bf16_encode_inline(v);
		decoded = bf16_decode_inline(code);
		break;
	}
	*(uint16_t *)(void *)to = code;
	return decoded;
}

__device__ static inline void zero_between(uint8_t *payload, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
		payload[i] = 0;
}
#endif
