/* SPDX-License-Identifier: BSD-3-Clause
 * See few_bits.h. Values go through in pieces that stay in the first cache: values to codes of one byte,
 * codes to bits. The loops have a fixed length and no branch, so that the compiler makes vectors of them. */
#include "few_bits.h"
#include "base/bytes.h"
#include "bit_pack.h"
#include "sluice.h"
#include <float.h>
#include <math.h>

enum { PIECE = 128, SCALE_BYTES = 4 };
/* Of round: 2^21 - 1 is the largest integer of which adding a half to it is still exact. */
#define ROUND_LARGEST 2097151

/* ---- shapes ---- */

static int levels_of(unsigned bits)
{
	return (1 << (bits - 1)) - 1;
}

static uint64_t blocks_of(const struct value_coding *c, uint64_t n)
{
	return (n + c->block - 1) / c->block;
}

uint64_t few_bits_bytes(const struct value_coding *c, uint32_t n)
{
	uint64_t codes = bits_bytes(n, c->bits);

	return c->type == VALUE_UNIFORM ? blocks_of(c, n) * SCALE_BYTES + codes : codes;
}

float largest_magnitude(const float *v, size_t n)
{
	float most[8] = { 0 }, all;
	size_t i = 0;

	for (; i + 8 <= n; i += 8)
		for (int lane = 0; lane < 8; lane++)
			most[lane] = fabsf(v[i + (size_t)lane]) > most[lane] ? fabsf(v[i + (size_t)lane])
									      : most[lane];
	all = most[0];
	for (int lane = 1; lane < 8; lane++)
		all = most[lane] > all ? most[lane] : all;
	for (; i < n; i++)
		all = fabsf(v[i]) > all ? fabsf(v[i]) : all;
	return all;
}

/* The largest integer that round may send: beyond it float is not exact, or D q not finite. */
static float round_limit(float width)
{
	float limit = width < FLT_MAX / ROUND_LARGEST ? ROUND_LARGEST : floorf(FLT_MAX / width);

	return isinf(limit * width) ? limit - 1 : limit;
}

static uint32_t zigzag(int32_t q)
{
	return (uint32_t)q << 1 ^ (uint32_t)(q >> 31);
}

static int32_t nearest_integer(float v, float width, float limit)
{
	float x = v / width;

	x = x > limit ? limit : x < -limit ? -limit : x;
	return (int32_t)((x + 0x1.8p23f) - 0x1.8p23f); /* to nearest, ties to even */
}

static float grid_width(unsigned bits, float range)
{
	const float share = 1.0f / (float)((1 << bits) - 1);

	return 2 * (share * range);
}

float few_bits_fit(struct value_coding *c, const float *v, size_t n, float range)
{
	const float grid_most = FLT_MAX / 4; /* w code - R stays finite */
	const float limit = c->type == VALUE_ROUND ? round_limit(c->step) : 0;
	uint32_t all = 0;
	float most;

	switch (c->type) {
	case VALUE_GRID:
		most = largest_magnitude(v, n);
		most = most > range ? most : range;
		most = most < grid_most ? most : grid_most;
		return grid_width(c->bits, most) > 0 ? most : 0;
	case VALUE_ROUND:
		for (size_t i = 0; i < n; i++)
			all |= zigzag(nearest_integer(v[i], c->step, limit));
		c->bits = bit_length(all);
		return c->step;
	default:
		return 1;
	}
}

static int refuse(const char **why, const char *text)
{
	if (why)
		*why = text;
	return 0;
}

int few_bits_valid(const struct value_coding *c, float scale, const char **why)
{
	switch (c->type) {
	case VALUE_UNIFORM:
		if (c->bits < 1 || c->bits > VALUE_BITS_MAX || c->block < 8 || c->block % 8 ||
		    c->block > UNIFORM_BLOCK_MAX)
			return refuse(why, "uniform values have 1 to 8 bits in blocks of a multiple of 8");
		return scale == 1 ? 1 : refuse(why, "uniform values have a scale a block, and 1 here");
	case VALUE_GRID:
		if (c->bits < 1 || c->bits > VALUE_BITS_MAX || c->block)
			return refuse(why, "values on a grid have 1 to 8 bits and no blocks");
		if (!(scale >= 0 && scale <= FLT_MAX / 4) || signbit(scale) ||
		    (scale > 0 && !(grid_width(c->bits, scale) > 0)))
			return refuse(why, "the range of a grid must be finite and not negative");
		return 1;
	case VALUE_ROUND:
		if (c->bits > ROUND_BITS_MAX || c->block)
			return refuse(why, "rounded values have at most 22 bits and no blocks");
		return scale > 0 && scale <= FLT_MAX ? 1 : refuse(why, "the width of rounding must be above 0");
	default:
		return refuse(why, "no such value type");
	}
}

/* ---- uniform ---- */

