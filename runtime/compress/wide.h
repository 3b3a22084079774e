/* SPDX-License-Identifier: BSD-3-Clause
 * The vector operations over which sweeps are written, once for all instruction sets. A file
 * defines WIDE_AVX512 or WIDE_AVX2 before it includes this header, or nothing for vectors that the
 * compiler provides on any processor. Arithmetic and comparisons are those of the compiler's
 * vectors: a comparison yields -1 in a lane where it holds, and otherwise 0. Contraction is
 * off, so all versions round identically. */
#ifndef COMPRESS_WIDE_H
#define COMPRESS_WIDE_H
#include "base/bytes.h"
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
#define X86(name)   _mm256_##name
#define X86_FLOATS  __m256
#define X86_INTS    __m256i
#define NARROW      8
#define LANES       16
#elif defined(WIDE_AVX2)
#include <immintrin.h>
#define WIDE_TARGET __attribute__((target("avx2,popcnt,bmi,prfchw")))
#define WIDE(table) table##_avx2
#define WIDE_NAME   "avx2"
#define WIDE_USABLE kernels_avx2
#define X86(name)   _mm256_##name
#define X86_FLOATS  __m256
#define X86_INTS    __m256i
#define NARROW      8
#define LANES       8
#else
#if defined(__SSE2__)
#include <emmintrin.h>
#define X86(name)  _mm_##name
#define X86_FLOATS __m128
#define X86_INTS   __m128i
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
typedef double doubles __attribute__((vector_size(4 * NARROW)));
typedef uint8_t bytes __attribute__((vector_size(4 * NARROW)));
typedef int32_t ints __attribute__((vector_size(4 * NARROW)));
typedef uint32_t words __attribute__((vector_size(4 * NARROW)));
typedef uint64_t longs __attribute__((vector_size(4 * NARROW)));
typedef int64_t signed_longs __attribute__((vector_size(4 * NARROW)));

FOR_WIDE floats load_floats(const float *x)
{
	floats v;

	memcpy(&v, x, sizeof(v));
	return v;
}

FOR_WIDE void store_floats(float *to, floats v)
{
	memcpy(to, &v, sizeof(v));
}

FOR_WIDE ints load_ints(const void *x)
{
	ints v;

	memcpy(&v, x, sizeof(v));
	return v;
}

/* Converts 64-bit lanes to or from their order in messages. */
FOR_WIDE longs little_endian(longs v)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	for (int i = 0; i < LONGS; i++)
		v[i] = __builtin_bswap64(v[i]);
#endif
	return v;
}

/* Returns the numbers at p, p + step, and so on. */
FOR_WIDE longs load_spaced(const uint8_t *p, size_t step)
{
#if NARROW == 8
	return (longs){ get_le64(p), get_le64(p + step), get_le64(p + 2 * step),
			get_le64(p + 3 * step) };
#else
	return (longs){ get_le64(p), get_le64(p + step) };
#endif
}

/* Returns the bitwise or of all lanes. */
FOR_WIDE uint64_t any_lane(longs v)
{
#if NARROW == 8
	const __m128i half = _mm_or_si128(_mm256_castsi256_si128((__m256i)v),
					  _mm256_extracti128_si256((__m256i)v, 1));

	return (uint64_t)_mm_cvtsi128_si64(_mm_or_si128(half, _mm_unpackhi_epi64(half, half)));
#else
	return v[0] | v[1];
#endif
}

/* Returns x in each lane. */
FOR_WIDE floats all_floats(float x)
{
	return x - (floats){ 0 };
}

FOR_WIDE floats to_floats(ints v)
{
	return __builtin_convertvector(v, floats);
}

/* Truncates. */
FOR_WIDE ints to_ints(floats v)
{
	return __builtin_convertvector(v, ints);
}

FOR_WIDE floats magnitudes(floats v)
{
	return (floats)((ints)v & INT32_MAX);
}

FOR_WIDE ints blend(ints first, ints a, ints b)
{
	return (a & first) | (b & ~first);
}

