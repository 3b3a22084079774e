/* SPDX-License-Identifier: BSD-3-Clause
 * Rounding of values against a double-precision oracle that knows nothing of bit tricks: the two
 * neighbouring codes are compared by distance, ties by the parity of the code. */

#include "base/bytes.h"
#include "compress/quantize.h"
#include "compress/value_codes.h"
#include "random.h"
#include "sluice.h"
#include "cases.h"
#include <math.h>
#include <stdlib.h>

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

/* Returns the value of a finite code by the definition of the format. */
static double code_value(uint16_t code, int exponent_bits)
{
	int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
	int exponent = (code & 0x7fff) >> fraction_bits;
	int fraction = code & ((1 << fraction_bits) - 1);
	double magnitude = exponent ? ldexp(fraction + (1 << fraction_bits),
					    exponent - bias - fraction_bits) :
				      ldexp(fraction, 1 - bias - fraction_bits);

	return code & 0x8000 ? -magnitude : magnitude;
}

/* Returns the nearest code, ties to even, saturating. It is found by bisection over the codes of
 * the value's sign. */
static uint16_t nearest_code(double v, int exponent_bits)
{
	uint16_t sign = signbit(v) ? 0x8000 : 0;
	uint16_t low = 0,
		 high = (uint16_t)((((1 << exponent_bits) - 1) << (15 - exponent_bits)) - 1);
	double below, above, magnitude = fabs(v);

	if (magnitude >= code_value(high, exponent_bits))
		return sign | high;
	while (high - low > 1) {
		uint16_t middle = (uint16_t)((low + high) / 2);

		if (code_value(middle, exponent_bits) <= magnitude)
			low = middle;
		else
			high = middle;
	}
	below = magnitude - code_value(low, exponent_bits);
	above = code_value(high, exponent_bits) - magnitude;
	if (below == above)
		return sign | (low & 1 ? high : low);
	return sign | (below < above ? low : high);
}

static int exponent_bits_of(enum value_type type)
{
	return type == VALUE_F16 ? 5 : 8;
}

static uint16_t encode_one(enum value_type type, float v)
{
	return type == VALUE_F16 ? f16_encode_inline(v) : bf16_encode_inline(v);
}

static float decode_one(enum value_type type, uint16_t code)
{
	return type == VALUE_F16 ? f16_decode_inline(code) : bf16_decode_inline(code);
}

static const enum value_type narrow[] = { VALUE_F16, VALUE_BF16 };

TEST(decode__every_code_gives_its_value_and_encodes_back)
{
	for (size_t t = 0; t < COUNT_OF(narrow); t++)
		for (uint32_t code = 0; code <= UINT16_MAX; code++) {
			float v = decode_one(narrow[t], (uint16_t)code);
			uint16_t infinity = narrow[t] == VALUE_F16 ? 0x7c00 : 0x7f80;

			if ((code & 0x7fff) > infinity) {
				assert_true(isnan(v));
			} else if ((code & 0x7fff) == infinity) {
				assert_true(isinf(v));
			} else {
				assert_true((double)v == code_value((uint16_t)code,
								    exponent_bits_of(narrow[t])));
				assert_int_equal(encode_one(narrow[t], v), code); /* also -0 */
			}
		}
}

static void expect_nearest(enum value_type type, float v)
{
	if (isfinite(v))
		assert_int_equal(encode_one(type, v),
				 nearest_code((double)v, exponent_bits_of(type)));
}

TEST(encode__around_every_code_and_midpoint_rounds_to_nearest_even)
{
	for (size_t t = 0; t < COUNT_OF(narrow); t++)
		for (uint32_t code = 0; code <= UINT16_MAX; code++) {
			float v = decode_one(narrow[t], (uint16_t)code);
			float next = decode_one(narrow[t], (uint16_t)(code + 1));
			float middle = (float)(((double)v + (double)next) / 2);

			if (!isfinite(v))
				continue;
			expect_nearest(narrow[t], v);
			expect_nearest(narrow[t], nextafterf(v, INFINITY));
			expect_nearest(narrow[t], nextafterf(v, -INFINITY));
			expect_nearest(narrow[t], middle);
			expect_nearest(narrow[t], nextafterf(middle, INFINITY));
			expect_nearest(narrow[t], nextafterf(middle, -INFINITY));
		}
}

TEST(encode__random_bit_patterns_round_to_nearest_even)
{
	struct random r = { 1 };

	for (int i = 0; i < 1000000; i++) {
		uint32_t bits = random_bits(&r);

		expect_nearest(VALUE_F16, bits_float(bits));
		expect_nearest(VALUE_BF16, bits_float(bits));
		/* f16's range is a small part of f32's, so most values are drawn from it */
		expect_nearest(VALUE_F16,
			       ldexpf((float)(int32_t)bits, (int)(random_bits(&r) % 45) - 59));
	}
}

