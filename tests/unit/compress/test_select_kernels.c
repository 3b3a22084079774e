/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels of selection: every version lists the same coordinates as the portable one, and a
 * variable chooses the version. */
#include "compress/select_sweep.h"
#include "sluice.h"
#include "vector_kinds.h"
#include "cases.h"
#include <stdlib.h>
#include <string.h>

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

static void expect_portable_lists(const struct select_kernels *version)
{
	const struct select_kernels *kernels[2] = { &select_portable, version };

	for (uint64_t seed = 1; seed <= 3000; seed++) {
		struct random r = { seed };
		size_t n = random_bits(&r) % (seed % 10 ? 200 : 5000), offset = random_bits(&r) % 9;
		size_t begin = n ? random_bits(&r) % n : 0,
		       end = begin + random_bits(&r) % (n - begin + 1);
		float *memory = malloc((n + offset) * 4 + 4), *grad = malloc(n * 4 + 4);
		float *sum[2] = { malloc(n * 4 + 4), malloc(n * 4 + 4) }, *x = memory + offset;
		float scale = seed % 3 ? 1 : 0.37f;
		int32_t some[2];

		assert_true(memory && grad && sum[0] && sum[1]);
		for (size_t i = 0; i < n; i++) {
			x[i] = value_of((int)(seed % VECTOR_KINDS), &r);
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
		assert_int_equal(version->nonfinite(x, n), select_portable.nonfinite(x, n));
		free(memory);
		free(grad);
		free(sum[0]);
		free(sum[1]);
	}
}

TEST(kernels__any_version_lists_what_the_portable_one_lists)
{
	for (size_t v = 0; select_versions[v]; v++)
		if (select_versions[v]->usable())
			expect_portable_lists(select_versions[v]);
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