/* least and most return b where neither is less, as with zeros of different sign. without clears
 * the bits of the mask. pack_lanes turns 32-bit lanes into bytes from -128 to 127, or from 0 to 255
 * if they are unsigned; a lane outside becomes the nearest limit. in_order puts the bytes in the
 * order of the lanes, because pack instructions work on the halves of a register separately. widen
 * loads as many bytes as there are 32-bit lanes. load_columns sets column k to value at + k of
 * each row. */
#if defined(X86)
FOR_WIDE floats least(floats a, floats b)
{
	return (floats)X86(min_ps)((X86_FLOATS)a, (X86_FLOATS)b);
}

FOR_WIDE floats most(floats a, floats b)
{
	return (floats)X86(max_ps)((X86_FLOATS)a, (X86_FLOATS)b);
}

FOR_WIDE floats without(floats v, ints mask)
{
	return (floats)X86(andnot_ps)((X86_FLOATS)mask, (X86_FLOATS)v);
}

FOR_WIDE bytes most_bytes(bytes a, bytes b)
{
	return (bytes)X86(max_epu8)((X86_INTS)a, (X86_INTS)b);
}

FOR_WIDE bytes pack_lanes(const ints v[4], int is_unsigned)
{
	const X86_INTS *w = (const X86_INTS *)v;
	const X86_INTS low = X86(packs_epi32)(w[0], w[1]), high = X86(packs_epi32)(w[2], w[3]);

	return (bytes)(is_unsigned ? X86(packus_epi16)(low, high) : X86(packs_epi16)(low, high));
}
#else
FOR_WIDE floats least(floats a, floats b)
{
	return (floats)blend(a < b, (ints)a, (ints)b);
}

FOR_WIDE floats most(floats a, floats b)
{
	return (floats)blend(a > b, (ints)a, (ints)b);
}

FOR_WIDE floats without(floats v, ints mask)
{
	return (floats)((ints)v & ~mask);
}

FOR_WIDE bytes most_bytes(bytes a, bytes b)
{
	return (bytes)blend((ints)(a > b), (ints)a, (ints)b);
}

FOR_WIDE bytes pack_lanes(const ints v[4], int is_unsigned)
{
#if defined(__aarch64__) && !defined(__AARCH64EB__)
	const int32x4_t *w = (const int32x4_t *)v;
	const int16x8_t low = vqmovn_high_s32(vqmovn_s32(w[0]), w[1]);
	const int16x8_t high = vqmovn_high_s32(vqmovn_s32(w[2]), w[3]);

	return is_unsigned ? (bytes)vqmovun_high_s16(vqmovun_s16(low), high) :
			     (bytes)vqmovn_high_s16(vqmovn_s16(low), high);
#else
	const int32_t least_byte = is_unsigned ? 0 : INT8_MIN, most_byte = least_byte + UINT8_MAX;
	bytes packed;

	for (int i = 0; i < 4 * NARROW; i++) {
		const int32_t x = v[i / NARROW][i % NARROW];

		packed[i] = (uint8_t)(x < least_byte ? least_byte : x > most_byte ? most_byte : x);
	}
	return packed;
#endif
}
#endif

/* long_numbers returns the numbers of the lanes. join_halves joins the lower half of each lane of a
 * with the upper half of the lane of b, in the order of memory. multiply_low multiplies the lower
 * halves of lanes. store_alternately stores lane 0 of a, lane 0 of b, lane 1 of a, and so on.
 * sum_of adds the upper half of the lanes to the lower half until one is left. any_negative returns
 * 1 if a lane is negative, as a comparison that holds makes it. any_above returns 1 if one of 32
 * lanes is above `level`. all_above returns a mask of those that are, with the first lane in the
 * lowest bit. */
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

