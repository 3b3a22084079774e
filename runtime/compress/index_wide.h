/* SPDX-License-Identifier: BSD-3-Clause
 * The loops of the delta coding, and those that read raw positions and bitmaps, for the instruction
 * set of wide.h. Eight gaps of w bits are w whole bytes, so groups of eight depend on each other
 * only by the running sum. With AVX2, the bytes of each gap are shuffled into a lane of 32 bits,
 * shifted down and masked. Writing merges neighbours into pairs, pairs into fours, and fours
 * into 128 bits. Wide gaps are handled one at a time, and so are all gaps on processors that cannot
 * shift each lane by its own number of bits. */
#ifndef COMPRESS_INDEX_WIDE_H
#define COMPRESS_INDEX_WIDE_H
#include "index_kernels.h"
#include "wide.h"

FOR_WIDE words load_words(const uint32_t *x)
{
	return (words)load_ints(x);
}

/* Returns the bitwise or of all 32-bit lanes. */
FOR_WIDE uint32_t any_word(words v)
{
	const uint64_t any = any_lane((longs)v);

	return (uint32_t)(any | any >> 32);
}

/* ---- gaps of eight, with AVX2 ---- */

#if defined(WIDE_AVX2)
enum { READ_WIDTH_MAX = 24, WRITE_WIDTH_MAX = 15 };

/* For gaps of one width: the four bytes of each lane, relative to the beginning of its half, and
 * the number of bits in them before the gap. The upper half begins with the byte that contains bit
 * 4 * width. */
struct gap_places {
	uint8_t bytes[4 * NARROW];
	uint32_t shift[NARROW];
};

#define BIT(w, lane)   ((lane) < 4 ? (lane) * (w) : 4 * (w) % 8 + ((lane)-4) * (w))
#define BYTE(w, lane)  BIT(w, lane) / 8
#define FOUR(w, lane)  BYTE(w, lane), BYTE(w, lane) + 1, BYTE(w, lane) + 2, BYTE(w, lane) + 3
#define SHIFT(w, lane) BIT(w, lane) % 8
#define HALF(of, w, l) of(w, l), of(w, l + 1), of(w, l + 2), of(w, l + 3)
#define EACH(of, w)    HALF(of, w, 0), HALF(of, w, 4)
#define WIDTH(w)                                                                                   \
	{                                                                                          \
		{ EACH(FOUR, w) },                                                                 \
		{                                                                                  \
			EACH(SHIFT, w)                                                             \
		}                                                                                  \
	}
#define WIDTHS(w) WIDTH(w), WIDTH(w + 1), WIDTH(w + 2), WIDTH(w + 3), WIDTH(w + 4)

static const struct gap_places places_of[READ_WIDTH_MAX + 1] = { WIDTHS(0), WIDTHS(5), WIDTHS(10),
								 WIDTHS(15), WIDTHS(20) };

FOR_WIDE words eight_gaps(const uint8_t *in, unsigned width, ints bytes_of, words shift)
{
	const __m128i low = _mm_loadu_si128((const void *)in);
	const __m128i high = _mm_loadu_si128((const void *)(in + 4 * width / 8));
	const __m256i v = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), (__m256i)bytes_of);

	return ((words)v >> shift) & ((1u << width) - 1);
}

/* Lane i becomes the sum of lanes 0..i. */
FOR_WIDE words running_sum(words v)
{
	const words upper = { 0, 0, 0, 0, -1u, -1u, -1u, -1u };

	v += (words)_mm256_slli_si256((__m256i)v, 4);
	v += (words)_mm256_slli_si256((__m256i)v, 8);
	return v + (upper & (words)_mm256_permutevar8x32_epi32((__m256i)v, _mm256_set1_epi32(3)));
}

FOR_WIDE uint32_t unpack_narrow(const uint8_t *in, unsigned width, uint64_t *next, uint32_t *index)
{
	const ints bytes_of = load_ints(places_of[width].bytes);
	const words shift = load_words(places_of[width].shift);
	words all = { 0 }, before = all + (uint32_t)(*next - 1);

	for (int i = 0; i < INDEX_BLOCK; i += NARROW, in += width) {
		words v = eight_gaps(in, width, bytes_of, shift), at;

		all |= v;
		v = running_sum(v + 1);
		at = v + before;
		memcpy(index + i, &at, sizeof(at));
		/* Only this addition has to wait for the previous group. */
		before += (words)_mm256_permutevar8x32_epi32((__m256i)v, _mm256_set1_epi32(7));
	}
	/* 128 gaps of 24 bits stay below 2^32. The difference is therefore correct, although it may
	 * wrap. */
	*next += (uint64_t)(uint32_t)(index[INDEX_BLOCK - 1] - (uint32_t)*next) + 1;
	return any_word(all);
}

FOR_WIDE void pack_narrow(const uint32_t *gap, unsigned width, uint8_t *out)
{
	const __m128i by_one = _mm_cvtsi32_si128((int)width),
		      by_two = _mm_cvtsi32_si128(2 * (int)width);

	for (int i = 0; width && i < INDEX_BLOCK; i += NARROW, out += width) {
		const longs v = (longs)load_words(gap + i);
		const longs odd = (longs)_mm256_sll_epi64((__m256i)(v >> 32), by_one);
		const __m256i pairs = (__m256i)((v & UINT32_MAX) | odd);
		const __m256i upper = _mm256_unpackhi_epi64(pairs, pairs);
		const longs fours = (longs)pairs | (longs)_mm256_sll_epi64(upper, by_two);
		const uint64_t low = fours[0] | fours[2] << 4 * width;
		const uint64_t high = fours[2] >> (64 - 4 * width);

		memcpy(out, &low, sizeof(low)); /* this machine is little-endian */
		memcpy(out + 8, &high, sizeof(high));
	}
}
#endif

