/* SPDX-License-Identifier: BSD-3-Clause
 * Values in few bits: compared with their definitions in double precision, and encoded and decoded
 * in messages. test_uniform.c tests the random numbers of uniform. */
#include "base/bytes.h"
#include "compress/bit_pack.h"
#include "compress/message.h"
#include "compress/select.h"
#include "few_bits_values.h"
#include "sluice.h"
#include "cases.h"
#include <float.h>
#include <stdlib.h>

static uint8_t again[BYTES];

TEST(bits__every_width_and_length__come_back_and_take_no_more)
{
	struct random r = { 1 };
	uint8_t codes[80], back[88];

	for (unsigned bits = 1; bits <= 8; bits++)
		for (size_t n = 0; n <= 70; n++) {
			for (size_t i = 0; i < n; i++)
				codes[i] = (uint8_t)(random_bits(&r) >> (32 - bits));
			memset(again, 0xa5, 100);
			bits_pack(codes, n, bits, again);
			assert_int_equal(again[bits_bytes(n, bits)], 0xa5);
			assert_true(bits_unpack(again, n, bits, back));
			assert_memory_equal(codes, back, n);
			for (size_t i = 0; i < n; i++) { /* codes are stored from the least
							    significant bit on */
				unsigned code = 0;

				for (unsigned b = 0; b < bits; b++)
					code |= (unsigned)(again[(i * bits + b) / 8] >>
								   (i * bits + b) % 8 &
							   1)
						<< b;
				assert_int_equal(code, codes[i]);
			}
		}
}

TEST(grid__every_width__is_the_nearest_of_its_points)
{
	fill(7, 10);
	for (unsigned bits = 1; bits <= 8; bits++) {
		struct value_coding c = grid(bits);
		double range = (double)there_and_back(&c, N, 0), tau = 1.0 / ((1 << bits) - 1);

		assert_true(range == (double)largest_magnitude(v, N));
		for (int i = 0; i < N; i++) {
			double code = ((double)sent[i] + range) / (2 * tau * range);

			assert_true(fabs(code - round(code)) < 1e-4);
			assert_true(fabs((double)sent[i] - (double)v[i]) <= tau * range * 1.0001);
		}
	}
}

TEST(grid__range_given__is_used_where_it_is_larger)
{
	struct value_coding c = grid(4);

	fill(8, 0);
	assert_true(few_bits_fit(&c, v, N, 100) == 100);
	assert_true(few_bits_fit(&c, v, N, 1e-3f) == largest_magnitude(v, N));
}

TEST(round__any_width__is_the_nearest_multiple_in_the_fewest_bits)
{
	const float widths[] = { 0.5f, 1, 3, 1e-4f, 1e4f, 0.1f };

	fill(9, 4);
	for (size_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w++) {
		struct value_coding c = rounded(widths[w]);
		long largest = 0;

		there_and_back(&c, N, 0);
		for (int i = 0; i < N; i++) {
			long q = lrint((double)sent[i] / (double)widths[w]);
			long code = q < 0 ? -2 * q - 1 : 2 * q;

			assert_true(sent[i] == (float)q * widths[w]);
			assert_true(fabs((double)v[i] - (double)sent[i]) <=
				    0.5 * (double)widths[w] + 4e-7 * fabs((double)v[i]));
			largest = code > largest ? code : largest;
		}
		assert_int_equal(c.bits, bit_length((uint32_t)largest));
	}
}

TEST(few_bits__extremes__stay_finite)
{
	const float extremes[] = { 0, -0.0f, FLT_MAX, -FLT_MAX, FLT_MIN, -0x1p-149f, 1, 0x1p-130f };
	const struct value_coding codings[] = { uniform(1, 8),
						uniform(2, 8),
						uniform(8, 8),
						grid(1),
						grid(8),
						rounded(FLT_MAX),
						rounded(0x1p-149f),
						rounded(3e38f),
						of_type(VALUE_TWOMEANS),
						of_type(VALUE_E3M0) };

	for (size_t c = 0; c < sizeof(codings) / sizeof(codings[0]); c++)
		for (size_t n = 0; n <= 8; n++)
			for (size_t from = 0; from + n <= 8; from++) {
				struct value_coding coding = codings[c];

				memcpy(v, extremes + from, n * sizeof(*v));
				there_and_back(&coding, n, 1);
				for (size_t i = 0; i < n; i++)
					assert_true(isfinite(sent[i]));
			}
}

