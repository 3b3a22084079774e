/* SPDX-License-Identifier: BSD-3-Clause
 * Count sketches for AVX2, eight coordinates at once. Four even ones are in one register and four
 * odd ones in another, and the halves of both form a register of eight results.
 *
 * The signs are a polynomial of degree three at equidistant points, so the next value follows from
 * the last one and three differences. This takes additions in place of 128-bit products. Buckets
 * are the upper half of a number that grows by the same amount from one coordinate to the next. */
#include "sketch_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))

enum { DIFFERENCES = 3, EVALUATED = (DIFFERENCES + 1) * SKETCH_GROUP };

/* Returns the lower halves of the lanes of a, with the lower halves of the lanes of b between
 * them. */
AVX2 static inline __m256i alternate(__m256i a, __m256i b)
{
	return _mm256_blend_epi32(a, _mm256_slli_epi64(b, 32), 0xaa);
}

/* ---- signs ---- */

/* For each lane: the value at one coordinate, and its first, second and third differences over
 * SKETCH_GROUP coordinates. The third difference is constant. All are below SKETCH_PRIME. */
struct differences {
	__m256i of[DIFFERENCES + 1];
};

static uint64_t minus_modulo(uint64_t a, uint64_t b)
{
	return a >= b ? a - b : a + SKETCH_PRIME - b;
}

AVX2 static inline __m256i plus_modulo(__m256i a, __m256i b)
{
	const __m256i prime = _mm256_set1_epi64x((int64_t)SKETCH_PRIME);
	const __m256i less = _mm256_sub_epi64(_mm256_add_epi64(a, b), prime);

	/* The top bit is set if the difference fell below zero. */
	return _mm256_add_epi64(
		less, _mm256_and_si256(prime, _mm256_cmpgt_epi64(_mm256_setzero_si256(), less)));
}

static uint64_t signs_at(const struct sketch_hashes *h, uint64_t j)
{
	uint64_t y = sketch_multiply_add(h->sign[3], j, h->sign[2]);

	y = sketch_multiply_add(y, j, h->sign[1]);
	return sketch_multiply_add(y, j, h->sign[0]);
}

/* Returns the differences for the coordinates first + odd, first + odd + 2, + 4 and + 6. */
AVX2 static struct differences differences(const uint64_t *value, size_t odd)
{
	uint64_t d[DIFFERENCES + 1][4];
	struct differences out;

	for (size_t lane = 0; lane < 4; lane++)
		for (size_t i = 0; i <= DIFFERENCES; i++)
			d[i][lane] = value[i * SKETCH_GROUP + 2 * lane + odd];
	for (size_t i = 1; i <= DIFFERENCES; i++)
		for (size_t j = DIFFERENCES; j >= i; j--)
			for (size_t lane = 0; lane < 4; lane++)
				d[j][lane] = minus_modulo(d[j][lane], d[j - 1][lane]);
	for (size_t i = 0; i <= DIFFERENCES; i++)
		out.of[i] = _mm256_loadu_si256((const __m256i *)(const void *)d[i]);
	return out;
}

AVX2 static inline void advance_hashes(struct differences *d)
{
#pragma GCC unroll 4
	for (size_t i = 0; i < DIFFERENCES; i++)
		d->of[i] = plus_modulo(d->of[i], d->of[i + 1]);
}

AVX2 static void sign_words_avx2(const struct sketch_hashes *h, uint32_t first, size_t n,
				 uint32_t *out)
{
	uint64_t value[EVALUATED];
	struct differences even, odd;

	for (size_t i = 0; i < EVALUATED; i++)
		value[i] = signs_at(h, (uint64_t)first + i);
	even = differences(value, 0);
	odd = differences(value, 1);
	for (size_t i = 0; i < n; i += SKETCH_GROUP) {
		_mm256_storeu_si256((__m256i *)(void *)(out + i), alternate(even.of[0], odd.of[0]));
		advance_hashes(&even);
		advance_hashes(&odd);
	}
}

/* ---- buckets ---- */

