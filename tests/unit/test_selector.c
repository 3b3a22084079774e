/* SPDX-License-Identifier: BSD-3-Clause
 * The fast paths of selection against their definition: kernels against the portable one, whole
 * selections (any kernels, threads, tiles, room, spans, hints; with and without adding) against a
 * sort, and the public calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "compress/select_sweep.h"
#include "random.h"
#include "sluice.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { KINDS = 9, SPANS_MAX = 6, UNALIGNED = 3 };

static float value_of(int kind, struct random *r)
{
	uint32_t bits = random_bits(r);

	switch (kind) {
	case 0: return random_normal(r);
	case 1: return (float)((int)(bits % 7) - 3);
	case 2: return bits & 1 ? 0.25f : -0.25f;
	case 3: return bits & 1 ? 0.0f : -0.0f;
	case 4: return bits % 50 ? 0.0f : random_normal(r);
	case 5: return bits_float(bits & 0x807fffff); /* denormal */
	case 6: return bits_float(0x3f800000 + bits % 3000);
	case 7: return bits % 10 ? random_normal(r) : bits & 1 ? INFINITY : -INFINITY;
	default: return (float)pow(random_unit(r) + 1e-6, -3) * random_normal(r);
	}
}

/* ---- kernels ---- */

struct listed {
	uint32_t *index, *near_index;
	float *value, *near_value;
	struct select_lists l;
};

static struct listed listed_new(size_t n)
{
	struct listed t = { .index = calloc(n + LISTS_SLACK, 4),
			    .near_index = calloc(n + LISTS_SLACK, 4),
			    .value = calloc(n + LISTS_SLACK, 4),
			    .near_value = calloc(n + LISTS_SLACK, 4) };

	assert_true(t.index && t.near_index && t.value && t.near_value);
	t.l = (struct select_lists){ t.index, t.value, 0, t.near_index, t.near_value, 0, 0 };
	return t;
}

static void listed_free(struct listed *t)
{
	free(t->index);
	free(t->near_index);
	free(t->value);
	free(t->near_value);
}

static void expect_same(const struct listed *a, const struct listed *b, int values)
{
	assert_int_equal(a->l.n, b->l.n);
	assert_int_equal(a->l.n_near, b->l.n_near);
	assert_memory_equal(a->index, b->index, a->l.n * 4);
	assert_memory_equal(a->near_index, b->near_index, a->l.n_near * 4);
	assert_memory_equal(a->near_value, b->near_value, a->l.n_near * 4);
	if (values)
		assert_memory_equal(a->value, b->value, a->l.n * 4);
	assert_int_equal(a->l.largest > KEY_INFINITY, b->l.largest > KEY_INFINITY);
}

