/* SPDX-License-Identifier: BSD-3-Clause
 * Values of type uniform: compared with their definition in double precision, over all random
 * numbers and on average over many draws; and the random number of each coordinate. */
#include "base/bytes.h"
#include "compress/few_bits_rules.h"
#include "compress/random_mix.h"
#include "few_bits_values.h"
#include "cases.h"
#include <float.h>

TEST(uniform__every_width__is_a_neighbour_on_the_block_s_levels)
{
	fill(2, 20);
	for (unsigned bits = 2; bits <= 8; bits++) {
		struct value_coding c = uniform(bits, 24);
		double levels = (1 << (bits - 1)) - 1;

		there_and_back(&c, N, bits);
		for (int b = 0; b < N; b += 24) {
			double most = 0;

			for (int i = b; i < b + 24 && i < N; i++)
				most = fmax(most, fabs((double)v[i]));
			for (int i = b; i < b + 24 && i < N; i++) {
				double q = (double)sent[i] / (most / levels);

				assert_true(fabs(q - round(q)) < 1e-4 && fabs(q) < levels + 1e-4);
				assert_true(fabs((double)sent[i] - (double)v[i]) <
					    most / levels * 1.0001);
			}
		}
	}
}

TEST(uniform__4000_draws__mean_is_the_value)
{
	enum { D = 600, DRAWS = 4000 };
	static double sum[D];

	fill(3, 6);
	for (unsigned bits = 2; bits <= 8; bits += 3) {
		struct value_coding c = uniform(bits, 64);
		double off = 0, expected = 0;

		memset(sum, 0, sizeof(sum));
		for (uint64_t step = 0; step < DRAWS; step++) {
			there_and_back(&c, D, step);
			for (int i = 0; i < D; i++) {
				sum[i] += (double)sent[i];
				expected += pow((double)sent[i] - (double)v[i], 2) / DRAWS / DRAWS;
			}
		}
		for (int i = 0; i < D; i++)
			off += pow(sum[i] / DRAWS - (double)v[i], 2);
		assert_true(expected > 0 && off < 1.5 * expected && off > expected / 1.5);
	}
}

/* Computes the mean over all random numbers. Codes grow with the number, so a search finds how many
 * of them round up. */
static double expected_level(float value, const struct uniform_scale *s, unsigned bits)
{
	const double numbers = 0x1p32, step = ldexp(1, (int)bits);
	const uint8_t least = uniform_code(value, 0, s, bits);
	double low = -1, high = numbers / step; /* shares: low gives the least code, high gives
						   another code or is no number */

	while (high - low > 1) {
		const double middle = floor((low + high) / 2);

		if (uniform_code(value, (uint32_t)(middle * step), s, bits) == least)
			low = middle;
		else
			high = middle;
	}
	assert_true(uniform_code(value, UINT32_MAX, s, bits) <= least + 1);
	return least - uniform_levels(bits) + (numbers / step - high) / (numbers / step);
}

TEST(uniform__all_numbers__mean_is_the_value_and_no_code_is_out_of_range)
{
	struct random r = { 31 };

	for (int round = 0; round < 40000; round++) {
		const unsigned bits = 2 + (unsigned)round % 7;
		float most = bits_float(random_bits(&r) & 0x7fffffff), step, value;
		struct uniform_scale s;
		double level;

		if (!isfinite(most) || round % 100 == 0)
			most = bits_float(float_bits(FLT_MAX) - random_bits(&r) % 8);
		step = uniform_step(bits, most);
		if (!(step > 0))
			continue;
		s = uniform_scale(bits, step);
		value = round % 3 ? most * (float)random_unit(&r) : most;
		value = round % 2 ? -value : value;
		level = (double)value / (double)step;
		assert_true(fabs(expected_level(value, &s, bits) - level) <
			    (most < FLT_MAX / 2 ? 3e-7 : 1e-6) * fabs(level) + 0x1p-24);
		assert_true(uniform_code(most, UINT32_MAX, &s, bits) <= 2 * uniform_levels(bits));
		assert_true(uniform_code(-most, 0, &s, bits) <= uniform_levels(bits));
		assert_int_equal(uniform_code(0, random_bits(&r), &s, bits), uniform_levels(bits));
		assert_int_equal(uniform_code(-0.0f, UINT32_MAX, &s, bits), uniform_levels(bits));
	}
}