AVX2 static void buckets_avx2(const struct sketch_hashes *h, uint32_t row, uint32_t first,
			      uint32_t columns, size_t n, uint32_t *out)
{
	const uint64_t m = h->multiplier[row], at = m * first + h->offset[row];
	const __m256i step = _mm256_set1_epi64x((int64_t)(SKETCH_GROUP * m));
	const __m256i wide = _mm256_set1_epi64x((int64_t)columns);
	__m256i even = _mm256_setr_epi64x((int64_t)at, (int64_t)(at + 2 * m), (int64_t)(at + 4 * m),
					  (int64_t)(at + 6 * m));
	__m256i odd = _mm256_add_epi64(even, _mm256_set1_epi64x((int64_t)m));

	for (size_t i = 0; i < n; i += SKETCH_GROUP) {
		const __m256i a = _mm256_mul_epu32(_mm256_srli_epi64(even, 32), wide);
		const __m256i b = _mm256_mul_epu32(_mm256_srli_epi64(odd, 32), wide);

		_mm256_storeu_si256((__m256i *)(void *)(out + i),
				    _mm256_blend_epi32(_mm256_srli_epi64(a, 32), b, 0xaa));
		even = _mm256_add_epi64(even, step);
		odd = _mm256_add_epi64(odd, step);
	}
}

/* ---- values ---- */

/* Returns the sign bits for a row. */
AVX2 static inline __m256 row_signs(const uint32_t *sign, uint32_t row)
{
	const __m256i s = _mm256_loadu_si256((const __m256i *)(const void *)sign);

	return _mm256_and_ps(_mm256_set1_ps(-0.0f),
			     _mm256_castsi256_ps(_mm256_slli_epi32(s, 31 - (int)row)));
}

AVX2 static void addends_avx2(const float *x, const uint32_t *sign, uint32_t row, size_t n,
			      float *out)
{
	const __m256 zero = _mm256_setzero_ps(), minus_zero = _mm256_set1_ps(-0.0f);
	size_t i = 0;

	for (; i + SKETCH_GROUP <= n; i += SKETCH_GROUP) {
		const __m256 v = _mm256_loadu_ps(x + i);
		const __m256 is_zero = _mm256_cmp_ps(v, zero, _CMP_EQ_OQ);

		_mm256_storeu_ps(out + i, _mm256_or_ps(_mm256_xor_ps(v, row_signs(sign + i, row)),
						       _mm256_and_ps(is_zero, minus_zero)));
	}
	for (; i < n; i++)
		out[i] = sketch_addend(x[i], sign[i], row);
}

/* ---- medians ---- */

AVX2 static inline __attribute__((always_inline)) void medians_of(float (*cells)[SKETCH_RUN],
								  const uint32_t rows,
								  const uint32_t *sign, size_t n,
								  float *out)
{
	for (size_t i = 0; i < n; i += SKETCH_GROUP) {
		__m256 v[SKETCH_ROWS_MAX];

#pragma GCC unroll 8 /* once unrolled, v stays in registers if rows is constant */
		for (uint32_t r = 0; r < rows; r++)
			v[r] = _mm256_xor_ps(_mm256_loadu_ps(cells[r] + i), row_signs(sign + i, r));
#pragma GCC unroll 8
		for (uint32_t front = 0; front <= rows / 2; front++)
#pragma GCC unroll 8
			for (uint32_t at = rows - 1; at > front; at--) {
				const __m256 a = v[at - 1], b = v[at];

				v[at - 1] = _mm256_min_ps(a, b);
				v[at] = _mm256_max_ps(a, b);
			}
		_mm256_storeu_ps(out + i, v[rows / 2]);
	}
}

AVX2 static void medians_avx2(float (*cells)[SKETCH_RUN], uint32_t rows, const uint32_t *sign,
			      size_t n, float *out)
{
	if (rows == 3)
		medians_of(cells, 3, sign, n, out);
	else if (rows == 5)
		medians_of(cells, 5, sign, n, out);
	else if (rows == 7)
		medians_of(cells, 7, sign, n, out);
	else
		medians_of(cells, rows, sign, n, out);
}

const struct sketch_kernels sketch_avx2 = { "avx2",       kernels_avx2, sign_words_avx2,
					    buckets_avx2, addends_avx2, medians_avx2 };
#else
typedef int no_avx2_on_this_machine;
#endif
