/* SPDX-License-Identifier: BSD-3-Clause
 * How the selection kernels for AVX2 and AVX-512 sweep a vector. Up to three walks go over each
 * block, but only the first one reads from memory. It rules out turns of 32 coordinates without a
 * candidate, which are most of them. Hardly any branch depends on data, because such branches
 * cannot be predicted at 1 %. While the other walks work, memory for the next block is prefetched.
 * The versions differ in how they list many candidates. The first walk uses registers of 32 bytes:
 * with 64 bytes, the measured processors had fewer cache lines in flight, and a pass took a fifth
 * longer. There is no fused multiply-add, so all versions round identically. */
#ifndef COMPRESS_SELECT_BLOCKS_H
#define COMPRESS_SELECT_BLOCKS_H
#include "select_kernels.h"
#include <immintrin.h>

#define FOR_BLOCKS __attribute__((target("avx2,popcnt,bmi,prfchw"), always_inline)) static inline
enum { LANES = 8, TURN = 4 * LANES, LINE = 16, BLOCK = 1024, ADD = 1, VALUES = 2, CLEAR = 4 };

/* If this many turns of a block have a candidate, most of them have several. */
enum { MANY = BLOCK / TURN * 3 / 4 };
/* Returns the distance in coordinates by which memory is prefetched. It must be far enough for the
 * data to arrive in time, and near enough for the number of cache lines that the processor can load
 * at once. On Zen 4, distances of 48 to 96 take the same time, and 128 takes a tenth to a quarter
 * more. On Emerald Rapids, 512 takes a fifth less time than 64. */
FOR_BLOCKS size_t prefetch_distance(void)
{
	return __builtin_cpu_is("intel") ? 512 : 64;
}

FOR_BLOCKS void ask_for(const float *x, const float *grad, size_t i, const int flags)
{
	if (flags & ADD) {
		__builtin_prefetch(x + i, 1, 3);
		__builtin_prefetch(grad + i, 0, 3);
	} else {
		__builtin_prefetch(x + i, 0, 3);
	}
}

/* Returns the keys of eight lanes, after adding the gradient if there is one. */
FOR_BLOCKS __m256i first_keys(const float *x, float *residual, const float *grad, __m256 factor,
			      size_t i, const int flags)
{
	__m256 v = _mm256_loadu_ps(x + i);

	if (flags & ADD) {
		v = _mm256_add_ps(v, _mm256_mul_ps(factor, _mm256_loadu_ps(grad + i)));
		_mm256_storeu_ps(residual + i, v);
	}
	return _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(KEY_MASK));
}

/* Adds the gradient, and records in hits[] the turns that have a candidate. Prefetches memory
 * `ahead` of the walk. The four vectors are written out, because a loop over them would keep them
 * in memory. */
FOR_BLOCKS size_t find(const float *x, float *residual, const float *grad, float scale,
		       size_t begin, size_t end, int32_t bound, size_t ahead, uint32_t *hits,
		       const int flags)
{
	const __m256i below = _mm256_set1_epi32(bound);
	const __m256 factor = _mm256_set1_ps(scale);
	size_t n = 0;

	for (size_t i = begin; i < end; i += TURN) {
		const __m256i a = first_keys(x, residual, grad, factor, i, flags);
		const __m256i b = first_keys(x, residual, grad, factor, i + LANES, flags);
		const __m256i c = first_keys(x, residual, grad, factor, i + 2 * LANES, flags);
		const __m256i d = first_keys(x, residual, grad, factor, i + 3 * LANES, flags);
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

FOR_BLOCKS __m256i key_at(const float *x)
{
	return _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x)),
				_mm256_set1_epi32(KEY_MASK));
}

/* Returns a mask of the lanes among the 32 of a turn whose key is above `below`, with the first
 * lane in the lowest bit. */