static size_t end_of(size_t begin)
{
	return begin + UNIFORM_BLOCK < N ? begin + UNIFORM_BLOCK : N;
}

/* The mean is a rounded one of floats, but none of these values is so near to it. */
TEST(twomeans__each_side_of_a_block_s_mean__has_its_mean_magnitude)
{
	struct value_coding c = of_type(VALUE_TWOMEANS);

	for (int spread = 0; spread <= 20; spread += 10) {
		fill(12, spread);
		assert_true(there_and_back(&c, N, 1) == 1);
		for (size_t begin = 0, end; begin < N; begin = end) {
			double all = 0, sum[2] = { 0 }, magnitude[2] = { 0 };
			int n[2] = { 0 };

			end = end_of(begin);
			for (size_t i = begin; i < end; i++)
				all += fabs((double)v[i]) / (double)(end - begin);
			for (size_t i = begin; i < end; i++) {
				const int above = fabs((double)v[i]) > all;

				n[above]++;
				sum[above] += fabs((double)v[i]);
				magnitude[above] = fabs((double)sent[i]);
			}
			for (size_t i = begin; i < end; i++) {
				const int above = fabs((double)v[i]) > all;

				assert_true(fabs((double)sent[i]) == magnitude[above]);
				assert_true(!signbit(v[i]) == !signbit(sent[i]));
			}
			for (int above = 0; above < 2; above++)
				assert_true(fabs(magnitude[above] * n[above] / sum[above] - 1) <
					    0x1.01p-8);
		}
	}
}

/* Blocks of one magnitude, of zeros, and of magnitudes whose sum no float holds. */
TEST(twomeans__blocks_without_two_magnitudes__are_exact)
{
	const float magnitudes[] = { 0, 1, 1.5f, 0x1p-149f, 0x1p-133f, 0x1.fep127f, 0x1p120f };
	struct value_coding c = of_type(VALUE_TWOMEANS);

	for (size_t m = 0; m < sizeof(magnitudes) / sizeof(magnitudes[0]); m++)
		for (size_t n = 1; n <= 2 * UNIFORM_BLOCK; n = n < 40 ? n + 1 : n * 2 + 1) {
			const float all = magnitudes[m] < 0x1p-134f ? 0 : magnitudes[m];

			for (size_t i = 0; i < n; i++)
				v[i] = i % 3 ? magnitudes[m] : -magnitudes[m];
			there_and_back(&c, n, 1);
			for (size_t i = 0; i < n; i++)
				assert_true(sent[i] == (i % 3 ? all : -all));
			if (!(all > 0)) /* no sign of a zero is sent */
				for (size_t i = 0; i < few_bits_bytes(&c, (uint32_t)n); i++)
					assert_int_equal(bytes[i], 0);
		}
}

TEST(twomeans__what_was_decoded__comes_back_the_same)
{
	struct value_coding c = of_type(VALUE_TWOMEANS);

	for (int spread = 0; spread <= 60; spread += 20) {
		fill(13, spread);
		there_and_back(&c, N, 1);
		memcpy(again, sent, sizeof(sent));
		memcpy(v, sent, sizeof(sent));
		there_and_back(&c, N, 1);
		assert_memory_equal(again, sent, sizeof(sent));
	}
}

/* The exact nearest level, by doubles. */
static double nearest_power(double value, double scale)
{
	double best = 0;

	for (int e = -6; e <= 0; e++)
		if (fabs(ldexp(scale, e) - fabs(value)) <= fabs(best - fabs(value)))
			best = ldexp(scale, e);
	return copysign(best, value);
}

