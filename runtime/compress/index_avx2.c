/* SPDX-License-Identifier: BSD-3-Clause
 * The delta coding for AVX2, and reading raw positions and bitmaps. Eight gaps of w bits are w
 * whole bytes, so groups of eight depend on each other only by the running sum. Reading: the bytes
 * of each gap are shuffled into a lane of 32 bits, shifted down and masked. Writing: neighbours are
 * merged to pairs, pairs to fours, fours to 128 bits. */
#include "index_kernels.h"
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
enum { LANES = 8, READ_WIDTH_MAX = 24, WRITE_WIDTH_MAX = 15 };

/* ---- reading --------------------------------------------------------------- */

/* For gaps of one width: the four bytes of each lane, relative to the beginning of its half, and
 * the number of bits in them before the gap. The upper half begins with the byte that contains bit
 * 4 * width. */
struct lanes {
	uint8_t bytes[4 * LANES];
	uint32_t shift[LANES];
};

#define BIT(w, lane) ((lane) < 4 ? (lane) * (w) : 4 * (w) % 8 + ((lane)-4) * (w))
#define FOUR(w, lane)                                                                              \
	BIT(w, lane) / 8, BIT(w, lane) / 8 + 1, BIT(w, lane) / 8 + 2, BIT(w, lane) / 8 + 3
#define WIDTH(w)                                                                                   \
	{                                                                                          \
		{ FOUR(w, 0), FOUR(w, 1), FOUR(w, 2), FOUR(w, 3),                                  \
		  FOUR(w, 4), FOUR(w, 5), FOUR(w, 6), FOUR(w, 7) },                                \
		{                                                                                  \
			BIT(w, 0) % 8, BIT(w, 1) % 8, BIT(w, 2) % 8, BIT(w, 3) % 8, BIT(w, 4) % 8, \
				BIT(w, 5) % 8, BIT(w, 6) % 8, BIT(w, 7) % 8                        \
		}                                                                                  \
	}

static const struct lanes lanes_of[READ_WIDTH_MAX + 1] = {
	WIDTH(0),  WIDTH(1),  WIDTH(2),  WIDTH(3),  WIDTH(4),  WIDTH(5),  WIDTH(6),
	WIDTH(7),  WIDTH(8),  WIDTH(9),  WIDTH(10), WIDTH(11), WIDTH(12), WIDTH(13),
	WIDTH(14), WIDTH(15), WIDTH(16), WIDTH(17), WIDTH(18), WIDTH(19), WIDTH(20),
	WIDTH(21), WIDTH(22), WIDTH(23), WIDTH(24)
};

static inline AVX2 __m256i load_eight_indices(const void *p)
{
	return _mm256_loadu_si256((const __m256i *)p);
}

/* Lane i becomes the sum of lanes 0..i. */
static inline AVX2 __m256i running_sum(__m256i v)
{
	const __m256i upper = _mm256_setr_epi32(0, 0, 0, 0, -1, -1, -1, -1);
	__m256i lower_total;

	v = _mm256_add_epi32(v, _mm256_slli_si256(v, 4));
	v = _mm256_add_epi32(v, _mm256_slli_si256(v, 8));
	lower_total = _mm256_permutevar8x32_epi32(v, _mm256_set1_epi32(3));
	return _mm256_add_epi32(v, _mm256_and_si256(lower_total, upper));
}

static inline AVX2 uint32_t any_lane(__m256i v)
{
	__m128i half = _mm_or_si128(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

	half = _mm_or_si128(half, _mm_unpackhi_epi64(half, half));
	half = _mm_or_si128(half, _mm_srli_epi64(half, 32));
	return (uint32_t)_mm_cvtsi128_si32(half);
}

/* Reads eight gaps. bytes, shift and mask must be those of the gaps' width. */
static inline AVX2 __m256i eight_gaps(const uint8_t *in, unsigned upper_at, __m256i bytes,
				      __m256i shift, __m256i mask)
{
	__m256i v = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)in));

	v = _mm256_inserti128_si256(
		v, _mm_loadu_si128((const __m128i *)(const void *)(in + upper_at)), 1);
	return _mm256_and_si256(_mm256_srlv_epi32(_mm256_shuffle_epi8(v, bytes), shift), mask);
}

