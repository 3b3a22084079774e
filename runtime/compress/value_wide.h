/* SPDX-License-Identifier: BSD-3-Clause
 * The loops over values in few bits, for the instruction set of wide.h. Each step takes four
 * registers of values, whose codes fill one register of bytes. The products of one register would
 * wait for each other, so the chains of four registers run side by side. few_bits_rules.h defines
 * each code, and value_kernels.h the other results. */
#ifndef COMPRESS_VALUE_WIDE_H
#define COMPRESS_VALUE_WIDE_H
#include "value_kernels.h"
#include "value_codes.h"
#include "wide.h"

enum { STEP = 4 * NARROW, SUMS = VALUE_GROUP / NARROW };

/* ---- measures of a block ---- */

WIDE_TARGET static uint32_t largest(const float *v, size_t n)
{
	ints most[4] = { { 0 } };
	uint32_t all = 0, rest;
	size_t i = 0;

	for (; i + STEP <= n; i += STEP)
#pragma GCC unroll 4
		for (size_t j = 0; j < 4; j++)
			most[j] = most_ints(most[j], load_ints(v + i + j * NARROW) & INT32_MAX);
	most[0] = most_ints(most_ints(most[0], most[1]), most_ints(most[2], most[3]));
#pragma GCC unroll 8
	for (size_t j = 0; j < NARROW; j++) {
		rest = (uint32_t)most[0][j];
		all = rest > all ? rest : all;
	}
	for (; i < n; i++) {
		rest = float_bits(v[i]) & F32_MAGNITUDE;
		all = rest > all ? rest : all;
	}
	return all;
}

/* Each lane sums one row. Sums of several rows hide the latency of an addition. */
WIDE_TARGET static void sums(const float *const row[VALUE_SUMS], size_t n, double sum[VALUE_SUMS])
{
	doubles all[VALUE_SUMS / LONGS] = { { 0 } }, column[LONGS];
	size_t i = 0;

	for (; i + LONGS <= n; i += LONGS)
#pragma GCC unroll 4
		for (size_t j = 0; j < VALUE_SUMS / LONGS; j++) {
			load_columns(row + j * LONGS, i, column);
#pragma GCC unroll 4
			for (size_t k = 0; k < LONGS; k++)
				all[j] += (doubles)((signed_longs)column[k] & INT64_MAX);
		}
	memcpy(sum, all, sizeof(all));
	for (; i < n; i++)
		for (size_t j = 0; j < VALUE_SUMS; j++)
			sum[j] += (double)bits_float(float_bits(row[j][i]) & F32_MAGNITUDE);
}

FOR_WIDE void clear_sums(floats sum[SUMS])
{
#pragma GCC unroll 8
	for (size_t j = 0; j < SUMS; j++)
		sum[j] = (floats){ 0 };
}

FOR_WIDE float halved(floats sum[SUMS])
{
#pragma GCC unroll 3
	for (size_t half = SUMS / 2; half; half /= 2)
#pragma GCC unroll 4
		for (size_t j = 0; j < half; j++)
			sum[j] += sum[j + half];
	return sum_of(sum[0]);
}

WIDE_TARGET static float total(const float *v, size_t n)
{
	floats sum[SUMS];
	size_t i = 0;

	clear_sums(sum);
	do
#pragma GCC unroll 8
		for (size_t j = 0; j < SUMS; j++)
			sum[j] += magnitudes(load_floats(v + i + j * NARROW));
	while ((i += VALUE_GROUP) < n);
	return halved(sum);
}

/* ---- values to codes ---- */

FOR_WIDE floats clamped(floats x, float limit)
{
	return most(least(x, all_floats(limit)), all_floats(-limit));
}

/* Stores the codes of STEP values as bytes. */
FOR_WIDE void store_codes(uint8_t *to, bytes packed)
{
	packed = in_order(packed);
	memcpy(to, &packed, sizeof(packed));
}

