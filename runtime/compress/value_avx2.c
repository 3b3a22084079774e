/* SPDX-License-Identifier: BSD-3-Clause
 * Values in few bits for AVX2: the loops of the portable version, operation by operation on eight
 * values at once, and the packing of codes, 32 at a time. */
#include "value_kernels.h"
#include "value_codes.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2   __attribute__((target("avx2")))
#define ALWAYS __attribute__((always_inline))
enum { LANES = 8 };

AVX2 static inline __m256i load_eight(const void *p)
{
	return _mm256_loadu_si256((const __m256i *)p);
}

AVX2 static inline void store_eight(void *p, __m256i x)
{
	_mm256_storeu_si256((__m256i *)p, x);
}

AVX2 static uint32_t largest_avx2(const float *v, size_t n)
{
	const __m256i mask = _mm256_set1_epi32(F32_MAGNITUDE);
	__m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
	__m128i half;
	uint32_t all, rest = 0;
	size_t i = 0;

	for (; i + 4 * LANES <= n; i += 4 * LANES) {
		a = _mm256_max_epi32(a, _mm256_and_si256(load_eight(v + i), mask));
		b = _mm256_max_epi32(b, _mm256_and_si256(load_eight(v + i + LANES), mask));
		c = _mm256_max_epi32(c, _mm256_and_si256(load_eight(v + i + 2 * LANES), mask));
		d = _mm256_max_epi32(d, _mm256_and_si256(load_eight(v + i + 3 * LANES), mask));
	}
	a = _mm256_max_epi32(_mm256_max_epi32(a, b), _mm256_max_epi32(c, d));
	half = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
	half = _mm_max_epi32(half, _mm_unpackhi_epi64(half, half));
	half = _mm_max_epi32(half, _mm_srli_epi64(half, 32));
	all = (uint32_t)_mm_cvtsi128_si32(half);
	for (; i < n; i++) {
		rest = float_bits(v[i]) & F32_MAGNITUDE;
		all = rest > all ? rest : all;
	}
	return all;
}

/* Adds four values of each of four rows: the first value of all rows, then the second, and so
 * on. */
AVX2 static inline ALWAYS __m256d sums_four(__m256d sum, const float *const row[4], size_t at)
{
	const __m128 mask = _mm_castsi128_ps(_mm_set1_epi32(F32_MAGNITUDE));
	__m128 a = _mm_loadu_ps(row[0] + at), b = _mm_loadu_ps(row[1] + at);
	__m128 c = _mm_loadu_ps(row[2] + at), d = _mm_loadu_ps(row[3] + at);

	_MM_TRANSPOSE4_PS(a, b, c, d);
	sum = _mm256_add_pd(sum, _mm256_cvtps_pd(_mm_and_ps(a, mask)));
	sum = _mm256_add_pd(sum, _mm256_cvtps_pd(_mm_and_ps(b, mask)));
	sum = _mm256_add_pd(sum, _mm256_cvtps_pd(_mm_and_ps(c, mask)));
	return _mm256_add_pd(sum, _mm256_cvtps_pd(_mm_and_ps(d, mask)));
}

AVX2 static void sums_avx2(const float *const row[VALUE_SUMS], size_t n, double sum[VALUE_SUMS])
{
	__m256d low = _mm256_setzero_pd(), high = low;
	size_t i = 0;

	for (; i + 4 <= n; i += 4) {
		low = sums_four(low, row, i);
		high = sums_four(high, row + 4, i);
	}
	_mm256_storeu_pd(sum, low);
	_mm256_storeu_pd(sum + 4, high);
	for (; i < n; i++)
		for (size_t j = 0; j < VALUE_SUMS; j++)
			sum[j] += (double)bits_float(float_bits(row[j][i]) & F32_MAGNITUDE);
}

/* ---- values to codes ---- */

AVX2 static inline __m256 clamped(__m256 x, float most)
{
	return _mm256_max_ps(_mm256_min_ps(x, _mm256_set1_ps(most)), _mm256_set1_ps(-most));
}