static AVX2 void gap_codes_avx2(const uint8_t *in, unsigned width, uint32_t *gap)
{
	const __m256i bytes = load_eight_indices(lanes_of[width].bytes),
		      shift = load_eight_indices(lanes_of[width].shift);
	const __m256i mask = _mm256_set1_epi32((1 << width) - 1);

	for (int i = 0; i < INDEX_BLOCK; i += LANES, in += width)
		_mm256_storeu_si256((__m256i *)(void *)(gap + i),
				    eight_gaps(in, 4 * width / 8, bytes, shift, mask));
}

static AVX2 uint32_t unpack_gaps_avx2(const uint8_t *in, unsigned width, uint64_t *next,
				      uint32_t *index)
{
	const __m256i one = _mm256_set1_epi32(1), last = _mm256_set1_epi32(LANES - 1);
	const unsigned upper_at = 4 * width / 8;
	__m256i bytes, shift, mask, all, before;

	if (width > READ_WIDTH_MAX)
		return index_portable.unpack(in, width, next, index);
	bytes = load_eight_indices(lanes_of[width].bytes);
	shift = load_eight_indices(lanes_of[width].shift);
	mask = _mm256_set1_epi32((1 << width) - 1);
	all = _mm256_setzero_si256();
	before = _mm256_set1_epi32((int)(uint32_t)(*next - 1));
	for (int i = 0; i < INDEX_BLOCK; i += LANES, in += width) {
		__m256i v = eight_gaps(in, upper_at, bytes, shift, mask);

		all = _mm256_or_si256(all, v);
		v = running_sum(_mm256_add_epi32(v, one));
		_mm256_storeu_si256((__m256i *)(void *)(index + i), _mm256_add_epi32(v, before));
		/* Only this addition has to wait for the previous group. */
		before = _mm256_add_epi32(before, _mm256_permutevar8x32_epi32(v, last));
	}
	/* 128 gaps of 24 bits stay below 2^32. The difference is therefore correct, although it may
	 * wrap. */
	*next += (uint64_t)(uint32_t)(index[INDEX_BLOCK - 1] - (uint32_t)*next) + 1;
	return any_lane(all);
}

/* ---- writing --------------------------------------------------------------- */

static AVX2 uint32_t gaps_avx2(const uint32_t *index, uint32_t next, uint32_t *gap)
{
	const __m256i one = _mm256_set1_epi32(1);
	__m256i all = _mm256_setzero_si256();
	uint32_t first = gap[0] = index[0] - next;

	for (int i = 1; i < LANES; i++)
		first |= gap[i] = index[i] - index[i - 1] - 1;
	for (int i = LANES; i < INDEX_BLOCK; i += LANES) {
		__m256i v = _mm256_sub_epi32(load_eight_indices(index + i),
					     load_eight_indices(index + i - 1));

		v = _mm256_sub_epi32(v, one);
		all = _mm256_or_si256(all, v);
		_mm256_storeu_si256((__m256i *)(void *)(gap + i), v);
	}
	return first | any_lane(all);
}

static AVX2 uint32_t largest_gap_avx2(const uint32_t *index, uint32_t next)
{
	const __m256i one = _mm256_set1_epi32(1);
	__m256i all = _mm256_setzero_si256(), more = all;
	uint32_t first = index[0] - next;

	for (int i = 1; i < LANES; i++)
		first |= index[i] - index[i - 1] - 1;
	for (int i = LANES; i < INDEX_BLOCK - LANES; i += 2 * LANES) {
		__m256i a = _mm256_sub_epi32(load_eight_indices(index + i),
					     load_eight_indices(index + i - 1));
		__m256i b = _mm256_sub_epi32(load_eight_indices(index + i + LANES),
					     load_eight_indices(index + i + LANES - 1));

		all = _mm256_or_si256(all, _mm256_sub_epi32(a, one));
		more = _mm256_or_si256(more, _mm256_sub_epi32(b, one));
	}
	all = _mm256_or_si256(
		all, _mm256_sub_epi32(
			     _mm256_sub_epi32(load_eight_indices(index + INDEX_BLOCK - LANES),
					      load_eight_indices(index + INDEX_BLOCK - LANES - 1)),
			     one));
	return first | any_lane(_mm256_or_si256(all, more));
}