/* Prefetches the values that the first pass over the next blocks will read, even beyond the end of
 * the vector. */
FOR_WIDE void ahead(const float *v)
{
	const uintptr_t there = (uintptr_t)v + VALUE_AHEAD * sizeof(*v);

	for (size_t i = 0; i < STEP * sizeof(*v); i += 64)
		__builtin_prefetch((const void *)(there + i));
}

/* Returns random_mix() of numbers to which key.before has been added. */
FOR_WIDE words mix(words x, struct random_key key)
{
	x = (x ^ x >> MIX_SHIFT_0) * MIX_FACTOR + key.between;
	x ^= x >> MIX_SHIFT_1;
	return x * (x + key.odd);
}

static const uint32_t counting[] = { 0, 1, 2, 3, 4, 5, 6, 7 };

/* scaled_up and sparse are constants where this is inlined, so the loop has no branch. The levels
 * are signed until they are stored. */
FOR_WIDE void uniform_loop(const float *v, const struct value_numbers *r,
			   const struct uniform_scale *scale, unsigned bits, size_t n,
			   uint8_t *codes, float *decoded, int scaled_up, int sparse)
{
	const struct uniform_scale s = *scale;
	const struct random_key key = r->key;
	const uint32_t before = key.before + r->low;
	const uint8_t zero = (uint8_t)uniform_levels(bits);
	words next = (words)load_ints(counting) + before;

	for (size_t i = 0; i < n; i += STEP) {
		words x[4];
		ints q[4];

		ahead(v + i);
#pragma GCC unroll 4
		for (size_t j = 0; j < 4; j++)
			x[j] = mix(sparse ? (words)load_ints(r->index + i + j * NARROW) + before :
					    next + (uint32_t)(j * NARROW),
				   key);
		next += STEP;
#pragma GCC unroll 4
		for (size_t j = 0; j < 4; j++) {
			floats up = load_floats(v + i + j * NARROW);

			up = scaled_up ? up * s.up : up;
			q[j] = (to_ints(up * s.factor) + (ints)(x[j] >> bits)) >> (32 - (int)bits);
			store_floats(decoded + i + j * NARROW, to_floats(q[j]) * s.step);
		}
		store_codes(codes + i, pack_lanes(q, 0) + zero);
	}
}

WIDE_TARGET static void uniform(const float *v, const struct value_numbers *r,
				const struct uniform_scale *scale, unsigned bits, size_t n,
				uint8_t *codes, float *decoded)
{
	if (scale->up != 1) /* steps that small are rare */
		uniform_loop(v, r, scale, bits, n, codes, decoded, 1, r->index != NULL);
	else if (r->index)
		uniform_loop(v, r, scale, bits, n, codes, decoded, 0, 1);
	else
		uniform_loop(v, r, scale, bits, n, codes, decoded, 0, 0);
}

WIDE_TARGET static void signs(const float *v, float step, size_t n, uint8_t *codes, float *decoded)
{
	const ints magnitude = (ints)all_floats(step);

	for (size_t i = 0; i < n; i += STEP) {
		ints code[4];

#pragma GCC unroll 4
		for (size_t j = 0; j < 4; j++) {
			const ints negative = load_floats(v + i + j * NARROW) < 0;

			code[j] = -negative;
			store_floats(decoded + i + j * NARROW,
				     (floats)(magnitude ^ (negative & INT32_MIN)));
		}
		store_codes(codes + i, pack_lanes(code, 1));
	}
}

WIDE_TARGET static void grid(const float *v, float range, float width, int most, size_t n,
			     uint8_t *codes, float *decoded)
{
	for (size_t i = 0; i < n; i += STEP) {
		ints code[4];

#pragma GCC unroll 4
		for (size_t j = 0; j < 4; j++) {
			const floats x = clamped(load_floats(v + i + j * NARROW), range) + range;

			code[j] = least_ints(to_ints(x / width + 0.5f), (ints){ 0 } + most);
			store_floats(decoded + i + j * NARROW, width * to_floats(code[j]) - range);
		}
		store_codes(codes + i, pack_lanes(code, 1));
	}
}