AVX2 static inline __m256i in_order(__m256i bytes)
{
	return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* Stores 32 numbers of 0..255 as bytes. */
AVX2 static inline void store_codes(__m256i a, __m256i b, __m256i c, __m256i d, uint8_t *codes)
{
	const __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(a, b),
						  _mm256_packs_epi32(c, d));

	_mm256_storeu_si256((__m256i *)(void *)codes, in_order(bytes));
}

/* Stores 32 numbers of -zero_s..zero_s as bytes. */
AVX2 static inline void store_levels(__m256i a, __m256i b, __m256i c, __m256i d, int zero_s,
				     uint8_t *codes)
{
	const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b),
						 _mm256_packs_epi32(c, d));

	_mm256_storeu_si256((__m256i *)(void *)codes,
			    in_order(_mm256_add_epi8(bytes, _mm256_set1_epi8((char)zero_s))));
}

/* Prefetches the values that the first pass over the next blocks will read, even beyond the end of
 * the vector. */
AVX2 static inline ALWAYS void ahead(const float *v)
{
	const uintptr_t there = (uintptr_t)v + VALUE_AHEAD * sizeof(*v);

	_mm_prefetch((const char *)there, _MM_HINT_T0);
	_mm_prefetch((const char *)(there + 64), _MM_HINT_T0);
}

/* random_mix() for four registers at once, because the products of a single chain would wait for
 * each other. */
struct four {
	__m256i a, b, c, d;
};

AVX2 static inline ALWAYS struct four fold_four(struct four x, int shift)
{
	x.a = _mm256_xor_si256(x.a, _mm256_srli_epi32(x.a, shift));
	x.b = _mm256_xor_si256(x.b, _mm256_srli_epi32(x.b, shift));
	x.c = _mm256_xor_si256(x.c, _mm256_srli_epi32(x.c, shift));
	x.d = _mm256_xor_si256(x.d, _mm256_srli_epi32(x.d, shift));
	return x;
}

AVX2 static inline ALWAYS struct four times_four(struct four x, struct four by)
{
	return (struct four){ _mm256_mullo_epi32(x.a, by.a), _mm256_mullo_epi32(x.b, by.b),
			      _mm256_mullo_epi32(x.c, by.c), _mm256_mullo_epi32(x.d, by.d) };
}

AVX2 static inline ALWAYS struct four plus_four(struct four x, __m256i y)
{
	return (struct four){ _mm256_add_epi32(x.a, y), _mm256_add_epi32(x.b, y),
			      _mm256_add_epi32(x.c, y), _mm256_add_epi32(x.d, y) };
}

AVX2 static inline ALWAYS struct four mix_four(struct four x, __m256i between, __m256i odd)
{
	const __m256i factor = _mm256_set1_epi32(MIX_FACTOR);

	x = fold_four(x, MIX_SHIFT_0);
	x = plus_four(times_four(x, (struct four){ factor, factor, factor, factor }), between);
	x = fold_four(x, MIX_SHIFT_1);
	return times_four(x, plus_four(x, odd));
}

/* Rounds eight values as uniform_code() does, but returns signed levels, to which the caller must
 * still add uniform_levels(). Also stores the decoded values. */
AVX2 static inline ALWAYS __m256i uniform_eight(const float *v, __m256i random,
						const struct uniform_scale *s, unsigned bits,
						int scaled_up, float *decoded)
{
	const __m128i share = _mm_cvtsi32_si128((int)bits),
		      whole = _mm_cvtsi32_si128((int)(32 - bits));
	const __m256 up = scaled_up ? _mm256_mul_ps(_mm256_loadu_ps(v), _mm256_set1_ps(s->up)) :
				      _mm256_loadu_ps(v);
	const __m256i x = _mm256_cvttps_epi32(_mm256_mul_ps(up, _mm256_set1_ps(s->factor)));
	const __m256i q = _mm256_sra_epi32(_mm256_add_epi32(x, _mm256_srl_epi32(random, share)),
					   whole);

	_mm256_storeu_ps(decoded, _mm256_mul_ps(_mm256_cvtepi32_ps(q), _mm256_set1_ps(s->step)));
	return q;
}

