/* SPDX-License-Identifier: BSD-3-Clause
 * The vector operations over which sweeps are written, once for all instruction sets. A file
 * defines WIDE_AVX512 or WIDE_AVX2 before it includes this header, or nothing for vectors that the
 * compiler provides on any processor. Arithmetic and comparisons are those of the compiler's
 * vectors: a comparison yields -1 in a lane where it holds, and otherwise 0. Contraction is
 * off, so all versions round identically. */
#ifndef COMPRESS_WIDE_H
#define COMPRESS_WIDE_H
#include "kernels.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* WIDE_TARGET lets the compiler use the instructions in one function, with any build flags. A
 * sweep uses vectors of NARROW lanes: with 64 bytes, the measured processors had fewer cache lines
 * in flight, and a pass took a fifth longer. Where it is fast, lanes are compressed in vectors of
 * LANES. */
#if defined(WIDE_AVX512)
#include <immintrin.h>
#define WIDE_TARGET __attribute__((target("avx512f,avx2,popcnt,bmi,prfchw")))
#define WIDE(table) table##_avx512
#define WIDE_NAME   "avx512"
#define WIDE_USABLE kernels_avx512
#define NARROW      8
#define LANES       16
#elif defined(WIDE_AVX2)
#include <immintrin.h>
#define WIDE_TARGET __attribute__((target("avx2,popcnt,bmi,prfchw")))
#define WIDE(table) table##_avx2
#define WIDE_NAME   "avx2"
#define WIDE_USABLE kernels_avx2
#define NARROW      8
#define LANES       8
#else
#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#define WIDE_TARGET
#define WIDE(table) table##_portable
#define WIDE_NAME   "portable"
#define WIDE_USABLE kernels_anywhere
#define NARROW      4
#endif
#define LONGS    (NARROW / 2)
#define FOR_WIDE WIDE_TARGET __attribute__((always_inline)) static inline

typedef float floats __attribute__((vector_size(4 * NARROW)));
typedef int32_t ints __attribute__((vector_size(4 * NARROW)));
typedef uint64_t longs __attribute__((vector_size(4 * NARROW)));
typedef int64_t signed_longs __attribute__((vector_size(4 * NARROW)));

FOR_WIDE floats load_floats(const float *x)
{
	floats v;

	memcpy(&v, x, sizeof(v));
	return v;
}

FOR_WIDE ints load_ints(const void *x)
{
	ints v;

	memcpy(&v, x, sizeof(v));
	return v;
}

/* long_numbers returns the numbers of the lanes. join_halves joins the lower half of each lane of a
 * with the upper half of the lane of b, in the order of memory. multiply_low multiplies the lower
 * halves of lanes. store_alternately stores the first lane of a, that of b, the second one of a and
 * so on. least and most return b where neither is less, as with zeros of different sign.
 * any_negative returns 1 if a lane is negative, as that of a comparison that holds. any_above
 * returns 1 if one of 32 lanes is above `level`. all_above returns a mask of those that are, with
 * the first lane in the lowest bit. */
#if defined(WIDE_AVX512) || defined(WIDE_AVX2)
FOR_WIDE longs long_numbers(void)
{
	return (longs){ 0, 1, 2, 3 };
}

FOR_WIDE longs join_halves(longs a, longs b)
{
	return (longs)_mm256_blend_epi32((__m256i)a, (__m256i)b, 0xaa);
}

FOR_WIDE longs multiply_low(longs a, uint32_t b)
{
	return (longs)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x((int64_t)b));
}

FOR_WIDE void store_alternately(void *to, longs a, longs b)
{
	const __m256i even = _mm256_unpacklo_epi64((__m256i)a, (__m256i)b);
	const __m256i odd = _mm256_unpackhi_epi64((__m256i)a, (__m256i)b);

	_mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
	_mm256_storeu_si256((__m256i *)to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
}

FOR_WIDE floats least(floats a, floats b)
{
	return (floats)_mm256_min_ps((__m256)a, (__m256)b);
}

FOR_WIDE floats most(floats a, floats b)
{
	return (floats)_mm256_max_ps((__m256)a, (__m256)b);
}

FOR_WIDE int any_negative(ints v)
{
	return _mm256_movemask_ps((__m256)v) != 0;
}

FOR_WIDE int any_above(const ints v[4], int32_t level)
{
	const __m256i *w = (const __m256i *)v;

	return any_negative((ints)_mm256_max_epi32(_mm256_max_epi32(w[0], w[1]),
						   _mm256_max_epi32(w[2], w[3])) > level);
}

FOR_WIDE uint32_t all_above(const ints v[4], int32_t level)
{
	const __m256i bytes = _mm256_packs_epi16(
		_mm256_packs_epi32((__m256i)(v[0] > level), (__m256i)(v[1] > level)),
		_mm256_packs_epi32((__m256i)(v[2] > level), (__m256i)(v[3] > level)));
	/* Pack instructions work on the two halves separately, so this puts the result in order. */
	const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);

	return (uint32_t)_mm256_movemask_epi8(_mm256_permutevar8x32_epi32(bytes, in_order));
}
#else
FOR_WIDE longs long_numbers(void)
{
	return (longs){ 0, 1 };
}