/* Adds all bytes. The sum over the 64-bit lanes must not exceed 255 at any byte. */
FOR_WIDE uint32_t sum_of_bytes(bytes v)
{
	const uint64_t even = 0x00ff00ff00ff00ffu;
	uint64_t all = 0;

#pragma GCC unroll 4
	for (size_t i = 0; i < LONGS; i++)
		all += ((longs)v)[i];
	return (uint32_t)(((all & even) + (all >> 8 & even)) * 0x0001000100010001u >> 48);
}

WIDE_TARGET static void split(const float *v, float mean, size_t n, uint8_t *codes,
			      struct twomeans_sums *sums)
{
	floats low[SUMS], high[SUMS];
	bytes count = { 0 };
	size_t i = 0;

	clear_sums(low);
	clear_sums(high);
	do
#pragma GCC unroll 2
		for (size_t at = 0; at < VALUE_GROUP; at += STEP) {
			ints above[4], x[4];
			bytes over;

			ahead(v + i + at);
#pragma GCC unroll 4
			for (size_t j = 0; j < 4; j++) {
				const size_t to = at / NARROW + j;
				ints magnitude;

				x[j] = load_ints(v + i + at + j * NARROW);
				magnitude = x[j] & INT32_MAX;
				above[j] = (floats)magnitude > mean;
				low[to] += without((floats)magnitude, above[j]);
				high[to] += (floats)(magnitude & above[j]);
			}
			over = pack_lanes(above, 0);
			count -= over;
			store_codes(codes + i + at,
				    ((bytes)((words)pack_lanes(x, 0) >> 6) & 2) - over);
		}
	while ((i += VALUE_GROUP) < n);
	*sums = (struct twomeans_sums){ halved(low), halved(high), sum_of_bytes(count) };
}

WIDE_TARGET static void exponents(const float *v, int32_t least, size_t n, uint8_t *codes)
{
	for (size_t i = 0; i < n; i += STEP) {
		ints code[4];

#pragma GCC unroll 4
		for (size_t j = 0; j < 4; j++) {
			const words x = (words)load_ints(v + i + j * NARROW);
			const words magnitude = x & F32_MAGNITUDE;
			const ints near = (ints)((magnitude + F32_NORMAL / 2) >> 23) - least;
			const ints unsent = (ints)(magnitude >> 23) < least;

			code[j] = least_ints(most_ints(near, unsent + 1),
					     (ints){ 0 } + E3M0_LEVELS) |
				  (ints)(x >> 28 & E3M0_SIGN);
		}
		store_codes(codes + i, pack_lanes(code, 1));
	}
}

WIDE_TARGET static void nearest(const float *v, float width, float limit, size_t n, int32_t *q,
				float *decoded)
{
	const float shift = 0x1.8p23f; /* rounds to the nearest integer, ties to even */

	for (size_t i = 0; i < n; i += NARROW) {
		const floats x = clamped(load_floats(v + i) / width, limit);
		const ints factor = to_ints((x + shift) - shift);

		memcpy(q + i, &factor, sizeof(factor));
		store_floats(decoded + i, to_floats(factor) * width);
	}
}

/* ---- codes to values ---- */

WIDE_TARGET static void uniform_values(const uint8_t *codes, float step, int levels, size_t n,
				       float *v)
{
	for (size_t i = 0; i < n; i += NARROW)
		store_floats(v + i, to_floats(widen(codes + i) - levels) * step);
}

WIDE_TARGET static void sign_values(const uint8_t *codes, float step, size_t n, float *v)
{
	const words magnitude = (words)all_floats(step);

	for (size_t i = 0; i < n; i += NARROW)
		store_floats(v + i,
			     (floats)(magnitude ^ (words)widen(codes + i) << F32_SIGN_SHIFT));
}

