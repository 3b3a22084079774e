/* SPDX-License-Identifier: BSD-3-Clause
 * See compute.h. Compiled without contraction of floats, as the kernels are. */
#include "compute.h"
#include <math.h>
#include <string.h>

struct computation {
	const struct ptx_instruction *in;
	const uint64_t *value;
	const char *trouble;
};

static uint64_t not_known(struct computation *c, const char *what)
{
	c->trouble = what;
	return 0;
}

static int is_signed(enum ptx_type type)
{
	return type == TYPE_S8 || type == TYPE_S16 || type == TYPE_S32 || type == TYPE_S64;
}

static uint64_t with(const struct computation *c, unsigned i)
{
	return ptx_whole(c->value[i], c->in->type);
}

static float f32_of(uint64_t bits)
{
	const uint32_t low = (uint32_t)bits;
	float f;

	memcpy(&f, &low, sizeof f);
	return f;
}

static uint64_t bits_of_f32(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof bits);
	return f != f ? 0x7fffffff : bits; /* the NaN of a GPU */
}

static double f64_of(uint64_t bits)
{
	double d;

	memcpy(&d, &bits, sizeof d);
	return d;
}

static uint64_t bits_of_f64(double d)
{
	uint64_t bits;

	memcpy(&bits, &d, sizeof bits);
	return d != d ? UINT64_C(0xfff8000000000000) : bits;
}

static float f32_of_f16(uint16_t code)
{
	const uint32_t sign = (uint32_t)(code & 0x8000) << 16, exponent = code >> 10 & 31;
	const uint32_t fraction = code & 0x3ff;

	if (exponent == 31)
		return f32_of(sign | 0x7f800000 | fraction << 13);
	if (exponent)
		return f32_of(sign | (exponent + 112) << 23 | fraction << 13);
	return (sign ? -1.0f : 1.0f) * ldexpf((float)fraction, -24);
}

/* ---- arithmetic ---------------------------------------------------------------------- */

static int compare_ordered(struct computation *c, int less, int equal)
{
	switch (c->in->mode) {
	case MODE_EQ:
	case MODE_EQU: return equal;
	case MODE_NE:
	case MODE_NEU: return !equal;
	case MODE_LT:
	case MODE_LTU: return less;
	case MODE_LE:
	case MODE_LEU: return less || equal;
	case MODE_GT:
	case MODE_GTU: return !less && !equal;
	case MODE_GE:
	case MODE_GEU: return !less;
	default: return (int)not_known(c, "a comparison that is not known");
	}
}

static int is_float(enum ptx_type type)
{
	return type == TYPE_F32 || type == TYPE_F64;
}

static double float_of(uint64_t bits, enum ptx_type type)
{
	return type == TYPE_F32 ? (double)f32_of(bits) : f64_of(bits);
}

static uint64_t compare(struct computation *c)
{
	const struct ptx_instruction *in = c->in;

	if (is_float(in->type)) {
		const double a = float_of(c->value[0], in->type),
			     b = float_of(c->value[1], in->type);

		if (a != a || b != b)
			return in->mode >= MODE_EQU && in->mode <= MODE_GEU;
		return (uint64_t)compare_ordered(c, a < b, a == b);
	}
	const uint64_t a = with(c, 0), b = with(c, 1);
	return (uint64_t)compare_ordered(c, is_signed(in->type) ? (int64_t)a < (int64_t)b : a < b,
					 a == b);
}

static uint64_t f32_arithmetic(struct computation *c)
{
	const float a = f32_of(c->value[0]), b = f32_of(c->value[1]), d = f32_of(c->value[2]);

	switch (c->in->op) {
	case OP_ADD: return bits_of_f32(a + b);
	case OP_SUB: return bits_of_f32(a - b);
	case OP_MUL: return bits_of_f32(a * b);
	case OP_DIV: return bits_of_f32(a / b);
	case OP_RCP: return bits_of_f32(1.0f / a);
	case OP_SQRT: return bits_of_f32(sqrtf(a));
	case OP_FMA: return bits_of_f32(fmaf(a, b, d));
	case OP_MIN: return bits_of_f32(fminf(a, b));
	case OP_MAX: return bits_of_f32(fmaxf(a, b));
	case OP_NEG: return bits_of_f32(-a);
	case OP_ABS: return bits_of_f32(fabsf(a));
	default: return not_known(c, "an instruction that is not known of f32");
	}
}

