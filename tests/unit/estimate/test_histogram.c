/* SPDX-License-Identifier: BSD-3-Clause
 * Histograms of magnitudes: the bin of a float, and the distance of the threshold from the
 * requested one. Messages: test_histogram_messages.c. */
#include "bins.h"
#include "quiet.h"
#include "random.h"
#include "cases.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Computes the bin by the arithmetic of the header instead of shifts. */
static uint32_t bin_of(float a, int mantissa_bits)
{
	int exponent;
	double fraction = frexp(fabs((double)a), &exponent); /* [1/2, 1) */

	if (a == 0)
		return 0;
	if (fabsf(a) < FLT_MIN)
		return 1;
	return 2 + ((uint32_t)(exponent + 125) << mantissa_bits) +
	       (uint32_t)((2 * fraction - 1) * (1 << mantissa_bits));
}

/* ---- counting -------------------------------------------------------------- */

TEST(add__any_float__falls_into_its_bin)
{
	const float some[] = {
		0.0f,  -0.0f, FLT_TRUE_MIN, FLT_MIN / 2,      FLT_MIN, nextafterf(FLT_MIN, 0),
		1.0f,  -1.0f, 1.25f,        nextafterf(2, 1), FLT_MAX, -FLT_MAX,
		3e-39f
	};

	for (int s = 0; s <= HISTOGRAM_MANTISSA_MAX; s++)
		for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
			sluice_histogram *h = open_bins(s);

			assert_int_equal(sluice_histogram_add(h, &some[i], 1), 0);
			assert_int_equal(h->count[bin_of(some[i], s)], 1);
			assert_int_equal(sluice_histogram_total(h), 1);
			sluice_histogram_close(&h);
			assert_null(h);
		}
}

TEST(add__any_length_and_place__same_counts_as_one_by_one)
{
	enum { N = 9001 };
	static float a[N + 1];
	struct random random = { 1 };

	for (int i = 0; i <= N; i++) {
		int kind = (int)(random_bits(&random) % 8);

		a[i] = kind == 0 ? 0 :
		       kind == 1 ? ldexpf(random_normal(&random), -130) :
				   ldexpf(random_normal(&random), kind * 3);
	}
	for (size_t n = 0; n <= N; n = n < 10 ? n + 1 : n * 3 + 1)
		for (int from = 0; from < 2; from++) {
			sluice_histogram *h = open_bins(2);
			uint64_t *want = calloc(h->bins, sizeof(*want));

			for (size_t i = 0; i < n; i++)
				want[bin_of(a[from + i], 2)]++;
			assert_int_equal(sluice_histogram_add(h, a + from, n), 0);
			assert_memory_equal(h->count, want, h->bins * sizeof(*want));
			assert_int_equal(sluice_histogram_add(h, a + from, n), 0);
			assert_int_equal(sluice_histogram_total(h), 2 * n);
			free(want);
			sluice_histogram_close(&h);
		}
}

TEST(add__nan_or_infinity__is_named_and_nothing_is_counted)
{
	const float bad[] = { NAN, -NAN, INFINITY, -INFINITY };
	float a[6] = { 1, 2, 0, 4, 5, 6 };

	for (int i = 0; i < 4; i++) {
		sluice_histogram *h = open_bins(3);

		a[3] = bad[i];
		assert_int_equal(sluice_histogram_add(h, a, 6), SLUICE_EINVAL);
		assert_non_null(strstr(sluice_last_error(), "a[3]"));
		assert_int_equal(sluice_histogram_total(h), 0);
		assert_int_equal(sluice_histogram_add(h, a, 3), 0);
		assert_int_equal(sluice_histogram_total(h), 3);
		assert_int_equal(h->count[0], 1);
		sluice_histogram_close(&h);
	}
}

TEST(calls__wrong_arguments__refused)
{
	sluice_histogram *h = NULL;
	float threshold;
	uint8_t message[4096];
	size_t bytes;

	assert_int_equal(sluice_histogram_open(-1, &h), SLUICE_EINVAL);
	assert_int_equal(sluice_histogram_open(7, &h), SLUICE_EINVAL);
	assert_int_equal(sluice_histogram_open(2, NULL), SLUICE_EINVAL);
	h = open_bins(2);
	assert_int_equal(sluice_histogram_add(h, NULL, 1), SLUICE_EINVAL);
	assert_int_equal(sluice_histogram_quantile(h, 0.5, &threshold), SLUICE_EINVAL); /* empty */
	assert_int_equal(sluice_histogram_quantile(h, 0, &threshold), SLUICE_EINVAL);
	assert_int_equal(sluice_histogram_quantile(h, NAN, &threshold), SLUICE_EINVAL);
	assert_int_equal(sluice_histogram_encode(h, 0, 1, message, sizeof message, &bytes),
			 SLUICE_EINVAL);
	assert_int_equal(sluice_histogram_encode(h, 17, 1, message, sizeof message, &bytes),
			 SLUICE_EINVAL);
	assert_int_equal(
		sluice_histogram_encode(h, 8, 1, message, sluice_histogram_bound(h, 8) - 1, &bytes),
		SLUICE_EINVAL);
	assert_int_equal(sluice_histogram_bound(h, 0), 0);
	sluice_histogram_close(&h);
	sluice_histogram_close(&h);
	sluice_histogram_close(NULL);
}

