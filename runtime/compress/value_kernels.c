/* SPDX-License-Identifier: BSD-3-Clause
 * The portable version, which tests compare with the other one, and the choice between them. The
 * loops have a fixed inner length and no branch, so that the compiler vectorises them. */
#include "value_kernels.h"
#include "base/bytes.h"
#include "bit_pack.h"
#include "value_codes.h"
#include <math.h>

enum { LANES = 8, SUMS = VALUE_GROUP };

static uint32_t largest(const float *v, size_t n)
{
	uint32_t most[LANES] = { 0 }, all = 0;
	size_t i = 0;

	for (; i + LANES <= n; i += LANES)
		for (size_t lane = 0; lane < LANES; lane++) {
			uint32_t magnitude = float_bits(v[i + lane]) & F32_MAGNITUDE;

			most[lane] = magnitude > most[lane] ? magnitude : most[lane];
		}
	for (int lane = 0; lane < LANES; lane++)
		all = most[lane] > all ? most[lane] : all;
	for (; i < n; i++)
		all = (float_bits(v[i]) & F32_MAGNITUDE) > all ? float_bits(v[i]) & F32_MAGNITUDE :
								 all;
	return all;
}

/* Sums the magnitudes of each row. Four rows are summed side by side, because each addition to one
 * sum has to wait for the previous one. */
static void sums(const float *const row[VALUE_SUMS], size_t n, double sum[VALUE_SUMS])
{
	for (size_t j = 0; j < VALUE_SUMS; j += 4) {
		double a = 0, b = 0, c = 0, d = 0;

		for (size_t i = 0; i < n; i++) {
			a += fabs((double)row[j][i]);
			b += fabs((double)row[j + 1][i]);
			c += fabs((double)row[j + 2][i]);
			d += fabs((double)row[j + 3][i]);
		}
		sum[j] = a;
		sum[j + 1] = b;
		sum[j + 2] = c;
		sum[j + 3] = d;
	}
}

static void uniform_values(const uint8_t *restrict codes, float step, int levels, size_t n,
			   float *restrict v)
{
	for (size_t i = 0; i < n; i += VALUE_GROUP)
		for (size_t j = i; j < i + VALUE_GROUP; j++)
			v[j] = uniform_value(codes[j], step, levels);
}

static void uniform(const float *v, const struct value_numbers *numbers,
		    const struct uniform_scale *scale, unsigned bits, size_t n,
		    uint8_t *restrict codes, float *decoded)
{
	const struct uniform_scale s = *scale;
	const struct value_numbers r = *numbers;
	uint32_t random[VALUE_GROUP];

	for (size_t i = 0; i < n; i += VALUE_GROUP) {
		for (uint32_t j = 0; j < VALUE_GROUP; j++)
			random[j] = random_mix(
				&r.key, r.low + (r.index ? r.index[i + j] : (uint32_t)i + j));
		for (size_t j = 0; j < VALUE_GROUP; j++)
			codes[i + j] = uniform_code(v[i + j], random[j], &s, bits);
	}
	uniform_values(codes, s.step, uniform_levels(bits), n, decoded);
}

static void sign_values(const uint8_t *restrict codes, float step, size_t n, float *restrict v)
{
	for (size_t i = 0; i < n; i += VALUE_GROUP)
		for (size_t j = i; j < i + VALUE_GROUP; j++)
			v[j] = sign_value(codes[j], step);
}

static void level_values(const uint8_t *restrict codes, const struct levels *levels, size_t n,
			 float *restrict v)
{
	for (size_t i = 0; i < n; i++)
		v[i] = level_value(levels, codes[i]);
}

static void signs(const float *v, float step, size_t n, uint8_t *restrict codes, float *decoded)
{
	for (size_t i = 0; i < n; i += VALUE_GROUP)
		for (size_t j = i; j < i + VALUE_GROUP; j++)
			codes[j] = sign_code(v[j]);
	sign_values(codes, step, n, decoded);
}