static uint64_t f64_arithmetic(struct computation *c)
{
	const double a = f64_of(c->value[0]), b = f64_of(c->value[1]), d = f64_of(c->value[2]);

	switch (c->in->op) {
	case OP_ADD: return bits_of_f64(a + b);
	case OP_SUB: return bits_of_f64(a - b);
	case OP_MUL: return bits_of_f64(a * b);
	case OP_DIV: return bits_of_f64(a / b);
	case OP_RCP: return bits_of_f64(1.0 / a);
	case OP_SQRT: return bits_of_f64(sqrt(a));
	case OP_FMA: return bits_of_f64(fma(a, b, d));
	case OP_MIN: return bits_of_f64(fmin(a, b));
	case OP_MAX: return bits_of_f64(fmax(a, b));
	case OP_NEG: return bits_of_f64(-a);
	case OP_ABS: return bits_of_f64(fabs(a));
	default: return not_known(c, "an instruction that is not known of f64");
	}
}

static uint64_t product(struct computation *c, uint64_t a, uint64_t b)
{
	const int sign = is_signed(c->in->type);
	const unsigned bits = 8 * ptx_bytes(c->in->type);

	if (c->in->mode == MODE_HI && bits == 64)
		return sign ? (uint64_t)((__int128)(int64_t)a * (int64_t)b >> 64) :
			      (uint64_t)((unsigned __int128)a * b >> 64);
	return c->in->mode == MODE_HI ? a * b >> bits : a * b;
}

static uint64_t permuted(uint64_t a, uint64_t b, uint64_t how)
{
	const uint64_t both = (b & 0xffffffff) << 32 | (a & 0xffffffff);
	uint64_t out = 0;

	for (unsigned i = 0; i < 4; i++) {
		const unsigned which = (unsigned)(how >> 4 * i) & 15;
		uint64_t byte = both >> 8 * (which & 7) & 255;

		if (which & 8) /* copies the sign to all bits */
			byte = byte & 128 ? 255 : 0;
		out |= byte << 8 * i;
	}
	return out;
}

static uint64_t shifted(struct computation *c, uint64_t v, uint64_t by)
{
	const unsigned bits = 8 * ptx_bytes(c->in->type);

	if (c->in->op == OP_SHL)
		return by >= bits ? 0 : v << by;
	if (!is_signed(c->in->type))
		return by >= bits ? 0 : v >> by;
	return (uint64_t)((int64_t)v >> (by >= bits ? bits - 1 : by));
}

static uint64_t inserted(uint64_t piece, uint64_t into, uint64_t from, uint64_t length)
{
	const uint64_t mask = length >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << length) - 1;

	return from >= 64 ? into : (into & ~(mask << from)) | (piece & mask) << from;
}

static uint64_t reversed(uint64_t v, unsigned bits)
{
	uint64_t out = 0;

	for (unsigned i = 0; i < bits; i++)
		out |= (v >> i & 1) << (bits - 1 - i);
	return out;
}

static uint64_t divided(struct computation *c, uint64_t a, uint64_t b)
{
	const int remains = c->in->op == OP_REM;

	if (!b)
		return not_known(c, "a division by zero");
	if (is_signed(c->in->type))
		return (uint64_t)(remains ? (int64_t)a % (int64_t)b : (int64_t)a / (int64_t)b);
	return remains ? a % b : a / b;
}

static uint64_t integer_arithmetic(struct computation *c)
{
	const struct ptx_instruction *in = c->in;
	const uint64_t a = with(c, 0), b = with(c, 1);
	const unsigned bits = 8 * ptx_bytes(in->type);

	switch (in->op) {
	case OP_ADD: return a + b;
	case OP_SUB: return a - b;
	case OP_MUL: return product(c, a, b);
	case OP_MAD: return product(c, a, b) + (in->mode == MODE_WIDE ? c->value[2] : with(c, 2));
	case OP_DIV:
	case OP_REM: return divided(c, a, b);
	case OP_MIN: return (is_signed(in->type) ? (int64_t)a < (int64_t)b : a < b) ? a : b;
	case OP_MAX: return (is_signed(in->type) ? (int64_t)a > (int64_t)b : a > b) ? a : b;
	case OP_NEG: return 0 - a;
	case OP_ABS: return (int64_t)a < 0 ? 0 - a : a;
	case OP_NOT: return ~a;
	case OP_AND: return a & b;
	case OP_OR: return a | b;
	case OP_XOR: return a ^ b;
	case OP_SHL:
	case OP_SHR: return shifted(c, a, (uint32_t)c->value[1]);
	case OP_POPC: return (uint64_t)__builtin_popcountll(a);
	case OP_CLZ: return a ? (uint64_t)__builtin_clzll(a) - (64 - bits) : bits;
	case OP_BREV: return reversed(a, bits);
	case OP_BFI:
		return inserted(a, b, (uint32_t)c->value[2] & 255, (uint32_t)c->value[3] & 255);
	case OP_PRMT: return permuted(a, b, c->value[2]);
	case OP_BFIND: /* of unsigned values, as the shift that moves the highest bit to the top */
		if (in->mode != MODE_SHIFTAMT || is_signed(in->type))
			return not_known(c, "a form that is not known");
		return a ? (uint64_t)__builtin_clzll(a) - (64 - bits) : 0xffffffff;
	default: return not_known(c, "an instruction that is not known of integers");
	}
}

