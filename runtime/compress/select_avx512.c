/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels of selection for AVX-512F: like select_avx2.c with masks and compress instructions, 64
 * coordinates per turn. Compressed in registers and stored whole: compressing into memory is slow on
 * some processors. */
#include "select_kernels.h"
#if defined(__x86_64__)
#include <immintrin.h>

#define FOR_AVX512 __attribute__((target("avx512f,popcnt")))
enum { LANES = 16, TURN = 4 * LANES, ADD = 1, VALUES = 2, CLEAR = 4 };

FOR_AVX512 static inline __attribute__((always_inline)) void
list_sixteen(__m512 v, size_t i, __mmask16 sure, __mmask16 near, struct select_lists *l,
	     const int flags)
{
	const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
	const __m512i at = _mm512_add_epi32(_mm512_set1_epi32((int32_t)(uint32_t)i), lanes);

	_mm512_storeu_si512(l->index + l->n, _mm512_maskz_compress_epi32(sure, at));
	if (flags & VALUES)
		_mm512_storeu_ps(l->value + l->n, _mm512_maskz_compress_ps(sure, v));
	l->n += (size_t)__builtin_popcount(sure);
	if (near) {
		_mm512_storeu_si512(l->near_index + l->n_near,
				    _mm512_maskz_compress_epi32(near, at));
		_mm512_storeu_ps(l->near_value + l->n_near, _mm512_maskz_compress_ps(near, v));
		l->n_near += (size_t)__builtin_popcount(near);
	}
}

FOR_AVX512 static inline __attribute__((always_inline)) void
sweep(const float *x, float *residual, const float *grad, float scale, size_t begin, size_t end,
      struct select_bounds b, struct select_lists *out, const int flags)
{
	const __m512i mask = _mm512_set1_epi32(KEY_MASK), below = _mm512_set1_epi32(b.below);
	const __m512i above = _mm512_set1_epi32(b.above);
	const __m512 factor = _mm512_set1_ps(scale);
	__m512i largest = _mm512_set1_epi32(out->largest);
	struct select_lists l = *out;
	size_t i = begin;

	l.n = l.n_near = 0;
	for (; i + TURN <= end; i += TURN) {
		__mmask16 reached[4];
		__m512i key[4];
		__m512 v[4];

		for (size_t j = 0; j < 4; j++) {
			v[j] = _mm512_loadu_ps(x + i + j * LANES);
			if (flags & ADD) {
				__m512 g = _mm512_loadu_ps(grad + i + j * LANES);

				v[j] = _mm512_add_ps(v[j], _mm512_mul_ps(factor, g));
				_mm512_storeu_ps(residual + i + j * LANES, v[j]);
			}
			key[j] = _mm512_and_si512(_mm512_castps_si512(v[j]), mask);
			reached[j] = _mm512_cmpgt_epi32_mask(key[j], below);
			largest = _mm512_max_epi32(largest, key[j]);
		}
		if (!(reached[0] | reached[1] | reached[2] | reached[3]))
			continue;
		for (size_t j = 0; j < 4; j++) {
			__mmask16 sure = _mm512_cmpgt_epi32_mask(key[j], above);

			list_sixteen(v[j], i + j * LANES, sure, (__mmask16)(sure ^ reached[j]), &l,
				     flags);
			if ((flags & CLEAR) && sure)
				_mm512_mask_storeu_ps(residual + i + j * LANES, sure,
						      _mm512_setzero_ps());
		}
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
