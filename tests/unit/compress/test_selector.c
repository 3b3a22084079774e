/* SPDX-License-Identifier: BSD-3-Clause
 * Whole selections (any kernels, threads, tiles, room, spans, hints; with and without adding)
 * against a sort. */
#include "base/bytes.h"
#include "compress/select_sweep.h"
#include "sluice_select.h"
#include "topk_oracle.h"
#include "thinned.h"
#include "vector_kinds.h"
#include "cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SPANS_MAX = 6, UNALIGNED = 3 };

struct trial {
	size_t n, k, n_spans, room;
	struct span spans[SPANS_MAX];
	float *x, *residual, *grad, scale; /* x = residual + scale * grad */
	int kind;
};

static struct trial trial_new(uint64_t seed, struct random *r)
{
	struct trial t = { .n = random_bits(r) % (seed % 20 ? 700 : 9000),
			   .kind = (int)(seed % VECTOR_KINDS) };
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
		while (t.n_spans < SPANS_MAX) { /* spans without gaps, some of them empty */
			uint64_t end = t.n_spans + 1 == SPANS_MAX ?
					       t.n :
					       at + random_bits(r) % (t.n - at + 1);

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

/* Makes one selection in exactly the promised room. way 0: from x, 1: with values, 2: adding, 3:
 * adding and clearing, 4: adding, with values. */
static void expect_oracle(const struct trial *t, struct selector *s, struct select_hint *hint,
			  int way, const uint8_t *chosen, size_t expected)
{
	uint32_t *index = malloc(t->room * 4 + !t->room);
	float *value = way == 0 || way == 2 ? NULL : malloc(t->room * 4 + !t->room);
	float *sum = malloc(t->n * 4 + 4);
	struct select_call call = { .spans = t->spans,
				    .n_spans = t->n_spans,
				    .k = t->k,
				    .index = index,
				    .value = value,
				    .hint = hint };
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

TEST(select__any_kernels_threads_tiles_room_spans_and_hints_equal_sort)
{
	uint32_t versions = 0;

	while (select_versions[versions])
		versions++;
	for (uint64_t seed = 1; seed <= 2500; seed++) {
		if (thinned(seed, 13))
			continue;
		struct random r = { seed };
		struct trial t = trial_new(seed, &r);
		uint8_t *chosen = malloc(t.n + 1);
		struct selector *s = NULL;
		unsigned threads = seed % 4 ? 1 : 2 + (unsigned)(random_bits(&r) % 3);
		uint32_t some = t.n ? key_of(t.x[random_bits(&r) % t.n]) : 0;
		struct select_hint hints[] = { { 0, 0, 0 },
					       { 1, 1, 1 },
					       { 1, KEY_INFINITY, 1 << 15 },
					       { KEY_MASK, KEY_MASK, UINT32_MAX },
					       { 5, random_bits(&r), random_bits(&r) },
					       { some, some, 1 << 16 } };
		size_t v;

		assert_non_null(chosen);
		size_t expected = topk_oracle(t.x, t.n, t.spans, t.n_spans, t.k, chosen);
		assert_int_equal(selector_open_for(t.n, t.k, threads, &s), 0);
		do
			v = random_bits(&r) % versions;
		while (!select_versions[v]->usable());
		s->kernels = select_versions[v];
		if (s->tile > 8 && random_bits(&r) % 2) /* many tiles */
			s->tile = 8 + random_bits(&r) % (s->tile - 8);
		if (s->near_room > 64 && random_bits(&r) % 2) /* with little room, guesses fail */
			s->near_room = 64 + random_bits(&r) % 64;
		if (random_bits(&r) % 4)
			s->merge_least = random_bits(&r) % 100;
		for (int way = 0; way < 5; way++) {
			expect_oracle(&t, s, NULL, way, chosen, expected);
			for (int twice = 0; twice < 2; twice++)
				expect_oracle(&t, s, &hints[random_bits(&r) % 6], way, chosen,
					      expected);
		}
		selector_close(&s);
		free(chosen);
		trial_free(&t);
	}
}

/* Covers a hint that the sample does not refute but the pass does, because the boundary is off by
 * less than the sample can show, and data for which the usual guesses fail. */
TEST(select__two_levels_at_the_boundary_equal_sort)
{
	enum { N = 60000 };
	float *x = malloc(N * sizeof(*x)), *zero = calloc(N, sizeof(*zero));
	uint8_t *chosen = malloc(N);

	assert_true(x && zero && chosen);
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct random r = { seed };
		struct trial t = {
			.n = N, .n_spans = 1, .x = x, .residual = x, .grad = zero, .scale = 1
		};
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
		size_t expected = topk_oracle(x, N, t.spans, 1, t.k, chosen);
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

/* The ties end at the last coordinate of a tile, one before it or one after it. They fit the room,
 * or need a second pass. */
TEST(select__ties_that_end_at_a_tile_equal_sort)
{
	enum { N = 60000, SMALL_TILE = 4096 };
	static const size_t counts[] = { SMALL_TILE - 1,     SMALL_TILE, SMALL_TILE + 1,
					 3 * SMALL_TILE + 1, N / 2,      N - 1 };
	float *x = malloc(N * sizeof(*x)), *zero = calloc(N, sizeof(*zero));
	uint8_t *chosen = malloc(N);

	assert_true(x && zero && chosen);
	for (size_t i = 0; i < N; i++)
		x[i] = i % 3 ? -1.0f : 1.0f;
	for (unsigned c = 0; c < 24; c++) {
		struct trial t = {
			.n = N, .n_spans = 1, .x = x, .residual = x, .grad = zero, .scale = 1
		};
		struct select_hint hint = { 0 };
		struct selector *s = NULL;

		x[N - 1] = c % 2 ? 5.0f : 1.0f;
		t.spans[0] = (struct span){ 0, N, 0 };
		t.k = t.room = counts[c / 4];
		assert_int_equal(selector_open_for(N, t.k, 1 + c / 2 % 2, &s), 0);
		size_t expected = topk_oracle(x, N, t.spans, 1, t.k, chosen);
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

TEST(select__drifting_residual_with_hints_equals_sort_every_step)
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

	assert_true(residual && shadow && grad && chosen);
	assert_int_equal(sluice_selector_open(&attr, &s), 0);
	for (int step = 0; step < 12; step++) {
		size_t found, at = 0;

		for (size_t i = 0; i < N; i++) {
			grad[i] = random_normal(&r) * (step == 7 ? 100.0f : 1.0f);
			shadow[i] += grad[i];
		}
		assert_int_equal(topk_oracle(shadow, N, &whole, 1, K, chosen), K);
		assert_int_equal(sluice_select(s, grad, residual, K, index, value, &found), 0);
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

/* Returns the number of coordinates that must be selected of each block, and marks them. Sets *most
 * to the number if no coordinate were zero. */
static size_t each_block_oracle(const struct trial *t, uint32_t k, uint32_t length, uint8_t *chosen,
				size_t *most)
{
	size_t n = 0;

	*most = 0;
	for (uint64_t begin = 0; begin < t->n; begin += length) {
		const uint64_t end = t->n - begin < length ? t->n : begin + length;
		struct span spans[SPANS_MAX];
		size_t n_spans = 0, plain = 0;

		for (size_t j = 0; j < t->n_spans; j++) {
			const struct span *span = &t->spans[j];
			const uint64_t from = span->begin > begin ? span->begin : begin;
			const uint64_t to = span->end < end ? span->end : end;

			if (from >= to)
				continue;
			spans[n_spans++] = (struct span){ from - begin, to - begin, span->exempt };
			plain += span->exempt ? 0 : to - from;
			*most += span->exempt ? to - from : 0;
		}
		const size_t quota = (k * plain + length - 1) / length;

		n += topk_oracle(t->x + begin, end - begin, spans, n_spans, quota, chosen + begin);
		*most += quota;
	}
	return n;
}

static void expect_each_block(const struct trial *t, struct selector *s, uint32_t k,
			      uint32_t length)
{
	uint8_t *chosen = calloc(t->n + 1, 1);
	assert_non_null(chosen);
	size_t at = 0, most;
	const size_t expected = each_block_oracle(t, k, length, chosen, &most);
	uint32_t *index = malloc(most * sizeof(*index) + !most);

	assert_non_null(index);
	assert_int_equal(select_each_block(s, t->x, t->spans, t->n_spans, k, length, NULL, index),
			 expected);
	for (size_t i = 0; i < t->n; i++)
		if (chosen[i])
			assert_int_equal(index[at++], i);
	free(index);
	free(chosen);
}

TEST(select_each_block__any_kernels_threads_spans_and_lengths_equal_a_sort_of_each_block)
{
	uint32_t versions = 0;

	while (select_versions[versions])
		versions++;
	for (uint64_t seed = 1; seed <= 3000; seed++) {
		if (thinned(seed, 13))
			continue;
		struct random r = { seed };
		struct trial t = trial_new(seed, &r);
		const uint32_t longest = random_bits(&r) % 3 ? 200 : SELECT_BLOCK_MOST;
		const uint32_t length = 1 + random_bits(&r) % longest;
		const uint32_t k = random_bits(&r) % 4 ? 1 + random_bits(&r) % length :
							 (length + 63) / 64;
		struct selector *s = NULL;
		size_t v;

		/* Where neighbouring blocks have other magnitudes, their levels are no guide. */
		for (size_t i = 0; i < t.n && seed % 5 == 0; i++)
			t.x[i] *= ldexpf(1, (int)(i / length * 29 % 37) - 18);
		for (size_t i = 0; i < t.n && seed % 35 == 1; i++)
			t.x[i] = i / length % 2 ? 0 : t.x[i];
		/* A fragment of the vector: its first block is a part of one. */
		t.spans[0].begin = seed % 7 ? 0 : t.spans[0].end - t.spans[0].end / 3;
		assert_int_equal(selector_open_for(t.n, t.n, 1 + (unsigned)(seed % 3), &s), 0);
		do
			v = random_bits(&r) % versions;
		while (!select_versions[v]->usable());
		s->kernels = select_versions[v];
		expect_each_block(&t, s, k, length);
		selector_close(&s);
		trial_free(&t);
	}
}
