/* SPDX-License-Identifier: BSD-3-Clause
 * Computes the bit-exact result of an instruction that does not access memory. */
#ifndef PTX_COMPUTE_H
#define PTX_COMPUTE_H
#include "program.h"

/* Extends an integer of this type to 64 bits. */
static inline uint64_t ptx_whole(uint64_t v, enum ptx_type type)
{
	switch (type) {
	case TYPE_U32:
	case TYPE_B32:
	case TYPE_F32: return (uint32_t)v;
	case TYPE_S32: return (uint64_t)(int32_t)v;
	case TYPE_U16:
	case TYPE_B16:
	case TYPE_F16: return (uint16_t)v;
	case TYPE_S16: return (uint64_t)(int16_t)v;
	case TYPE_U8:
	case TYPE_B8: return (uint8_t)v;
	case TYPE_S8: return (uint64_t)(int8_t)v;
	case TYPE_PRED: return v & 1;
	default: return v;
	}
}

/* value: one value per operand. *out becomes the result. Returns NULL or an error text. */
const char *ptx_compute(const struct ptx_instruction *in, const uint64_t *value, uint64_t *out);
/* As ptx_compute(), for the two values of an atomic operation or a reduction. */
const char *ptx_combine(const struct ptx_instruction *in, uint64_t a, uint64_t b, uint64_t *out);
#endif
