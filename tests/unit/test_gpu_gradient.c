/* SPDX-License-Identifier: BSD-3-Clause
 * Selection on the device from gradients in 16 bits: the bits of selecting from the floats that
 * they mean, for sizes around warps and tiles, gradients that lie anywhere, and values of every
 * kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gpu.h"
#include "narrow.h"
#include "random.h"
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
					       .call.scale = 0.3f,
					       .call.judge = 1,
					       .call.k = k };

	assert_int_equal(gpu_kernels()->select(side->s, &call, NULL), 0);
	assert_int_equal(
		gpu_kernels()->selected(side->s, side->index, side->value, &side->got, NULL), 0);
}

/* any_code: denormals and the largest too; in the last step NaN and infinities. */
static void compare(size_t n, size_t shift, int type, int any_code, struct random *r)
{
	const size_t k = n / 10 + 1;
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

			if (any_code && step < 2 && !isfinite(narrow_value(code, type)))
				code &= 0x80ff;
			codes[shift + i] = code;
			wide[i] = narrow_value(code, type);
		}
		void *grad = gpu_memory(wide, n * 4),
		     *grad_narrow = gpu_memory(codes, (n + shift) * 2);
		select_from(&plain, grad, SLUICE_F32, k);
		select_from(&narrow, (uint16_t *)grad_narrow + shift, type, k);
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

static void select__gradient_in_16_bits_gives_the_bits_of_its_floats(void **state)
{
	static const size_t sizes[] = {
		1, 31, 32, 33, 127, 128, 129, 1023, 1024, 1025, 5000, 20001
	};
	struct random r = { 3 };

	(void)state;
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (size_t shift = 0; shift < 4; shift++)
			for (int any_code = 0; any_code < 2; any_code++) {
				compare(sizes[s], shift, SLUICE_F16, any_code, &r);
				compare(sizes[s], shift, SLUICE_BF16, any_code, &r);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(select__gradient_in_16_bits_gives_the_bits_of_its_floats),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