/* The errors of neighbouring coordinates must have the variance of independent roundings. */
TEST(uniform__one_value_everywhere__errors_have_the_variance_of_independent_draws)
{
	enum { GROUP = 50, GROUPS = N / GROUP, STEPS = 200 };
	const float shares[] = { 0.03f, 0.3f, 0.5f, 0.77f };
	struct value_coding c = uniform(4, 64);

	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
		const double p = (double)shares[i], count = (double)GROUPS * STEPS;
		double mean = 0, square = 0;

		for (int j = 0; j < N; j++)
			v[j] = j % 64 ? 2 + shares[i] : 7; /* the step is 1, so 7 is exact */
		for (uint64_t step = 0; step < STEPS; step++) {
			there_and_back(&c, N, step);
			for (int group = 0; group < GROUPS; group++) {
				double ups = 0, among = 0;

				for (int j = group * GROUP; j < (group + 1) * GROUP; j++) {
					among += v[j] != 7;
					ups += v[j] != 7 && sent[j] > 2.5f;
				}
				ups = (ups - among * p) / sqrt(among * p * (1 - p));
				mean += ups / count;
				square += ups * ups / count;
			}
		}
		assert_true(fabs(mean) < 5 / sqrt(count));
		assert_true(fabs(square - 1) < 5 * sqrt(2.5 / count)); /* the binomial distribution
									  adds less than 0.5 */
	}
}

TEST(uniform_1__signs__have_the_mean_magnitude_of_their_block)
{
	struct value_coding c = uniform(1, 512);

	fill(4, 3);
	there_and_back(&c, N, 1);
	for (int b = 0; b < N; b += 512) {
		int end = b + 512 < N ? b + 512 : N;
		double mean = 0;

		for (int i = b; i < end; i++)
			mean += fabs((double)v[i]) / (end - b);
		for (int i = b; i < end; i++) {
			assert_true(fabs(fabs((double)sent[i]) - mean) < 1e-6 * mean);
			assert_true(!signbit(sent[i]) == !(v[i] < 0));
		}
	}
}

TEST(uniform__cut_at_a_block__rounds_the_same)
{
	struct value_coding c = uniform(3, 64);
	struct rounding rounding = { .stream = { RANDOM_ROUND, 1, 9, 0 }, .first = 1001 };

	fill(5, 0);
	few_bits_encode(NULL, &c, 1, v, N, &rounding, bytes, sent);
	rounding.first += 640;
	few_bits_encode(NULL, &c, 1, v + 640, N - 640, &rounding, bytes, got);
	assert_memory_equal(sent + 640, got, (N - 640) * sizeof(*got));
	rounding.stream.seed = 1;
	few_bits_encode(NULL, &c, 1, v + 640, N - 640, &rounding, bytes, got);
	assert_memory_not_equal(sent + 640, got, (N - 640) * sizeof(*got));
}

/* Returns the decoded value i if its block has this step. */
static float by_rules(unsigned bits, float step, float value, const struct random_stream *stream,
		      uint64_t coordinate)
{
	const struct uniform_scale scale = uniform_scale(bits, step);
	struct random_mixer m;

	random_mixer_open(stream, coordinate, &m);
	return uniform_value(uniform_code(value, random_mixed(&m, coordinate), &scale, bits), step,
			     uniform_levels(bits));
}