/* b = 1: the mean magnitude. Else the least step of which L reach the largest magnitude. */
static float block_step(const struct value_coding *c, const float *v, size_t n)
{
	const float levels = (float)levels_of(c->bits);
	double sum = 0;
	float most, step;

	if (c->bits == 1) {
		for (size_t i = 0; i < n; i++)
			sum += fabs((double)v[i]);
		return n ? (float)(sum / (double)n) : 0;
	}
	most = largest_magnitude(v, n);
	step = most / levels;
	if (step * levels < most)
		step = nextafterf(step, INFINITY);
	return isinf(step * levels) ? nextafterf(step, 0) : step;
}

static void uniform_codes(const float *restrict v, const uint32_t *restrict random, float step, int levels,
			  uint8_t *restrict codes)
{
	const float most = (float)levels;

	for (int i = 0; i < PIECE; i++) {
		float x = v[i] / step, below, share;
		int q;

		x = x > most ? most : x;
		x = x < -most ? -most : x;
		q = (int)x;
		q -= (float)q > x;
		below = x - (float)q;
		share = (float)(int)(random[i] >> 8) * 0x1p-24f;
		codes[i] = (uint8_t)(q + (share < below) + levels);
	}
}

static void uniform_values(const uint8_t *restrict codes, float step, int levels, float *restrict v)
{
	for (int i = 0; i < PIECE; i++)
		v[i] = (float)(codes[i] - levels) * step;
}

/* Bytes behind the last code hold zero's. */
static int codes_allowed(const uint8_t *codes, uint8_t least, uint8_t most)
{
	unsigned wrong = 0;

	for (int i = 0; i < PIECE; i++)
		wrong |= (unsigned)(codes[i] < least) | (unsigned)(codes[i] > most);
	return !wrong;
}

static void sign_codes(const float *restrict v, uint8_t *restrict codes)
{
	for (int i = 0; i < PIECE; i++)
		codes[i] = v[i] < 0;
}

static void sign_values(const uint8_t *restrict codes, float step, float *restrict v)
{
	for (int i = 0; i < PIECE; i++)
		v[i] = bits_float(float_bits(step) ^ (uint32_t)codes[i] << 31);
}

static void rounding_numbers(const struct rounding *r, size_t at, size_t n, uint32_t *random)
{
	if (r->index)
		random_each(&r->stream, r->first, r->index + at, n, random);
	else
		random_run(&r->stream, r->first + at, n, random);
}

static void uniform_encode(const struct value_coding *c, const float *v, size_t n,
			   const struct rounding *rounding, uint8_t *out, float *decoded)
{
	const int levels = levels_of(c->bits);
	uint8_t *steps = out, *bits = out + blocks_of(c, n) * SCALE_BYTES, codes[PIECE];
	uint32_t random[PIECE];
	float piece[PIECE], step = 0;

	for (size_t at = 0, here; at < n; at += here) {
		size_t in_block = at % c->block, left = c->block - in_block;

		left = left < n - at ? left : n - at;
		here = left < PIECE ? left : PIECE;
		if (!in_block) {
			step = block_step(c, v + at, left);
			put_le32(steps + at / c->block * SCALE_BYTES, float_bits(step));
		}
		if (here < PIECE)
			memset(piece, 0, sizeof(piece));
		memcpy(piece, v + at, here * sizeof(*v));
		if (!(step > 0)) {
			memset(codes, levels, sizeof(codes));
		} else if (c->bits == 1) {
			sign_codes(piece, codes);
		} else {
			memset(random, 0, here < PIECE ? sizeof(random) : 0);
			rounding_numbers(rounding, at, here, random);
			uniform_codes(piece, random, step, levels, codes);
		}
		bits_pack(codes, here, c->bits, bits);
		bits += bits_bytes(here, c->bits);
		if (c->bits == 1)
			sign_values(codes, step, piece);
		else
			uniform_values(codes, step, levels, piece);
		memcpy(decoded + at, piece, here * sizeof(*v));
	}
}

static int uniform_decode(const struct value_coding *c, const uint8_t *in, size_t n, float *v,
			  const char **why)
{
	const int levels = levels_of(c->bits);
	const uint8_t *bits = in + blocks_of(c, n) * SCALE_BYTES;
	const uint8_t most = (uint8_t)(c->bits == 1 ? 1 : 2 * levels);
	uint8_t codes[PIECE];
	float piece[PIECE], step = 0;

	for (size_t at = 0, here; at < n; at += here) {
		size_t left = c->block - at % c->block;

		left = left < n - at ? left : n - at;
		here = left < PIECE ? left : PIECE;
		if (at % c->block == 0) {
			step = bits_float(get_le32(in + at / c->block * SCALE_BYTES));
			if (!(step >= 0 && step <= FLT_MAX) || isinf(step * (float)levels) || signbit(step))
				return refuse(why, "the step of a block is negative or not finite");
		}
		memset(codes, levels, sizeof(codes));
		if (!bits_unpack(bits, here, c->bits, codes))
			return refuse(why, "bits behind the last code are not zero");
		bits += bits_bytes(here, c->bits);
		if (!codes_allowed(codes, step > 0 ? 0 : (uint8_t)levels, step > 0 ? most : (uint8_t)levels))
			return refuse(why, "a code is out of range");
		if (c->bits == 1)
			sign_values(codes, step, piece);
		else
			uniform_values(codes, step, levels, piece);
		memcpy(v + at, piece, here * sizeof(*v));
	}
	return 1;
}