/* scaled_up and sparse are constants where this is inlined, so the loop has no branch. */
AVX2 static inline ALWAYS void uniform_loop(const float *v, const struct value_numbers *r,
					    const struct uniform_scale *scale, unsigned bits,
					    size_t n, uint8_t *codes, float *decoded, int scaled_up,
					    int sparse)
{
	const struct uniform_scale s = *scale;
	const __m256i between = _mm256_set1_epi32((int)r->key.between),
		      odd = _mm256_set1_epi32((int)r->key.odd);
	const __m256i before = _mm256_set1_epi32((int)(r->key.before + r->low));
	__m256i next = _mm256_add_epi32(before, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));

	for (size_t i = 0; i < n; i += VALUE_GROUP) {
		struct four x;

		ahead(v + i);
		if (sparse) {
			const uint32_t *index = r->index + i;

			x = plus_four((struct four){ load_eight(index), load_eight(index + 8),
						     load_eight(index + 16),
						     load_eight(index + 24) },
				      before);
		} else {
			x = (struct four){ next, _mm256_add_epi32(next, _mm256_set1_epi32(8)),
					   _mm256_add_epi32(next, _mm256_set1_epi32(16)),
					   _mm256_add_epi32(next, _mm256_set1_epi32(24)) };
			next = _mm256_add_epi32(next, _mm256_set1_epi32(VALUE_GROUP));
		}
		x = mix_four(x, between, odd);
		x.a = uniform_eight(v + i, x.a, &s, bits, scaled_up, decoded + i);
		x.b = uniform_eight(v + i + 8, x.b, &s, bits, scaled_up, decoded + i + 8);
		x.c = uniform_eight(v + i + 16, x.c, &s, bits, scaled_up, decoded + i + 16);
		x.d = uniform_eight(v + i + 24, x.d, &s, bits, scaled_up, decoded + i + 24);
		store_levels(x.a, x.b, x.c, x.d, uniform_levels(bits), codes + i);
	}
}

AVX2 static void uniform_avx2(const float *v, const struct value_numbers *numbers,
			      const struct uniform_scale *scale, unsigned bits, size_t n,
			      uint8_t *codes, float *decoded)
{
	if (scale->up != 1) /* steps that small are rare */
		uniform_loop(v, numbers, scale, bits, n, codes, decoded, 1, numbers->index != NULL);
	else if (numbers->index)
		uniform_loop(v, numbers, scale, bits, n, codes, decoded, 0, 1);
	else
		uniform_loop(v, numbers, scale, bits, n, codes, decoded, 0, 0);
}

AVX2 static inline ALWAYS __m256i signs_eight(const float *v, float step, float *decoded)
{
	const __m256i sign = _mm256_set1_epi32((int)(1u << F32_SIGN_SHIFT));
	const __m256i negative = _mm256_castps_si256(
		_mm256_cmp_ps(_mm256_loadu_ps(v), _mm256_setzero_ps(), _CMP_LT_OQ));

	_mm256_storeu_ps(decoded,
			 _mm256_xor_ps(_mm256_set1_ps(step),
				       _mm256_castsi256_ps(_mm256_and_si256(negative, sign))));
	return _mm256_srli_epi32(negative, 31);
}

AVX2 static void signs_avx2(const float *v, float step, size_t n, uint8_t *codes, float *decoded)
{
	for (size_t i = 0; i < n; i += VALUE_GROUP) {
		const __m256i a = signs_eight(v + i, step, decoded + i);
		const __m256i b = signs_eight(v + i + 8, step, decoded + i + 8);
		const __m256i c = signs_eight(v + i + 16, step, decoded + i + 16);
		const __m256i d = signs_eight(v + i + 24, step, decoded + i + 24);

		store_codes(a, b, c, d, codes + i);
	}
}

AVX2 static inline ALWAYS __m256i grid_eight(const float *v, float range, float width, int most,
					     float *decoded)
{
	const __m256 from = _mm256_set1_ps(range), by = _mm256_set1_ps(width);
	const __m256 x = _mm256_add_ps(clamped(_mm256_loadu_ps(v), range), from);
	const __m256i code = _mm256_cvttps_epi32(
		_mm256_add_ps(_mm256_div_ps(x, by), _mm256_set1_ps(0.5f)));
	const __m256i limited = _mm256_min_epi32(code, _mm256_set1_epi32(most));

	_mm256_storeu_ps(decoded,
			 _mm256_sub_ps(_mm256_mul_ps(by, _mm256_cvtepi32_ps(limited)), from));
	return limited;
}