WIDE_TARGET static void grid_values(const uint8_t *codes, float range, float width, size_t n,
				    float *v)
{
	for (size_t i = 0; i < n; i += NARROW)
		store_floats(v + i, width * to_floats(widen(codes + i)) - range);
}

/* With AVX2, looks up the two upper bytes of 32 values, and sets their lower bytes to zero. Without
 * an instruction that looks up bytes, sixteen plain shifts take less time. */
WIDE_TARGET static void level_values(const uint8_t *codes, const struct levels *levels, size_t n,
				     float *v)
{
#if defined(WIDE_AVX2)
	const __m256i order_of_bytes = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
	const __m256i low_bytes = _mm256_set1_epi16(0xff), zero = _mm256_setzero_si256();
	const __m256i all = (__m256i)load_ints(levels->four);
	const __m256i low = _mm256_packus_epi16(_mm256_and_si256(all, low_bytes), zero);
	const __m256i high = _mm256_packus_epi16(_mm256_srli_epi16(all, 8), zero);
	const __m256i lows = _mm256_permute4x64_epi64(low, 0x88);
	const __m256i highs = _mm256_permute4x64_epi64(high, 0x88);

	for (size_t i = 0; i < n; i += VALUE_GROUP) {
		const __m256i code = _mm256_permutevar8x32_epi32((__m256i)load_ints(codes + i),
								 order_of_bytes);
		const __m256i l = _mm256_shuffle_epi8(lows, code);
		const __m256i h = _mm256_shuffle_epi8(highs, code);
		const __m256i a = _mm256_unpacklo_epi8(l, h), b = _mm256_unpackhi_epi8(l, h);
		__m256i *to = (__m256i *)(void *)(v + i);

		_mm256_storeu_si256(to, _mm256_unpacklo_epi16(zero, a));
		_mm256_storeu_si256(to + 1, _mm256_unpackhi_epi16(zero, a));
		_mm256_storeu_si256(to + 2, _mm256_unpacklo_epi16(zero, b));
		_mm256_storeu_si256(to + 3, _mm256_unpackhi_epi16(zero, b));
	}
#else
	for (size_t i = 0; i < n; i++)
		v[i] = level_value(levels, codes[i]);
#endif
}

WIDE_TARGET static int within(const uint8_t *codes, uint8_t least, uint8_t most, size_t n)
{
	bytes above = { 0 };

	if (least > most)
		return 0;
	for (size_t i = 0; i < n; i += STEP)
		above = most_bytes(above, (bytes)load_ints(codes + i) - least);
	return !any_lane((longs)(above > (uint8_t)(most - least)));
}

/* ---- packing: bits_merge() and bits_spread() of bit_pack.h, eight codes per lane ---- */

/* Keeps the bits of `kept`, and moves the bits above them down. */
FOR_WIDE longs closer(longs x, uint64_t kept, unsigned by)
{
	return (x & kept) | (x & ~kept) >> by;
}

/* Merges each group of four codes into the lowest 4 * bits bits of a lane of 32 bits. With AVX2,
 * codes of up to 6 bits need fewer instructions: the factor that shifts a neighbour then fits into
 * a signed byte, so a multiply-and-add instruction merges two codes. */
FOR_WIDE longs fours(longs x, unsigned bits)
{
#if defined(WIDE_AVX2)
	if (bits <= 6) {
		const __m256i twos = _mm256_maddubs_epi16(
			(__m256i)x, _mm256_set1_epi16((short)(1 | 1 << (8 + bits))));

		return (longs)_mm256_madd_epi16(twos, _mm256_set1_epi32(1 | 1 << (16 + 2 * bits)));
	}
#endif
	x = closer(x, 0x00ff00ff00ff00ffu, 8 - bits);
	return closer(x, 0x0000ffff0000ffffu, 16 - 2 * bits);
}