TEST(encode__beyond_the_largest_saturates)
{
	assert_int_equal(f16_encode_inline(65504), 0x7bff);
	assert_int_equal(f16_encode_inline(65519.996f), 0x7bff);
	assert_int_equal(f16_encode_inline(65520), 0x7bff);
	assert_int_equal(f16_encode_inline(-3e38f), 0xfbff);
	assert_int_equal(bf16_encode_inline(3.4028234e38f), 0x7f7f);
	assert_int_equal(bf16_encode_inline(-3.4028234e38f), 0xff7f);
}

/* ---- arrays ---- */

/* Arrays must get the bits of the one-value functions with all instruction sets, for every length
 * (vector instructions process eight or four values, portable code the rest), and in place. */
static void expect_portable_bits(const float *v, size_t n, float scale)
{
	uint8_t *codes = malloc(2 * n + 1);
	float *decoded = malloc(4 * n + 4), *again = malloc(4 * n + 4);

	assert_non_null(codes);
	assert_non_null(decoded);
	assert_non_null(again);
	codes[2 * n] = 0xa5;
	again[n] = 42;
	memcpy(decoded, v, 4 * n);
	values_encode(VALUE_F16, scale, decoded, n, codes, decoded);
	for (size_t i = 0; i < n; i++) {
		uint16_t code = f16_encode_inline(v[i] * scale);

		while (isinf(f16_decode_inline(code) *
			     (1 / scale))) /* also saturates where f32 ends */
			code--;
		assert_int_equal(get_le16(codes + 2 * i), code);
		assert_int_equal(float_bits(decoded[i]),
				 float_bits(f16_decode_inline(code) * (1 / scale)));
	}
	assert_int_equal(values_decode(VALUE_F16, scale, codes, n, again), 0);
	assert_memory_equal(again, decoded, 4 * n);
	assert_int_equal(codes[2 * n], 0xa5);
	assert_true(again[n] == 42);
	free(codes);
	free(decoded);
	free(again);
}

TEST(f16_arrays__every_code_midpoint_and_neighbour_equal_portable)
{
	enum { N = 65536 * 4 };
	float *v = malloc(N * sizeof(*v));
	size_t n = 0;

	assert_non_null(v);
	for (uint32_t code = 0; code <= UINT16_MAX; code++) {
		float x = f16_decode_inline((uint16_t)code),
		      next = f16_decode_inline((uint16_t)(code + 1));

		if ((code & 0x7fff) >= 0x7bff)
			continue;
		v[n++] = x;
		v[n++] = (x + next) / 2;
		v[n++] = nextafterf((x + next) / 2, 0);
		v[n++] = nextafterf((x + next) / 2, INFINITY);
	}
	expect_portable_bits(v, n, 1);
	for (size_t i = 0; i < n; i++)
		v[i] = ldexpf(v[i], -100);
	expect_portable_bits(v, n, 0x1p100f);
	free(v);
}

TEST(f16_arrays__random_bits_and_all_lengths_equal_portable)
{
	const float scales[] = { 1, 0x1p-113f, 0x1p125f, 0x1p14f };
	struct random r = { 2 };
	float v[70];

	for (int repeat = 0; repeat < 20; repeat++)
		for (size_t n = 0; n <= COUNT_OF(v); n++) {
			float scale = scales[random_bits(&r) % COUNT_OF(scales)];

			for (size_t i = 0; i < n; i++) {
				do
					v[i] = bits_float(random_bits(&r));
				while (!isfinite(v[i]) || fabsf(v[i] * scale) > 65504);
			}
			expect_portable_bits(v, n, scale);
		}
}

TEST(arrays__decoded_is_what_decode_gives_for_every_type)
{
	struct random r = { 3 };
	float v[333], decoded[333], again[333];
	uint8_t codes[4 * 333];

	for (int repeat = 0; repeat < 200; repeat++)
		for (enum value_type type = VALUE_F32; type <= VALUE_BF16; type++) {
			float spread = (float)(random_bits(&r) % 80), scale;

			for (size_t i = 0; i < COUNT_OF(v); i++)
				v[i] = ldexpf(random_normal(&r),
					      (int)(random_unit(&r) * (double)spread) - 40);
			scale = value_scale(type, v, COUNT_OF(v));
			values_encode(type, scale, v, COUNT_OF(v), codes, decoded);
			assert_int_equal(values_decode(type, scale, codes, COUNT_OF(v), again), 0);
			assert_memory_equal(again, decoded, sizeof(again));
			values_encode(type, scale, v, COUNT_OF(v), codes, NULL);
			assert_int_equal(values_decode(type, scale, codes, COUNT_OF(v), again), 0);
			assert_memory_equal(again, decoded, sizeof(again));
			if (type == VALUE_F32)
				assert_memory_equal(again, v, sizeof(again));
		}
}