static void kernels__any_version_lists_what_the_portable_one_lists(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 3000; seed++) {
		struct random r = { seed };
		size_t n = random_bits(&r) % (seed % 10 ? 200 : 5000), offset = random_bits(&r) % 9;
		size_t begin = n ? random_bits(&r) % n : 0, end = begin + random_bits(&r) % (n - begin + 1);
		float *memory = malloc((n + offset) * 4 + 4), *grad = malloc(n * 4 + 4);
		float *sum[2] = { malloc(n * 4 + 4), malloc(n * 4 + 4) }, *x = memory + offset;
		float scale = seed % 3 ? 1 : 0.37f;
		int32_t some[2];

		assert_true(memory && grad && sum[0] && sum[1]);
		for (size_t i = 0; i < n; i++) {
			x[i] = value_of((int)(seed % KINDS), &r);
			if (seed % 40 == 0 && random_bits(&r) % 50 == 0)
				x[i] = NAN;
			grad[i] = isfinite(x[i]) ? value_of(0, &r) : 0;
		}
		for (int j = 0; j < 2; j++)
			some[j] = n ? (int32_t)key_of(x[random_bits(&r) % n]) : 0;
		if (some[0] > KEY_INFINITY)
			some[0] = KEY_INFINITY;
		struct select_bounds b = { some[0] > some[1] ? some[0] : some[1],
					   some[0] > some[1] ? some[1] : some[0] };
		if (b.below > KEY_INFINITY)
			b.below = KEY_INFINITY;
		for (size_t v = 0; select_versions[v]; v++) {
			const struct select_kernels *kernels[2] = { &select_portable, select_versions[v] };

			if (!kernels[1]->usable())
				continue;
			for (int way = 0; way < 4; way++) {
				struct listed got[2];

				for (int j = 0; j < 2; j++) {
					got[j] = listed_new(end - begin);
					memcpy(sum[j], x, n * 4);
					if (way == 0)
						kernels[j]->list(x, begin, end, b, &got[j].l);
					else if (way == 1)
						kernels[j]->list_values(x, begin, end, b, &got[j].l);
					else if (way == 2)
						kernels[j]->add_list(sum[j], grad, scale, begin, end, b,
								     &got[j].l);
					else
						kernels[j]->add_take(sum[j], grad, scale, begin, end, b,
								     &got[j].l);
				}
				expect_same(&got[0], &got[1], way & 1);
				assert_memory_equal(sum[0], sum[1], n * 4);
				listed_free(&got[0]);
				listed_free(&got[1]);
			}
			assert_int_equal(kernels[1]->nonfinite(x, n), select_portable.nonfinite(x, n));
		}
		free(memory);
		free(grad);
		free(sum[0]);
		free(sum[1]);
	}
}

/* ---- whole selections ---- */

static const float *sorted_by;

static int by_magnitude_then_index(const void *left, const void *right)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	uint32_t ka = key_of(sorted_by[a]), kb = key_of(sorted_by[b]);

	if (ka != kb)
		return ka < kb ? 1 : -1;
	return a < b ? -1 : a > b;
}

/* chosen[i] = 1 for what must be selected; returns how many. */
static size_t oracle(const float *x, size_t n, const struct span *spans, size_t n_spans, size_t k,
		     uint8_t *chosen)
{
	uint32_t *order = malloc(n * sizeof(*order) + 4);
	size_t total = 0, count = 0;

	assert_non_null(order);
	memset(chosen, 0, n);
	for (size_t j = 0; j < n_spans; j++)
		for (uint64_t i = spans[j].begin; i < spans[j].end; i++)
			if (!spans[j].exempt)
				order[total++] = (uint32_t)i;
			else if (x[i] != 0)
				count += chosen[i] = 1;
	sorted_by = x;
	qsort(order, total, sizeof(*order), by_magnitude_then_index);
	for (size_t i = 0; i < total && i < k && x[order[i]] != 0; i++)
		count += chosen[order[i]] = 1;
	free(order);
	return count;
}

struct trial {
	size_t n, k, n_spans, room;
	struct span spans[SPANS_MAX];
	float *x, *residual, *grad, scale; /* x = residual + scale * grad */
	int kind;
};

static struct trial trial_new(uint64_t seed, struct random *r)
{
	struct trial t = { .n = random_bits(r) % (seed % 20 ? 700 : 9000), .kind = (int)(seed % KINDS) };
	uint64_t at = 0;