FOR_WIDE bytes in_order(bytes packed)
{
	return (bytes)_mm256_permutevar8x32_epi32((__m256i)packed,
						  _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

FOR_WIDE uint32_t all_above(const ints v[4], int32_t level)
{
	const ints above[4] = { v[0] > level, v[1] > level, v[2] > level, v[3] > level };

	return (uint32_t)_mm256_movemask_epi8((__m256i)in_order(pack_lanes(above, 0)));
}

FOR_WIDE ints widen(const uint8_t *codes)
{
	return (ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)codes));
}

FOR_WIDE void load_columns(const float *const row[4], size_t at, doubles column[4])
{
	__m128 a = _mm_loadu_ps(row[0] + at), b = _mm_loadu_ps(row[1] + at);
	__m128 c = _mm_loadu_ps(row[2] + at), d = _mm_loadu_ps(row[3] + at);

	_MM_TRANSPOSE4_PS(a, b, c, d);
	column[0] = (doubles)_mm256_cvtps_pd(a);
	column[1] = (doubles)_mm256_cvtps_pd(b);
	column[2] = (doubles)_mm256_cvtps_pd(c);
	column[3] = (doubles)_mm256_cvtps_pd(d);
}

FOR_WIDE ints most_ints(ints a, ints b)
{
	return (ints)_mm256_max_epi32((__m256i)a, (__m256i)b);
}

FOR_WIDE ints least_ints(ints a, ints b)
{
	return (ints)_mm256_min_epi32((__m256i)a, (__m256i)b);
}

FOR_WIDE float sum_of(floats v)
{
	__m128 s = _mm_add_ps(_mm256_castps256_ps128((__m256)v),
			      _mm256_extractf128_ps((__m256)v, 1));

	s = _mm_add_ps(s, _mm_movehl_ps(s, s));
	return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
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

FOR_WIDE bytes in_order(bytes packed)
{
	return packed;
}

FOR_WIDE ints widen(const uint8_t *codes)
{
#if defined(__SSE2__)
	const __m128i none = _mm_setzero_si128();
	__m128i all;
	int32_t four;

	memcpy(&four, codes, sizeof(four));
	all = _mm_cvtsi32_si128(four);
	return (ints)_mm_unpacklo_epi16(_mm_unpacklo_epi8(all, none), none);
#elif defined(__aarch64__) && !defined(__AARCH64EB__)
	return (ints)vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(get_le32(codes)))));
#else
	return (ints){ codes[0], codes[1], codes[2], codes[3] };
#endif
}

FOR_WIDE void load_columns(const float *const row[2], size_t at, doubles column[2])
{
	column[0] = (doubles){ row[0][at], row[1][at] };
	column[1] = (doubles){ row[0][at + 1], row[1][at + 1] };
}

FOR_WIDE ints most_ints(ints a, ints b)
{
	return blend(a > b, a, b);
}

FOR_WIDE ints least_ints(ints a, ints b)
{
	return blend(a < b, a, b);
}

FOR_WIDE float sum_of(floats v)
{
	return (v[0] + v[2]) + (v[1] + v[3]);
}

FOR_WIDE int any_negative(ints v)
{
	return (any_lane((longs)v) & 0x8000000080000000u) != 0;
}

FOR_WIDE int any_above(const ints v[8], int32_t level)
{
	const ints above = ((v[0] > level) | (v[1] > level)) | ((v[2] > level) | (v[3] > level)) |
			   ((v[4] > level) | (v[5] > level)) | ((v[6] > level) | (v[7] > level));

	return any_lane((longs)above) != 0;
}

FOR_WIDE uint32_t all_above(const ints v[8], int32_t level)
{
	ints bit = { 1, 2, 4, 8 }, set = (v[0] > level) & bit;
	uint64_t both;

#pragma GCC unroll 8
	for (size_t i = 1; i < 8; i++)
		set |= (v[i] > level) & (bit <<= 4);
	both = any_lane((longs)set);
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
	const __m256i from = (__m256i)widen((const uint8_t *)&order[mask]);

	_mm256_storeu_si256(to, _mm256_permutevar8x32_epi32((__m256i)v, from));
}
#endif
#endif
#endif