AVX2 static void grid_avx2(const float *v, float range, float width, int most, size_t n,
			   uint8_t *codes, float *decoded)
{
	for (size_t i = 0; i < n; i += VALUE_GROUP) {
		const __m256i a = grid_eight(v + i, range, width, most, decoded + i);
		const __m256i b = grid_eight(v + i + 8, range, width, most, decoded + i + 8);
		const __m256i c = grid_eight(v + i + 16, range, width, most, decoded + i + 16);
		const __m256i d = grid_eight(v + i + 24, range, width, most, decoded + i + 24);

		store_codes(a, b, c, d, codes + i);
	}
}

/* ---- twomeans: one register for each eight of the 32 lanes of a sum ---- */

struct lanes {
	__m256 a, b, c, d;
};

AVX2 static inline ALWAYS __m256 magnitude_of(__m256 v)
{
	return _mm256_and_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32(F32_MAGNITUDE)));
}

AVX2 static inline ALWAYS float halved_avx2(struct lanes sum)
{
	const __m256 eight = _mm256_add_ps(_mm256_add_ps(sum.a, sum.c),
					   _mm256_add_ps(sum.b, sum.d));
	const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight),
				       _mm256_extractf128_ps(eight, 1));
	const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));

	return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

AVX2 static float total_avx2(const float *v, size_t n)
{
	const __m256 zero = _mm256_setzero_ps();
	struct lanes sum = { zero, zero, zero, zero };

	for (size_t i = 0; i < n; i += VALUE_GROUP) {
		sum.a = _mm256_add_ps(sum.a, magnitude_of(_mm256_loadu_ps(v + i)));
		sum.b = _mm256_add_ps(sum.b, magnitude_of(_mm256_loadu_ps(v + i + 8)));
		sum.c = _mm256_add_ps(sum.c, magnitude_of(_mm256_loadu_ps(v + i + 16)));
		sum.d = _mm256_add_ps(sum.d, magnitude_of(_mm256_loadu_ps(v + i + 24)));
	}
	return halved_avx2(sum);
}

/* Returns ones where the magnitude is above the mean. */
AVX2 static inline ALWAYS __m256i split_eight(const float *v, __m256 mean, __m256 *low,
					      __m256 *high)
{
	const __m256 magnitude = magnitude_of(_mm256_loadu_ps(v));
	const __m256 over = _mm256_cmp_ps(magnitude, mean, _CMP_GT_OQ);

	*low = _mm256_add_ps(*low, _mm256_andnot_ps(over, magnitude));
	*high = _mm256_add_ps(*high, _mm256_and_ps(over, magnitude));
	return _mm256_castps_si256(over);
}

/* Packs numbers to bytes with the same signs. */
AVX2 static inline ALWAYS __m256i packed_signs(__m256i a, __m256i b, __m256i c, __m256i d)
{
	return _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
}

AVX2 static void split_avx2(const float *v, float mean, size_t n, uint8_t *codes,
			    struct twomeans_sums *sums)
{
	const __m256 zero = _mm256_setzero_ps(), at = _mm256_set1_ps(mean);
	struct lanes low = { zero, zero, zero, zero }, high = low;
	__m256i counts = _mm256_setzero_si256(); /* bytes, as n is at most VALUE_PIECE */
	uint64_t count[4];

	for (size_t i = 0; i < n; i += VALUE_GROUP) {
		__m256i over, sign;

		ahead(v + i);
		over = packed_signs(split_eight(v + i, at, &low.a, &high.a),
				    split_eight(v + i + 8, at, &low.b, &high.b),
				    split_eight(v + i + 16, at, &low.c, &high.c),
				    split_eight(v + i + 24, at, &low.d, &high.d));
		sign = packed_signs(load_eight(v + i), load_eight(v + i + 8),
				    load_eight(v + i + 16), load_eight(v + i + 24));
		sign = _mm256_and_si256(_mm256_srli_epi16(sign, 6), _mm256_set1_epi8(2));
		counts = _mm256_sub_epi8(counts, over);
		store_eight(codes + i, in_order(_mm256_sub_epi8(sign, over)));
	}
	store_eight(count, _mm256_sad_epu8(counts, _mm256_setzero_si256()));
	*sums = (struct twomeans_sums){ halved_avx2(low), halved_avx2(high),
					(uint32_t)(count[0] + count[1] + count[2] + count[3]) };
}

