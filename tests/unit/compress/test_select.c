/* SPDX-License-Identifier: BSD-3-Clause
 * Selection against a sort: the oracle orders all coordinates by (magnitude descending, index
 * ascending), drops zeros and takes the first k. */

#include "base/bytes.h"
#include "compress/select.h"
#include "random.h"
#include "sluice_select.h"
#include "thinned.h"
#include "topk_oracle.h"
#include "cases.h"
#include <math.h>
#include <stdlib.h>

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

/* Returns the coordinates that must be selected, as increasing indices. */
static size_t oracle(const float *x, const struct span *spans, size_t n_spans, size_t k,
		     uint32_t *index, size_t n)
{
	uint8_t *chosen = malloc(n + 1);
	size_t found = 0;

	assert_non_null(chosen);
	topk_oracle(x, n, spans, n_spans, k, chosen);
	for (size_t i = 0; i < n; i++)
		if (chosen[i])
			index[found++] = (uint32_t)i;
	free(chosen);
	return found;
}

/* Runs the selection with exactly the promised room; ASan or valgrind reports an access beyond
 * it. */
static void expect_oracle(const float *x, size_t n, const struct span *spans, size_t n_spans,
			  size_t k)
{
	struct selector *s = NULL;
	size_t room = k, total = 0, n_expected, n_got;
	uint32_t *expected, *got;

	for (size_t j = 0; j < n_spans; j++)
		total += spans[j].exempt ? 0 : spans[j].end - spans[j].begin;
	room = k < total ? k : total;
	for (size_t j = 0; j < n_spans; j++)
		room += spans[j].exempt ? spans[j].end - spans[j].begin : 0;
	expected = malloc((n + 1) * sizeof(*expected));
	got = malloc(room * sizeof(*got) + !room);
	assert_non_null(expected);
	assert_non_null(got);
	assert_int_equal(selector_open(n, &s), 0);
	n_expected = oracle(x, spans, n_spans, k, expected, n);
	for (int repeat = 0; repeat < 2; repeat++) { /* the scratch memory must keep nothing
							between calls */
		n_got = select_topk(s, x, spans, n_spans, k, got);
		assert_int_equal(n_got, n_expected);
		if (n_got)
			assert_memory_equal(got, expected, n_got * sizeof(*got));
	}
	selector_close(&s);
	assert_null(s);
	free(expected);
	free(got);
}

static void expect_oracle_for_every_k(const float *x, size_t n)
{
	const struct span whole = { .begin = 0, .end = n };
	const size_t ks[] = { 0,      1,     2,       n / 1000, n / 100,
			      n / 20, n / 8, n / 4,   n / 2,    n ? n - 1 : 0,
			      n,      n + 1, n + 1000 };

	for (size_t i = 0; i < COUNT_OF(ks); i++)
		expect_oracle(x, n, &whole, 1, ks[i]);
}

/* ---- vectors ---- */

typedef float value_fn(struct random *r);

static float any_gaussian(struct random *r)
{
	return random_normal(r);
}
static float few_levels(struct random *r)
{
	return (float)((int)(random_bits(r) % 7) - 3);
}
static float all_equal(struct random *r)
{
	return random_bits(r) & 1 ? 0.25f : -0.25f;
}
static float all_zero(struct random *r)
{
	return random_bits(r) & 1 ? 0.0f : -0.0f;
}
static float mostly_zero(struct random *r)
{
	return random_bits(r) % 50 ? all_zero(r) : random_normal(r);
}
static float denormal(struct random *r)
{
	return bits_float(random_bits(r) & 0x807fffff);
}
static float denormal_or_zero(struct random *r)
{
	return random_bits(r) % 3 ? all_zero(r) : bits_float(random_bits(r) & 0x8000000f);
}
static float close_keys(struct random *r)
{
	return bits_float(0x3f800000 + random_bits(r) % 3000);
}
static float any_but_nan(struct random *r)
{
	uint32_t bits = random_bits(r);

	return bits_float((bits & 0x7fffffff) > 0x7f800000 ? bits & 0xff800000 : bits);
}
static float some_infinite(struct random *r)
{
	return random_bits(r) % 10 ? random_normal(r) : random_bits(r) & 1 ? INFINITY : -INFINITY;
}
static float heavy_tail(struct random *r)
{
	return (float)pow(random_unit(r) + 1e-6, -3) * random_normal(r);
}

static value_fn *const kinds[] = { any_gaussian, few_levels,    all_equal,        all_zero,
				   mostly_zero,  denormal,      denormal_or_zero, close_keys,
				   any_but_nan,  some_infinite, heavy_tail };

static float *vector_of(value_fn *value, size_t n, uint64_t seed)
{
	struct random r = { seed };
	float *x = malloc(n * sizeof(*x) + !n);

	assert_non_null(x);
	for (size_t i = 0; i < n; i++)
		x[i] = value(&r);
	return x;
}

