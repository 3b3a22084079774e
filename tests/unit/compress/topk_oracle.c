/* SPDX-License-Identifier: BSD-3-Clause
 * See topk_oracle.h. */
#include "topk_oracle.h"
#include "base/bytes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint32_t magnitude_bits(float x)
{
	return float_bits(x) & 0x7fffffff;
}

static const float *sorted_by;

static int by_magnitude_then_index(const void *left, const void *right)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	uint32_t ka = magnitude_bits(sorted_by[a]), kb = magnitude_bits(sorted_by[b]);

	if (ka != kb)
		return ka < kb ? 1 : -1;
	return a < b ? -1 : a > b;
}

void topk_order(const float *x, uint32_t *order, size_t n)
{
	sorted_by = x;
	qsort(order, n, sizeof(*order), by_magnitude_then_index);
}

size_t topk_oracle(const float *x, size_t n, const struct span *spans, size_t n_spans, size_t k,
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
	topk_order(x, order, total);
	for (size_t i = 0; i < total && i < k && x[order[i]] != 0; i++)
		count += chosen[order[i]] = 1;
	free(order);
	return count;
}
