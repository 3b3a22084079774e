/* SPDX-License-Identifier: BSD-3-Clause
 * The selection kernels for AVX-512. They sweep as select_blocks.h describes. They differ from
 * those in select_avx2.c if many coordinates are candidates, for example at 10 %: then instructions
 * that compress a register under a mask take a sixth less time. */
#include "select_kernels.h"
#if defined(__x86_64__)
#include "select_blocks.h"

#define FOR_AVX512 __attribute__((target("avx512f,avx2,popcnt,bmi,prfchw")))
enum { WIDE = 16 };

FOR_AVX512 static inline __m512i keys_of_wide(__m512 v)
{
	return _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(KEY_MASK));
}

/* Gathers the candidates of the block first, and then separates the few near ones from the sure
 * ones. Candidates are compressed in registers and stored whole, because compressing into memory is
 * slow on some processors. */
FOR_AVX512 static void list_many_wide(const float *x, float *residual, const float *grad,
				      uint32_t *hits, size_t n_hits, struct select_bounds bounds,
				      size_t soon, struct select_lists *out, int flags)
{
	const __m512i below = _mm512_set1_epi32(bounds.below);
	const __m512i above = _mm512_set1_epi32(bounds.above);
	const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
					       15);
	__m512i largest = _mm512_set1_epi32(out->largest);
	uint32_t index[BLOCK + WIDE];
	float value[BLOCK + WIDE];
	struct select_lists l = *out;
	size_t n = 0;

	for (size_t h = 0; h < n_hits; h++, soon += flags & ADD ? LINE : TURN) {
		ask_for(x, grad, soon, flags);
		if (!(flags & ADD))
			ask_for(x, grad, soon + LINE, flags);
#pragma GCC unroll 2
		for (uint32_t i = hits[h]; i < hits[h] + TURN; i += WIDE) {
			const __m512i position = _mm512_add_epi32(lane,
								  _mm512_set1_epi32((int32_t)i));
			const __m512 v = _mm512_loadu_ps(x + i);
			const __m512i key = keys_of_wide(v);
			const __mmask16 m = _mm512_cmpgt_epi32_mask(key, below);

			_mm512_storeu_si512(index + n, _mm512_maskz_compress_epi32(m, position));
			_mm512_storeu_ps(value + n, _mm512_maskz_compress_ps(m, v));
			if (flags & CLEAR)
				_mm512_storeu_ps(residual + i,
						 _mm512_maskz_mov_ps(
							 _mm512_cmple_epi32_mask(key, above), v));
			n += (size_t)__builtin_popcount(m);
		}
	}
	/* The last register is read whole. The zeros in it are neither sure nor near. */
	_mm512_storeu_ps(value + n, _mm512_setzero_ps());
	for (size_t j = 0; j < n; j += WIDE) {
		const __m512i position = _mm512_loadu_si512(index + j);
		const __m512 v = _mm512_loadu_ps(value + j);
		const __m512i key = keys_of_wide(v);
		const __mmask16 sure = _mm512_cmpgt_epi32_mask(key, above);
		const __mmask16 near = sure ^ _mm512_cmpgt_epi32_mask(key, below);

		_mm512_storeu_si512(l.index + l.n, _mm512_maskz_compress_epi32(sure, position));
		if (flags & VALUES)
			_mm512_storeu_ps(l.value + l.n, _mm512_maskz_compress_ps(sure, v));
		_mm512_storeu_si512(l.near_index + l.n_near,
				    _mm512_maskz_compress_epi32(near, position));
		_mm512_storeu_ps(l.near_value + l.n_near, _mm512_maskz_compress_ps(near, v));
		l.n += (size_t)__builtin_popcount(sure);
		l.n_near += (size_t)__builtin_popcount(near);
		largest = _mm512_max_epi32(largest, key);
	}
	l.largest = _mm512_reduce_max_epi32(largest);
	*out = l;
}

FOR_AVX512 static void list_avx512(const float *x, size_t begin, size_t end, struct select_bounds b,
				   struct select_lists *l)
{
	sweep(x, NULL, NULL, 0, begin, end, b, list_many_wide, l, 0);
}

FOR_AVX512 static void list_values_avx512(const float *x, size_t begin, size_t end,
					  struct select_bounds b, struct select_lists *l)
{
	sweep(x, NULL, NULL, 0, begin, end, b, list_many_wide, l, VALUES);
}

FOR_AVX512 static void add_list_avx512(float *residual, const float *grad, float scale,
				       size_t begin, size_t end, struct select_bounds b,
				       struct select_lists *l)
{
	sweep(residual, residual, grad, scale, begin, end, b, list_many_wide, l, ADD);
}

FOR_AVX512 static void add_take_avx512(float *residual, const float *grad, float scale,
				       size_t begin, size_t end, struct select_bounds b,
				       struct select_lists *l)
{
	sweep(residual, residual, grad, scale, begin, end, b, list_many_wide, l,
	      ADD | VALUES | CLEAR);
}

static size_t nonfinite_avx512(const float *x, size_t n)
{
	return select_avx2.nonfinite(x, n);
}

static int select_avx512_usable(void)
{
	return kernels_avx2() && __builtin_cpu_supports("avx512f");
}

const struct select_kernels select_avx512 = { "avx512",        select_avx512_usable,
					      list_avx512,     list_values_avx512,
					      add_list_avx512, add_take_avx512,
					      nonfinite_avx512 };
#else
typedef int no_avx512_on_this_machine;
#endif
