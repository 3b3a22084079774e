/* SPDX-License-Identifier: BSD-3-Clause
 * The public calls of a selector: refusals, which must leave the arguments unchanged, the memory
 * of a selector, and the choice of its kernels. */
#include "compress/select_sweep.h"
#include "sluice_select.h"
#include "cases.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(select__nan_fails_EINVAL_names_the_index)
{
	float x[400], residual[400];
	uint32_t index[9];
	float value[9];
	size_t selected = 99;
	sluice_selector *s = NULL;
	const sluice_selector_attr attr = { .size = sizeof attr, .n = 400, .k = 9 };

	assert_int_equal(sluice_selector_open(&attr, &s), 0);
	for (size_t k = 0; k <= 9; k += 3)
		for (size_t bad = 0; bad < 400; bad += 57) {
			char name[32];

			for (size_t i = 0; i < 400; i++)
				x[i] = residual[i] = (float)i - 200;
			x[bad] = bad & 1 ? NAN : -NAN;
			snprintf(name, sizeof name, "x[%zu]", bad);
			assert_int_equal(sluice_select(s, x, NULL, k, index, value, &selected),
					 SLUICE_EINVAL);
			assert_non_null(strstr(sluice_last_error(), name));
			snprintf(name, sizeof name, "residual[%zu]", bad);
			assert_int_equal(sluice_select(s, x, residual, k, index, value, &selected),
					 SLUICE_EINVAL);
			assert_non_null(strstr(sluice_last_error(), name));
			assert_int_equal(selected, 99);
			for (size_t i = 0; i < 400; i++) /* the sum; no element is cleared */
				if (i != bad)
					assert_true(residual[i] == 2 * ((float)i - 200));
		}
	sluice_selector_close(&s);
}

TEST(select__bad_arguments_fail_EINVAL_and_change_nothing)
{
	sluice_selector *s = NULL;
	sluice_selector_attr attr = { .size = sizeof attr, .n = 4, .k = 2 };
	float x[4] = { 1, 2, 3, 4 }, residual[4] = { 1, 1, 1, 1 }, value[2];
	uint32_t index[2];
	size_t selected = 99;

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
	assert_int_equal(sluice_select(NULL, x, NULL, 2, index, value, &selected), SLUICE_EINVAL);
	assert_int_equal(sluice_select(s, NULL, NULL, 2, index, value, &selected), SLUICE_EINVAL);
	assert_int_equal(sluice_select(s, x, NULL, 3, index, value, &selected), SLUICE_EINVAL);
	assert_int_equal(sluice_select(s, x, NULL, 2, NULL, value, &selected), SLUICE_EINVAL);
	assert_int_equal(sluice_select(s, x, NULL, 2, index, value, NULL), SLUICE_EINVAL);
	assert_int_equal(sluice_select(s, x, residual, 2, index, NULL, &selected), SLUICE_EINVAL);
	assert_int_equal(sluice_select(s, NULL, residual, 2, index, value, &selected),
			 SLUICE_EINVAL);
	assert_true(residual[0] == 1 && residual[3] == 1 && selected == 99);
	assert_int_equal(sluice_select(s, x, NULL, 0, NULL, NULL, &selected), 0);
	assert_int_equal(selected, 0);
	sluice_selector_close(&s);
	sluice_selector_close(&s);
	sluice_selector_close(NULL);
}

TEST(select__residual_of_a_small_vector_adds_selects_and_clears)
{
	const float grad[] = { 1, -5, 0.5f, 2 };
	const sluice_selector_attr attr = { .size = sizeof(attr), .n = 4, .k = 2 };
	float residual[] = { 1, 1, 0, -2 }, value[2];
	uint32_t index[2];
	size_t selected;
	sluice_selector *s = NULL;

	assert_int_equal(sluice_selector_open(&attr, &s), 0);
	assert_int_equal(sluice_select(s, grad, residual, 2, index, value, &selected), 0);
	sluice_selector_close(&s);
	assert_int_equal(selected, 2);
	assert_true(index[0] == 0 && index[1] == 1 && value[0] == 2 && value[1] == -4);
	assert_true(residual[0] == 0 && residual[1] == 0 && residual[2] == 0.5f &&
		    residual[3] == 0);
}

TEST(select__bad_arguments__the_argument_is_named)
{
	const float grad[] = { 1, 2 };
	const sluice_selector_attr attr = { .size = sizeof(attr), .n = 2, .k = 2 };
	float residual[] = { 1, NAN }, value[1];
	uint32_t index[2];
	size_t selected;
	sluice_selector *s = NULL;

	assert_int_equal(sluice_selector_open(&attr, &s), 0);
	assert_int_equal(sluice_select(s, NULL, NULL, 2, index, NULL, &selected), SLUICE_EINVAL);
	assert_non_null(strstr(sluice_last_error(), "sluice_select: x"));
	assert_int_equal(sluice_select(s, grad, residual, 1, index, value, &selected),
			 SLUICE_EINVAL);
	assert_non_null(
		strstr(sluice_last_error(), "sluice_select: residual + x: residual[1] is NaN"));
	sluice_selector_close(&s);
}

TEST(selector_open__says_what_it_takes)
{
	/* The limit is 1 % of n, plus k elements, plus a constant. */
	for (size_t n = 1000000; n <= 100000000; n *= 10)
		for (size_t k = n / 1000; k <= n / 10; k *= 10) {
			struct selector *s = NULL;

			assert_int_equal(selector_open_for(n, k, 1, &s), 0);
			assert_true(2 * s->near_room <= n / 100 + k + 2 * 4096);
			selector_close(&s);
		}
}

TEST(kernels__variable_names_one__is_used_or_refused)
{
	struct selector *s = NULL;

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
	setenv("SLUICE_KERNELS", "sse2", 1);
	assert_int_equal(selector_open(8, &s), SLUICE_ENOSUPP);
	assert_non_null(strstr(sluice_last_error(), "SLUICE_KERNELS=sse2: Sluice has no such"));
	assert_non_null(strstr(sluice_last_error(), "choose auto, avx512, avx2 or portable"));
	unsetenv("SLUICE_KERNELS");
	assert_int_equal(selector_open(8, &s), 0);
	selector_close(&s);
}