AVX2 static inline ALWAYS __m256i exponents_eight(const float *v, __m256i least)
{
	const __m256i x = load_eight(v), sign = _mm256_set1_epi32(E3M0_SIGN);
	const __m256i magnitude = _mm256_and_si256(x, _mm256_set1_epi32(F32_MAGNITUDE));
	const __m256i near = _mm256_srli_epi32(
		_mm256_add_epi32(magnitude, _mm256_set1_epi32(F32_NORMAL / 2)), 23);
	const __m256i unsent = _mm256_cmpgt_epi32(least, _mm256_srli_epi32(magnitude, 23));
	const __m256i code = _mm256_max_epi32(_mm256_sub_epi32(near, least),
					      _mm256_add_epi32(unsent, _mm256_set1_epi32(1)));

	return _mm256_or_si256(_mm256_min_epi32(code, _mm256_set1_epi32(E3M0_LEVELS)),
			       _mm256_and_si256(_mm256_srli_epi32(x, 28), sign));
}

AVX2 static void exponents_avx2(const float *v, int32_t least, size_t n, uint8_t *codes)
{
	const __m256i from = _mm256_set1_epi32(least);

	for (size_t i = 0; i < n; i += VALUE_GROUP)
		store_codes(exponents_eight(v + i, from), exponents_eight(v + i + 8, from),
			    exponents_eight(v + i + 16, from), exponents_eight(v + i + 24, from),
			    codes + i);
}

AVX2 static void nearest_avx2(const float *v, float width, float limit, size_t n, int32_t *q,
			      float *decoded)
{
	const __m256 by = _mm256_set1_ps(width), shift = _mm256_set1_ps(0x1.8p23f);

	for (size_t i = 0; i < n; i += LANES) {
		__m256 x = clamped(_mm256_div_ps(_mm256_loadu_ps(v + i), by), limit);
		__m256i near = _mm256_cvttps_epi32(_mm256_sub_ps(_mm256_add_ps(x, shift), shift));

		_mm256_storeu_si256((__m256i *)(void *)(q + i), near);
		_mm256_storeu_ps(decoded + i, _mm256_mul_ps(_mm256_cvtepi32_ps(near), by));
	}
}

/* ---- codes to values ---- */

AVX2 static inline __m256i eight_codes(const uint8_t *codes)
{
	return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)codes));
}

AVX2 static void uniform_values_avx2(const uint8_t *codes, float step, int levels, size_t n,
				     float *v)
{
	const __m256 by = _mm256_set1_ps(step);
	const __m256i zero_s = _mm256_set1_epi32(levels);

	for (size_t i = 0; i < n; i += LANES)
		_mm256_storeu_ps(v + i, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(
							      eight_codes(codes + i), zero_s)),
						      by));
}

AVX2 static void sign_values_avx2(const uint8_t *codes, float step, size_t n, float *v)
{
	const __m256i magnitude = _mm256_castps_si256(_mm256_set1_ps(step));

	for (size_t i = 0; i < n; i += LANES)
		_mm256_storeu_si256(
			(__m256i *)(void *)(v + i),
			_mm256_xor_si256(magnitude, _mm256_slli_epi32(eight_codes(codes + i),
								      F32_SIGN_SHIFT)));
}

