/* SPDX-License-Identifier: BSD-3-Clause
 * Estimates of distributions from short messages of servers: the error of many runs is compared
 * with the bound documented at each function, and if the bound is an equality, also from below. */
#include "base/error.h"
#include "random.h"
#include "sluice_estimate.h"
#include "cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- distributions to draw from ---- */

enum { MOST = 65536 };
static double truth[MOST], cumulated[MOST], guess[MOST];
static uint32_t sample[200000];

static void normalise(uint32_t n)
{
	double sum = 0, up_to = 0;

	for (uint32_t j = 0; j < n; j++)
		sum += truth[j];
	for (uint32_t j = 0; j < n; j++) {
		truth[j] /= sum;
		cumulated[j] = up_to += truth[j];
	}
}

static uint32_t draw(struct random *random, uint32_t n)
{
	double u = random_unit(random);
	uint32_t low = 0, high = n - 1;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (cumulated[middle] > u)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static void draw_samples(struct random *random, uint32_t n, size_t servers)
{
	for (size_t i = 0; i < servers; i++)
		sample[i] = draw(random, n);
}

static double l1(uint32_t n)
{
	double sum = 0;

	for (uint32_t j = 0; j < n; j++)
		sum += fabs(guess[j] - truth[j]);
	return sum;
}

static double l2_squared(const double *a, const double *b, uint32_t n)
{
	double sum = 0;

	for (uint32_t j = 0; j < n; j++)
		sum += (a[j] - (b ? b[j] : 0)) * (a[j] - (b ? b[j] : 0));
	return sum;
}

/* Draws from Dirichlet(1/2): normalised squares of normals. */
static void dirichlet(struct random *random, uint32_t n)
{
	for (uint32_t j = 0; j < n; j++) {
		double z = (double)random_normal(random);

		truth[j] = z * z;
	}
	normalise(n);
}

/* ---- any distribution ---- */

enum { N = 32 };
static const struct {
	size_t servers;
	int runs;
} sizes[] = { { 1000, 100 }, { 10000, 60 }, { 100000, 40 } };

TEST(estimate_samples__1e3_to_1e5_servers__error_is_the_binomial_one)
{
	struct random random = { 1 };

	for (int s = 0; s < 3; s++) {
		double servers = (double)sizes[s].servers, first = 0, second = 0, expected = 0;

		for (int run = 0; run < sizes[s].runs; run++) {
			dirichlet(&random, N);
			draw_samples(&random, N, sizes[s].servers);
			assert_int_equal(
				sluice_estimate_samples(sample, sizes[s].servers, N, guess), 0);
			first += l1(N) / sizes[s].runs;
			second += l2_squared(guess, truth, N) / sizes[s].runs;
			expected += (1 - l2_squared(truth, NULL, N)) / servers / sizes[s].runs;
		}
		print_message("%zu samples: l1 %.4f (bound %.4f), l2 %.4f (bound %.4f)\n",
			      sizes[s].servers, first, sqrt(N / servers), sqrt(second),
			      sqrt(1 / servers));
		assert_true(first <= sqrt(N / servers));
		assert_true(expected <= 1 / servers);
		assert_true(second <= 1.25 * expected && second >= 0.75 * expected);
	}
}

TEST(estimate_bits__1e3_to_1e5_servers__unbiased_with_the_variance_of_one_bit)
{
	static uint8_t bit[100000];
	struct random random = { 2 };

	for (int s = 0; s < 3; s++) {
		double servers = (double)sizes[s].servers, second = 0, expected = 0,
		       mean[N] = { 0 };
		const int runs = 20;

		dirichlet(&random, N);
		for (int run = 0; run < runs; run++) {
			uint64_t seed = (uint64_t)(100 * s + run);

			for (size_t i = 0; i < sizes[s].servers; i++)
				bit[i] = (uint8_t)sluice_subset_bit(seed, i, draw(&random, N));
			assert_int_equal(
				sluice_estimate_bits(seed, bit, sizes[s].servers, N, guess), 0);
			second += l2_squared(guess, truth, N) / runs;
			for (int j = 0; j < N; j++)
				mean[j] += guess[j] / runs;
		}
		expected = (N - l2_squared(truth, NULL, N)) / servers;
		print_message("%zu bits: l2 %.4f (bound %.4f)\n", sizes[s].servers, sqrt(second),
			      sqrt(N / servers));
		assert_true(expected <= N / servers);
		assert_true(second <= 1.2 * expected && second >= 0.8 * expected);
		for (int j = 0; j < N; j++) /* five standard errors of the mean */
			assert_true(fabs(mean[j] - truth[j]) <= 5 / sqrt(servers * runs));
	}
}

TEST(subset_bit__any_server__half_of_the_elements_and_independent)
{
	int in = 0, same = 0, total = 0;

	for (uint64_t server = 0; server < 40; server++)
		for (uint32_t j = 0; j < 1000; j++, total++) {
			int bit = sluice_subset_bit(9, server, j);

			assert_true(bit == 0 || bit == 1);
			in += bit;
			same += bit == sluice_subset_bit(9, server + 1, j);
			assert_int_equal(bit, sluice_subset_bit(9, server, j));
		}
	assert_true(abs(2 * in - total) < 6 * 200 && abs(2 * same - total) < 6 * 200);
}

/* ---- k-histograms ---- */

enum { K = 8 };

/* Makes eight pieces with random borders and masses. */
static void pieces(struct random *random)
{
	double mass = 0;
	uint32_t left = 0;

	for (uint32_t j = 0; j < MOST; j++) {
		if (!left) {
			left = 1 + random_bits(random) % (2 * MOST / K);
			mass = random_unit(random) * random_unit(random);
		}
		truth[j] = mass;
		left--;
	}
	normalise(MOST);
}

static int count_pieces(void)
{
	int n = 1;

	for (uint32_t j = 1; j < MOST; j++)
		n += fabs(truth[j] - truth[j - 1]) > 1e-12;
	return n;
}

struct outcome {
	double error, empirical, bits;
};

static struct outcome two_phases(struct random *random, double epsilon)
{
	static uint32_t end[MOST];
	static uint64_t count[MOST];
	struct outcome out = { 0, 0, 0 };
	size_t intervals = (size_t)(2 * K / epsilon), cut_by = 4 * intervals - 1, found = 0;
	size_t counted_by = (size_t)((double)intervals / epsilon / epsilon);

	draw_samples(random, MOST, cut_by);
	assert_int_equal(sluice_intervals_cut(sample, cut_by, MOST, intervals, end, &found), 0);
	assert_true(found <= intervals);
	draw_samples(random, MOST, counted_by);
	memset(count, 0, sizeof count);
	for (size_t i = 0; i < counted_by; i++)
		count[sluice_interval_of(end, found, sample[i])]++;
	assert_int_equal(sluice_estimate_intervals(end, count, found, MOST, guess), 0);
	out.error = l1(MOST);
	out.bits = 16.0 * (double)cut_by + ceil(log2((double)found)) * (double)counted_by;
	assert_int_equal(sluice_estimate_samples(sample, counted_by, MOST, guess), 0);
	out.empirical = l1(MOST);
	return out;
}

TEST(two_phases__8_pieces_of_65536__l1_within_epsilon_for_a_few_bits)
{
	const double epsilons[] = { 0.2, 0.1 };
	struct random random = { 3 };

	for (int e = 0; e < 2; e++) {
		struct outcome sum = { 0, 0, 0 };
		const int runs = 30;
		int made = 0;

		while (made < runs) {
			pieces(&random);
			if (count_pieces() > K)
				continue;
			struct outcome one = two_phases(&random, epsilons[e]);

			made++;
			assert_true(one.error <= 2.25 * epsilons[e]);
			sum.error += one.error / runs;
			sum.empirical += one.empirical / runs;
			sum.bits += one.bits / runs;
		}
		print_message("epsilon %g: l1 %.3f with %.3g bits; of these samples alone %.2f\n",
			      epsilons[e], sum.error, sum.bits, sum.empirical);
		assert_true(sum.error <= 1.1 * epsilons[e]);
		assert_true(sum.empirical > 5 * sum.error);
		assert_true(sum.bits <
			    0.01 * MOST / epsilons[e] / epsilons[e] * 16); /* all samples */
	}
}

TEST(intervals_cut__one_heavy_element__is_an_interval_of_its_own)
{
	uint32_t end[20];
	uint64_t count[20] = { 0 };
	size_t found = 0;
	struct random random = { 4 };

	for (uint32_t j = 0; j < 1000; j++)
		truth[j] = j == 300 ? 999 : 1;
	normalise(1000);
	draw_samples(&random, 1000, 79);
	assert_int_equal(sluice_intervals_cut(sample, 79, 1000, 20, end, &found), 0);
	size_t heavy = sluice_interval_of(end, found, 300);
	assert_int_equal(end[heavy], 301);
	assert_int_equal(end[heavy - 1], 300);
	draw_samples(&random, 1000, 20000);
	for (size_t i = 0; i < 20000; i++)
		count[sluice_interval_of(end, found, sample[i])]++;
	assert_int_equal(sluice_estimate_intervals(end, count, found, 1000, guess), 0);
	assert_true(l1(1000) <= sqrt(20.0 / 20000));
}

/* ---- monotone distributions ---- */

static void shape(int which, uint32_t n, struct random *random)
{
	double level = 1;

	for (uint32_t j = 0; j < n; j++) {
		if (which == 0)
			truth[j] = 1.0 / (1 + j); /* Zipf */
		else if (which == 1)
			truth[j] = exp(-(double)j / 50);
		else if (which == 2)
			truth[j] = 1;
		else if (which == 3)
			truth[j] = j < 7 ? 1 : 1e-5;
		else
			truth[j] = level *= random_bits(random) % 100 ? 1 : random_unit(random);
	}
	normalise(n);
}

TEST(intervals_grow__any_falling_shape__flat_costs_at_most_twice_the_growth)
{
	static uint32_t end[MOST];
	static uint64_t count[MOST];
	const double growths[] = { 0.02, 0.1, 0.25, 0.5, 1 };
	struct random random = { 5 };

	for (int g = 0; g < 5; g++)
		for (int which = 0; which < 12; which++) {
			const uint32_t n = which % 2 ? MOST : 5003;
			size_t found = 0;

			shape(which < 4 ? which : 4, n, &random);
			assert_int_equal(sluice_intervals_grow(n, growths[g], end, MOST, &found),
					 0);
			assert_int_equal(end[found - 1], n);
			assert_true((double)found <=
				    3 + log(1 + growths[g] * n) / log(1 + growths[g]) +
					    1 / growths[g]);
			for (size_t i = 0; i < found; i++) /* as small as without sampling error */
				count[i] = (uint64_t)((cumulated[end[i] - 1] -
						       (i ? cumulated[end[i - 1] - 1] : 0)) *
						      0x1p50);
			assert_int_equal(sluice_estimate_intervals(end, count, found, n, guess), 0);
			assert_true(l1(n) <= 2 * growths[g]);
		}
}

TEST(intervals_grow__1e5_samples_of_zipf__within_flatness_and_sampling)
{
	static uint32_t end[1000];
	struct random random = { 6 };
	size_t found = 0;

	shape(0, MOST, &random);
	assert_int_equal(sluice_intervals_grow(MOST, 0.05, end, 1000, &found), 0);
	double mean = 0, bound = 2 * 0.05 + sqrt((double)found / 100000);
	for (int run = 0; run < 5; run++) {
		uint64_t count[1000] = { 0 }, summed[1000] = { 0 };

		draw_samples(&random, MOST, 100000);
		for (size_t i = 0; i < 100000; i++)
			count[sluice_interval_of(end, found, sample[i])]++;
		uint8_t message[4096];
		size_t bytes;
		assert_int_equal(sluice_counts_encode(count, found, 8, (uint64_t)run, message,
						      sizeof message, &bytes),
				 0);
		assert_int_equal(sluice_counts_merge(summed, found, message, bytes), 0);
		assert_int_equal(sluice_estimate_intervals(end, summed, found, MOST, guess), 0);
		mean += l1(MOST) / 5;
	}
	print_message("%zu intervals: l1 %.4f (bound %.4f)\n", found, mean, bound);
	assert_true(mean <= bound);
}

/* ---- arguments ---- */

TEST(estimates__wrong_arguments__refused)
{
	const uint32_t samples[] = { 1, 5 }, good[] = { 3, 6 }, falling[] = { 3, 3 },
		       short_[] = { 3, 5 };
	const uint64_t count[] = { 1, 2 }, none[] = { 0, 0 };
	const uint8_t bit[] = { 1, 0 };
	uint32_t end[8];
	double p[8];
	size_t found = 77;

	assert_int_equal(sluice_estimate_samples(samples, 2, 5, p), SLUICE_EINVAL);
	assert_int_equal(sluice_estimate_samples(samples, 0, 6, p), SLUICE_EINVAL);
	assert_int_equal(sluice_estimate_samples(NULL, 2, 6, p), SLUICE_EINVAL);
	assert_int_equal(sluice_estimate_samples(samples, 2, 6, NULL), SLUICE_EINVAL);
	assert_int_equal(sluice_estimate_bits(1, bit, 0, 6, p), SLUICE_EINVAL);
	assert_int_equal(sluice_estimate_bits(1, bit, 2, 6, NULL), SLUICE_EINVAL);
	assert_int_equal(sluice_intervals_cut(samples, 2, 5, 2, end, &found), SLUICE_EINVAL);
	assert_int_equal(sluice_intervals_cut(samples, 2, 6, 0, end, &found), SLUICE_EINVAL);
	assert_int_equal(sluice_intervals_grow(0, 0.1, end, 8, &found), SLUICE_EINVAL);
	assert_int_equal(sluice_intervals_grow(100, 0.1, end, 8, &found), SLUICE_EINVAL);
	assert_int_equal(sluice_intervals_grow(100, NAN, end, 8, &found), SLUICE_EINVAL);
	assert_int_equal(found, 77);
	assert_int_equal(sluice_estimate_intervals(good, count, 2, 6, p), 0);
	assert_int_equal(sluice_estimate_intervals(good, none, 2, 6, p), SLUICE_EINVAL);
	assert_int_equal(sluice_estimate_intervals(falling, count, 2, 3, p), SLUICE_EINVAL);
	assert_int_equal(sluice_estimate_intervals(short_, count, 2, 6, p), SLUICE_EINVAL);
	assert_int_equal(sluice_estimate_intervals(good, count, 2, 5, p), SLUICE_EINVAL);
	assert_int_equal(sluice_interval_of(good, 2, 2), 0);
	assert_int_equal(sluice_interval_of(good, 2, 3), 1);
	assert_int_equal(sluice_interval_of(good, 2, 6), 2);
}