	t.x = malloc(t.n * 4 + 4 * UNALIGNED);
	t.residual = malloc(t.n * 4 + 4 * UNALIGNED);
	t.grad = malloc(t.n * 4 + 4 * UNALIGNED);
	assert_true(t.x && t.residual && t.grad);
	t.scale = seed % 3 ? 1 : 0.37f;
	for (size_t i = 0; i < t.n; i++) {
		t.residual[i] = value_of(t.kind, r);
		t.grad[i] = isfinite(t.residual[i]) ? value_of(t.kind, r) : 0;
		if (!isfinite(t.grad[i]))
			t.grad[i] = 0;
		t.x[i] = t.residual[i] + t.scale * t.grad[i];
	}
	if (seed % 4) {
		t.spans[t.n_spans++] = (struct span){ 0, t.n, 0 };
	} else {
		while (t.n_spans < SPANS_MAX) { /* tiling, some empty */
			uint64_t end = t.n_spans + 1 == SPANS_MAX ? t.n
								  : at + random_bits(r) % (t.n - at + 1);

			t.spans[t.n_spans++] = (struct span){ at, end, random_bits(r) % 3 == 0 };
			at = end;
		}
	}
	t.k = random_bits(r) % 5 == 0 ? t.n + random_bits(r) % 3 :
	      random_bits(r) % 5 == 0 ? 0 :
	      random_bits(r) % 2      ? random_bits(r) % (t.n + 1) :
					t.n / 50;
	t.room = 0;
	for (size_t j = 0; j < t.n_spans; j++)
		if (t.spans[j].exempt)
			t.room += t.spans[j].end - t.spans[j].begin;
	t.room += t.k < t.n - t.room ? t.k : t.n - t.room;
	return t;
}

static void trial_free(struct trial *t)
{
	free(t->x);
	free(t->residual);
	free(t->grad);
}

/* One selection in exactly the promised room. way 0: from x, 1: and values, 2: adding, 3: adding and
 * clearing, 4: adding and values. */
static void expect_oracle(const struct trial *t, struct selector *s, struct select_hint *hint, int way,
			  const uint8_t *chosen, size_t expected)
{
	uint32_t *index = malloc(t->room * 4 + !t->room);
	float *value = way == 0 || way == 2 ? NULL : malloc(t->room * 4 + !t->room);
	float *sum = malloc(t->n * 4 + 4);
	struct select_call call = { .spans = t->spans, .n_spans = t->n_spans, .k = t->k,
				    .index = index, .value = value, .hint = hint };
	size_t found, at = 0;
	int nan;

	assert_true(index && sum);
	memcpy(sum, t->residual, t->n * 4);
	if (way < 2)
		call.x = t->x;
	else {
		call.residual = sum;
		call.grad = t->grad;
		call.scale = t->scale;
		call.clear = way == 3;
	}
	found = select_run(s, &call, &nan);
	assert_false(nan);
	assert_int_equal(found, expected);
	for (size_t i = 0; i < t->n; i++) {
		if (chosen[i]) {
			assert_int_equal(index[at], i);
			if (value)
				assert_int_equal(float_bits(value[at]), float_bits(t->x[i]));
			at++;
		}
		if (way >= 2)
			assert_int_equal(float_bits(sum[i]),
					 way == 3 && chosen[i] ? 0 : float_bits(t->x[i]));
	}
	free(index);
	free(value);
	free(sum);
}

static void select__any_kernels_threads_tiles_room_spans_and_hints_equal_sort(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 2500; seed++) {
		struct random r = { seed };
		struct trial t = trial_new(seed, &r);
		uint8_t *chosen = malloc(t.n + 1);
		struct selector *s = NULL;
		unsigned threads = seed % 8 ? 1 : 2 + (unsigned)(random_bits(&r) % 3);
		uint32_t some = t.n ? key_of(t.x[random_bits(&r) % t.n]) : 0;
		struct select_hint hints[] = { { 0, 0, 0 },
					       { 1, 1, 1 },
					       { 1, KEY_INFINITY, 1 << 15 },
					       { KEY_MASK, KEY_MASK, UINT32_MAX },
					       { 5, random_bits(&r), random_bits(&r) },
					       { some, some, 1 << 16 } };
		size_t v;

		assert_non_null(chosen);
		size_t expected = oracle(t.x, t.n, t.spans, t.n_spans, t.k, chosen);
		assert_int_equal(selector_open_for(t.n, t.k, threads, &s), 0);
		do
			v = random_bits(&r) % 3;
		while (!select_versions[v] || !select_versions[v]->usable());
		s->kernels = select_versions[v];
		if (s->tile > 8 && random_bits(&r) % 2) /* many tiles */
			s->tile = 8 + random_bits(&r) % (s->tile - 8);
		if (s->near_room > 64 && random_bits(&r) % 2) /* little room: guesses fail */
			s->near_room = 64 + random_bits(&r) % 64;
		for (int way = 0; way < 5; way++) {
			expect_oracle(&t, s, NULL, way, chosen, expected);
			for (int twice = 0; twice < 2; twice++)
				expect_oracle(&t, s, &hints[random_bits(&r) % 6], way, chosen, expected);
		}
		selector_close(&s);
		free(chosen);
		trial_free(&t);
	}
}