/* The residual keeps the rounding error. a - q must be exact, or mass would be lost. */
TEST(residual__sent_plus_kept_is_the_value_bit_by_bit)
{
	struct random r = { 4 };
	float v[256], q[256];
	uint8_t codes[4 * 256];

	for (int repeat = 0; repeat < 2000; repeat++)
		for (enum value_type type = VALUE_F32; type <= VALUE_BF16; type++) {
			int shift = (int)(random_bits(&r) % 160) - 80;

			for (size_t i = 0; i < COUNT_OF(v); i++)
				v[i] = ldexpf(random_normal(&r),
					      shift - (int)(random_bits(&r) % 24));
			values_encode(type, value_scale(type, v, COUNT_OF(v)), v, COUNT_OF(v),
				      codes, q);
			for (size_t i = 0; i < COUNT_OF(v); i++) {
				float kept = v[i] - q[i];

				assert_true((double)kept == (double)v[i] - (double)q[i]);
				assert_true(q[i] + kept == v[i]);
			}
		}
}

TEST(scale__brings_the_largest_into_range_as_a_power_of_two)
{
	struct random r = { 5 };

	for (int i = 0; i < 100000; i++) {
		float v[3] = { 0 }, scale;
		int exponent;

		do
			v[i % 3] = bits_float(random_bits(&r));
		while (!isfinite(v[i % 3]) || fabsf(v[i % 3]) < 0x1p-111f);
		scale = value_scale(VALUE_F16, v, 3);
		assert_true(frexpf(scale, &exponent) == 0.5f);
		assert_true(isnormal(scale) && isnormal(1 / scale));
		assert_true(value_scale_valid(VALUE_F16, scale));
		assert_true(fabsf(v[i % 3]) * scale >= 0x1p14f &&
			    fabsf(v[i % 3]) * scale < 0x1p15f);
		assert_true(value_scale(VALUE_BF16, v, 3) == 1);
		assert_true(value_scale(VALUE_F32, v, 3) == 1);
	}
}

TEST(scale__zeros_and_nothing_give_one)
{
	const float zeros[] = { 0, -0.0f };

	assert_true(value_scale(VALUE_F16, zeros, 2) == 1);
	assert_true(value_scale(VALUE_F16, NULL, 0) == 1);
}

TEST(scale__denormals_and_extremes_survive_the_round_trip)
{
	const float extremes[] = { 0x1p-149f,     -0x1.8p-149f * 4, 0x1p-126f,
				   3.4028234e38f, 0x1p-112f,        -0x1.ffdp127f,
				   -0x1.ffep127f, 0x1.ffefffp127f,  0x1.ffbp127f };

	for (size_t i = 0; i < COUNT_OF(extremes); i++) {
		float v = extremes[i], decoded, scale = value_scale(VALUE_F16, &v, 1);
		uint8_t code[2];

		assert_true(value_scale_valid(VALUE_F16, scale));
		values_encode(VALUE_F16, scale, &v, 1, code, &decoded);
		assert_true(isfinite(decoded) && decoded != 0);
		assert_true(fabsf(decoded - v) <= fabsf(v) * 0x1p-11f);
	}
}

TEST(scale_valid__refuses_all_but_powers_of_two)
{
	const float bad[] = { 0,        -0.0f,     -1,        1.5f,      NAN,
			      INFINITY, -INFINITY, 0x1p-149f, 0x1p-127f, 0x1p127f };

	for (size_t i = 0; i < COUNT_OF(bad); i++)
		for (enum value_type type = VALUE_F32; type <= VALUE_BF16; type++)
			assert_false(value_scale_valid(type, bad[i]));
	assert_true(value_scale_valid(VALUE_F16, 2));
	assert_false(value_scale_valid(VALUE_F32, 2));
	assert_false(value_scale_valid(VALUE_BF16, 2));
}

TEST(decode__nonfinite_code_anywhere_fails_EWIRE)
{
	const uint32_t bad[VALUE_TYPES][3] = {
		[VALUE_F32] = { 0x7f800000, 0xffc00000, 0x7f800001 },
		[VALUE_F16] = { 0x7c00, 0xfe00, 0x7c01 },
		[VALUE_BF16] = { 0x7f80, 0xffc0, 0x7f81 },
	};
	uint8_t codes[4 * 40];
	float v[40];

	for (enum value_type type = VALUE_F32; type <= VALUE_BF16; type++)
		for (size_t n = 1; n <= COUNT_OF(v); n++)
			for (size_t at = 0; at < n; at++) {
				uint8_t *place = codes + at * value_bytes(type);

				memset(codes, 0x12, sizeof(codes));
				assert_int_equal(values_decode(type, 1, codes, n, v), 0);
				if (type == VALUE_F32)
					put_le32(place, bad[type][at % 3]);
				else
					put_le16(place, (uint16_t)bad[type][at % 3]);
				assert_int_equal(values_decode(type, 1, codes, n, v), SLUICE_EWIRE);
			}
}

TEST(decode__scale_that_overflows_fails_EWIRE)
{
	const uint8_t largest[2] = { 0xff, 0x7b };
	float v;

	assert_int_equal(values_decode(VALUE_F16, 0x1p-113f, largest, 1, &v), SLUICE_EWIRE);
}
