/* SPDX-License-Identifier: BSD-3-Clause
 * Messages of histograms and of bare counts: the precision of the counts, sums in any order, and
 * bytes of a hostile peer. */
#include "bins.h"
#include "quiet.h"
#include "random.h"
#include "cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 300, BOUND = 8192 };

TEST(counts__below_two_to_the_bits__are_exact)
{
	struct random random = { 2 };
	uint8_t message[BOUND];
	uint64_t count[N], back[N];
	size_t bytes;

	for (int round = 0; round < 400; round++) {
		int bits = 1 + round % 16, size = (int)(random_bits(&random) % (N + 1));

		for (int i = 0; i < size; i++) {
			count[i] = random_bits(&random) & ((1u << bits) - 1);
			if (random_bits(&random) % 3 == 0)
				count[i] = 0;
			else if (random_bits(&random) % 50 ==
				 0) /* their scale must not affect the other counts */
				count[i] = (uint64_t)random_bits(&random)
					   << (random_bits(&random) % 15);
		}
		assert_true(sluice_counts_bound((size_t)size, bits) <= sizeof message);
		assert_int_equal(
			sluice_counts_encode(count, (size_t)size, bits, (uint64_t)round, message,
					     sluice_counts_bound((size_t)size, bits), &bytes),
			0);
		memset(back, 0, sizeof back);
		assert_int_equal(sluice_counts_merge(back, (size_t)size, message, bytes), 0);
		for (int i = 0; i < size; i++)
			if (count[i] >> bits == 0)
				assert_int_equal(back[i], count[i]);
	}
}

/* Compares mean and error of the decoded counts over many draws with the bounds in the header. */
TEST(counts__large_ones_4000_draws__mean_is_the_count_error_is_within_the_scale)
{
	enum { DRAWS = 4000 };
	const uint64_t count[] = { 3, 255, 256, 257, 1000, 77777, 123456, 1048575, 40, 5 };
	const int size = sizeof(count) / sizeof(count[0]);
	const double scale = 1 << (20 - 8); /* the largest count has 20 bits, of which 8 are kept */
	double sum[16] = { 0 }, squares[16] = { 0 };

	for (uint64_t draw = 0; draw < DRAWS; draw++) {
		uint8_t message[BOUND];
		uint64_t back[16] = { 0 };
		size_t bytes;

		assert_int_equal(sluice_counts_encode(count, (size_t)size, 8, draw, message,
						      sizeof message, &bytes),
				 0);
		assert_int_equal(sluice_counts_merge(back, (size_t)size, message, bytes), 0);
		for (int i = 0; i < size; i++) {
			double off = (double)back[i] - (double)count[i];

			assert_true(fabs(off) < scale);
			assert_true(count[i] > 255 || off == 0);
			sum[i] += off;
			squares[i] += off * off;
		}
	}
	for (int i = 0; i < size; i++) {
		/* The standard error of a count is at most scale / 2. Allowed are 6 standard errors
		 * of the mean, and 5 % above the bound. */
		assert_true(fabs(sum[i] / DRAWS) <= 6 * scale / 2 / sqrt(DRAWS));
		assert_true(sqrt(squares[i] / DRAWS) <= 1.05 * scale / 2);
	}
	assert_true(squares[2] > 0); /* a count of 256 is rounded to 0 or to the scale */
}

TEST(counts__as_many_as_there_may_be__come_back)
{
	enum { MOST = 65535 };
	static uint64_t count[MOST], back[MOST];
	static uint8_t message[MOST * 4];
	size_t bytes;

	for (int i = 0; i < MOST; i++)
		count[i] = (uint64_t)(i % 7 ? 0 : i % 200);
	count[MOST - 1] = 1;
	count[MOST - 2] = ((uint64_t)1 << 47) - 1; /* lengths of 0 and 47 next to each other */
	assert_true(sluice_counts_bound(MOST, 16) <= sizeof message);
	assert_int_equal(sluice_counts_bound(MOST + 1, 16), 0);
	assert_int_equal(sluice_counts_encode(count, MOST, 16, 0, message, sizeof message, &bytes),
			 0);
	assert_int_equal(sluice_counts_merge(back, MOST, message, bytes), 0);
	assert_memory_equal(back, count, (MOST - 2) * sizeof *count);
	assert_int_equal(back[MOST - 1], 1);
	assert_true(llabs((long long)(count[MOST - 2] - back[MOST - 2])) < 1ll << 31);
}

TEST(encode__same_seed__same_bytes_another_seed__others)
{
	static float a[100000];
	uint8_t one[BOUND], two[BOUND], other[BOUND];
	size_t n_one, n_two, n_other;
	struct random random = { 3 };
	sluice_histogram *h = open_bins(0);

	for (int i = 0; i < 100000; i++)
		a[i] = random_normal(&random);
	assert_int_equal(sluice_histogram_add(h, a, 100000), 0);
	assert_int_equal(sluice_histogram_encode(h, 6, 7, one, sizeof one, &n_one), 0);
	assert_int_equal(sluice_histogram_encode(h, 6, 7, two, sizeof two, &n_two), 0);
	assert_int_equal(sluice_histogram_encode(h, 6, 8, other, sizeof other, &n_other), 0);
	assert_int_equal(n_one, n_two);
	assert_memory_equal(one, two, n_one);
	assert_true(n_one != n_other || memcmp(one, other, n_one) != 0);
	sluice_histogram_close(&h);
}