#if defined(WIDE_AVX2)
/* Products merge two codes of four bits, or four of two bits, into a byte. */
WIDE_TARGET static void pack_nibbles(const uint8_t *codes, size_t n, uint8_t *out)
{
	for (size_t i = 0; i < n; i += VALUE_GROUP) {
		const __m256i twos = _mm256_maddubs_epi16((__m256i)load_ints(codes + i),
							  _mm256_set1_epi16(1 | 1 << 12));

		_mm_storeu_si128((__m128i *)(void *)(out + i / 2),
				 _mm_packus_epi16(_mm256_castsi256_si128(twos),
						  _mm256_extracti128_si256(twos, 1)));
	}
}

WIDE_TARGET static void pack_pairs(const uint8_t *codes, size_t n, uint8_t *out)
{
	for (size_t i = 0; i < n; i += VALUE_GROUP) {
		const __m256i x = (__m256i)fours((longs)load_ints(codes + i), 2);
		const __m128i half = _mm_packus_epi32(_mm256_castsi256_si128(x),
						      _mm256_extracti128_si256(x, 1));

		_mm_storel_epi64((__m128i *)(void *)(out + i / 4), _mm_packus_epi16(half, half));
	}
}
#endif

FOR_WIDE void pack_any(const uint8_t *codes, unsigned bits, size_t n, uint8_t *out)
{
	for (size_t i = 0; i < n; i += STEP, out += LONGS * bits) {
		const longs x = little_endian(
			closer(fours(little_endian((longs)load_ints(codes + i)), bits),
			       0x00000000ffffffffu, 32 - 4 * bits));

		/* The order matters, because each store overwrites the zeros after the previous
		 * one. */
#pragma GCC unroll 4
		for (size_t j = 0; j < LONGS; j++) {
			const uint64_t eight = x[j];

			memcpy(out + j * bits, &eight, sizeof(eight));
		}
	}
}

WIDE_TARGET static void pack(const uint8_t *codes, unsigned bits, size_t n, uint8_t *out)
{
	if (bits == 8)
		memcpy(out, codes, n);
#if defined(WIDE_AVX2)
	else if (bits == 4)
		pack_nibbles(codes, n, out);
	else if (bits == 2)
		pack_pairs(codes, n, out);
#endif
	else if (bits > 6)
		pack_any(codes, 7, n, out);
	else
		pack_any(codes, bits, n, out);
}

/* Keeps the bits of `kept`, and moves the bits of `moved` up. */
FOR_WIDE longs apart(longs x, uint64_t kept, uint64_t moved, unsigned by)
{
	return (x & kept) | (x & moved) << by;
}

WIDE_TARGET static void unpack(const uint8_t *in, unsigned bits, size_t n, uint8_t *codes)
{
	const uint64_t four = ((uint64_t)1 << 4 * bits) - 1, two = ((uint64_t)1 << 2 * bits) - 1;
	const uint64_t one = ((uint64_t)1 << bits) - 1;

	for (size_t i = 0; i < n; i += STEP, in += LONGS * bits) {
		longs x = load_spaced(in, bits);

		x = apart(x, four, four << 4 * bits, 32 - 4 * bits);
		x = apart(x, two * 0x0000000100000001u, (two << 2 * bits) * 0x0000000100000001u,
			  16 - 2 * bits);
		x = little_endian(apart(x, one * 0x0001000100010001u,
					(one << bits) * 0x0001000100010001u, 8 - bits));
		memcpy(codes + i, &x, sizeof(x));
	}
}

const struct value_kernels WIDE(value) = { WIDE_NAME,   WIDE_USABLE,  largest,     sums,
					   uniform,     signs,        grid,        total,
					   split,       exponents,    nearest,     uniform_values,
					   sign_values, level_values, grid_values, within,
					   pack,        unpack };
#endif
