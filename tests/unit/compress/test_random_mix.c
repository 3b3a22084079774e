/* SPDX-License-Identifier: BSD-3-Clause
 * The random numbers of roundings: compared with their definition, and tested for the randomness
 * that rounding needs, for neighbouring coordinates, coordinates 2^k apart, and the same
 * coordinates at other steps, ranks and seeds. All numbers are seeded, so a test that passes once
 * always passes. Bounds are five or six standard deviations of independent numbers. */
#include "compress/random_mix.h"
#include "random.h"
#include "cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rounding uses the highest bits: with 8-bit codes 24 of them. Bits below LEAST_EVEN are too evenly
 * distributed over consecutive coordinates. Below LEAST_TURNED a rotated word can be recognized. */
enum { N = 1 << 16, LEAST_EVEN = 6, LEAST_TURNED = 12 };
static uint32_t a[N], b[N];
static uint32_t coordinates[N];

/* ---- the definition, in another form ---- */

static uint32_t product_low(uint32_t x, uint32_t y)
{
	uint32_t sum = 0;

	for (int bit = 0; bit < 32; bit++)
		sum += (y >> bit & 1) * (x << bit);
	return sum;
}

static uint32_t product_high(uint32_t x, uint32_t y)
{
	const uint32_t x0 = x % 65536, x1 = x / 65536, y0 = y % 65536, y1 = y / 65536;
	const uint32_t middle = x0 * y0 / 65536 + x1 * y0 % 65536 + x0 * y1 % 65536;

	return x1 * y1 + x1 * y0 / 65536 + x0 * y1 / 65536 + middle / 65536;
}

/* Ten rounds of Philox-4x32, each with its own multiple of the two Weyl constants, then two rounds
 * that use the resulting words. */
static uint32_t by_definition(const struct random_stream *s, uint64_t coordinate)
{
	const uint32_t philox[] = { 0xd2511f53, 0xcd9e8d57 };
	uint32_t c[4] = { (uint32_t)(coordinate >> 32), s->rank, (uint32_t)s->step,
			  (uint32_t)(s->step >> 32) };
	uint32_t x;

	for (uint32_t round = 0; round < 10; round++) {
		const uint32_t next[4] = {
			product_high(philox[1], c[2]) ^ c[1] ^
				((0x534c5543 ^ s->seed) + round * 0x9e3779b9),
			product_low(philox[1], c[2]),
			product_high(philox[0], c[0]) ^ c[3] ^ (s->purpose + round * 0xbb67ae85),
			product_low(philox[0], c[0]),
		};
		memcpy(c, next, sizeof c);
	}
	x = (uint32_t)coordinate + c[0];
	x = product_low(x ^ x / 65536, 0x21f0aaad) + c[1];
	x ^= x / 32768;
	return product_low(x, x + (c[2] | 1));
}

static struct random_stream some_stream(struct random *r)
{
	return (struct random_stream){ random_bits(r) % 32, random_bits(r) % 4096,
				       (uint64_t)random_bits(r) << 20 | random_bits(r),
				       random_bits(r) };
}

TEST(random_mixed__any_stream_and_coordinate__is_as_defined)
{
	static const uint64_t firsts[] = { 0, 1000, 0xfffffff0, 0x7fffffff80000000 >> 20,
					   1ull << 35 };
	struct random r = { 41 };

	for (int round = 0; round < 500; round++) {
		const struct random_stream s = some_stream(&r);
		const uint64_t first = firsts[round % 5];
		struct random_mixer m;

		random_mixer_open(&s, first, &m);
		for (int i = 0; i < 20; i++) {
			const uint64_t coordinate = first + (random_bits(&r) >> i);

			assert_int_equal(random_mixed(&m, coordinate),
					 by_definition(&s, coordinate));
		}
	}
}

/* ---- tests of randomness ---- */

static void draw(const struct random_stream *s, uint32_t *numbers)
{
	struct random_mixer m;

	random_mixer_open(s, 0, &m);
	for (int i = 0; i < N; i++)
		numbers[i] = random_mixed(&m, coordinates[i]);
}

static void coordinates_apart(unsigned log_apart)
{
	for (uint32_t i = 0; i < N; i++) /* first coordinates 2^k apart, then their neighbours */
		coordinates[i] = log_apart <= 16 ? i << log_apart :
						   i << log_apart | i >> (32 - log_apart);
}

/* Returns by how many standard deviations the chi-square statistic of the counts differs from its
 * mean. */
static double off_even(const uint32_t *count, unsigned bins)
{
	double square = 0, mean = (double)N / bins;

	for (unsigned i = 0; i < bins; i++)
		square += (count[i] - mean) * (count[i] - mean) / mean;
	return fabs(square - (bins - 1)) / sqrt(2.0 * (bins - 1));
}