/* Looks up the two upper bytes of 32 values, and sets their lower bytes to zero. */
AVX2 static void level_values_avx2(const uint8_t *codes, const struct levels *levels, size_t n,
				   float *v)
{
	const __m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
	const __m256i bytes = _mm256_set1_epi16(0xff), zero = _mm256_setzero_si256();
	const __m256i all = load_eight(levels->four);
	const __m256i low = _mm256_packus_epi16(_mm256_and_si256(all, bytes), zero);
	const __m256i high = _mm256_packus_epi16(_mm256_srli_epi16(all, 8), zero);
	const __m256i lows = _mm256_permute4x64_epi64(low, 0x88);
	const __m256i highs = _mm256_permute4x64_epi64(high, 0x88);

	for (size_t i = 0; i < n; i += VALUE_GROUP) {
		const __m256i code = _mm256_permutevar8x32_epi32(load_eight(codes + i), order);
		const __m256i l = _mm256_shuffle_epi8(lows, code);
		const __m256i h = _mm256_shuffle_epi8(highs, code);
		const __m256i a = _mm256_unpacklo_epi8(l, h), b = _mm256_unpackhi_epi8(l, h);

		store_eight(v + i, _mm256_unpacklo_epi16(zero, a));
		store_eight(v + i + 8, _mm256_unpackhi_epi16(zero, a));
		store_eight(v + i + 16, _mm256_unpacklo_epi16(zero, b));
		store_eight(v + i + 24, _mm256_unpackhi_epi16(zero, b));
	}
}

AVX2 static void grid_values_avx2(const uint8_t *codes, float range, float width, size_t n,
				  float *v)
{
	const __m256 from = _mm256_set1_ps(range), by = _mm256_set1_ps(width);

	for (size_t i = 0; i < n; i += LANES)
		_mm256_storeu_ps(
			v + i,
			_mm256_sub_ps(_mm256_mul_ps(by, _mm256_cvtepi32_ps(eight_codes(codes + i))),
				      from));
}

AVX2 static int within_avx2(const uint8_t *codes, uint8_t least, uint8_t most, size_t n)
{
	__m256i low = load_eight(codes), high = low;

	for (size_t i = VALUE_GROUP; i < n; i += VALUE_GROUP) {
		low = _mm256_min_epu8(low, load_eight(codes + i));
		high = _mm256_max_epu8(high, load_eight(codes + i));
	}
	low = _mm256_cmpeq_epi8(_mm256_max_epu8(low, _mm256_set1_epi8((char)least)), low);
	high = _mm256_cmpeq_epi8(_mm256_min_epu8(high, _mm256_set1_epi8((char)most)), high);
	return _mm256_movemask_epi8(_mm256_and_si256(low, high)) == -1;
}

/* ---- packing: bits_merge() and bits_spread() of bit_pack.h, four times eight codes ---- */

/* Keeps the bits of mask, and moves the bits above it down. */
AVX2 static inline __m256i closer(__m256i x, uint64_t mask, unsigned by)
{
	const __m256i m = _mm256_set1_epi64x((int64_t)mask);

	return _mm256_or_si256(
		_mm256_and_si256(x, m),
		_mm256_srl_epi64(_mm256_andnot_si256(m, x), _mm_cvtsi32_si128((int)by)));
}

/* Merges each group of four codes into the lowest 4 * bits bits of a lane of 32 bits. Codes of up
 * to 6 bits need fewer instructions: the factor that shifts a neighbour then fits into a signed
 * byte, so a multiply-and-add instruction merges two codes. */
AVX2 static inline ALWAYS __m256i fours(__m256i x, unsigned bits)
{
	if (bits > 6) {
		x = closer(x, 0x00ff00ff00ff00ffu, 8 - bits);
		return closer(x, 0x0000ffff0000ffffu, 16 - 2 * bits);
	}
	x = _mm256_maddubs_epi16(x, _mm256_set1_epi16((short)(1 | 1 << (8 + bits))));
	return _mm256_madd_epi16(x, _mm256_set1_epi32(1 | 1 << (16 + 2 * bits)));
}

/* Products merge two codes of four bits, or four of two bits, into a byte. */
AVX2 static void pack_nibbles(const uint8_t *codes, size_t n, uint8_t *out)
{
	for (size_t i = 0; i < n; i += VALUE_GROUP) {
		const __m256i twos = _mm256_maddubs_epi16(load_eight(codes + i),
							  _mm256_set1_epi16(1 | 1 << 12));

		_mm_storeu_si128((__m128i *)(void *)(out + i / 2),
				 _mm_packus_epi16(_mm256_castsi256_si128(twos),
						  _mm256_extracti128_si256(twos, 1)));
	}
}

