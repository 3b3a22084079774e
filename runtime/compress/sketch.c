/* SPDX-License-Identifier: BSD-3-Clause
 * See sketch.h; sketch_rules.h has the hashes. Coordinates are processed in runs: first the signs
 * of a run, which all rows share, and then its buckets, row by row. This file compiles the portable
 * version of the kernels, and chooses one. */
#include "sketch_wide.h"

const struct sketch_kernels *const sketch_versions[] = {
#if defined(__x86_64__)
	&sketch_avx2,
#endif
	&sketch_portable, NULL
};

static const void *_Atomic chosen;

void sketch_kernels_use(const struct sketch_kernels *kernels)
{
	atomic_store_explicit(&chosen, kernels, memory_order_relaxed);
}

static const struct sketch_kernels *chosen_kernels(void)
{
	return kernels_chosen(sketch_versions, &chosen);
}

/* ---- sketches ---- */

static uint32_t run_length(uint32_t first, uint32_t n)
{
	return n - first < SKETCH_RUN ? n - first : SKETCH_RUN;
}

static size_t whole_groups(uint32_t n)
{
	return ((size_t)n + SKETCH_GROUP - 1) / SKETCH_GROUP * SKETCH_GROUP;
}

void sketch_add(const struct sketch_shape *shape, const float *x, uint32_t n, float *cells)
{
	const struct sketch_kernels *k = chosen_kernels();
	const struct sketch_hashes h = sketch_hashes(shape);
	uint32_t sign[SKETCH_RUN], bucket[SKETCH_RUN], here;
	float addend[SKETCH_RUN];

	for (uint32_t first = 0; first < n; first += here) {
		here = run_length(first, n);
		k->signs(&h, first, whole_groups(here), sign);
		for (uint32_t r = 0; r < shape->rows; r++) {
			float *row = cells + (size_t)r * shape->columns;

			k->buckets(&h, r, first, shape->columns, whole_groups(here), bucket);
			k->addends(x + first, sign, r, here, addend);
#pragma GCC unroll 8
			for (uint32_t i = 0; i < here; i++)
				row[bucket[i]] += addend[i];
		}
	}
}

void sketch_estimate(const struct sketch_shape *shape, const float *cells, uint32_t n, float *out)
{
	const struct sketch_kernels *k = chosen_kernels();
	const struct sketch_hashes h = sketch_hashes(shape);
	uint32_t sign[SKETCH_RUN], bucket[SKETCH_RUN], here;
	float seen[SKETCH_ROWS_MAX][SKETCH_RUN], last[SKETCH_RUN];

	for (uint32_t first = 0; first < n; first += here) {
		here = run_length(first, n);
		k->signs(&h, first, whole_groups(here), sign);
		for (uint32_t r = 0; r < shape->rows; r++) {
			const float *row = cells + (size_t)r * shape->columns;

			k->buckets(&h, r, first, shape->columns, whole_groups(here), bucket);
#pragma GCC unroll 8
			for (uint32_t i = 0; i < whole_groups(here); i++)
				seen[r][i] = row[bucket[i]];
		}
		k->medians(seen, shape->rows, sign, whole_groups(here), last);
		memcpy(out + first, last, here * sizeof(*out));
	}
}