TEST(select__any_vector_small_sizes_equals_sort)
{
	const size_t sizes[] = { 0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 100, 1000 };

	for (size_t kind = 0; kind < COUNT_OF(kinds); kind++)
		for (size_t i = 0; i < COUNT_OF(sizes); i++)
			for (uint64_t seed = 1; seed <= 10; seed++) {
				if (thinned(kind + i + seed, 5))
					continue;
				float *x = vector_of(kinds[kind], sizes[i], seed);

				expect_oracle_for_every_k(x, sizes[i]);
				free(x);
			}
}

TEST(select__any_vector_around_a_chunk_equals_sort)
{
	const size_t sizes[] = { 1023, 1024, 1025, 4095, 4096, 4097, 20011 };

	for (size_t kind = 0; kind < COUNT_OF(kinds); kind++)
		for (size_t i = 0; i < COUNT_OF(sizes); i++) {
			float *x = vector_of(kinds[kind], sizes[i], 77 + i);

			expect_oracle_for_every_k(x, sizes[i]);
			free(x);
		}
}

TEST(select__every_k_of_a_short_vector_equals_sort)
{
	for (size_t kind = 0; kind < COUNT_OF(kinds); kind++) {
		const struct span whole = { .begin = 0, .end = 300 };
		float *x = vector_of(kinds[kind], 300, 5);

		for (size_t k = 0; k <= 301; k++)
			expect_oracle(x, 300, &whole, 1, k);
		free(x);
	}
}

/* Large vectors: the oracle sorts once, and the selection of each k is a prefix of that order. */
TEST(select__million_gaussians_equals_sort)
{
	const size_t n = 1000007;
	const size_t ks[] = { 1, 1000, 10000, 50000, 130000, 250000, 500000, n - 1, n };
	const struct span whole = { .begin = 0, .end = n };
	value_fn *const values[] = { any_gaussian, few_levels, mostly_zero };
	uint32_t *order = malloc(n * sizeof(*order)), *got = malloc(n * sizeof(*got));
	uint8_t *chosen = malloc(n);
	struct selector *s = NULL;

	assert_non_null(order);
	assert_non_null(got);
	assert_non_null(chosen);
	assert_int_equal(selector_open(n, &s), 0);
	for (size_t v = 0; v < COUNT_OF(values); v++) {
		float *x = vector_of(values[v], n, 3);

		for (size_t i = 0; i < n; i++)
			order[i] = (uint32_t)i;
		topk_order(x, order, n);
		for (size_t j = 0; j < COUNT_OF(ks); j++) {
			size_t n_got = select_topk(s, x, &whole, 1, ks[j], got), at = 0;

			memset(chosen, 0, n);
			for (size_t i = 0; i < ks[j] && x[order[i]] != 0; i++)
				chosen[order[i]] = 1;
			for (size_t i = 0; i < n; i++)
				if (chosen[i]) {
					assert_true(at < n_got);
					assert_int_equal(got[at++], i);
				}
			assert_int_equal(at, n_got);
		}
		free(x);
	}
	selector_close(&s);
	free(order);
	free(got);
	free(chosen);
}

TEST(select__exempt_spans_sends_their_nonzeros_outside_k)
{
	for (uint64_t seed = 1; seed <= 300; seed++) {
		if (thinned(seed, 5))
			continue;
		struct random r = { seed };
		struct span spans[8];
		size_t n = 1 + random_bits(&r) % 6000, n_spans = 0;
		float *x = vector_of(kinds[seed % COUNT_OF(kinds)], n, seed);
		uint64_t at = 0;

		while (n_spans < COUNT_OF(spans) && at <= n) { /* spans with gaps between them,
								  some of them empty */
			uint64_t begin = at +
					 (random_bits(&r) % 4 ? 0 : random_bits(&r) % (n - at + 1));
			uint64_t end = begin + random_bits(&r) % (n - begin + 1);

			spans[n_spans++] = (struct span){ begin, end, random_bits(&r) % 3 == 0 };
			at = end;
		}
		expect_oracle(x, n, spans, n_spans, 0);
		expect_oracle(x, n, spans, n_spans, n / 50);
		expect_oracle(x, n, spans, n_spans, random_bits(&r) % (n + 1));
		expect_oracle(x, n, spans, n_spans, n);
		free(x);
	}
}

TEST(select__only_exempt_spans_and_no_spans)
{
	const struct span exempt = { .begin = 0, .end = 4, .exempt = 1 };
	const float x[] = { 0, -1, -0.0f, 2 };

	expect_oracle(x, 4, &exempt, 1, 3);
	expect_oracle(x, 4, NULL, 0, 3);
}

TEST(select__known_vector_ties_go_to_lower_index)
{
	const float x[] = { 1, -2, 2, -0.0f, 2, INFINITY, 0, -1e-45f };
	const struct span whole = { .begin = 0, .end = 8 };
	const uint32_t expected[] = { 1, 2, 5 };
	struct selector *s = NULL;
	uint32_t got[8];

	assert_int_equal(selector_open(8, &s), 0);
	assert_int_equal(select_topk(s, x, &whole, 1, 3, got), 3);
	assert_memory_equal(got, expected, sizeof(expected));
	assert_int_equal(select_topk(s, x, &whole, 1, 7, got), 6); /* the two zeros are never
								      selected */
	assert_int_equal(got[5], 7);
	selector_close(&s);
}