static AVX2 void pack_gaps_avx2(const uint32_t *gap, unsigned width, uint8_t *out)
{
	const __m128i by_one = _mm_cvtsi32_si128((int)width),
		      by_two = _mm_cvtsi32_si128(2 * (int)width);
	const __m256i even = _mm256_set1_epi64x(0xffffffff);

	if (width > WRITE_WIDTH_MAX) {
		index_portable.pack(gap, width, out);
		return;
	}
	for (int i = 0; width && i < INDEX_BLOCK; i += LANES, out += width) {
		__m256i v = load_eight_indices(gap + i), pairs, fours;
		uint64_t low, high;

		pairs = _mm256_or_si256(_mm256_and_si256(v, even),
					_mm256_sll_epi64(_mm256_srli_epi64(v, 32), by_one));
		fours = _mm256_or_si256(
			pairs, _mm256_sll_epi64(_mm256_unpackhi_epi64(pairs, pairs), by_two));
		low = (uint64_t)_mm_cvtsi128_si64(_mm256_castsi256_si128(fours));
		high = (uint64_t)_mm_cvtsi128_si64(_mm256_extracti128_si256(fours, 1));
		low |= high << 4 * width;
		high >>= 64 - 4 * width;
		memcpy(out, &low, sizeof(low)); /* this machine is little-endian */
		memcpy(out + 8, &high, sizeof(high));
	}
}

/* ---- raw positions and bitmaps --------------------------------------------- */

static AVX2 int ascends_avx2(const uint32_t *index, size_t n)
{
	__m256i wrong = _mm256_setzero_si256();
	size_t i = 1;

	for (; i + LANES <= n; i += LANES) {
		const __m256i before = load_eight_indices(index + i - 1);

		wrong = _mm256_or_si256(
			wrong,
			_mm256_cmpeq_epi32(_mm256_max_epu32(before, load_eight_indices(index + i)),
					   before));
	}
	return !any_lane(wrong) && (i >= n || index_portable.ascends(index + i - 1, n - i + 1));
}

/* Always writes eight positions, even if there are fewer. The only branch is then the one on their
 * number. */
static __attribute__((target("avx2,bmi,popcnt"))) size_t ones_avx2(const uint8_t *in, size_t n,
								   uint32_t room, uint32_t *index,
								   uint32_t *found)
{
	uint32_t listed = *found;
	size_t at = 0;

	for (; at + 8 <= n && room - listed >= 64; at += 8) {
		const uint32_t base = (uint32_t)(8 * at);
		uint32_t *to = index + listed;
		uint64_t word;
		int left;

		memcpy(&word, in + at, sizeof(word)); /* this machine is little-endian */
		listed += (uint32_t)_mm_popcnt_u64(word);
		for (left = (int)_mm_popcnt_u64(word); left > 0; left -= LANES, to += LANES)
			for (int i = 0; i < LANES; i++) {
				to[i] = base + (uint32_t)_tzcnt_u64(word);
				word = _blsr_u64(word);
			}
	}
	*found = listed;
	return at;
}

const struct index_kernels index_avx2 = { "avx2",         kernels_avx2,   largest_gap_avx2,
					  gaps_avx2,      pack_gaps_avx2, unpack_gaps_avx2,
					  gap_codes_avx2, ascends_avx2,   ones_avx2 };
#else
typedef int no_avx2_on_this_machine;
#endif
