/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels of selection for AVX-512F: the walks of select_avx2.c with masks and compress
 * instructions. Compressed in registers and stored whole: compressing into memory is slow on
 * some processors. */
#include "select_kernels.h"
#if defined(__x86_64__)
#include <immintrin.h>

#define FOR_AVX512 __attribute__((target("avx512f,popcnt,prfchw")))
/* AHEAD: see select_avx2.c. */
enum { LANES = 16, TURN = 2 * LANES, BLOCK = 1024, AHEAD = 1024, ADD = 1, VALUES = 2, CLEAR = 4 };

FOR_AVX512 static inline __m512i key_at(const float *x)
{
	return _mm512_and_si512(_mm512_castps_si512(_mm512_loadu_ps(x)),
				_mm512_set1_epi32(KEY_MASK));
}

/* First walk over a block: adds, and notes in hits[] the turns that hold a candidate. */
FOR_AVX512 static inline __attribute__((always_inline)) size_t
find(const float *x, float *residual, const float *grad, float scale, size_t begin, size_t end,
     __m512i below, uint32_t *hits, const int flags)
{
	const __m512i mask = _mm512_set1_epi32(KEY_MASK);
	const __m512 factor = _mm512_set1_ps(scale);
	size_t n = 0;

	for (size_t i = begin; i < end; i += TURN) {
		__mmask16 reached = 0;

		for (size_t j = 0; j < TURN; j += LANES) {
			__m512 v = _mm512_loadu_ps(x + i + j);

			if (flags & ADD) {
				v = _mm512_add_ps(
					v, _mm512_mul_ps(factor, _mm512_loadu_ps(grad + i + j)));
				_mm512_storeu_ps(residual + i + j, v);
				__builtin_prefetch(grad + i + AHEAD + j, 0, 3);
				__builtin_prefetch(x + i + AHEAD + j, 1, 3);
			} else {
				__builtin_prefetch(x + i + AHEAD + j, 0, 3);
			}
			reached |= _mm512_cmpgt_epi32_mask(
				_mm512_and_si512(_mm512_castps_si512(v), mask), below);
		}
		hits[n] = (uint32_t)i;
		n += reached != 0;
	}
	return n;
}

/* Second walk, over the turns that were hit: lists the sure ones, and zeroes them if asked to. Notes
 * in near_hits[] (hits itself will do) the turns with near ones. */
FOR_AVX512 static inline __attribute__((always_inline)) size_t
list_sure(const float *x, float *residual, const uint32_t *hits, size_t n_hits, __m512i below,
	  __m512i above, __m512i *largest, struct select_lists *l, uint32_t *near_hits,
	  const int flags)
{
	const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
	size_t n_near = 0;

	for (size_t h = 0; h < n_hits; h++) {
		const uint32_t at = hits[h];
		__mmask16 near = 0;

		for (uint32_t i = at; i < at + TURN; i += LANES) {
			const __m512 v = _mm512_loadu_ps(x + i);
			const __m512i key = key_at(x + i);
			const __mmask16 m = _mm512_cmpgt_epi32_mask(key, above);
			const __m512i place = _mm512_add_epi32(_mm512_set1_epi32((int32_t)i), lanes);

			_mm512_storeu_si512(l->index + l->n, _mm512_maskz_compress_epi32(m, place));
			if (flags & VALUES)
				_mm512_storeu_ps(l->value + l->n, _mm512_maskz_compress_ps(m, v));
			l->n += (size_t)__builtin_popcount(m);
			if (flags & CLEAR)
				_mm512_mask_storeu_ps(residual + i, m, _mm512_setzero_ps());
			near |= m ^ _mm512_cmpgt_epi32_mask(key, below);
			*largest = _mm512_max_epi32(*largest, key);
		}
		near_hits[n_near] = at;
		n_near += near != 0;
	}
	return n_near;
}

