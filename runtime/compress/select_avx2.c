/* SPDX-License-Identifier: BSD-3-Clause
 * The selection kernels for AVX2. They sweep as select_blocks.h describes, and list many candidates
 * by a table of permutations. This file is compiled for AVX2 with any build flags, and used only if
 * the processor has AVX2. */
#include "select_kernels.h"
#if defined(__x86_64__)
#include "select_blocks.h"

#define FOR_AVX2 __attribute__((target("avx2,popcnt,bmi,prfchw")))
/* order[m] lists the lanes whose bits are set in m, in ascending order, one per byte. */
#define O1(m, b) ((m) >> (b)&1)
#define BELOW(m, b)                                                                                \
	((O1(m, 0) & ((b) > 0)) + (O1(m, 1) & ((b) > 1)) + (O1(m, 2) & ((b) > 2)) +                \
	 (O1(m, 3) & ((b) > 3)) + (O1(m, 4) & ((b) > 4)) + (O1(m, 5) & ((b) > 5)) +                \
	 (O1(m, 6) & ((b) > 6)))
#define PUT(m, b) (O1(m, b) ? (uint64_t)(b) << 8 * BELOW(m, b) : 0)
#define ROW(m)                                                                                     \
	(PUT(m, 0) | PUT(m, 1) | PUT(m, 2) | PUT(m, 3) | PUT(m, 4) | PUT(m, 5) | PUT(m, 6) |       \
	 PUT(m, 7))
#define ROWS4(m)  ROW(m), ROW((m) + 1), ROW((m) + 2), ROW((m) + 3)
#define ROWS16(m) ROWS4(m), ROWS4((m) + 4), ROWS4((m) + 8), ROWS4((m) + 12)
#define ROWS64(m) ROWS16(m), ROWS16((m) + 16), ROWS16((m) + 32), ROWS16((m) + 48)
static const uint64_t order[256] = { ROWS64(0u), ROWS64(64u), ROWS64(128u), ROWS64(192u) };

FOR_AVX2 static inline __m256i lanes_of(unsigned mask)
{
	return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)&order[mask]));
}

FOR_AVX2 static inline unsigned mask_of(__m256i compared)
{
	return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(compared));
}

FOR_AVX2 static inline __m256i keys_of(__m256 v)
{
	return _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(KEY_MASK));
}

/* The second walk if many turns were hit. Lists the sure candidates, and zeroes them if requested.
 * Leaves in hits[] the turns with near candidates. */
FOR_AVX2 static inline __attribute__((always_inline)) size_t list_sure(
	const float *x, float *residual, const float *grad, uint32_t *hits, size_t n_hits,
	__m256i below, __m256i above, __m256i *largest, size_t soon, struct select_lists *l,
	const int flags)
{
	size_t n_near = 0;

	for (size_t h = 0; h < n_hits; h++) {
		const uint32_t at = hits[h];
		__m256i rest = _mm256_setzero_si256(), position = _mm256_set1_epi32((int32_t)at);

		ask_for(x, grad, soon + h * TURN, flags);
		ask_for(x, grad, soon + h * TURN + LINE, flags);
#pragma GCC unroll 4
		for (uint32_t i = 0; i < TURN; i += LANES) {
			const __m256 v = _mm256_loadu_ps(x + at + i);
			const __m256i key = keys_of(v), sure = _mm256_cmpgt_epi32(key, above);
			const unsigned m = mask_of(sure);
			const __m256i which = lanes_of(m);

			_mm256_storeu_si256((__m256i *)(void *)(l->index + l->n),
					    _mm256_add_epi32(position, which));
			if (flags & VALUES)
				_mm256_storeu_ps(l->value + l->n,
						 _mm256_permutevar8x32_ps(v, which));
			l->n += (size_t)__builtin_popcount(m);
			if (flags & CLEAR)
				_mm256_storeu_ps(residual + at + i,
						 _mm256_andnot_ps(_mm256_castsi256_ps(sure), v));
			rest = _mm256_max_epi32(rest, _mm256_andnot_si256(sure, key));
			*largest = _mm256_max_epi32(*largest, key);
			position = _mm256_add_epi32(position, _mm256_set1_epi32(LANES));
		}
		const __m256i near = _mm256_cmpgt_epi32(rest, below);
		hits[n_near] = at;
		n_near += !_mm256_testz_si256(near, near);
	}
	return n_near;
}