static void grid_values(const uint8_t *restrict codes, float range, float width, size_t n,
			float *restrict v)
{
	for (size_t i = 0; i < n; i += VALUE_GROUP)
		for (size_t j = i; j < i + VALUE_GROUP; j++)
			v[j] = grid_value(codes[j], range, width);
}

static void grid(const float *v, float range, float width, int most, size_t n,
		 uint8_t *restrict codes, float *decoded)
{
	for (size_t i = 0; i < n; i += VALUE_GROUP)
		for (size_t j = i; j < i + VALUE_GROUP; j++)
			codes[j] = grid_code(v[j], range, width, most);
	grid_values(codes, range, width, n, decoded);
}

static float halved(float sum[SUMS])
{
	for (size_t half = SUMS / 2; half; half /= 2)
		for (size_t j = 0; j < half; j++)
			sum[j] += sum[j + half];
	return sum[0];
}

static float total(const float *v, size_t n)
{
	float sum[SUMS] = { 0 };

	for (size_t i = 0; i < n; i += SUMS)
		for (size_t j = 0; j < SUMS; j++)
			sum[j] += bits_float(float_bits(v[i + j]) & F32_MAGNITUDE);
	return halved(sum);
}

static void split(const float *v, float mean, size_t n, uint8_t *restrict codes,
		  struct twomeans_sums *sums)
{
	float low[SUMS] = { 0 }, high[SUMS] = { 0 };
	uint32_t n_high = 0;

	for (size_t i = 0; i < n; i += SUMS)
		for (size_t j = 0; j < SUMS; j++) {
			const uint32_t magnitude = float_bits(v[i + j]) & F32_MAGNITUDE;
			const uint8_t code = twomeans_code(v[i + j], mean);
			const uint32_t above = -(uint32_t)(code & 1);

			codes[i + j] = code;
			low[j] += bits_float(magnitude & ~above);
			high[j] += bits_float(magnitude & above);
			n_high += code & 1;
		}
	*sums = (struct twomeans_sums){ halved(low), halved(high), n_high };
}

static void exponents(const float *v, int32_t least, size_t n, uint8_t *restrict codes)
{
	for (size_t i = 0; i < n; i += VALUE_GROUP)
		for (size_t j = i; j < i + VALUE_GROUP; j++)
			codes[j] = e3m0_code(v[j], least);
}

static void nearest(const float *v, float width, float limit, size_t n, int32_t *q, float *decoded)
{
	for (size_t i = 0; i < n; i++) {
		float x = v[i] / width;

		x = x > limit ? limit : x < -limit ? -limit : x;
		q[i] = (int32_t)((x + 0x1.8p23f) - 0x1.8p23f); /* to the nearest, ties to even */
		decoded[i] = (float)q[i] * width;
	}
}

static int within(const uint8_t *codes, uint8_t least, uint8_t most, size_t n)
{
	unsigned wrong = 0;

	for (size_t i = 0; i < n; i += VALUE_GROUP)
		for (size_t j = i; j < i + VALUE_GROUP; j++)
			wrong |= (unsigned)(codes[j] < least) | (unsigned)(codes[j] > most);
	return !wrong;
}

static void pack(const uint8_t *codes, unsigned bits, size_t n, uint8_t *out)
{
	bits_pack(codes, n, bits, out);
}

static void unpack(const uint8_t *in, unsigned bits, size_t n, uint8_t *codes)
{
	bits_unpack(in, n, bits, codes);
}

const struct value_kernels value_portable = { "portable",  kernels_anywhere,
					      largest,     sums,
					      uniform,     signs,
					      grid,        total,
					      split,       exponents,
					      nearest,     uniform_values,
					      sign_values, level_values,
					      grid_values, within,
					      pack,        unpack };

/* ---- the choice ---- */

const struct value_kernels *const value_versions[] = {
#if defined(__x86_64__)
	&value_avx2,
#endif
	&value_portable, NULL
};

const struct value_kernels *value_kernels(void)
{
	static const void *_Atomic chosen;

	return kernels_chosen(value_versions, &chosen);
}
