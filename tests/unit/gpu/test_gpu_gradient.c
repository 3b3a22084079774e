/* SPDX-License-Identifier: BSD-3-Clause
 * Selection on the device from gradients in 16 and 8 bits: the bits of selecting from the floats
 * that they mean, for sizes around warps and tiles, gradients that lie anywhere, and values of
 * every kind. Gradients that are not finite, judged before the sum is made or after it. */

#include "gpu.h"
#include "gpu/plan.h"
#include "narrow.h"
#include "random.h"
#include "cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct side {
	float *residual;
	struct device_selector *s;
	uint32_t *index;
	float *value;
	struct device_selected got;
};

static struct side side_new(const float *residual, size_t n, size_t k)
{
	struct side side = { .residual = gpu_memory(residual, n * 4 + 4),
			     .index = calloc(n + 1, 4),
			     .value = calloc(n + 1, 4) };

	assert_true(side.index && side.value);
	assert_int_equal(gpu_selector(n, k, NULL, 0, &side.s), 0);
	return side;
}

static void side_free(struct side *side)
{
	gpu_kernels()->selector_close(&side->s);
	gpu_free(side->residual);
	free(side->index);
	free(side->value);
}

static void select_from(struct side *side, const void *grad, int type, size_t k)
{
	const struct device_selection call = { .call.residual = side->residual,
					       .call.grad = grad,
					       .call.grad_type = type,
					       .call.grad_scale = 0.3f,
					       .call.scale = 0.3f,
					       .call.judge = DEVICE_JUDGE_FIRST,
					       .call.k = k };

	assert_int_equal(gpu_kernels()->select(side->s, &call, NULL), 0);
	assert_int_equal(
		gpu_kernels()->selected(side->s, side->index, side->value, &side->got, NULL), 0);
}

/* any_code: the gradient also has denormals and the largest values, and in the last step NaN and
 * infinities. */
static void compare(size_t n, size_t shift, int type, int any_code, struct random *r)
{
	const size_t k = n / 10 + 1, width = narrow_bytes(type);
	float *wide = calloc(n + 1, 4), *a = calloc(n + 1, 4), *b = calloc(n + 1, 4);
	uint16_t *codes = calloc(n + shift + 1, 2);

	assert_true(wide && a && b && codes);
	for (size_t i = 0; i < n; i++)
		a[i] = random_normal(r);
	struct side plain = side_new(a, n, k), narrow = side_new(a, n, k);
	for (int step = 0; step < 3; step++) {
		for (size_t i = 0; i < n; i++) {
			uint16_t code = any_code ? (uint16_t)random_bits(r) :
						   narrow_code(random_bits(r), type);

			if (width == 1)
				code &= 0xff;
			if (any_code && step < 2 && !isfinite(narrow_value(code, type)))
				code &= width == 1 ? 0x8f : 0x80ff;
			narrow_put(codes, shift + i, code, type);
			wide[i] = narrow_scaled(code, type);
		}
		void *grad = gpu_memory(wide, n * 4),
		     *grad_narrow = gpu_memory(codes, (n + shift) * width);
		select_from(&plain, grad, SLUICE_F32, k);
		select_from(&narrow, (uint8_t *)grad_narrow + shift * width, type, k);
		assert_int_equal(narrow.got.n, plain.got.n);
		assert_int_equal(narrow.got.nonfinite, plain.got.nonfinite);
		if (plain.got.nonfinite)
			assert_int_equal(narrow.got.first_nonfinite, plain.got.first_nonfinite);
		assert_memory_equal(narrow.index, plain.index, plain.got.n * 4);
		assert_memory_equal(narrow.value, plain.value, plain.got.n * 4);
		gpu_fetch(a, plain.residual, n * 4);
		gpu_fetch(b, narrow.residual, n * 4);
		assert_memory_equal(a, b, n * 4);
		gpu_free(grad);
		gpu_free(grad_narrow);
	}
	side_free(&plain);
	side_free(&narrow);
	free(wide);
	free(a);
	free(b);
	free(codes);
}

TEST(select__gradient_in_few_bits_gives_the_bits_of_its_floats)
{
	static const size_t sizes[] = {
		1, 31, 32, 33, 127, 128, 129, 1023, 1024, 1025, 5000, 20001
	};
	struct random r = { 3 };

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (size_t shift = 0; shift < 4; shift++)
			for (int any_code = 0; any_code < 2; any_code++) {
				compare(sizes[s], shift, SLUICE_F16, any_code, &r);
				compare(sizes[s], shift, SLUICE_BF16, any_code, &r);
				compare(sizes[s], shift, SLUICE_F8_E4M3FN, any_code, &r);
				compare(sizes[s], shift, SLUICE_F8_E5M2, any_code, &r);
			}
}

/* ---- checked late ----------------------------------------------------------- */

/* The rules, and the bytes per coordinate of vectors that their passes read and write: residual and
 * gradient are read and the residual is written, the same for momentum if there is one, and the sum
 * is read again. 0: as many as the values need. */