TEST(e3m0__every_value__is_the_nearest_power_and_its_residual_is_exact)
{
	struct value_coding c = of_type(VALUE_E3M0);

	for (int spread = 0; spread <= 150; spread += 15) {
		fill(14, spread);
		v[0] = 0.75f; /* between two levels */
		v[1] = -0x1.8p-5f;
		assert_true(there_and_back(&c, N, 1) == 1);
		for (size_t begin = 0, end; begin < N; begin = end) {
			const double least = 0x1p-119;
			double scale, most;
			int exponent;

			end = end_of(begin);
			most = (double)largest_magnitude(v + begin, end - begin);
			scale = frexp(most, &exponent) < 0.75 ? 0.5 : 1;
			scale = ldexp(scale, exponent);
			scale = scale < least ? least : scale;
			for (size_t i = begin; i < end; i++) {
				const double value = (double)v[i], error = value - (double)sent[i];

				assert_true((double)sent[i] == nearest_power(value, scale));
				assert_true(fabs(error) <= fmax(fabs(value) / 3, scale / 128));
				assert_true((double)(v[i] - sent[i]) == error);
			}
		}
	}
}

TEST(e3m0__values_at_the_ends_of_floats__are_powers_of_two_or_zero)
{
	const struct {
		float value, sent;
	} cases[] = { { FLT_MAX, 0x1p127f },      { 0x1.8p127f, 0x1p127f },
		      { 0x1.7p127f, 0x1p127f },   { 0x1p-126f, 0x1p-125f },
		      { 0x1.cp-125f, 0x1p-124f }, { 0x1.fffffcp-127f, 0 },
		      { 0x1p-149f, 0 },           { 0, 0 } };
	struct value_coding c = of_type(VALUE_E3M0);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int sign = -1; sign <= 1; sign += 2) {
			v[0] = (float)sign * cases[i].value;
			there_and_back(&c, 1, 1);
			assert_true(sent[0] == (float)sign * cases[i].sent);
		}
}

/* Returns SPAN normal values. Box and Muller: the tails count, and random_normal() has none. */
enum { SPAN = 1 << 20 };
static float *normal_values(void)
{
	float *value = malloc(SPAN * sizeof(*value));
	struct random r = { 15 };

	assert_non_null(value);
	for (size_t i = 0; i < SPAN; i++) {
		const double size = sqrt(-2 * log(1 - random_unit(&r)));

		value[i] = (float)(size * cos(2 * M_PI * random_unit(&r)));
	}
	return value;
}

/* Returns the bits of a message with the k largest of normal values, or k of each `block` of them:
 * header, Rice codes, magnitudes and codes of twomeans. */
static double message_bits(uint32_t k, uint32_t block)
{
	const struct span all = { 0, SPAN, 0 };
	const uint32_t count = block ? SPAN / block * k : k;
	struct message m = { .kind = MESSAGE_PUSH,
			     .parts = 1,
			     .span = SPAN,
			     .count = count,
			     .values = of_type(VALUE_TWOMEANS),
			     .densest = 1 };
	const size_t cap = message_bound(SPAN, count, m.values);
	float *x = normal_values(), *value = malloc(count * sizeof(*value));
	uint32_t *index = malloc(count * sizeof(*index));
	uint8_t *out = malloc(cap);
	struct selector *s = NULL;
	uint64_t length;

	assert_true(value && index && out && !selector_open(SPAN, &s));
	assert_int_equal(block ? select_each_block(s, x, &all, 1, k, block, NULL, index) :
				 select_topk(s, x, &all, 1, k, index),
			 count);
	for (uint32_t i = 0; i < count; i++)
		value[i] = x[index[i]];
	length = message_encode(NULL, &m, index, value, value, out, cap);
	assert_int_equal(m.coding, CODING_RICE);
	assert_true(length > 0);
	selector_close(&s);
	free(out);
	free(index);
	free(value);
	free(x);
	return 8.0 * (double)length;
}

TEST(message__6_percent_in_twomeans__take_at_most_47_hundredths_of_a_bit_a_coordinate)
{
	assert_true(message_bits(SPAN / 100 * 6, 0) <= 0.47 * SPAN);
}

