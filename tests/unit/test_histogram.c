/* SPDX-License-Identifier: BSD-3-Clause
 * Histograms of magnitudes: where a float falls, what a message keeps, what a peer's bytes may do, and
 * how near the threshold is to the one that was asked for. */
#include "base/error.h"
#include "compress/histogram.h"
#include "random.h"
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static sluice_histogram *open_bins(int mantissa_bits)
{
	sluice_histogram *h = NULL;

	assert_int_equal(sluice_histogram_open(mantissa_bits, &h), 0);
	return h;
}

/* The bin by the arithmetic of the header, not by shifts. */
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

/* ---- counting ------------------------------------------------------------------------------- */

static void add__any_float__falls_into_its_bin(void **state)
{
	const float some[] = { 0.0f, -0.0f, FLT_TRUE_MIN, FLT_MIN / 2, FLT_MIN, nextafterf(FLT_MIN, 0),
			       1.0f, -1.0f, 1.25f, nextafterf(2, 1), FLT_MAX, -FLT_MAX, 3e-39f };

	(void)state;
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

static void add__any_length_and_place__same_counts_as_one_by_one(void **state)
{
	enum { N = 9001 };
	static float a[N + 1];
	struct random random = { 1 };

	(void)state;
	for (int i = 0; i <= N; i++) {
		int kind = (int)(random_bits(&random) % 8);

		a[i] = kind == 0 ? 0 : kind == 1 ? ldexpf(random_normal(&random), -130)
						 : ldexpf(random_normal(&random), kind * 3);
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

static void add__nan_or_infinity__is_named_and_nothing_is_counted(void **state)
{
	const float bad[] = { NAN, -NAN, INFINITY, -INFINITY };
	float a[6] = { 1, 2, 0, 4, 5, 6 };

	(void)state;
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

static void calls__wrong_arguments__refused(void **state)
{
	sluice_histogram *h = NULL;
	float threshold;
	uint8_t message[4096];
	size_t bytes;

	(void)state;
	assert_int_equal(sluice_histogram_open(-1, &h), SLUICE_EINVAL);
	assert_int_equal(sluice_histogram_open(7, &h), SLUICE_EINVAL);
	assert_int_equal(sluice_histogram_open(2, NULL), SLUICE_EINVAL);
	h = open_bins(2);
	assert_int_equal(sluice_histogram_add(h, NULL, 1), SLUICE_EINVAL);
	assert_int_equal(sluice_histogram_quantile(h, 0.5, &threshold), SLUICE_EINVAL); /* empty */
	assert_int_equal(sluice_histogram_quantile(h, 0, &threshold), SLUICE_EINVAL);
	assert_int_equal(sluice_histogram_quantile(h, NAN, &threshold), SLUICE_EINVAL);
	assert_int_equal(sluice_histogram_encode(h, 0, 1, message, sizeof message, &bytes), SLUICE_EINVAL);
	assert_int_equal(sluice_histogram_encode(h, 17, 1, message, sizeof message, &bytes), SLUICE_EINVAL);
	assert_int_equal(sluice_histogram_encode(h, 8, 1, message, sluice_histogram_bound(h, 8) - 1, &bytes),
			 SLUICE_EINVAL);
	assert_int_equal(sluice_histogram_bound(h, 0), 0);
	sluice_histogram_close(&h);
	sluice_histogram_close(&h);
	sluice_histogram_close(NULL);
}

/* ---- messages ------------------------------------------------------------------------------- */

enum { N = 300, BOUND = 8192 };

static void counts__below_two_to_the_bits__are_exact(void **state)
{
	struct random random = { 2 };
	uint8_t message[BOUND];
	uint64_t count[N], back[N];
	size_t bytes;

	(void)state;
	for (int round = 0; round < 400; round++) {
		int bits = 1 + round % 16, size = (int)(random_bits(&random) % (N + 1));

		for (int i = 0; i < size; i++) {
			count[i] = random_bits(&random) & ((1u << bits) - 1);
			if (random_bits(&random) % 3 == 0)
				count[i] = 0;
			else if (random_bits(&random) % 50 == 0) /* their scale must not touch the others */
				count[i] = (uint64_t)random_bits(&random) << (random_bits(&random) % 15);
		}
		assert_true(sluice_counts_bound((size_t)size, bits) <= sizeof message);
		assert_int_equal(sluice_counts_encode(count, (size_t)size, bits, (uint64_t)round, message,
						      sluice_counts_bound((size_t)size, bits), &bytes), 0);
		memset(back, 0, sizeof back);
		assert_int_equal(sluice_counts_merge(back, (size_t)size, message, bytes), 0);
		for (int i = 0; i < size; i++)
			if (count[i] >> bits == 0)
				assert_int_equal(back[i], count[i]);
	}
}

/* Mean and error of what is read back over many draws, against the bounds of the header. */
static void counts__large_ones_4000_draws__mean_is_the_count_error_is_within_the_scale(void **state)
{
	enum { DRAWS = 4000 };
	const uint64_t count[] = { 3, 255, 256, 257, 1000, 77777, 123456, 1048575, 40, 5 };
	const int size = sizeof(count) / sizeof(count[0]);
	const double scale = 1 << (20 - 8); /* the largest has 20 bits, 8 are kept */
	double sum[16] = { 0 }, squares[16] = { 0 };

	(void)state;
	for (uint64_t draw = 0; draw < DRAWS; draw++) {
		uint8_t message[BOUND];
		uint64_t back[16] = { 0 };
		size_t bytes;

		assert_int_equal(sluice_counts_encode(count, (size_t)size, 8, draw, message, sizeof message,
						      &bytes), 0);
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
		/* A standard error is at most scale / 2: 6 of the mean's own, and the bound with 5 %. */
		assert_true(fabs(sum[i] / DRAWS) <= 6 * scale / 2 / sqrt(DRAWS));
		assert_true(sqrt(squares[i] / DRAWS) <= 1.05 * scale / 2);
	}
	assert_true(squares[2] > 0); /* a count of 256 is rounded, to 0 or to the scale */
}

static void counts__as_many_as_there_may_be__come_back(void **state)
{
	enum { MOST = 65535 };
	static uint64_t count[MOST], back[MOST];
	static uint8_t message[MOST * 4];
	size_t bytes;

	(void)state;
	for (int i = 0; i < MOST; i++)
		count[i] = (uint64_t)(i % 7 ? 0 : i % 200);
	count[MOST - 1] = 1;
	count[MOST - 2] = ((uint64_t)1 << 47) - 1; /* lengths of 0 and 47 beside each other */
	assert_true(sluice_counts_bound(MOST, 16) <= sizeof message);
	assert_int_equal(sluice_counts_bound(MOST + 1, 16), 0);
	assert_int_equal(sluice_counts_encode(count, MOST, 16, 0, message, sizeof message, &bytes), 0);
	assert_int_equal(sluice_counts_merge(back, MOST, message, bytes), 0);
	assert_memory_equal(back, count, (MOST - 2) * sizeof *count);
	assert_int_equal(back[MOST - 1], 1);
	assert_true(llabs((long long)(count[MOST - 2] - back[MOST - 2])) < 1ll << 31);
}

static void encode__same_seed__same_bytes_another_seed__others(void **state)
{
	static float a[100000];
	uint8_t one[BOUND], two[BOUND], other[BOUND];
	size_t n_one, n_two, n_other;
	struct random random = { 3 };
	sluice_histogram *h = open_bins(0);

	(void)state;
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

static void merge__any_order__is_the_sum(void **state)
{
	enum { W = 5, EACH = 500 };
	struct random random = { 4 };
	sluice_histogram *all = open_bins(2), *up = open_bins(2), *down = open_bins(2);
	uint8_t message[W][BOUND];
	size_t bytes[W];

	(void)state;
	for (int w = 0; w < W; w++) {
		sluice_histogram *h = open_bins(2);
		float a[EACH];

		for (int i = 0; i < EACH; i++)
			a[i] = ldexpf(random_normal(&random), w * 4);
		assert_int_equal(sluice_histogram_add(h, a, EACH), 0);
		assert_int_equal(sluice_histogram_add(all, a, EACH), 0);
		assert_int_equal(sluice_histogram_encode(h, 10, 1, message[w], BOUND, &bytes[w]), 0);
		sluice_histogram_close(&h);
	}
	for (int w = 0; w < W; w++) {
		assert_int_equal(sluice_histogram_merge(up, message[w], bytes[w]), 0);
		assert_int_equal(sluice_histogram_merge(down, message[W - 1 - w], bytes[W - 1 - w]), 0);
	}
	assert_memory_equal(up->count, all->count, all->bins * sizeof(uint64_t)); /* all are small */
	assert_memory_equal(down->count, all->count, all->bins * sizeof(uint64_t));
	assert_int_equal(sluice_histogram_total(up), W * EACH);
	sluice_histogram_close(&all);
	sluice_histogram_close(&up);
	sluice_histogram_close(&down);
}

static void merge__empty_histogram__adds_nothing(void **state)
{
	sluice_histogram *h = open_bins(2);
	uint8_t message[BOUND];
	size_t bytes;

	(void)state;
	assert_int_equal(sluice_histogram_encode(h, 8, 0, message, sizeof message, &bytes), 0);
	assert_int_equal(sluice_histogram_merge(h, message, bytes), 0);
	assert_int_equal(sluice_histogram_total(h), 0);
	sluice_histogram_close(&h);
}

static void merge__message_of_other_bins_or_of_bare_counts__refused(void **state)
{
	sluice_histogram *h = open_bins(2), *finer = open_bins(3);
	const uint64_t count[] = { 1, 2, 3 };
	const float a[] = { 1, 2, 3 };
	uint8_t message[BOUND];
	size_t bytes;

	(void)state;
	assert_int_equal(sluice_histogram_add(finer, a, 3), 0);
	assert_int_equal(sluice_histogram_encode(finer, 8, 0, message, sizeof message, &bytes), 0);
	assert_int_equal(sluice_histogram_merge(h, message, bytes), SLUICE_EWIRE);
	assert_int_equal(sluice_counts_encode(count, 3, 8, 0, message, sizeof message, &bytes), 0);
	assert_int_equal(sluice_histogram_merge(h, message, bytes), SLUICE_EWIRE);
	assert_int_equal(sluice_histogram_total(h), 0);
	sluice_histogram_close(&h);
	sluice_histogram_close(&finer);
}

/* What a peer could write instead: never a crash, never a half addition. */
static void merge__cut_extended_or_flipped__refused_whole_or_added_whole(void **state)
{
	struct random random = { 5 };
	uint64_t count[40], before[40], into[40];
	uint8_t message[BOUND], wrong[BOUND];
	size_t bytes, refused = 0, tried = 0;

	(void)state;
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

static void merge__sum_beyond_48_bits__refused_and_untouched(void **state)
{
	const uint64_t most = ((uint64_t)1 << 47) - 1, small[2] = { 1, 1 };
	uint64_t count[2] = { 5, most }, into[2] = { 0, 0 }, full[2] = { 0, ((uint64_t)1 << 48) - 1 };
	uint8_t message[BOUND];
	size_t bytes;

	(void)state;
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

/* ---- what it is for ------------------------------------------------------------------------- */

enum { WORKERS = 16, EACH = 100000 };
static float gradient[WORKERS][EACH];

static void drop_line(int level, const char *line, void *context)
{
	(void)level;
	(void)line;
	(void)context;
}

/* Squared exponentials, with a scale that grows with the rank. */
static int make_gradients(void **state)
{
	struct random random = { 6 };

	(void)state;
	sluice_set_log(drop_line, NULL); /* thousands of refusals */
	for (int w = 0; w < WORKERS; w++)
		for (int i = 0; i < EACH; i++) {
			double e = -log(1 - random_unit(&random));

			gradient[w][i] = (float)((random_bits(&random) & 1 ? e * e : -e * e) * (1 + w));
		}
	return 0;
}

/* All workers' histograms as one, through messages of b bits; returns the mean bits of a message. */
static double gathered(sluice_histogram *all, int mantissa_bits, int b)
{
	size_t sum = 0;

	for (int w = 0; w < WORKERS; w++) {
		sluice_histogram *h = open_bins(mantissa_bits);
		uint8_t message[1 << 16];
		size_t bytes;

		assert_int_equal(sluice_histogram_add(h, gradient[w], EACH), 0);
		assert_int_equal(sluice_histogram_encode(h, b, (uint64_t)w, message, sizeof message, &bytes),
				 0);
		assert_int_equal(sluice_histogram_merge(all, message, bytes), 0);
		sum += bytes;
		sluice_histogram_close(&h);
	}
	return 8.0 * (double)sum / WORKERS;
}

static void gather__16_workers_8_bits_a_count__l1_below_2_percent_in_300_bits(void **state)
{
	sluice_histogram *all = open_bins(0), *exact = open_bins(0);
	double bits = gathered(all, 0, 8), l1 = 0;

	(void)state;
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

static void quantile__16_workers_4_bins_an_octave__selects_within_5_percent(void **state)
{
	const double shares[] = { 0.001, 0.01, 0.1, 0.5, 1 };
	sluice_histogram *all = open_bins(2);
	float last = INFINITY;

	(void)state;
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

static void quantile__fewer_non_zeros_than_asked_for__is_zero(void **state)
{
	const float a[] = { 0, 0, 0, 1, 2 };
	sluice_histogram *h = open_bins(2);
	float threshold = -1;

	(void)state;
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

/* As many coordinates in all, chosen by one threshold or equally many by each worker. */
static void quantile__one_threshold__captures_more_than_local_topk_of_the_same_total(void **state)
{
	static float sorted[EACH];
	sluice_histogram *all = open_bins(2);
	double total = 0, global = 0, local = 0;
	float threshold = 0;
	int n[WORKERS], sum = 0;

	(void)state;
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
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(add__any_float__falls_into_its_bin),
		cmocka_unit_test(add__any_length_and_place__same_counts_as_one_by_one),
		cmocka_unit_test(add__nan_or_infinity__is_named_and_nothing_is_counted),
		cmocka_unit_test(calls__wrong_arguments__refused),
		cmocka_unit_test(counts__below_two_to_the_bits__are_exact),
		cmocka_unit_test(counts__large_ones_4000_draws__mean_is_the_count_error_is_within_the_scale),
		cmocka_unit_test(counts__as_many_as_there_may_be__come_back),
		cmocka_unit_test(encode__same_seed__same_bytes_another_seed__others),
		cmocka_unit_test(merge__any_order__is_the_sum),
		cmocka_unit_test(merge__empty_histogram__adds_nothing),
		cmocka_unit_test(merge__message_of_other_bins_or_of_bare_counts__refused),
		cmocka_unit_test(merge__cut_extended_or_flipped__refused_whole_or_added_whole),
		cmocka_unit_test(merge__sum_beyond_48_bits__refused_and_untouched),
		cmocka_unit_test(gather__16_workers_8_bits_a_count__l1_below_2_percent_in_300_bits),
		cmocka_unit_test(quantile__16_workers_4_bins_an_octave__selects_within_5_percent),
		cmocka_unit_test(quantile__fewer_non_zeros_than_asked_for__is_zero),
		cmocka_unit_test(quantile__one_threshold__captures_more_than_local_topk_of_the_same_total),
	};

	return cmocka_run_group_tests_name("histogram", tests, make_gradients, NULL);
}