FOR_AVX2 static inline __attribute__((always_inline)) void list_near(const float *x,
								     const uint32_t *hits,
								     size_t n_hits, __m256i below,
								     __m256i above,
								     struct select_lists *l)
{
	for (size_t h = 0; h < n_hits; h++)
		for (uint32_t i = hits[h]; i < hits[h] + TURN; i += LANES) {
			const __m256i key = key_at(x + i);
			const unsigned m = mask_of(_mm256_andnot_si256(
				_mm256_cmpgt_epi32(key, above), _mm256_cmpgt_epi32(key, below)));
			const __m256i which = lanes_of(m);

			_mm256_storeu_si256((__m256i *)(void *)(l->near_index + l->n_near),
					    _mm256_add_epi32(_mm256_set1_epi32((int32_t)i), which));
			_mm256_storeu_ps(l->near_value + l->n_near,
					 _mm256_permutevar8x32_ps(_mm256_loadu_ps(x + i), which));
			l->n_near += (size_t)__builtin_popcount(m);
		}
}

FOR_AVX2 static void list_many(const float *x, float *residual, const float *grad, uint32_t *hits,
			       size_t n_hits, struct select_bounds b, size_t soon,
			       struct select_lists *out, int flags)
{
	const __m256i below = _mm256_set1_epi32(b.below), above = _mm256_set1_epi32(b.above);
	__m256i largest = _mm256_set1_epi32(out->largest);
	struct select_lists l = *out;
	int32_t all[LANES];

	n_hits = list_sure(x, residual, grad, hits, n_hits, below, above, &largest, soon, &l,
			   flags);
	list_near(x, hits, n_hits, below, above, &l);
	_mm256_storeu_si256((__m256i *)(void *)all, largest);
	for (size_t j = 0; j < LANES; j++)
		l.largest = all[j] > l.largest ? all[j] : l.largest;
	*out = l;
}

FOR_AVX2 static void list_avx2(const float *x, size_t begin, size_t end, struct select_bounds b,
			       struct select_lists *l)
{
	sweep(x, NULL, NULL, 0, begin, end, b, list_many, l, 0);
}

FOR_AVX2 static void list_values_avx2(const float *x, size_t begin, size_t end,
				      struct select_bounds b, struct select_lists *l)
{
	sweep(x, NULL, NULL, 0, begin, end, b, list_many, l, VALUES);
}

FOR_AVX2 static void add_list_avx2(float *residual, const float *grad, float scale, size_t begin,
				   size_t end, struct select_bounds b, struct select_lists *l)
{
	sweep(residual, residual, grad, scale, begin, end, b, list_many, l, ADD);
}

FOR_AVX2 static void add_take_avx2(float *residual, const float *grad, float scale, size_t begin,
				   size_t end, struct select_bounds b, struct select_lists *l)
{
	sweep(residual, residual, grad, scale, begin, end, b, list_many, l, ADD | VALUES | CLEAR);
}

/* Sets the sign bit of a lane if its value is NaN or infinite: adding the lowest bit of the
 * exponent to an exponent of all ones carries into it. */
FOR_AVX2 static inline __m256i full_exponents(const float *x)
{
	const __m256i exponent = _mm256_set1_epi32(KEY_INFINITY),
		      lowest = _mm256_set1_epi32(1 << 23);
	const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)x);

	return _mm256_add_epi32(_mm256_and_si256(v, exponent), lowest);
}

/* Tests 64 values at a time, without a loop. A loop over the vectors of a turn took twice the
 * time. */
FOR_AVX2 static size_t nonfinite_avx2(const float *x, size_t n)
{
	size_t i = 0;

	for (; i + 2 * TURN <= n; i += 2 * TURN) {
		const float *v = x + i;
		const __m256i a = _mm256_or_si256(full_exponents(v), full_exponents(v + LANES));
		const __m256i b = _mm256_or_si256(full_exponents(v + 2 * LANES),
						  full_exponents(v + 3 * LANES));
		const __m256i c = _mm256_or_si256(full_exponents(v + 4 * LANES),
						  full_exponents(v + 5 * LANES));
		const __m256i d = _mm256_or_si256(full_exponents(v + 6 * LANES),
						  full_exponents(v + 7 * LANES));
		const __m256i any = _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));

		if (_mm256_movemask_ps(_mm256_castsi256_ps(any)))
			break;
	}
	return i + select_portable.nonfinite(x + i, n - i);
}

const struct select_kernels select_avx2 = { "avx2",           kernels_avx2,  list_avx2,
					    list_values_avx2, add_list_avx2, add_take_avx2,
					    nonfinite_avx2 };
#else
typedef int no_avx2_on_this_machine;
#endif
