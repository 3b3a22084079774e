/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels of selection for AVX2. Each block is walked up to three times, but only the first
 * walk reads from memory. It rules out turns of 32 coordinates without a candidate, which are most
 * of them. Hardly any branch depends on data, because such branches cannot be predicted at 1 %.
 * While the other walks work, memory for the next block is prefetched. This file is compiled for
 * AVX2 whatever the build's flags are, and called only if the processor has it. There is no fused
 * multiply-add, so all versions round alike. */
#include "select_kernels.h"
#if defined(__x86_64__)
#include "select_find.h"

#define FOR_AVX2 __attribute__((target("avx2,popcnt,bmi,prfchw")))
enum { LANES = 8 };
/* If so many turns of a block have a candidate, most of them have several. */
enum { MANY = BLOCK / TURN * 3 / 4 };
/* How far ahead memory is prefetched: far enough that it arrives before the walk, and near enough
 * that the processor can keep so many cache lines under way. On Zen 4, distances of 48 to 96
 * coordinates take the same time, and 128 takes a tenth to a quarter more. */
enum { AHEAD = 64 };

/* order[m]: the lanes whose bits are set in m, ascending, one per byte. */
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

FOR_AVX2 static inline __m256i key_at(const float *x)
{
	return keys_of(_mm256_loadu_ps(x));
}

/* The lanes among the 32 of a turn whose key is above `below`, the first one in the lowest bit. */
FOR_AVX2 static inline uint32_t lanes_that_reach(const float *x, __m256i below)
{
	const __m256i a = _mm256_cmpgt_epi32(key_at(x), below);
	const __m256i b = _mm256_cmpgt_epi32(key_at(x + LANES), below);
	const __m256i c = _mm256_cmpgt_epi32(key_at(x + 2 * LANES), below);
	const __m256i d = _mm256_cmpgt_epi32(key_at(x + 3 * LANES), below);
	const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b),
						 _mm256_packs_epi32(c, d));
	/* Pack instructions work on the two halves separately. */
	const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);

	return (uint32_t)_mm256_movemask_epi8(_mm256_permutevar8x32_epi32(bytes, in_order));
}

/* The second walk if few turns were hit: lists one candidate after another. Two candidates of a
 * turn are always stored, whether they exist or not, so that only a third one is a branch that
 * depends on data. Meanwhile memory is prefetched from `soon` on, because it would otherwise be
 * idle. */
FOR_AVX2 static inline __attribute__((always_inline)) void list_few(
	const float *x, float *residual, const float *grad, const uint32_t *hits, size_t n_hits,
	struct select_bounds bounds, size_t soon, struct select_lists *out, const int flags)
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

/* The second walk if many turns were hit: lists the sure candidates, and zeroes them if requested.
 * Leaves the turns with near candidates in hits[]. */
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

FOR_AVX2 static inline __attribute__((always_inline)) void sweep_avx2(
	const float *x, float *residual, const float *grad, float scale, size_t begin, size_t end,
	struct select_bounds b, struct select_lists *out, const int flags)
{
	const __m256i below = _mm256_set1_epi32(b.below), above = _mm256_set1_epi32(b.above);
	const size_t whole = end - (end - begin) % TURN;
	__m256i largest = _mm256_set1_epi32(out->largest);
	uint32_t hits[BLOCK / TURN + 1];
	struct select_lists l = *out;
	int32_t all[LANES];
	size_t i = begin, next;

	l.n = l.n_near = 0;
	for (; i < whole; i = next) {
		size_t n_hits, soon;

		next = whole - i < BLOCK ? whole : i + BLOCK;
		soon = next + AHEAD;
		n_hits = find(x, residual, grad, scale, i, next, b.below, AHEAD, hits, flags);
		if (n_hits < MANY) {
			list_few(x, residual, grad, hits, n_hits, b, soon, &l, flags);
			continue;
		}
		n_hits = list_sure(x, residual, grad, hits, n_hits, below, above, &largest, soon,
				   &l, flags);
		list_near(x, hits, n_hits, below, above, &l);
	}
	_mm256_storeu_si256((__m256i *)(void *)all, largest);
	for (size_t j = 0; j < LANES; j++)
		l.largest = all[j] > l.largest ? all[j] : l.largest;
	*out = l;
	if (i == end)
		return;
	/* The portable version appends the rest, which is less than a turn. */
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

FOR_AVX2 static void list_avx2(const float *x, size_t begin, size_t end, struct select_bounds b,
			       struct select_lists *l)
{
	sweep_avx2(x, NULL, NULL, 0, begin, end, b, l, 0);
}

FOR_AVX2 static void list_values_avx2(const float *x, size_t begin, size_t end,
				      struct select_bounds b, struct select_lists *l)
{
	sweep_avx2(x, NULL, NULL, 0, begin, end, b, l, VALUES);
}

FOR_AVX2 static void add_list_avx2(float *residual, const float *grad, float scale, size_t begin,
				   size_t end, struct select_bounds b, struct select_lists *l)
{
	sweep_avx2(residual, residual, grad, scale, begin, end, b, l, ADD);
}

FOR_AVX2 static void add_take_avx2(float *residual, const float *grad, float scale, size_t begin,
				   size_t end, struct select_bounds b, struct select_lists *l)
{
	sweep_avx2(residual, residual, grad, scale, begin, end, b, l, ADD | VALUES | CLEAR);
}

/* The sign bit of a lane is set if its value is NaN or infinite: adding the lowest bit of the
 * exponent to an exponent of all ones carries into it. */
FOR_AVX2 static inline __m256i full_exponents(const float *x)
{
	const __m256i exponent = _mm256_set1_epi32(KEY_INFINITY),
		      lowest = _mm256_set1_epi32(1 << 23);
	const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)x);

	return _mm256_add_epi32(_mm256_and_si256(v, exponent), lowest);
}

/* Written out, and with one test for 64 values: a loop over the vectors of a turn took twice the
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

static int select_avx2_usable(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt") &&
	       __builtin_cpu_supports("bmi");
}

const struct select_kernels select_avx2 = { "avx2",           select_avx2_usable, list_avx2,
					    list_values_avx2, add_list_avx2,      add_take_avx2,
					    nonfinite_avx2 };
#else
typedef int no_avx2_on_this_machine;
#endif