TEST(merge__any_order__is_the_sum)
{
	enum { W = 5, EACH = 500 };
	struct random random = { 4 };
	sluice_histogram *all = open_bins(2), *up = open_bins(2), *down = open_bins(2);
	uint8_t message[W][BOUND];
	size_t bytes[W];

	for (int w = 0; w < W; w++) {
		sluice_histogram *h = open_bins(2);
		float a[EACH];

		for (int i = 0; i < EACH; i++)
			a[i] = ldexpf(random_normal(&random), w * 4);
		assert_int_equal(sluice_histogram_add(h, a, EACH), 0);
		assert_int_equal(sluice_histogram_add(all, a, EACH), 0);
		assert_int_equal(sluice_histogram_encode(h, 10, 1, message[w], BOUND, &bytes[w]),
				 0);
		sluice_histogram_close(&h);
	}
	for (int w = 0; w < W; w++) {
		assert_int_equal(sluice_histogram_merge(up, message[w], bytes[w]), 0);
		assert_int_equal(sluice_histogram_merge(down, message[W - 1 - w], bytes[W - 1 - w]),
				 0);
	}
	assert_memory_equal(up->count, all->count,
			    all->bins * sizeof(uint64_t)); /* all counts are small */
	assert_memory_equal(down->count, all->count, all->bins * sizeof(uint64_t));
	assert_int_equal(sluice_histogram_total(up), W * EACH);
	sluice_histogram_close(&all);
	sluice_histogram_close(&up);
	sluice_histogram_close(&down);
}

TEST(merge__empty_histogram__adds_nothing)
{
	sluice_histogram *h = open_bins(2);
	uint8_t message[BOUND];
	size_t bytes;

	assert_int_equal(sluice_histogram_encode(h, 8, 0, message, sizeof message, &bytes), 0);
	assert_int_equal(sluice_histogram_merge(h, message, bytes), 0);
	assert_int_equal(sluice_histogram_total(h), 0);
	sluice_histogram_close(&h);
}

TEST(merge__message_of_other_bins_or_of_bare_counts__refused)
{
	sluice_histogram *h = open_bins(2), *finer = open_bins(3);
	const uint64_t count[] = { 1, 2, 3 };
	const float a[] = { 1, 2, 3 };
	uint8_t message[BOUND];
	size_t bytes;

	assert_int_equal(sluice_histogram_add(finer, a, 3), 0);
	assert_int_equal(sluice_histogram_encode(finer, 8, 0, message, sizeof message, &bytes), 0);
	assert_int_equal(sluice_histogram_merge(h, message, bytes), SLUICE_EWIRE);
	assert_int_equal(sluice_counts_encode(count, 3, 8, 0, message, sizeof message, &bytes), 0);
	assert_int_equal(sluice_histogram_merge(h, message, bytes), SLUICE_EWIRE);
	assert_int_equal(sluice_histogram_total(h), 0);
	sluice_histogram_close(&h);
	sluice_histogram_close(&finer);
}

/* Messages that a peer could write instead must never cause a crash, and never be added in part. */
TEST(merge__cut_extended_or_flipped__refused_whole_or_added_whole)
{
	struct random random = { 5 };
	uint64_t count[40], before[40], into[40];
	uint8_t message[BOUND], wrong[BOUND];
	size_t bytes, refused = 0, tried = 0;

	for (int i = 0; i < 40; i++) {
		count[i] = random_bits(&random) >> (random_bits(&random) % 32);
		before[i] = random_bits(&random);
	}
	count[0] = 9;
	count[39] = 1;
	assert_int_equal(sluice_counts_encode(count, 40, 8, 0, message, sizeof message, &bytes), 0);
	for (size_t n = 0; n < bytes; n++) {
		memcpy(into, before, sizeof into);
		assert_int_equal(sluice_counts_merge(into, 40, message, n), SLUICE_EWIRE);
		assert_memory_equal(into, before, sizeof into);
	}
	memcpy(wrong, message, bytes);
	wrong[bytes] = 0;
	assert_int_equal(sluice_counts_merge(into, 40, wrong, bytes + 1), SLUICE_EWIRE);
	assert_int_equal(sluice_counts_merge(into, 39, message, bytes), SLUICE_EWIRE);
	for (size_t bit = 0; bit < 8 * bytes; bit++) {
		memcpy(wrong, message, bytes);
		wrong[bit / 8] ^= (uint8_t)(1u << bit % 8);
		memcpy(into, before, sizeof into);
		tried++;
		if (sluice_counts_merge(into, 40, wrong, bytes)) {
			refused++;
			assert_memory_equal(into, before, sizeof into);
		} else {
			for (int i = 0; i < 40; i++)
				assert_true(into[i] >= before[i]);
		}
	}
	assert_true(refused > tried / 4);
}

TEST(merge__sum_beyond_48_bits__refused_and_untouched)
{
	const uint64_t most = ((uint64_t)1 << 47) - 1, small[2] = { 1, 1 };
	uint64_t count[2] = { 5, most }, into[2] = { 0, 0 },
		 full[2] = { 0, ((uint64_t)1 << 48) - 1 };
	uint8_t message[BOUND];
	size_t bytes;

	assert_int_equal(sluice_counts_encode(count, 2, 16, 0, message, sizeof message, &bytes), 0);
	assert_int_equal(sluice_counts_merge(into, 2, message, bytes), 0);
	assert_int_equal(into[0], 5);
	assert_true(into[1] >> 31 >= ((most >> 31) & ~(uint64_t)1));
	assert_int_equal(sluice_counts_encode(small, 2, 16, 0, message, sizeof message, &bytes), 0);
	assert_int_equal(sluice_counts_merge(full, 2, message, bytes), SLUICE_EWIRE);
	assert_int_equal(full[0], 0);
	count[1] = most + 1;
	assert_int_equal(sluice_counts_encode(count, 2, 16, 0, message, sizeof message, &bytes),
			 SLUICE_EINVAL);
}