/* ---- grid ---- */

static void grid_codes(const float *restrict v, float range, float width, int most, uint8_t *restrict codes)
{
	for (int i = 0; i < PIECE; i++) {
		float x = v[i];
		int code;

		x = x > range ? range : x;
		x = x < -range ? -range : x;
		code = (int)((x + range) / width + 0.5f);
		codes[i] = (uint8_t)(code > most ? most : code);
	}
}

static void grid_values(const uint8_t *restrict codes, float range, float width, float *restrict v)
{
	for (int i = 0; i < PIECE; i++)
		v[i] = width * (float)codes[i] - range;
}

static void grid_encode(unsigned width_bits, float range, const float *v, size_t n, uint8_t *out,
			float *decoded)
{
	const float width = grid_width(width_bits, range);
	uint8_t codes[PIECE] = { 0 };
	float piece[PIECE] = { 0 };

	for (size_t at = 0, here; at < n; at += here) {
		here = n - at < PIECE ? n - at : PIECE;
		memcpy(piece, v + at, here * sizeof(*v));
		if (range > 0)
			grid_codes(piece, range, width, (1 << width_bits) - 1, codes);
		bits_pack(codes, here, width_bits, out);
		out += bits_bytes(here, width_bits);
		grid_values(codes, range, width, piece);
		memcpy(decoded + at, piece, here * sizeof(*v));
	}
}

static int grid_decode(unsigned width_bits, float range, const uint8_t *in, size_t n, float *v,
		       const char **why)
{
	const float width = grid_width(width_bits, range);
	uint8_t codes[PIECE] = { 0 };
	float piece[PIECE];

	for (size_t at = 0, here; at < n; at += here) {
		here = n - at < PIECE ? n - at : PIECE;
		if (!bits_unpack(in, here, width_bits, codes))
			return refuse(why, "bits behind the last code are not zero");
		in += bits_bytes(here, width_bits);
		if (!(range > 0) && !codes_allowed(codes, 0, 0))
			return refuse(why, "a code is out of range");
		grid_values(codes, range, width, piece);
		memcpy(v + at, piece, here * sizeof(*v));
	}
	return 1;
}

/* ---- round ---- */

static void round_encode(const struct value_coding *c, float width, const float *v, size_t n, uint8_t *out,
			 float *decoded)
{
	const float limit = round_limit(width);
	struct bit_writer w = { .out = out };

	for (size_t i = 0; i < n; i++) {
		int32_t q = nearest_integer(v[i], width, limit);

		if (c->bits)
			bit_write(&w, zigzag(q), c->bits);
		decoded[i] = (float)q * width;
	}
	bit_flush(&w);
}

static int round_decode(const struct value_coding *c, float width, const uint8_t *in, size_t n, float *v,
			const char **why)
{
	const float limit = round_limit(width);
	struct bit_reader r = { .in = in, .end = in + bits_bytes(n, c->bits) };
	uint32_t all = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t code = c->bits ? bit_read(&r, c->bits) : 0;
		int32_t q = code & 1 ? -(int32_t)(code / 2) - 1 : (int32_t)(code / 2);

		all |= code;
		v[i] = (float)q * width;
		if ((float)q > limit || (float)q < -limit)
			return refuse(why, "a code is out of range");
	}
	if (r.held)
		return refuse(why, "bits behind the last code are not zero");
	return bit_length(all) == c->bits ? 1 : refuse(why, "codes are wider than the largest one needs");
}

/* ---- all ---- */

void few_bits_encode(const struct value_coding *c, float scale, const float *v, size_t n,
		     const struct rounding *rounding, uint8_t *out, float *decoded)
{
	switch (c->type) {
	case VALUE_UNIFORM:
		uniform_encode(c, v, n, rounding, out, decoded);
		return;
	case VALUE_GRID:
		grid_encode(c->bits, scale, v, n, out, decoded);
		return;
	case VALUE_ROUND:
		round_encode(c, scale, v, n, out, decoded);
		return;
	default:
		return;
	}
}

int few_bits_decode(const struct value_coding *c, float scale, const uint8_t *in, size_t n, float *v,
		    const char **why)
{
	int good = 0;

	switch (c->type) {
	case VALUE_UNIFORM:
		good = uniform_decode(c, in, n, v, why);
		break;
	case VALUE_GRID:
		good = grid_decode(c->bits, scale, in, n, v, why);
		break;
	case VALUE_ROUND:
		good = round_decode(c, scale, in, n, v, why);
		break;
	default:
		break;
	}
	return good ? 0 : SLUICE_EWIRE;
}