FOR_WIDE longs join_halves(longs a, longs b)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return a << 32 | b >> 32;
#else
	return (a & UINT32_MAX) | (b & ~(uint64_t)UINT32_MAX);
#endif
}

FOR_WIDE longs multiply_low(longs a, uint32_t b)
{
#if defined(__SSE2__)
	return (longs)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x((int64_t)b));
#elif defined(__aarch64__)
	return (longs)vmull_u32(vmovn_u64((uint64x2_t)a), vdup_n_u32(b));
#else
	return (a & UINT32_MAX) * b;
#endif
}

FOR_WIDE void store_alternately(void *to, longs a, longs b)
{
	const uint64_t in_order[] = { a[0], b[0], a[1], b[1] };

	memcpy(to, in_order, sizeof(in_order));
}

FOR_WIDE floats blend(ints first, floats a, floats b)
{
	return (floats)(((ints)a & first) | ((ints)b & ~first));
}

FOR_WIDE floats least(floats a, floats b)
{
	return blend(a < b, a, b);
}

FOR_WIDE floats most(floats a, floats b)
{
	return blend(a > b, a, b);
}

FOR_WIDE uint64_t halves_or(ints v)
{
	uint64_t half[2];

	memcpy(half, &v, sizeof(half));
	return half[0] | half[1];
}

FOR_WIDE int any_negative(ints v)
{
	return (halves_or(v) & 0x8000000080000000u) != 0;
}

FOR_WIDE int any_above(const ints v[8], int32_t level)
{
	return halves_or(((v[0] > level) | (v[1] > level)) | ((v[2] > level) | (v[3] > level)) |
			 ((v[4] > level) | (v[5] > level)) | ((v[6] > level) | (v[7] > level))) !=
	       0;
}

FOR_WIDE uint32_t all_above(const ints v[8], int32_t level)
{
	ints bit = { 1, 2, 4, 8 }, set = (v[0] > level) & bit;
	uint64_t both;

#pragma GCC unroll 8
	for (size_t i = 1; i < 8; i++)
		set |= (v[i] > level) & (bit <<= 4);
	both = halves_or(set);
	return (uint32_t)(both | both >> 32);
}
#endif

#ifdef LANES
typedef int32_t lanes __attribute__((vector_size(4 * LANES)));
typedef uint32_t numbers __attribute__((vector_size(4 * LANES)));

FOR_WIDE lanes load_lanes(const void *x)
{
	lanes v;

	memcpy(&v, x, sizeof(v));
	return v;
}

/* lane_numbers returns the numbers of the lanes. larger_up_to ignores lanes of b above `level`.
 * mask_above returns a mask of the lanes above `level`. compress stores the lanes in the mask one
 * after another, and stores anything after them, up to LANES lanes in all. */
#if defined(WIDE_AVX512)
FOR_WIDE numbers lane_numbers(void)
{
	return (numbers){ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
}

FOR_WIDE lanes larger(lanes a, lanes b)
{
	return (lanes)_mm512_max_epi32((__m512i)a, (__m512i)b);
}

FOR_WIDE lanes larger_up_to(lanes a, lanes b, int32_t level)
{
	const __mmask16 m = _mm512_cmple_epi32_mask((__m512i)b, _mm512_set1_epi32(level));

	return (lanes)_mm512_mask_max_epi32((__m512i)a, m, (__m512i)a, (__m512i)b);
}

FOR_WIDE unsigned mask_above(lanes v, int32_t level)
{
	return _mm512_cmpgt_epi32_mask((__m512i)v, _mm512_set1_epi32(level));
}

/* Compresses in a register, because compressing into memory is slow on some processors. */
FOR_WIDE void compress(void *to, lanes v, unsigned mask)
{
	_mm512_storeu_si512(to, _mm512_maskz_compress_epi32((__mmask16)mask, (__m512i)v));
}
#else
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

FOR_WIDE numbers lane_numbers(void)
{
	return (numbers){ 0, 1, 2, 3, 4, 5, 6, 7 };
}

FOR_WIDE lanes larger(lanes a, lanes b)
{
	return (lanes)_mm256_max_epi32((__m256i)a, (__m256i)b);
}

FOR_WIDE lanes larger_up_to(lanes a, lanes b, int32_t level)
{
	return larger(a, b & (b <= level));
}

FOR_WIDE unsigned mask_above(lanes v, int32_t level)
{
	return (unsigned)_mm256_movemask_ps((__m256)(v > level));
}

FOR_WIDE void compress(void *to, lanes v, unsigned mask)
{
	const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)&order[mask]);

	_mm256_storeu_si256(to,
			    _mm256_permutevar8x32_epi32((__m256i)v, _mm256_cvtepu8_epi32(bytes)));
}
#endif
#endif
#endif