/* ---- application ----------------------------------------------------------- */

enum { WORKERS = 16, EACH = 100000 };
static float gradient[WORKERS][EACH];

/* Squared exponentials whose scale grows with the rank. */
static int make_gradients(void **state)
{
	struct random random = { 6 };

	for (int w = 0; w < WORKERS; w++)
		for (int i = 0; i < EACH; i++) {
			double e = -log(1 - random_unit(&random));

			gradient[w][i] = (float)((random_bits(&random) & 1 ? e * e : -e * e) *
						 (1 + w));
		}
	return 0;
}

/* Merges the histograms of all workers through messages with b bits per count. Returns the mean
 * bits of a message. */
static double gathered(sluice_histogram *all, int mantissa_bits, int b)
{
	size_t sum = 0;

	for (int w = 0; w < WORKERS; w++) {
		sluice_histogram *h = open_bins(mantissa_bits);
		uint8_t message[1 << 16];
		size_t bytes;

		assert_int_equal(sluice_histogram_add(h, gradient[w], EACH), 0);
		assert_int_equal(
			sluice_histogram_encode(h, b, (uint64_t)w, message, sizeof message, &bytes),
			0);
		assert_int_equal(sluice_histogram_merge(all, message, bytes), 0);
		sum += bytes;
		sluice_histogram_close(&h);
	}
	return 8.0 * (double)sum / WORKERS;
}

TEST(gather__16_workers_8_bits_a_count__l1_below_2_percent_in_300_bits)
{
	sluice_histogram *all = open_bins(0), *exact = open_bins(0);
	double bits = gathered(all, 0, 8), l1 = 0;

	for (int w = 0; w < WORKERS; w++)
		assert_int_equal(sluice_histogram_add(exact, gradient[w], EACH), 0);
	for (uint32_t i = 0; i < exact->bins; i++)
		l1 += fabs((double)all->count[i] - (double)exact->count[i]) / (WORKERS * EACH);
	print_message("l1 %.4f, %.0f bits a worker\n", l1, bits);
	assert_true(l1 > 0 && l1 <= 0.02);
	assert_true(bits <= 300);
	sluice_histogram_close(&all);
	sluice_histogram_close(&exact);
}

TEST(quantile__16_workers_4_bins_an_octave__selects_within_5_percent)
{
	const double shares[] = { 0.001, 0.01, 0.1, 0.5, 1 };
	sluice_histogram *all = open_bins(2);
	float last = INFINITY;

	gathered(all, 2, 8);
	for (int s = 0; s < 5; s++) {
		float threshold = 0;
		double selected = 0, target = shares[s] * WORKERS * EACH;

		assert_int_equal(sluice_histogram_quantile(all, shares[s], &threshold), 0);
		for (int w = 0; w < WORKERS; w++)
			for (int i = 0; i < EACH; i++)
				selected += fabsf(gradient[w][i]) >= threshold;
		print_message("share %g: selected / target %.3f\n", shares[s], selected / target);
		assert_true(selected >= 0.95 * target && selected <= 1.05 * target);
		assert_true(threshold < last);
		last = threshold;
	}
	sluice_histogram_close(&all);
}

TEST(quantile__fewer_non_zeros_than_asked_for__is_zero)
{
	const float a[] = { 0, 0, 0, 1, 2 };
	sluice_histogram *h = open_bins(2);
	float threshold = -1;

	assert_int_equal(sluice_histogram_add(h, a, 5), 0);
	assert_int_equal(sluice_histogram_quantile(h, 0.6, &threshold), 0);
	assert_true(threshold == 0);
	assert_int_equal(sluice_histogram_quantile(h, 0.4, &threshold), 0);
	assert_true(threshold == 1);
	sluice_histogram_close(&h);
}

static int descending(const void *a, const void *b)
{
	float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);

	return (x < y) - (x > y);
}

static double energy(const float *a, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += (double)a[i] * a[i];
	return sum;
}

/* One threshold, and a separate threshold for each worker, select the same total number of
 * coordinates. */
TEST(quantile__one_threshold__captures_more_than_local_topk_of_the_same_total)
{
	static float sorted[EACH];
	sluice_histogram *all = open_bins(2);
	double total = 0, global = 0, local = 0;
	float threshold = 0;
	int n[WORKERS], sum = 0;

	gathered(all, 2, 8);
	assert_int_equal(sluice_histogram_quantile(all, 0.01, &threshold), 0);
	for (int w = 0; w < WORKERS; w++) {
		n[w] = 0;
		for (int i = 0; i < EACH; i++)
			n[w] += fabsf(gradient[w][i]) >= threshold;
		sum += n[w];
	}
	for (int w = 0; w < WORKERS; w++) {
		memcpy(sorted, gradient[w], sizeof sorted);
		qsort(sorted, EACH, sizeof *sorted, descending);
		total += energy(sorted, EACH);
		global += energy(sorted, n[w]);
		local += energy(sorted, sum / WORKERS + (sum % WORKERS != 0)); /* not fewer */
	}
	print_message("energy captured: one threshold %.4f, local top-k %.4f\n", global / total,
		      local / total);
	assert_true(global > 1.01 * local);
	sluice_histogram_close(&all);
}

int main(void)
{
	return run_cases(make_gradients, NULL);
}