FOR_AVX512 static inline __attribute__((always_inline)) void
list_near(const float *x, const uint32_t *hits, size_t n_hits, __m512i below, __m512i above,
	  struct select_lists *l)
{
	const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);

	for (size_t h = 0; h < n_hits; h++)
		for (uint32_t i = hits[h]; i < hits[h] + TURN; i += LANES) {
			const __m512i key = key_at(x + i);
			const __mmask16 m = _mm512_cmpgt_epi32_mask(key, above) ^
					    _mm512_cmpgt_epi32_mask(key, below);
			const __m512i place = _mm512_add_epi32(_mm512_set1_epi32((int32_t)i), lanes);

			_mm512_storeu_si512(l->near_index + l->n_near,
					    _mm512_maskz_compress_epi32(m, place));
			_mm512_storeu_ps(l->near_value + l->n_near,
					 _mm512_maskz_compress_ps(m, _mm512_loadu_ps(x + i)));
			l->n_near += (size_t)__builtin_popcount(m);
		}
}

FOR_AVX512 static inline __attribute__((always_inline)) void
sweep(const float *x, float *residual, const float *grad, float scale, size_t begin, size_t end,
      struct select_bounds b, struct select_lists *out, const int flags)
{
	const __m512i below = _mm512_set1_epi32(b.below), above = _mm512_set1_epi32(b.above);
	const size_t whole = end - (end - begin) % TURN;
	__m512i largest = _mm512_set1_epi32(out->largest);
	uint32_t hits[BLOCK / TURN + 1];
	struct select_lists l = *out;
	size_t i = begin, next;

	l.n = l.n_near = 0;
	for (; i < whole; i = next) {
		size_t n_hits;

		next = whole - i < BLOCK ? whole : i + BLOCK;
		n_hits = find(x, residual, grad, scale, i, next, below, hits, flags);
		n_hits = list_sure(x, residual, hits, n_hits, below, above, &largest, &l, hits, flags);
		list_near(x, hits, n_hits, below, above, &l);
	}
	l.largest = _mm512_reduce_max_epi32(largest);
	*out = l;
	if (i == end)
		return;
	/* The rest: fewer than a turn, appended by the portable version. */
	struct select_lists rest = l;
	rest.index += l.n;
	rest.value = flags & VALUES ? rest.value + l.n : NULL;
	rest.near_index += l.n_near;
	rest.near_value += l.n_near;
	if (flags & CLEAR)
		select_portable.add_take(residual, grad, scale, i, end, b, &rest);
	else if (flags & ADD)
		select_portable.add_list(residual, grad, scale, i, end, b, &rest);
	else if (flags & VALUES)
		select_portable.list_values(x, i, end, b, &rest);
	else
		select_portable.list(x, i, end, b, &rest);
	out->n += rest.n;
	out->n_near += rest.n_near;
	out->largest = rest.largest;
}

FOR_AVX512 static void list(const float *x, size_t begin, size_t end, struct select_bounds b,
			    struct select_lists *l)
{
	sweep(x, NULL, NULL, 0, begin, end, b, l, 0);
}

FOR_AVX512 static void list_values(const float *x, size_t begin, size_t end, struct select_bounds b,
				   struct select_lists *l)
{
	sweep(x, NULL, NULL, 0, begin, end, b, l, VALUES);
}

FOR_AVX512 static void add_list(float *residual, const float *grad, float scale, size_t begin,
				size_t end, struct select_bounds b, struct select_lists *l)
{
	sweep(residual, residual, grad, scale, begin, end, b, l, ADD);
}

FOR_AVX512 static void add_take(float *residual, const float *grad, float scale, size_t begin,
				size_t end, struct select_bounds b, struct select_lists *l)
{
	sweep(residual, residual, grad, scale, begin, end, b, l, ADD | VALUES | CLEAR);
}

FOR_AVX512 static size_t nonfinite(const float *x, size_t n)
{
	const __m512i infinity = _mm512_set1_epi32(KEY_INFINITY);
	size_t i = 0;

	for (; i + LANES <= n; i += LANES) {
		__m512i v = _mm512_and_si512(_mm512_loadu_si512(x + i), infinity);

		if (_mm512_cmpeq_epi32_mask(v, infinity))
			break;
	}
	return i + select_portable.nonfinite(x + i, n - i);
}

static int usable(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("popcnt");
}

const struct select_kernels select_avx512 = { "avx512", usable,	  list,	    list_values,
					      add_list, add_take, nonfinite };
#else
typedef int no_avx512_on_this_machine;
#endif
