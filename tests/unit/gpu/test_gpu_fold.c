/* SPDX-License-Identifier: BSD-3-Clause
 * Momentum, clipping and NaN that become 0 on the device, before a selection: the bits of the
 * formulas of runtime/worker/signal.c, for sizes around warps, tiles and groups of tiles, and
 * gradients that lie anywhere. */

#include "compress/clip_rules.h"
#include "compress/moments.h"
#include "gpu.h"
#include "narrow.h"
#include "random.h"
#include "cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 3, GROUP = 1 << 20 };

/* The operations on gradients. */
struct fold {
	float clip;
	int zero, judge, velocity, fresh;
	int bad; /* every bad-th value is NaN or infinite; 0: none */
};

struct vectors {
	size_t n;
	float *residual, *velocity, *grad, *got;
	uint16_t *codes;
};

static struct vectors vectors_new(size_t n)
{
	struct vectors v = { .n = n };

	v.residual = calloc(n + 1, 4);
	v.velocity = calloc(n + 1, 4);
	v.grad = calloc(n + 4, 4);
	v.got = calloc(n + 1, 4);
	v.codes = calloc(n + 4, 2);
	assert_true(v.residual && v.velocity && v.grad && v.got && v.codes);
	return v;
}

static void vectors_free(struct vectors *v)
{
	free(v->residual);
	free(v->velocity);
	free(v->grad);
	free(v->got);
	free(v->codes);
}

static int is_bad(const struct fold *f, size_t i)
{
	return f->bad && i % (size_t)f->bad == (size_t)f->bad / 2;
}

/* Makes the gradient, as codes if the type is not f32. grad[] receives its values. */
static void make_gradient(struct vectors *v, const struct fold *f, int type, size_t shift,
			  struct random *r)
{
	for (size_t i = 0; i < v->n; i++) {
		v->grad[i] = random_normal(r);
		if (type != SLUICE_F32) {
			const uint16_t code = is_bad(f, i) ? narrow_spoilt(type, i % 2) :
							     narrow_code(random_bits(r), type);

			narrow_put(v->codes, shift + i, code, type);
			v->grad[i] = narrow_scaled(code, type);
		} else if (is_bad(f, i)) {
			v->grad[i] = i % 2 ? NAN : -INFINITY;
		}
	}
}

/* Computes the formulas. Returns the number of values that are not finite. */
static uint64_t fold_here(struct vectors *v, const struct fold *f, float scale, float momentum)
{
	uint64_t bad = 0;

	for (size_t i = 0; i < v->n; i++) {
		bad += !isfinite(v->grad[i]);
		v->grad[i] = isfinite(v->grad[i]) || !f->zero ? v->grad[i] : 0.0f;
	}
	if (bad && f->judge)
		return bad;
	if (f->clip > 0) {
		struct moment_sum sum = { .tiles = 0 };

		moments_add_squares(&sum, v->grad, v->n);
		scale *= clip_factor(moments_end(&sum).second, f->clip);
	}
	for (size_t i = 0; i < v->n; i++) {
		float add = scale * v->grad[i];

		if (f->velocity)
			add = v->velocity[i] = momentum * v->velocity[i] + add;
		v->residual[i] = f->fresh ? add : v->residual[i] + add;
	}
	return bad;
}

static void expect_there(struct vectors *v, const float *there, const float *here)
{
	gpu_fetch(v->got, there, v->n * 4);
	assert_memory_equal(v->got, here, v->n * 4);
}