static const struct rule {
	const char *name;
	struct device_select call;
	unsigned bytes;
	int forget; /* without a hint: eight bytes more for each coordinate of a sample */
} rules[] = {
	{ "topk with a hint", { .k = 50 }, 12, 0 },
	{ "topk without a hint", { .k = 50 }, 12, 1 },
	{ "level", { .by_level = 1, .level = 3 }, 12, 0 },
	{ "gaussian", { .k = 50, .gaussian = 1, .quantile = 2.5758293 }, 0, 0 },
	{ "draw", { .draw = DEVICE_DRAW_DENSITY, .wanted = 0.01 }, 0, 0 },
	{ "blocks", { .k = 3, .block = 1000 }, 0, 0 },
	{ "momentum, then topk", { .k = 50, .momentum = 0.9f }, 24, 0 },
};
enum { RULES = sizeof(rules) / sizeof(rules[0]), LONG = 30 * 1024 };

static void select_by(const struct rule *rule, struct side *side, const float *grad,
		      float *velocity, int judge)
{
	struct device_selection call = { .call = rule->call, .forget = rule->forget };

	call.call.residual = side->residual;
	call.call.grad = grad;
	call.call.scale = 1;
	call.call.judge = judge;
	call.call.velocity = rule->call.momentum > 0 ? velocity : NULL;
	assert_int_equal(gpu_kernels()->select(side->s, &call, NULL), 0);
	assert_int_equal(
		gpu_kernels()->selected(side->s, side->index, side->value, &side->got, NULL), 0);
}

/* Expects the same selections on both sides, and if the gradient is not finite, the same result and
 * first coordinate. in: 0: a finite gradient; 1: NaN and infinities; 2: a finite gradient whose sum
 * overflows. */
static void expect_same_judgement(const struct rule *rule, const float *values, int in)
{
	float *here = malloc(LONG * 4), *residual = calloc(LONG + 1, 4);
	assert_true(here && residual);
	memcpy(here, values, LONG * 4);
	if (in == 1) {
		here[LONG - 1] = -INFINITY;
		here[20000] = NAN;
		here[7777] = INFINITY;
	} else if (in == 2) {
		here[7777] = residual[7777] = 3e38f;
	}
	struct side first = side_new(residual, LONG, LONG / 8),
		    late = side_new(residual, LONG, LONG / 8);
	float *grad = gpu_memory(here, LONG * 4);
	memset(residual, 0, LONG * 4);
	float *velocity[2] = { gpu_memory(residual, LONG * 4), gpu_memory(residual, LONG * 4) };

	select_by(rule, &first, grad, velocity[0], DEVICE_JUDGE_FIRST);
	select_by(rule, &late, grad, velocity[1], DEVICE_JUDGE_LATE);
	assert_int_equal(late.got.nonfinite, in == 1 ? 3 : 0);
	assert_int_equal(first.got.nonfinite, late.got.nonfinite);
	if (in == 1)
		assert_int_equal(late.got.first_nonfinite, 7777);
	assert_int_equal(late.got.n, first.got.n);
	assert_true(in == 1 ? !late.got.n : late.got.n || in == 2);
	if (in == 2)
		assert_true(isinf(late.got.largest));
	assert_memory_equal(late.index, first.index, first.got.n * 4);
	assert_memory_equal(late.value, first.value, first.got.n * 4);
	side_free(&first);
	side_free(&late);
	gpu_free(grad);
	gpu_free(velocity[0]);
	gpu_free(velocity[1]);
	free(here);
	free(residual);
}

TEST(select__judged_late__gives_the_verdict_of_judging_first)
{
	struct random r = { 5 };
	float *values = malloc(LONG * 4);

	assert_non_null(values);
	for (size_t i = 0; i < LONG; i++)
		values[i] = random_normal(&r);
	for (int rule = 0; rule < RULES; rule++)
		for (int in = 0; in < 3; in++)
			expect_same_judgement(&rules[rule], values, in);
	free(values);
}

TEST(select__finite_gradient_judged_late__is_read_once)
{
	struct random r = { 6 };
	float *values = calloc(LONG + 1, 4);
	struct emulated_counts before;

	gpu();
	if (!gpu_counts_vectors())
		skip();
	assert_non_null(values);
	for (int i = 0; i < RULES; i++) {
		const struct rule *rule = &rules[i];
		struct emulated_counts seen[2];
		float *velocity;

		memset(values, 0, LONG * 4);
		velocity = gpu_memory(values, LONG * 4);
		struct side side = side_new(values, LONG, LONG / 8);
		for (size_t j = 0; j < LONG; j++)
			values[j] = random_normal(&r);
		float *grad = gpu_memory(values, LONG * 4);

		/* The first two steps set the hint. */
		for (int step = -2; step < 2; step++) {
			const int judge = step ? DEVICE_JUDGE_LATE : DEVICE_JUDGE_FIRST;

			assert_int_equal(gpu()->zero(side.residual, LONG * 4, NULL), 0);
			assert_int_equal(gpu()->zero(velocity, LONG * 4, NULL), 0);
			gpu_count(&before);
			select_by(rule, &side, grad, velocity, judge);
			gpu_count(&seen[step > 0]);
		}
		print_message("%s: %.2f bytes a coordinate, judged first %.2f\n", rule->name,
			      (double)seen[1].vector_bytes / LONG,
			      (double)seen[0].vector_bytes / LONG);
		if (rule->bytes)
			assert_int_equal(seen[1].vector_bytes,
					 (uint64_t)rule->bytes * LONG +
						 (rule->forget ? 8 * sample_count(LONG) : 0));
		assert_int_equal(seen[0].vector_bytes, seen[1].vector_bytes + 4 * LONG);
		side_free(&side);
		gpu_free(grad);
		gpu_free(velocity);
	}
	free(values);
}