static uint64_t arithmetic(struct computation *c)
{
	const enum ptx_type type = c->in->type;

	if (type == TYPE_F32)
		return f32_arithmetic(c);
	if (type == TYPE_F64)
		return f64_arithmetic(c);
	const uint64_t v = integer_arithmetic(c);
	if (c->in->mode == MODE_WIDE)
		return ptx_bytes(type) == 4 ? v : (uint32_t)v;
	return c->in->op == OP_POPC || c->in->op == OP_CLZ || c->in->op == OP_BFIND ?
		       v :
		       ptx_whole(v, type == TYPE_PRED ? TYPE_PRED : type);
}

/* Converts to an integer, rounding towards zero. A value beyond the range becomes the nearest
 * integer, and NaN becomes 0. */
static uint64_t rounded(struct computation *c, double v)
{
	const enum ptx_type type = c->in->type;
	const unsigned bits = 8 * ptx_bytes(type);
	const double most = ldexp(1.0, (int)bits - (is_signed(type) ? 1 : 0)),
		     least = is_signed(type) ? -most : 0;

	if (v != v)
		return 0;
	v = trunc(v);
	if (v >= most)
		return (bits == 64 ? ~UINT64_C(0) : (UINT64_C(1) << bits) - 1) >> is_signed(type);
	if (v < least)
		v = least;
	return is_signed(type) ? (uint64_t)(int64_t)v : (uint64_t)v;
}

static uint64_t converted(struct computation *c)
{
	const enum ptx_type to = c->in->type, from = c->in->from;
	const uint64_t v = c->value[0];
	const uint64_t integer = ptx_whole(v, from);

	if (from == TYPE_F16 && to == TYPE_F32)
		return bits_of_f32(f32_of_f16((uint16_t)v));
	if (to == TYPE_F16 || from == TYPE_F16)
		return not_known(c, "a conversion that is not known");
	if (is_float(from) && is_float(to))
		return to == TYPE_F64 ? bits_of_f64(float_of(v, from)) :
					bits_of_f32((float)float_of(v, from));
	if (is_float(from)) {
		if (c->in->mode != MODE_RZI)
			return not_known(c, "a rounding that is not known");
		return ptx_whole(rounded(c, float_of(v, from)), to);
	}
	if (to == TYPE_F32)
		return bits_of_f32(is_signed(from) ? (float)(int64_t)integer : (float)integer);
	if (to == TYPE_F64)
		return bits_of_f64(is_signed(from) ? (double)(int64_t)integer : (double)integer);
	return ptx_whole(integer, to);
}

const char *ptx_combine(const struct ptx_instruction *in, uint64_t a, uint64_t b, uint64_t *out)
{
	const int less = is_signed(in->type) ? (int64_t)a < (int64_t)b : a < b;

	switch (in->mode) {
	case MODE_ADD: *out = a + b; break;
	case MODE_AND: *out = a & b; break;
	case MODE_OR: *out = a | b; break;
	case MODE_XOR: *out = a ^ b; break;
	case MODE_MAX: *out = less ? b : a; break;
	case MODE_MIN: *out = less ? a : b; break;
	default: return "an operation that is not known";
	}
	*out = ptx_whole(*out, in->type);
	return NULL;
}

const char *ptx_compute(const struct ptx_instruction *in, const uint64_t *value, uint64_t *out)
{
	struct computation c = { .in = in, .value = value };

	switch (in->op) {
	case OP_CVT: *out = converted(&c); break;
	case OP_SETP: *out = compare(&c); break;
	case OP_SELP: *out = value[value[2] & 1 ? 0 : 1]; break;
	default: *out = arithmetic(&c); break;
	}
	return c.trouble;
}
