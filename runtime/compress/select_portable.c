/* SPDX-License-Identifier: BSD-3-Clause
 * The selection kernels in portable C, which tests compare with the other versions, and the choice
 * of a version. One test skips a block without a candidate, which is nearly every block at usual
 * densities. */
#include "select_kernels.h"

enum { BLOCK = 16, ADD = 1, VALUES = 2, CLEAR = 4 };

typedef int32_t lanes __attribute__((vector_size(16)));

/* Returns 1 if one of v[0..BLOCK) has a key above `below`. */
static inline int block_reaches(const float *v, int32_t below)
{
	const lanes mask = { KEY_MASK, KEY_MASK, KEY_MASK, KEY_MASK };
	const lanes level = { below, below, below, below };
	lanes four[BLOCK / 4], reached;
	uint64_t half[2];

	memcpy(four, v, sizeof(four));
	reached = ((four[0] & mask) > level) | ((four[1] & mask) > level) |
		  ((four[2] & mask) > level) | ((four[3] & mask) > level);
	memcpy(half, &reached, sizeof(half));
	return (half[0] | half[1]) != 0;
}

/* Always stores the coordinate, and counts it only if it is listed, which avoids a branch. */
static inline void list_one(float v, size_t i, struct select_bounds b, struct select_lists *l,
			    float *residual, const int flags)
{
	int32_t key = (int32_t)key_of(v);
	int sure = key > b.above;

	l->index[l->n] = (uint32_t)i;
	if (flags & VALUES)
		l->value[l->n] = v;
	l->n += (size_t)sure;
	l->near_index[l->n_near] = (uint32_t)i;
	l->near_value[l->n_near] = v;
	l->n_near += (size_t)(sure ^ (key > b.below));
	if (key > l->largest)
		l->largest = key;
	if ((flags & CLEAR) && sure)
		residual[i] = 0;
}

/* residual is the same as x if a gradient is added, and otherwise NULL. */
static inline __attribute__((always_inline)) void sweep_portable(
	const float *x, float *residual, const float *grad, float scale, size_t begin, size_t end,
	struct select_bounds b, struct select_lists *out, const int flags)
{
	struct select_lists l = *out;
	size_t i = begin;

	l.n = l.n_near = 0;
	for (; i + BLOCK <= end; i += BLOCK) {
		float v[BLOCK];

		memcpy(v, x + i, sizeof(v));
		if (flags & ADD) {
			for (size_t j = 0; j < BLOCK; j++)
				v[j] += scale * grad[i + j];
			memcpy(residual + i, v, sizeof(v));
		}
		if (!block_reaches(v, b.below))
			continue;
		for (size_t j = 0; j < BLOCK; j++)
			list_one(v[j], i + j, b, &l, residual, flags);
	}
	for (; i < end; i++) {
		float v = x[i];

		if (flags & ADD)
			residual[i] = v += scale * grad[i];
		list_one(v, i, b, &l, residual, flags);
	}
	*out = l;
}

static void list(const float *x, size_t begin, size_t end, struct select_bounds b,
		 struct select_lists *l)
{
	sweep_portable(x, NULL, NULL, 0, begin, end, b, l, 0);
}

static void list_values(const float *x, size_t begin, size_t end, struct select_bounds b,
			struct select_lists *l)
{
	sweep_portable(x, NULL, NULL, 0, begin, end, b, l, VALUES);
}

static void add_list(float *residual, const float *grad, float scale, size_t begin, size_t end,
		     struct select_bounds b, struct select_lists *l)
{
	sweep_portable(residual, residual, grad, scale, begin, end, b, l, ADD);
}

static void add_take(float *residual, const float *grad, float scale, size_t begin, size_t end,
		     struct select_bounds b, struct select_lists *l)
{
	sweep_portable(residual, residual, grad, scale, begin, end, b, l, ADD | VALUES | CLEAR);
}

static size_t nonfinite(const float *x, size_t n)
{
	size_t i = 0;

	while (i + BLOCK <= n && !block_reaches(x + i, KEY_INFINITY - 1))
		i += BLOCK;
	while (i < n && key_of(x[i]) < KEY_INFINITY)
		i++;
	return i;
}

const struct select_kernels select_portable = { "portable", kernels_anywhere, list,     list_values,
						add_list,   add_take,         nonfinite };

const struct select_kernels *const select_versions[] = {
#if defined(__x86_64__)
	&select_avx512, &select_avx2,
#endif
	&select_portable, NULL
};

const struct select_kernels *select_best(void)
{
	return kernels_named(select_versions);
}
