/* SPDX-License-Identifier: BSD-3-Clause
 * The first walk of selection over a block, which is the only one in select_avx2.c that reads from
 * memory. It uses registers of 32 bytes: with 64 bytes, the processors that were measured keep
 * fewer cache lines under way, and a pass took a fifth longer. */
#ifndef COMPRESS_SELECT_FIND_H
#define COMPRESS_SELECT_FIND_H
#include "select_kernels.h"
#include <immintrin.h>

#define FOR_FIND __attribute__((target("avx2,prfchw"), always_inline)) static inline
enum {
	FIND_LANES = 8,
	TURN = 4 * FIND_LANES,
	LINE = 16,
	BLOCK = 1024,
	ADD = 1,
	VALUES = 2,
	CLEAR = 4
};

FOR_FIND void ask_for(const float *x, const float *grad, size_t i, const int flags)
{
	if (flags & ADD) {
		__builtin_prefetch(x + i, 1, 3);
		__builtin_prefetch(grad + i, 0, 3);
	} else {
		__builtin_prefetch(x + i, 0, 3);
	}
}

/* The keys of eight lanes, after adding the gradient if there is one. */
FOR_FIND __m256i first_keys(const float *x, float *residual, const float *grad, __m256 factor,
			    size_t i, const int flags)
{
	__m256 v = _mm256_loadu_ps(x + i);

	if (flags & ADD) {
		v = _mm256_add_ps(v, _mm256_mul_ps(factor, _mm256_loadu_ps(grad + i)));
		_mm256_storeu_ps(residual + i, v);
	}
	return _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(KEY_MASK));
}

/* Adds the gradient, and records in hits[] the turns that hold a candidate. Prefetches memory
 * `ahead` of the walk. The four vectors are written out, because a loop over them would keep them
 * in memory. */
FOR_FIND size_t find(const float *x, float *residual, const float *grad, float scale, size_t begin,
		     size_t end, int32_t bound, size_t ahead, uint32_t *hits, const int flags)
{
	const __m256i below = _mm256_set1_epi32(bound);
	const __m256 factor = _mm256_set1_ps(scale);
	size_t n = 0;

	for (size_t i = begin; i < end; i += TURN) {
		const __m256i a = first_keys(x, residual, grad, factor, i, flags);
		const __m256i b = first_keys(x, residual, grad, factor, i + FIND_LANES, flags);
		const __m256i c = first_keys(x, residual, grad, factor, i + 2 * FIND_LANES, flags);
		const __m256i d = first_keys(x, residual, grad, factor, i + 3 * FIND_LANES, flags);
		const __m256i most = _mm256_max_epi32(_mm256_max_epi32(a, b),
						      _mm256_max_epi32(c, d));
		const __m256i reached = _mm256_cmpgt_epi32(most, below);

		ask_for(x, grad, i + ahead, flags);
		ask_for(x, grad, i + ahead + LINE, flags);
		hits[n] = (uint32_t)i;
		n += !_mm256_testz_si256(reached, reached);
	}
	return n;
}
#endif