FOR_BLOCKS uint32_t lanes_that_reach(const float *x, __m256i below)
{
	const __m256i a = _mm256_cmpgt_epi32(key_at(x), below);
	const __m256i b = _mm256_cmpgt_epi32(key_at(x + LANES), below);
	const __m256i c = _mm256_cmpgt_epi32(key_at(x + 2 * LANES), below);
	const __m256i d = _mm256_cmpgt_epi32(key_at(x + 3 * LANES), below);
	const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b),
						 _mm256_packs_epi32(c, d));
	/* Pack instructions work on the two halves separately, so this puts the result in order. */
	const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);

	return (uint32_t)_mm256_movemask_epi8(_mm256_permutevar8x32_epi32(bytes, in_order));
}

/* The second walk if few turns were hit. Lists one candidate after another. It always stores two
 * candidates of a turn, even if there are fewer, so that only a third one needs a branch that
 * depends on data. Meanwhile it prefetches memory from `soon` on, because the memory bus would
 * otherwise be idle. */
FOR_BLOCKS void list_few(const float *x, float *residual, const float *grad, const uint32_t *hits,
			 size_t n_hits, struct select_bounds bounds, size_t soon,
			 struct select_lists *out, const int flags)
{
	const __m256i below = _mm256_set1_epi32(bounds.below);
	struct select_lists l = *out;
	uint32_t candidates[BLOCK + 1];
	size_t n = 0;

	for (size_t h = 0; h < n_hits; h++, soon += LINE) {
		uint32_t m = lanes_that_reach(x + hits[h], below);
		size_t next = n + (size_t)__builtin_popcount(m);

		ask_for(x, grad, soon, flags);
		candidates[n] = hits[h] + _tzcnt_u32(m);
		m = _blsr_u32(m);
		candidates[n + 1] = hits[h] + _tzcnt_u32(m);
		for (n += 2, m = _blsr_u32(m); m; m = _blsr_u32(m))
			candidates[n++] = hits[h] + _tzcnt_u32(m);
		n = next;
	}
	for (size_t j = 0; j < n; j++, soon += LINE) {
		const uint32_t i = candidates[j];
		const float v = x[i];
		const int32_t key = (int32_t)key_of(v);
		const uint32_t sure = key > bounds.above;

		ask_for(x, grad, soon, flags);
		l.index[l.n] = i;
		if (flags & VALUES)
			l.value[l.n] = v;
		l.near_index[l.n_near] = i;
		l.near_value[l.n_near] = v;
		if (flags & CLEAR)
			residual[i] = bits_float(float_bits(v) & (sure - 1));
		l.n += sure;
		l.n_near += sure ^ 1;
		l.largest = key > l.largest ? key : l.largest;
	}
	*out = l;
}

/* The second walk if many turns of a block were hit. Lists the candidates of these turns, and
 * zeroes the sure ones if requested. Meanwhile it prefetches memory from `soon` on. It may change
 * hits[]. */
typedef void list_many_fn(const float *x, float *residual, const float *grad, uint32_t *hits,
			  size_t n_hits, struct select_bounds bounds, size_t soon,
			  struct select_lists *lists, int flags);

FOR_BLOCKS void sweep(const float *x, float *residual, const float *grad, float scale, size_t begin,
		      size_t end, struct select_bounds b, list_many_fn *list_many,
		      struct select_lists *out, const int flags)
{
	const size_t whole = end - (end - begin) % TURN, ahead = prefetch_distance();
	uint32_t hits[BLOCK / TURN + 1];
	struct select_lists l = *out;
	size_t i = begin, next;

	l.n = l.n_near = 0;
	for (; i < whole; i = next) {
		size_t n_hits, soon;

		next = whole - i < BLOCK ? whole : i + BLOCK;
		soon = next + ahead;
		n_hits = find(x, residual, grad, scale, i, next, b.below, ahead, hits, flags);
		if (n_hits < MANY)
			list_few(x, residual, grad, hits, n_hits, b, soon, &l, flags);
		else
			list_many(x, residual, grad, hits, n_hits, b, soon, &l, flags);
	}
	*out = l;
	if (i == end)
		return;
	/* The portable version appends what is left, which is less than a turn. */
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
#endif
