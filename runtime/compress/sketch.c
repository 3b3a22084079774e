/* SPDX-License-Identifier: BSD-3-Clause
 * See sketch.h; hashes are in sketch_rules.h. */
#include "sketch_rules.h"

void sketch_add(const struct sketch_shape *shape, const float *x, uint32_t n, float *cells)
{
	const struct sketch_hashes h = sketch_hashes(shape);

	for (uint32_t j = 0; j < n; j++) {
		uint64_t signs = sketch_signs(&h, j);

		if (x[j] == 0)
			continue;
		for (uint32_t r = 0; r < shape->rows; r++) {
			float *cell = cells + (size_t)r * shape->columns +
				      sketch_bucket(&h, r, j, shape->columns);

			*cell += signs >> r & 1 ? -x[j] : x[j];
		}
	}
}

/* The middle one of n values, n odd and small. */
static inline float median(float *v, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++) {
		float x = v[i];
		uint32_t at = i;

		for (; at && v[at - 1] > x; at--)
			v[at] = v[at - 1];
		v[at] = x;
	}
	return v[n / 2];
}

void sketch_estimate(const struct sketch_shape *shape, const float *cells, uint32_t n, float *out)
{
	const struct sketch_hashes h = sketch_hashes(shape);
	float rows[SKETCH_ROWS_MAX];

	for (uint32_t j = 0; j < n; j++) {
		uint64_t signs = sketch_signs(&h, j);

		for (uint32_t r = 0; r < shape->rows; r++) {
			float cell = cells[(size_t)r * shape->columns +
					   sketch_bucket(&h, r, j, shape->columns)];

			rows[r] = signs >> r & 1 ? -cell : cell;
		}
		out[j] = median(rows, shape->rows);
	}
}