TEST(selector_open__too_many_coordinates_fails_EINVAL)
{
	struct selector *s = NULL;

	assert_int_equal(selector_open((size_t)1 << 32, &s), SLUICE_EINVAL);
	assert_null(s);
	selector_close(&s);
	selector_close(NULL);
}

TEST(select_nonzero__equals_definition)
{
	for (size_t kind = 0; kind < COUNT_OF(kinds); kind++) {
		const size_t n = 3001;
		float *x = vector_of(kinds[kind], n, 9);
		uint32_t *got = malloc(n * sizeof(*got));
		size_t n_got = select_nonzero(x, n, got, n), at = 0;

		assert_non_null(got);
		for (size_t i = 0; i < n; i++)
			if (x[i] != 0) {
				assert_true(at < n_got);
				assert_int_equal(got[at++], i);
			}
		assert_int_equal(at, n_got);
		assert_int_equal(select_nonzero(x, 0, got, n), 0);
		for (size_t room = 0; room <= n_got;
		     room += room < 1020 ? 1 : 97) { /* gets the first ties, and none beyond the
							room */
			uint32_t *first = malloc((room + 1) * sizeof(*first));

			assert_non_null(first);
			first[room] = 77;
			assert_int_equal(select_nonzero(x, n, first, room), room);
			assert_memory_equal(first, got, room * sizeof(*got));
			assert_int_equal(first[room], 77);
			free(first);
		}
		free(x);
		free(got);
	}
}

TEST(first_nonfinite__finds_the_first_anywhere)
{
	float x[70];

	for (size_t n = 0; n <= COUNT_OF(x); n++) {
		for (size_t i = 0; i < COUNT_OF(x); i++)
			x[i] = i % 2 ? 3.4028234e38f : -1e-45f;
		assert_int_equal(first_nonfinite(x, n), n);
		for (size_t bad = n; bad-- > 0;) {
			x[bad] = bad % 3 == 0 ? NAN : bad % 3 == 1 ? INFINITY : -INFINITY;
			assert_int_equal(first_nonfinite(x, n), bad);
		}
	}
}

static int select_once(const float *x, size_t n, size_t k, uint32_t *index, float *value,
		       size_t *selected)
{
	const sluice_selector_attr attr = { .size = sizeof(attr), .n = n, .k = k };
	sluice_selector *s = NULL;
	int rc = sluice_selector_open(&attr, &s);

	if (!rc)
		rc = sluice_select(s, x, NULL, k, index, value, selected);
	sluice_selector_close(&s);
	return rc;
}

TEST(topk__random_vector_equals_sort_and_gives_values)
{
	const struct span whole = { .begin = 0, .end = 5000 };
	float *x = vector_of(any_gaussian, 5000, 4), value[50];
	uint32_t index[50], expected[5000];
	size_t selected = 99;

	assert_int_equal(select_once(x, 5000, 50, index, value, &selected), 0);
	assert_int_equal(selected, 50);
	oracle(x, &whole, 1, 50, expected, 5000);
	assert_memory_equal(index, expected, sizeof(index));
	for (size_t i = 0; i < 50; i++)
		assert_true(value[i] == x[index[i]]);
	assert_int_equal(select_once(x, 5000, 50, index, NULL, &selected), 0);
	assert_int_equal(select_once(NULL, 0, 50, index, NULL, &selected), 0);
	assert_int_equal(selected, 0);
	free(x);
}

TEST(topk__infinities_are_largest)
{
	const float x[] = { 1, -INFINITY, 3, INFINITY };
	uint32_t index[3];
	size_t selected;

	assert_int_equal(select_once(x, 4, 3, index, NULL, &selected), 0);
	assert_int_equal(selected, 3);
	assert_int_equal(index[0], 1);
	assert_int_equal(index[1], 2);
	assert_int_equal(index[2], 3);
}

TEST(topk__nan_fails_EINVAL_names_the_index_and_selects_nothing)
{
	float x[40] = { 1, INFINITY };
	uint32_t index[2];
	size_t selected = 99;

	x[37] = -NAN;
	assert_int_equal(select_once(x, 40, 2, index, NULL, &selected), SLUICE_EINVAL);
	assert_int_equal(selected, 99);
	assert_non_null(strstr(sluice_last_error(), "x[37]"));
}

TEST(topk__bad_arguments_fail_EINVAL)
{
	const float x[1] = { 1 };
	uint32_t index[1];
	size_t selected = 99;

	assert_int_equal(select_once(NULL, 1, 1, index, NULL, &selected), SLUICE_EINVAL);
	assert_int_equal(select_once(x, 1, 1, NULL, NULL, &selected), SLUICE_EINVAL);
	assert_int_equal(select_once(x, 1, 1, index, NULL, NULL), SLUICE_EINVAL);
	assert_int_equal(select_once(x, (size_t)1 << 32, 1, index, NULL, &selected), SLUICE_EINVAL);
	assert_int_equal(selected, 99);
}