static void assert_even(const uint32_t *numbers)
{
	for (unsigned shift = LEAST_EVEN; shift <= 24; shift += 3) {
		uint32_t count[256] = { 0 };

		for (int i = 0; i < N; i++)
			count[numbers[i] >> shift & 255]++;
		assert_true(off_even(count, 256) < 5);
	}
}

/* Checks the joint counts of sixteen intervals of x and sixteen of y, and the correlation. */
static void assert_independent(const uint32_t *x, const uint32_t *y)
{
	uint32_t count[256] = { 0 };
	double sum = 0;

	for (int i = 0; i < N; i++) {
		count[x[i] >> 28 << 4 | y[i] >> 28]++;
		sum += (x[i] * 0x1p-32 - 0.5) * (y[i] * 0x1p-32 - 0.5);
	}
	assert_true(off_even(count, 256) < 5);
	assert_true(fabs(sum) < 5 * sqrt(N) / 12);
}

TEST(numbers__coordinates_2_k_apart__are_even)
{
	for (unsigned k = 0; k < 32; k++) {
		const struct random_stream s = { RANDOM_ROUND, 0, 1 + k, 0 };
		double mean = 0, square = 0;

		coordinates_apart(k);
		draw(&s, a);
		assert_even(a);
		for (int i = 0; i < N; i++) {
			mean += a[i] * 0x1p-32 / N;
			square += (a[i] * 0x1p-32 - 0.5) * (a[i] * 0x1p-32 - 0.5) / N;
		}
		assert_true(fabs(mean - 0.5) < 5 * sqrt(1 / 12.0 / N));
		assert_true(fabs(square - 1 / 12.0) < 5 * sqrt(1 / 180.0 / N));
	}
}

TEST(numbers__of_coordinates_2_k_apart__are_independent)
{
	for (unsigned k = 0; k < 32; k++)
		for (unsigned among = 0; among < 32; among += 5) {
			const struct random_stream s = { RANDOM_ROUND, 1, k, among };

			coordinates_apart(among);
			draw(&s, a);
			for (int i = 0; i < N; i++)
				coordinates[i] ^= 1u << k;
			draw(&s, b);
			if (k < among || k >= among + 16) /* for other k each pair occurs twice */
				assert_independent(a, b);
			coordinates_apart(among);
			for (int i = 0; i < N; i++)
				coordinates[i] += 1u << k;
			draw(&s, b);
			assert_independent(a, b);
		}
}

TEST(numbers__of_other_steps_ranks_and_seeds__are_independent)
{
	struct random_stream s = { RANDOM_ROUND, 0, 1, 0 };

	for (int round = 0; round < 32; round++)
		for (int field = 0; field < 3; field++) {
			struct random_stream other = s;

			coordinates_apart((unsigned)round / 2);
			other.step += field == 0;
			other.rank += field == 1;
			other.seed += field == 2;
			draw(&s, a);
			draw(&other, b);
			assert_independent(a, b);
			s = other;
		}
}

/* Draws for one coordinate in successive steps, which must average out a rounding, and on
 * successive ranks. */
TEST(numbers__one_coordinate_of_all_steps_or_ranks__are_even_and_independent)
{
	for (int by_rank = 0; by_rank < 2; by_rank++)
		for (uint64_t coordinate = 0; coordinate < 1000000;
		     coordinate = 10 * coordinate + 3) {
			for (uint32_t i = 0; i < N; i++) {
				const struct random_stream s = { RANDOM_ROUND, by_rank ? i : 1,
								 by_rank ? 1 : i, 0 };
				struct random_mixer m;

				random_mixer_open(&s, coordinate, &m);
				a[i] = random_mixed(&m, coordinate);
				b[(i + N - 1) % N] = a[i];
			}
			assert_even(a);
			assert_independent(a, b);
		}
}

TEST(numbers__a_bit_of_the_coordinate_turned__turns_half_of_the_upper_bits)
{
	enum { TRIALS = 1 << 12 };
	static uint32_t turned[32][32];
	struct random r = { 43 };

	memset(turned, 0, sizeof turned);
	for (int trial = 0; trial < TRIALS; trial++) {
		const struct random_key key = { random_bits(&r), random_bits(&r),
						random_bits(&r) | 1 };
		const uint32_t low = random_bits(&r) >> trial % 32, before = random_mix(&key, low);

		for (int from = 0; from < 32; from++) {
			const uint32_t difference = before ^ random_mix(&key, low ^ 1u << from);

			for (int to = 0; to < 32; to++)
				turned[from][to] += difference >> to & 1;
		}
	}
	for (int from = 0; from < 32; from++)
		for (int to = LEAST_TURNED; to < 32; to++)
			assert_true(fabs(turned[from][to] - TRIALS / 2.0) < 6 * sqrt(TRIALS) / 2);
}