AVX2 static void pack_pairs(const uint8_t *codes, size_t n, uint8_t *out)
{
	for (size_t i = 0; i < n; i += VALUE_GROUP) {
		const __m256i x = fours(load_eight(codes + i), 2);
		const __m128i half = _mm_packus_epi32(_mm256_castsi256_si128(x),
						      _mm256_extracti128_si256(x, 1));

		_mm_storel_epi64((__m128i *)(void *)(out + i / 4), _mm_packus_epi16(half, half));
	}
}

AVX2 static void pack_any(const uint8_t *codes, unsigned bits, size_t n, uint8_t *out)
{
	for (size_t i = 0; i < n; i += VALUE_GROUP, out += 4 * bits) {
		const __m256i x = closer(fours(load_eight(codes + i), bits), 0x00000000ffffffffu,
					 32 - 4 * bits);
		const __m128i low = _mm256_castsi256_si128(x),
			      high = _mm256_extracti128_si256(x, 1);

		/* The order matters, because each store overwrites the zeros after the previous
		 * one. */
		_mm_storel_epi64((__m128i *)(void *)out, low);
		_mm_storel_epi64((__m128i *)(void *)(out + bits), _mm_unpackhi_epi64(low, low));
		_mm_storel_epi64((__m128i *)(void *)(out + 2 * bits), high);
		_mm_storel_epi64((__m128i *)(void *)(out + 3 * bits),
				 _mm_unpackhi_epi64(high, high));
	}
}

AVX2 static void pack_avx2(const uint8_t *codes, unsigned bits, size_t n, uint8_t *out)
{
	if (bits == 8)
		memcpy(out, codes, n);
	else if (bits == 4)
		pack_nibbles(codes, n, out);
	else if (bits == 2)
		pack_pairs(codes, n, out);
	else
		pack_any(codes, bits, n, out);
}

/* Keeps the bits of `kept`, and moves the bits of `moved` up. */
AVX2 static inline __m256i apart(__m256i x, uint64_t kept, uint64_t moved, unsigned by)
{
	const __m256i up = _mm256_sll_epi64(_mm256_and_si256(x, _mm256_set1_epi64x((int64_t)moved)),
					    _mm_cvtsi32_si128((int)by));

	return _mm256_or_si256(_mm256_and_si256(x, _mm256_set1_epi64x((int64_t)kept)), up);
}

AVX2 static inline __m128i two_groups(const uint8_t *in, unsigned bits)
{
	return _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(const void *)in),
				  _mm_loadl_epi64((const __m128i *)(const void *)(in + bits)));
}

AVX2 static void unpack_avx2(const uint8_t *in, unsigned bits, size_t n, uint8_t *codes)
{
	const uint64_t four = ((uint64_t)1 << 4 * bits) - 1, two = ((uint64_t)1 << 2 * bits) - 1;
	const uint64_t one = ((uint64_t)1 << bits) - 1;

	for (size_t i = 0; i < n; i += VALUE_GROUP, in += 4 * bits) {
		__m256i x = _mm256_set_m128i(two_groups(in + 2 * bits, bits), two_groups(in, bits));

		x = apart(x, four, four << 4 * bits, 32 - 4 * bits);
		x = apart(x, two * 0x0000000100000001u, (two << 2 * bits) * 0x0000000100000001u,
			  16 - 2 * bits);
		x = apart(x, one * 0x0001000100010001u, (one << bits) * 0x0001000100010001u,
			  8 - bits);
		_mm256_storeu_si256((__m256i *)(void *)(codes + i), x);
	}
}

const struct value_kernels value_avx2 = { "avx2",           kernels_avx2,      largest_avx2,
					  sums_avx2,        uniform_avx2,      signs_avx2,
					  grid_avx2,        total_avx2,        split_avx2,
					  exponents_avx2,   nearest_avx2,      uniform_values_avx2,
					  sign_values_avx2, level_values_avx2, grid_values_avx2,
					  within_avx2,      pack_avx2,         unpack_avx2 };
#else
typedef int no_avx2_on_this_machine;
#endif