/* A hint that a glance at the sample does not refute, but the pass does: the boundary is off by less
 * than a sample can see. And data made so that the usual guesses fail. */
static void select__two_levels_at_the_boundary_equal_sort(void **state)
{
	enum { N = 60000 };
	float *x = malloc(N * sizeof(*x)), *zero = calloc(N, sizeof(*zero));
	uint8_t *chosen = malloc(N);

	(void)state;
	assert_true(x && zero && chosen);
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct random r = { seed };
		struct trial t = { .n = N, .n_spans = 1, .x = x, .residual = x, .grad = zero, .scale = 1 };
		struct select_hint hint = { 0 };
		struct selector *s = NULL;
		size_t high = 0;

		for (size_t i = 0; i < N; i++) {
			x[i] = random_bits(&r) % 100 < 30 ? 2.0f : 1.0f;
			high += x[i] > 1;
		}
		t.spans[0] = (struct span){ 0, N, 0 };
		t.k = t.room = high + seed % 5 - 2;
		assert_int_equal(selector_open_for(N, t.k, 1 + seed % 2, &s), 0);
		size_t expected = oracle(x, N, t.spans, 1, t.k, chosen);
		if (seed % 3 == 0)
			s->near_room = 5000;
		for (int way = 0; way < 5; way++)
			for (int twice = 0; twice < 2; twice++)
				expect_oracle(&t, s, &hint, way, chosen, expected);
		selector_close(&s);
	}
	free(x);
	free(zero);
	free(chosen);
}

/* Ties end with a tile, one before, one behind it; they fit the room, or are looked for a second time. */
static void select__ties_that_end_at_a_tile_equal_sort(void **state)
{
	enum { N = 60000, SMALL_TILE = 4096 };
	static const size_t counts[] = { SMALL_TILE - 1, SMALL_TILE, SMALL_TILE + 1, 3 * SMALL_TILE + 1, N / 2, N - 1 };
	float *x = malloc(N * sizeof(*x)), *zero = calloc(N, sizeof(*zero));
	uint8_t *chosen = malloc(N);

	(void)state;
	assert_true(x && zero && chosen);
	for (size_t i = 0; i < N; i++)
		x[i] = i % 3 ? -1.0f : 1.0f;
	for (unsigned c = 0; c < 24; c++) {
		struct trial t = { .n = N, .n_spans = 1, .x = x, .residual = x, .grad = zero, .scale = 1 };
		struct select_hint hint = { 0 };
		struct selector *s = NULL;

		x[N - 1] = c % 2 ? 5.0f : 1.0f;
		t.spans[0] = (struct span){ 0, N, 0 };
		t.k = t.room = counts[c / 4];
		assert_int_equal(selector_open_for(N, t.k, 1 + c / 2 % 2, &s), 0);
		size_t expected = oracle(x, N, t.spans, 1, t.k, chosen);
		s->tile = SMALL_TILE;
		for (int way = 0; way < 10; way++) {
			s->near_room = way < 5 ? s->near_room : SMALL_TILE / 2;
			expect_oracle(&t, s, &hint, way % 5, chosen, expected);
		}
		selector_close(&s);
	}
	free(x);
	free(zero);
	free(chosen);
}