static void compare(size_t n, size_t shift, int type, const struct fold *f, struct random *r)
{
	const float scale = 0.3f, momentum = 0.9f;
	const size_t k = n / 50 + 1, width = type == SLUICE_F32 ? 4 : narrow_bytes(type);
	struct vectors v = vectors_new(n);
	struct device_selector *s;
	struct device_selected got;
	uint32_t *index = calloc(n + 1, 4);

	assert_non_null(index);
	for (size_t i = 0; i < n; i++) {
		v.residual[i] = random_normal(r);
		v.velocity[i] = random_normal(r);
	}
	float *residual = gpu_memory(v.residual, n * 4 + 4),
	      *velocity = gpu_memory(v.velocity, n * 4 + 4);
	assert_int_equal(gpu_selector(n, k, NULL, 0, &s), 0);
	for (int step = 0; step < STEPS; step++) {
		make_gradient(&v, f, type, shift, r);
		if (type == SLUICE_F32)
			memmove(v.grad + shift, v.grad, n * 4);
		void *grad = gpu_memory(type == SLUICE_F32 ? (const void *)v.grad : v.codes,
					(n + shift) * width);
		if (type == SLUICE_F32)
			memmove(v.grad, v.grad + shift, n * 4);
		const struct device_selection call = { .call.residual = residual,
						       .call.grad = (uint8_t *)grad + shift * width,
						       .call.grad_type = type,
						       .call.grad_scale = 0.3f,
						       .call.scale = scale,
						       .call.judge = f->judge,
						       .call.k = k,
						       .call.fresh = f->fresh,
						       .call.zero = f->zero,
						       .call.clip = f->clip,
						       .call.velocity = f->velocity ? velocity :
										      NULL,
						       .call.momentum = momentum };
		assert_int_equal(gpu_kernels()->select(s, &call, NULL), 0);
		assert_int_equal(gpu_kernels()->selected(s, index, NULL, &got, NULL), 0);
		const uint64_t bad = fold_here(&v, f, scale, momentum);
		assert_int_equal(got.nonfinite, bad);
		if (bad)
			assert_int_equal(got.first_nonfinite, (uint64_t)f->bad / 2);
		assert_int_equal(got.n, bad && f->judge ? 0 : k < n ? k : n);
		expect_there(&v, residual, v.residual);
		expect_there(&v, velocity, v.velocity);
		gpu_free(grad);
	}
	gpu_kernels()->selector_close(&s);
	gpu_free(residual);
	gpu_free(velocity);
	free(index);
	vectors_free(&v);
}

static const struct fold folds[] = {
	{ .velocity = 1, .judge = 1 },
	{ .velocity = 1, .judge = 1, .bad = 7 },
	{ .velocity = 1, .zero = 1, .bad = 5, .fresh = 1 },
	{ .velocity = 1, .zero = 1, .bad = 31, .clip = 1.5f },
	{ .zero = 1, .bad = 3 },
	{ .clip = 2, .judge = 1 },
	{ .clip = 1e-3f, .judge = 1, .fresh = 1 },
	{ .clip = 1e9f, .zero = 1 },
};

TEST(select__gradient_is_folded_before_it__the_bits_of_the_cpu)
{
	static const size_t sizes[] = { 0, 1, 31, 32, 33, 127, 128, 129, 1023, 1024, 1025, 5000 };
	static const int types[] = { SLUICE_F32, SLUICE_F16, SLUICE_BF16, SLUICE_F8_E4M3FN,
				     SLUICE_F8_E5M2 };
	struct random r = { 5 };

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
			for (size_t f = 0; f < sizeof(folds) / sizeof(folds[0]); f++)
				compare(sizes[s], (s + t + f) % 4, types[t], &folds[f], &r);
}

/* The vector has more than one group of tiles, and the last group is not complete. */
TEST(select__norm_of_many_tiles__the_bits_of_the_cpu)
{
	struct random r = { 6 };

	compare(GROUP + 2000, 0, SLUICE_F32, &folds[3], &r);
	if (gpu_slow())
		return;
	for (size_t f = 0; f < sizeof(folds) / sizeof(folds[0]); f++)
		compare(100u * GROUP / 3 + 7, f % 2, f % 3 ? SLUICE_F32 : SLUICE_BF16, &folds[f],
			&r);
}