TEST(uniform__any_first_and_length__each_value_takes_the_number_of_its_coordinate)
{
	static const uint64_t firsts[] = {
		0, 5, 0xffffffffull - 100, 0x3fffffff0ull, 0x3ffffffffull, 1ull << 32
	};
	static uint32_t index[N];
	struct random r = { 32 };

	fill(12, 0);
	for (int round = 0; round < 150; round++) {
		struct value_coding c = uniform(2 + (unsigned)round % 7, round % 2 ? 64 : 520);
		struct rounding rounding = { .stream = { RANDOM_ROUND, 1, (uint64_t)round, 0 },
					     .first = firsts[round % 6],
					     .index = round % 4 < 2 ? index : NULL };
		const size_t n = round < 70 ? (size_t)round : random_bits(&r) % N;

		for (size_t i = 0; i < n;
		     i++) /* some ranges end after a multiple of 2^32, some begin there */
			index[i] = (i         ? index[i - 1] :
				    round % 3 ? 0 :
						90) +
				   1 + random_bits(&r) % 5;
		few_bits_encode(NULL, &c, 1, v, n, &rounding, bytes, sent);
		for (size_t i = 0; i < n; i++) {
			const uint64_t coordinate = rounding.first +
						    (rounding.index ? index[i] : i);
			const size_t block = i / c.block * c.block, left = n - block;
			const float most = largest_magnitude(v + block,
							     left < c.block ? left : c.block);

			assert_true(sent[i] == by_rules(c.bits, uniform_step(c.bits, most), v[i],
							&rounding.stream, coordinate));
		}
	}
}

/* Returns the correlation of n roundings at two places, each of which rounds up with probability
 * p. */
static double correlation(const float *here, const float *there, size_t n, double p)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += ((here[i] > 2.5f) - p) * ((there[i] > 2.5f) - p);
	return sum / (p * (1 - p));
}

TEST(uniform__errors_of_other_coordinates_steps_and_ranks__are_not_correlated)
{
	enum { STEPS = 30, LAGS = 4 };
	static uint32_t index[N];
	static float now[N], before[N], other[N];
	const double p = 0.3, bound = 5 * sqrt((double)N * STEPS);
	const struct value_coding c = uniform(4, 4096);

	for (unsigned apart = 0; apart <= 20; apart++) { /* neighbours, and coordinates 2^k apart */
		double neighbours[LAGS] = { 0 }, steps = 0, ranks = 0, mean = 0;

		for (uint32_t i = 0; i < N; i++) {
			index[i] = i << apart;
			v[i] = i ? 2.3f : 7; /* the step is 1 */
		}
		for (uint64_t step = 0; step <= STEPS; step++) {
			struct rounding rounding = { .stream = { RANDOM_ROUND, 0, step, apart },
						     .index = index };

			memcpy(before, now, sizeof(now));
			few_bits_encode(NULL, &c, 1, v, N, &rounding, bytes, now);
			rounding.stream.rank = 1;
			few_bits_encode(NULL, &c, 1, v, N, &rounding, bytes, other);
			for (size_t lag = 1; step && lag <= LAGS; lag++)
				neighbours[lag - 1] += correlation(now + 1, now + 1 + lag,
								   N - 1 - lag, p);
			steps += step ? correlation(now + 1, before + 1, N - 1, p) : 0;
			ranks += step ? correlation(now + 1, other + 1, N - 1, p) : 0;
			for (size_t i = 1; step && i < N; i++)
				mean += ((now[i] > 2.5f) - p) / sqrt(p * (1 - p));
		}
		for (int lag = 0; lag < LAGS; lag++)
			assert_true(fabs(neighbours[lag]) < bound);
		assert_true(fabs(steps) < bound && fabs(ranks) < bound && fabs(mean) < bound);
	}
}

TEST(uniform__positions_given__round_by_the_numbers_of_their_coordinates)
{
	struct value_coding c = uniform(4, 4096);
	struct rounding all = { .stream = { RANDOM_ROUND, 1, 9, 0 } }, some = all;
	uint32_t index[N];
	uint32_t n = 0;

	fill(6, 0);
	few_bits_encode(NULL, &c, 1, v, N, &all, bytes, sent);
	for (uint32_t i = 0; i < N; i++)
		if (fabsf(v[i]) == largest_magnitude(v, N) || i % 3 == 0)
			index[n++] = i;
	for (uint32_t i = 0; i < n; i++)
		v[i] = v[index[i]];
	some.index = index;
	few_bits_encode(NULL, &c, 1, v, n, &some, bytes, got);
	for (uint32_t i = 0; i < n; i++)
		assert_true(got[i] == sent[index[i]]);
}