static void select__drifting_residual_with_hints_equals_sort_every_step(void **state)
{
	enum { N = 50000, K = 500 };
	const struct span whole = { 0, N, 0 };
	float *residual = calloc(N, 4), *shadow = calloc(N, 4), *grad = malloc(N * 4);
	uint32_t index[K];
	float value[K];
	uint8_t *chosen = malloc(N);
	struct random r = { 11 };
	sluice_selector *s = NULL;
	const sluice_selector_attr attr = { .size = sizeof attr, .n = N, .k = K, .threads = 2 };

	(void)state;
	assert_true(residual && shadow && grad && chosen);
	assert_int_equal(sluice_selector_open(&attr, &s), 0);
	for (int step = 0; step < 12; step++) {
		size_t found, at = 0;

		for (size_t i = 0; i < N; i++) {
			grad[i] = random_normal(&r) * (step == 7 ? 100.0f : 1.0f);
			shadow[i] += grad[i];
		}
		assert_int_equal(oracle(shadow, N, &whole, 1, K, chosen), K);
		assert_int_equal(sluice_select_residual(s, grad, residual, K, index, value, &found), 0);
		assert_int_equal(found, K);
		for (size_t i = 0; i < N; i++)
			if (chosen[i]) {
				assert_int_equal(index[at], i);
				assert_true(value[at++] == shadow[i]);
				shadow[i] = 0;
			}
		assert_memory_equal(residual, shadow, N * 4);
	}
	sluice_selector_close(&s);
	assert_null(s);
	free(residual);
	free(shadow);
	free(grad);
	free(chosen);
}

/* ---- public calls ---- */

static void select__nan_fails_EINVAL_names_the_index(void **state)
{
	float x[400], residual[400];
	uint32_t index[9];
	float value[9];
	size_t selected = 99;
	sluice_selector *s = NULL;
	const sluice_selector_attr attr = { .size = sizeof attr, .n = 400, .k = 9 };

	(void)state;
	assert_int_equal(sluice_selector_open(&attr, &s), 0);
	for (size_t k = 0; k <= 9; k += 3)
		for (size_t bad = 0; bad < 400; bad += 57) {
			char name[32];

			for (size_t i = 0; i < 400; i++)
				x[i] = residual[i] = (float)i - 200;
			x[bad] = bad & 1 ? NAN : -NAN;
			snprintf(name, sizeof name, "x[%zu]", bad);
			assert_int_equal(sluice_select(s, x, k, index, value, &selected), SLUICE_EINVAL);
			assert_non_null(strstr(sluice_last_error(), name));
			snprintf(name, sizeof name, "residual[%zu]", bad);
			assert_int_equal(
				sluice_select_residual(s, x, residual, k, index, value, &selected),
				SLUICE_EINVAL);
			assert_non_null(strstr(sluice_last_error(), name));
			assert_int_equal(selected, 99);
			for (size_t i = 0; i < 400; i++) /* the sum, nothing cleared */
				if (i != bad)
					assert_true(residual[i] == 2 * ((float)i - 200));
		}
	sluice_selector_close(&s);
}

static void select__bad_arguments_fail_EINVAL_and_change_nothing(void **state)
{
	sluice_selector *s = NULL;
	sluice_selector_attr attr = { .size = sizeof attr, .n = 4, .k = 2 };
	float x[4] = { 1, 2, 3, 4 }, residual[4] = { 1, 1, 1, 1 }, value[2];
	uint32_t index[2];
	size_t selected = 99;

	(void)state;
	assert_int_equal(sluice_selector_open(NULL, &s), SLUICE_EINVAL);
	assert_int_equal(sluice_selector_open(&attr, NULL), SLUICE_EINVAL);
	attr.size = 8;
	assert_int_equal(sluice_selector_open(&attr, &s), SLUICE_EINVAL);
	attr.size = sizeof attr;
	attr.n = (size_t)1 << 32;
	assert_int_equal(sluice_selector_open(&attr, &s), SLUICE_EINVAL);
	attr.n = 4;
	attr.threads = -1;
	assert_int_equal(sluice_selector_open(&attr, &s), SLUICE_EINVAL);
	attr.threads = 0;
	assert_null(s);
	assert_int_equal(sluice_selector_open(&attr, &s), 0);
	assert_int_equal(sluice_select(NULL, x, 2, index, value, &selected), SLUICE_EINVAL);
	assert_int_equal(sluice_select(s, NULL, 2, index, value, &selected), SLUICE_EINVAL);
	assert_int_equal(sluice_select(s, x, 3, index, value, &selected), SLUICE_EINVAL);
	assert_int_equal(sluice_select(s, x, 2, NULL, value, &selected), SLUICE_EINVAL);
	assert_int_equal(sluice_select(s, x, 2, index, value, NULL), SLUICE_EINVAL);
	assert_int_equal(sluice_select_residual(s, x, residual, 2, index, NULL, &selected),
			 SLUICE_EINVAL);
	assert_int_equal(sluice_select_residual(s, NULL, residual, 2, index, value, &selected),
			 SLUICE_EINVAL);
	assert_true(residual[0] == 1 && residual[3] == 1 && selected == 99);
	assert_int_equal(sluice_select(s, x, 0, NULL, NULL, &selected), 0);
	assert_int_equal(selected, 0);
	sluice_selector_close(&s);
	sluice_selector_close(&s);
	sluice_selector_close(NULL);
}

