/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels of selection for AVX-512F: blocks and the first walk as in select_avx2.c. The other
 * walks are simpler: masks and compress instructions list candidates without a table and without a
 * branch on data, be they few or many. Compressed in registers and stored whole: compressing into
 * memory is slow on some processors. */
#include "select_kernels.h"
#if defined(__x86_64__)
#include "select_find.h"

#define FOR_AVX512 __attribute__((target("avx512f,popcnt,prfchw")))
enum { LANES = 16 };
/* So far ahead memory is asked for: less than by select_avx2.c, whose walks take longer. */
enum { AHEAD = 64 };

/* What reaches in a block: n entries, and room for the whole registers in which they are stored. */
struct candidates {
	uint32_t index[BLOCK + LANES];
	float value[BLOCK + LANES];
	size_t n;
};

FOR_AVX512 static inline __m512i keys_of(__m512 v)
{
	return _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(KEY_MASK));
}

/* Appends which of 16 lanes reach, sure or near, and zeroes the sure ones if asked to. Returns the
 * new n. */
FOR_AVX512 static inline __attribute__((always_inline)) size_t append(
	const float *x, float *residual, size_t i, __m512i places, __m512i below, __m512i above,
	struct candidates *c, size_t n, const int flags)
{
	const __m512 v = _mm512_loadu_ps(x + i);
	const __m512i key = keys_of(v);
	const __mmask16 m = _mm512_cmpgt_epi32_mask(key, below);

	_mm512_storeu_si512(c->index + n, _mm512_maskz_compress_epi32(m, places));
	_mm512_storeu_ps(c->value + n, _mm512_maskz_compress_ps(m, v));
	if (flags & CLEAR)
		_mm512_storeu_ps(residual + i,
				 _mm512_maskz_mov_ps(_mm512_cmple_epi32_mask(key, above), v));
	return n + (size_t)__builtin_popcount(m);
}

/* Second walk, over the turns that were hit: gathers the candidates. Meanwhile memory is asked for,
 * from `soon` on: else it would rest until this is done. With each hit two lines, be it of one
 * vector or two. */
FOR_AVX512 static inline __attribute__((always_inline)) void gather(
	const float *x, float *residual, const float *grad, const uint32_t *hits, size_t n_hits,
	__m512i below, __m512i above, size_t soon, struct candidates *c, const int flags)
{
	const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
						15);
	const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(LANES));
	size_t n = 0;

	for (size_t h = 0; h < n_hits; h++, soon += flags & ADD ? LINE : TURN) {
		const size_t i = hits[h];
		const __m512i at = _mm512_set1_epi32((int32_t)i);

		ask_for(x, grad, soon, flags);
		if (!(flags & ADD))
			ask_for(x, grad, soon + LINE, flags);
		n = append(x, residual, i, _mm512_add_epi32(at, first), below, above, c, n, flags);
		n = append(x, residual, i + LANES, _mm512_add_epi32(at, second), below, above, c, n,
			   flags);
	}
	/* A zero is neither sure nor near: split() reads whole registers. */
	_mm512_storeu_ps(c->value + n, _mm512_setzero_ps());
	c->n = n;
}

/* Third walk, over the candidates: sure ones to the one list, near ones to the other. */
FOR_AVX512 static inline __attribute__((always_inline)) void split(const struct candidates *c,
								   __m512i below, __m512i above,
								   __m512i *largest,
								   struct select_lists *l,
								   const int flags)
{
	for (size_t j = 0; j < c->n; j += LANES) {
		const __m512i index = _mm512_loadu_si512(c->index + j);
		const __m512 v = _mm512_loadu_ps(c->value + j);
		const __m512i key = keys_of(v);
		const __mmask16 sure = _mm512_cmpgt_epi32_mask(key, above);
		const __mmask16 near = sure ^ _mm512_cmpgt_epi32_mask(key, below);

		_mm512_storeu_si512(l->index + l->n, _mm512_maskz_compress_epi32(sure, index));
		if (flags & VALUES)
			_mm512_storeu_ps(l->value + l->n, _mm512_maskz_compress_ps(sure, v));
		_mm512_storeu_si512(l->near_index + l->n_near,
				    _mm512_maskz_compress_epi32(near, index));
		_mm512_storeu_ps(l->near_value + l->n_near, _mm512_maskz_compress_ps(near, v));
		l->n += (size_t)__builtin_popcount(sure);
		l->n_near += (size_t)__builtin_popcount(near);
		*largest = _mm512_max_epi32(*largest, key);
	}
}

FOR_AVX512 static inline __attribute__((always_inline)) void sweep(
	const float *x, float *residual, const float *grad, float scale, size_t begin, size_t end,
	struct select_bounds b, struct select_lists *out, const int flags)
{
	const __m512i below = _mm512_set1_epi32(b.below), above = _mm512_set1_epi32(b.above);
	const size_t whole = end - (end - begin) % TURN;
	__m512i largest = _mm512_set1_epi32(out->largest);
	uint32_t hits[BLOCK / TURN + 1];
	struct select_lists l = *out;
	struct candidates c;
	size_t i = begin, next;

	l.n = l.n_near = 0;
	for (; i < whole; i = next) {
		size_t n_hits, soon;

		next = whole - i < BLOCK ? whole : i + BLOCK;
		soon = next + AHEAD;
		n_hits = find(x, residual, grad, scale, i, next, b.below, AHEAD, hits, flags);
		gather(x, residual, grad, hits, n_hits, below, above, soon, &c, flags);
		split(&c, below, above, &largest, &l, flags);
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
	const __m512i finite = _mm512_set1_epi32(KEY_INFINITY - 1);
	size_t i = 0;

	for (; i + 2 * TURN <= n; i += 2 * TURN) {
		const __m512i a = keys_of(_mm512_loadu_ps(x + i));
		const __m512i b = keys_of(_mm512_loadu_ps(x + i + LANES));
		const __m512i c = keys_of(_mm512_loadu_ps(x + i + 2 * LANES));
		const __m512i d = keys_of(_mm512_loadu_ps(x + i + 3 * LANES));
		const __m512i most = _mm512_max_epi32(_mm512_max_epi32(a, b),
						      _mm512_max_epi32(c, d));

		if (_mm512_cmpgt_epi32_mask(most, finite))
			break;
	}
	return i + select_portable.nonfinite(x + i, n - i);
}

static int usable(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("popcnt");
}

const struct select_kernels select_avx512 = { "avx512", usable,   list,     list_values,
					      add_list, add_take, nonfinite };
#else
typedef int no_avx512_on_this_machine;
#endif