TEST(message__64_of_each_4096_in_twomeans__take_at_most_9_point_7_bits_each)
{
	assert_true(message_bits(64, 4096) <= 9.7 * (SPAN / 64));
}

/* A sum that overflowed must be refused, not sent as a large number. */
TEST(few_bits__infinite_value__is_told_and_receiver_refuses)
{
	const struct value_coding codings[] = { uniform(1, 8), uniform(2, 8), uniform(8, 8),
						of_type(VALUE_TWOMEANS), of_type(VALUE_E3M0) };
	const struct rounding rounding = { .stream = { RANDOM_ROUND, 3, 1, 0 } };

	for (size_t c = 0; c < sizeof(codings) / sizeof(codings[0]); c++)
		for (int sign = -1; sign <= 1; sign += 2) {
			const char *why = "";

			for (size_t i = 0; i < 24; i++)
				v[i] = i == 11 ? (float)sign * INFINITY : (float)i - 11;
			assert_int_equal(few_bits_encode(NULL, &codings[c], 1, v, 24, &rounding,
							 bytes, sent),
					 11);
			if (codings[c].type != VALUE_UNIFORM) /* wrote nothing */
				continue;
			assert_int_equal(
				few_bits_decode(NULL, &codings[c], 1, bytes, 24, got, &why),
				SLUICE_EWIRE);
			assert_non_null(strstr(why, "not finite"));
		}
	for (size_t b = 0; b < 2; b++) {
		const float bad[] = { INFINITY, NAN };
		struct value_coding coding = grid(3);
		const char *why = "";

		v[11] = bad[b];
		float range = few_bits_fit(&coding, v, 24, 7); /* 7: the largest magnitude in the
								  vector before this shard */
		assert_int_equal(
			few_bits_encode(NULL, &coding, range, v, 24, &rounding, bytes, sent), 11);
		assert_false(few_bits_valid(&coding, range, &why));
		assert_non_null(strstr(why, "must be finite"));
	}
}

TEST(message__few_bits__sparse_and_dense_come_back)
{
	const struct value_coding codings[] = { uniform(1, 8),
						uniform(2, 512),
						uniform(5, 64),
						grid(3),
						grid(8),
						rounded(0.01f),
						rounded(100),
						of_type(VALUE_TWOMEANS),
						of_type(VALUE_E3M0) };
	struct random r = { 11 };
	static uint32_t index[N], back[N];

	fill(10, 2);
	for (size_t c = 0; c < sizeof(codings) / sizeof(codings[0]); c++)
		for (unsigned share = 1; share <= 1024; share *= 2) {
			struct message m = { .kind = MESSAGE_DELTA,
					     .parts = 1,
					     .span = N,
					     .values = codings[c],
					     .stream = { RANDOM_ROUND, 0, 1, 0 } },
				       read;
			size_t bound, length;
			const char *why = "";

			for (uint32_t i = 0; i < N; i++)
				if (share == 1 || random_bits(&r) % share == 0)
					index[m.count++] = i;
			bound = message_bound(N, m.count, codings[c]);
			assert_true(bound <= sizeof(bytes));
			uint32_t n = m.count;
			memset(again, 0, sizeof(again));
			length = message_encode(NULL, &m, share == 1 ? NULL : index, v, sent, bytes,
						bound);
			assert_true(length <= bound && m.count == n);
			assert_int_equal(message_copy(NULL, bytes, length, again, sizeof(again),
						      &read, &why),
					 0);
			if (message_decode(NULL, &read, again, back, got, &why))
				fail_msg("%u in %u: %s", n, N, why);
			assert_memory_equal(got, sent, n * sizeof(*got));
			if (read.coding != CODING_DENSE)
				assert_memory_equal(back, index, n * sizeof(*back));
			for (uint32_t k = 1; k <= N; k += 97)
				assert_true(message_bound(N, k, codings[c]) >=
					    message_bound(N, k - 1, codings[c]));
		}
}