/* ---- reading ---- */

WIDE_TARGET static void gap_codes(const uint8_t *in, unsigned width, uint32_t *gap)
{
#if defined(WIDE_AVX2)
	const ints bytes_of = load_ints(places_of[width].bytes);
	const words shift = load_words(places_of[width].shift);

	for (int i = 0; i < INDEX_BLOCK; i += NARROW, in += width) {
		const words v = eight_gaps(in, width, bytes_of, shift);

		memcpy(gap + i, &v, sizeof(v));
	}
#else
	for (unsigned i = 0, bit = 0; i < INDEX_BLOCK; i++, bit += width)
		gap[i] = (uint32_t)(get_le64(in + bit / 8) >> bit % 8) & ((1u << width) - 1);
#endif
}

/* Not inlined, because the other path would then save registers that only this loop needs. */
static __attribute__((noinline)) uint32_t unpack_each(const uint8_t *in, unsigned width,
						      uint64_t *next, uint32_t *index)
{
	const uint64_t mask = ((uint64_t)1 << width) - 1;
	uint64_t at = *next, all = 0;

	for (unsigned i = 0, bit = 0; i < INDEX_BLOCK; i++, bit += width) {
		const uint64_t gap = get_le64(in + bit / 8) >> bit % 8 & mask;

		all |= gap;
		at += gap;
		index[i] = (uint32_t)at++;
	}
	*next = at;
	return (uint32_t)all;
}

WIDE_TARGET static uint32_t unpack_gaps(const uint8_t *in, unsigned width, uint64_t *next,
					uint32_t *index)
{
#if defined(WIDE_AVX2)
	if (width <= READ_WIDTH_MAX)
		return unpack_narrow(in, width, next, index);
#endif
	return unpack_each(in, width, next, index);
}

/* ---- writing ---- */

/* gap may be NULL. */
FOR_WIDE uint32_t all_gaps(const uint32_t *index, uint32_t next, uint32_t *gap)
{
	uint32_t first = index[0] - next;
	words all = { 0 };

	if (gap)
		gap[0] = first;
	for (size_t i = 1; i < NARROW; i++) {
		const uint32_t each = index[i] - index[i - 1] - 1;

		first |= each;
		if (gap)
			gap[i] = each;
	}
#pragma GCC unroll 4
	for (size_t i = NARROW; i < INDEX_BLOCK; i += NARROW) {
		const words v = load_words(index + i) - load_words(index + i - 1) - 1;

		all |= v;
		if (gap)
			memcpy(gap + i, &v, sizeof(v));
	}
	return first | any_word(all);
}

WIDE_TARGET static uint32_t largest_gap(const uint32_t *index, uint32_t next)
{
	return all_gaps(index, next, NULL);
}

WIDE_TARGET static uint32_t gaps(const uint32_t *index, uint32_t next, uint32_t *gap)
{
	return all_gaps(index, next, gap);
}

WIDE_TARGET static void pack_gaps(const uint32_t *gap, unsigned width, uint8_t *out)
{
	uint64_t held = 0;
	unsigned fill = 0; /* the number of bits held, which is below 8 between gaps */

#if defined(WIDE_AVX2)
	if (width <= WRITE_WIDTH_MAX) {
		pack_narrow(gap, width, out);
		return;
	}
#endif
	for (int i = 0; i < INDEX_BLOCK; i++) {
		held |= (uint64_t)gap[i] << fill;
		put_le64(out, held);
		fill += width;
		out += fill / 8;
		held >>= fill & ~7u;
		fill &= 7;
	}
}

/* ---- raw positions and bitmaps ---- */

WIDE_TARGET static int ascends(const uint32_t *index, size_t n)
{
	words wrong = { 0 };
	int rest = 0;
	size_t i = 1;

	for (; i + NARROW <= n; i += NARROW)
		wrong |= (words)(load_words(index + i) <= load_words(index + i - 1));
	for (; i < n; i++)
		rest |= index[i] <= index[i - 1];
	return !rest && !any_word(wrong);
}

/* With AVX2's bit instructions, always writes eight positions, even if there are fewer. The only
 * branch is then the one on their number. */
WIDE_TARGET static size_t ones(const uint8_t *in, size_t n, uint32_t room, uint32_t *index,
			       uint32_t *found)
{
	uint32_t listed = *found;
	size_t at = 0;

	for (; at + 8 <= n && room - listed >= 64; at += 8) {
		const uint32_t base = (uint32_t)(8 * at);
		uint64_t word = get_le64(in + at);
#if defined(WIDE_AVX2)
		uint32_t *to = index + listed;

		listed += (uint32_t)_mm_popcnt_u64(word);
		for (int left = (int)_mm_popcnt_u64(word); left > 0; left -= 8, to += 8)
			for (int i = 0; i < 8; i++, word = _blsr_u64(word))
				to[i] = base + (uint32_t)_tzcnt_u64(word);
#else
		for (; word; word &= word - 1)
			index[listed++] = base + (uint32_t)__builtin_ctzll(word);
#endif
	}
	*found = listed;
	return at;
}

const struct index_kernels WIDE(index) = { WIDE_NAME,   WIDE_USABLE, largest_gap, gaps, pack_gaps,
					   unpack_gaps, gap_codes,   ascends,     ones };
#endif
