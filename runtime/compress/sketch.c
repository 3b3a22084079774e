/* SPDX-License-Identifier: BSD-3-Clause
 * See sketch.h; sketch_rules.h has the hashes. Coordinates are processed in runs: first the signs
 * of a run, which all rows share, and then its buckets, row by row. */
#include "sketch_kernels.h"
#include <string.h>

/* ---- the portable version, and the choice ---- */

static void sign_words(const struct sketch_hashes *h, uint32_t first, size_t n, uint32_t *out)
{
	for (size_t i = 0; i < n; i++)
		out[i] = (uint32_t)sketch_signs(h, first + (uint32_t)i);
}

static void buckets(const struct sketch_hashes *h, uint32_t row, uint32_t first, uint32_t columns,
		    size_t n, uint32_t *out)
{
	for (size_t i = 0; i < n; i++)
		out[i] = sketch_bucket(h, row, first + (uint32_t)i, columns);
}

static void addends(const float *x, const uint32_t *sign, uint32_t row, size_t n, float *out)
{
	for (size_t i = 0; i < n; i++)
		out[i] = sketch_addend(x[i], sign[i], row);
}

/* Moves the smallest value to the front, then the next one, and so on up to the middle. Both
 * comparisons match the processors' instructions for the minimum and maximum of two numbers, even
 * for zeros of different sign. No branch depends on the values. */
static inline float median(float *v, uint32_t n)
{
	for (uint32_t front = 0; front <= n / 2; front++)
		for (uint32_t at = n - 1; at > front; at--) {
			const float a = v[at - 1], b = v[at];

			v[at - 1] = a < b ? a : b;
			v[at] = a > b ? a : b;
		}
	return v[n / 2];
}

static void medians(float (*cells)[SKETCH_RUN], uint32_t rows, const uint32_t *sign, size_t n,
		    float *out)
{
	float v[SKETCH_ROWS_MAX];

	for (size_t i = 0; i < n; i++) {
		for (uint32_t r = 0; r < rows; r++)
			v[r] = bits_float(float_bits(cells[r][i]) ^ (sign[i] >> r & 1) << 31);
		out[i] = median(v, rows);
	}
}

const struct sketch_kernels sketch_portable = { "portable", kernels_anywhere, sign_words,
						buckets,    addends,          medians };

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