static void topk_residual__small_vector_adds_selects_and_clears(void **state)
{
	const float grad[] = { 1, -5, 0.5f, 2 };
	float residual[] = { 1, 1, 0, -2 }, value[2];
	uint32_t index[2];
	size_t selected;

	(void)state;
	assert_int_equal(sluice_topk_residual(grad, residual, 4, 2, index, value, &selected), 0);
	assert_int_equal(selected, 2);
	assert_true(index[0] == 0 && index[1] == 1 && value[0] == 2 && value[1] == -4);
	assert_true(residual[0] == 0 && residual[1] == 0 && residual[2] == 0.5f && residual[3] == 0);
}

static void kernels__variable_names_one__is_used_or_refused(void **state)
{
	struct selector *s = NULL;

	(void)state;
	for (size_t v = 0; select_versions[v]; v++) {
		setenv("SLUICE_KERNELS", select_versions[v]->name, 1);
		if (select_versions[v]->usable()) {
			assert_int_equal(selector_open(8, &s), 0);
			assert_ptr_equal(s->kernels, select_versions[v]);
			selector_close(&s);
		} else {
			assert_int_equal(selector_open(8, &s), SLUICE_ENOSUPP);
			assert_non_null(strstr(sluice_last_error(), select_versions[v]->name));
		}
	}
	setenv("SLUICE_KERNELS", "sse9", 1);
	assert_int_equal(selector_open(8, &s), SLUICE_ENOSUPP);
	unsetenv("SLUICE_KERNELS");
	assert_int_equal(selector_open(8, &s), 0);
	selector_close(&s);
}

static void selector_open__says_what_it_takes(void **state)
{
	(void)state;
	/* 1 % of n plus k elements, and what does not grow with n */
	for (size_t n = 1000000; n <= 100000000; n *= 10)
		for (size_t k = n / 1000; k <= n / 10; k *= 10) {
			struct selector *s = NULL;

			assert_int_equal(selector_open_for(n, k, 1, &s), 0);
			assert_true(2 * s->near_room <= n / 100 + k + 2 * 4096);
			selector_close(&s);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels__any_version_lists_what_the_portable_one_lists),
		cmocka_unit_test(select__any_kernels_threads_tiles_room_spans_and_hints_equal_sort),
		cmocka_unit_test(select__two_levels_at_the_boundary_equal_sort),
		cmocka_unit_test(select__ties_that_end_at_a_tile_equal_sort),
		cmocka_unit_test(select__drifting_residual_with_hints_equals_sort_every_step),
		cmocka_unit_test(select__nan_fails_EINVAL_names_the_index),
		cmocka_unit_test(select__bad_arguments_fail_EINVAL_and_change_nothing),
		cmocka_unit_test(topk_residual__small_vector_adds_selects_and_clears),
		cmocka_unit_test(kernels__variable_names_one__is_used_or_refused),
		cmocka_unit_test(selector_open__says_what_it_takes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
