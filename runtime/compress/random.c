/* SPDX-License-Identifier: BSD-3-Clause
 * Philox-4x32 with ten rounds: counter in, four numbers out. Pure. */
#include "random.h"
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

enum { ROUNDS = 10 };
static const uint32_t KEY = 0x534c5543, KEY_STEP_0 = 0x9e3779b9, KEY_STEP_1 = 0xbb67ae85,
		      FACTOR_0 = 0xd2511f53, FACTOR_1 = 0xcd9e8d57;

void random_quad(const struct random_stream *s, uint64_t quad, uint32_t out[4])
{
	/* 34 bits of quad are enough for 2^36 coordinates; the rank shares the word of its high part. */
	uint32_t c0 = (uint32_t)quad, c1 = (uint32_t)(quad >> 32) << 24 ^ s->rank,
		 c2 = (uint32_t)s->step, c3 = (uint32_t)(s->step >> 32);
	uint32_t k0 = KEY ^ s->seed, k1 = s->purpose;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t a = (uint64_t)FACTOR_0 * c0, b = (uint64_t)FACTOR_1 * c2;

		c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
		c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
		c1 = (uint32_t)b;
		c3 = (uint32_t)a;
		k0 += KEY_STEP_0;
		k1 += KEY_STEP_1;
	}
	out[0] = c0;
	out[1] = c1;
	out[2] = c2;
	out[3] = c3;
}

uint32_t random_at(const struct random_stream *s, uint64_t coordinate)
{
	uint32_t four[4];

	random_quad(s, coordinate / 4, four);
	return four[coordinate % 4];
}

/* ---- four quads at once: the same numbers ---- */

enum { AT_ONCE = 4 };

#if defined(__x86_64__)
struct halves {
	__m128i low, high;
};

/* The two halves of four products. */
static inline struct halves multiply(__m128i v, uint32_t by)
{
	const __m128i factor = _mm_set1_epi32((int)by), upper = _mm_set1_epi64x((long long)(~0ull << 32));
	__m128i even = _mm_mul_epu32(v, factor), odd = _mm_mul_epu32(_mm_srli_epi64(v, 32), factor);

	return (struct halves){ _mm_or_si128(_mm_andnot_si128(upper, even), _mm_slli_epi64(odd, 32)),
				_mm_or_si128(_mm_srli_epi64(even, 32), _mm_and_si128(odd, upper)) };
}

/* The quads high << 32 | low[0..3]. */
static void quads(const struct random_stream *s, uint32_t high, const uint32_t low[AT_ONCE], uint32_t *out)
{
	__m128i c0 = _mm_loadu_si128((const __m128i *)(const void *)low);
	__m128i c1 = _mm_set1_epi32((int)(high << 24 ^ s->rank));
	__m128i c2 = _mm_set1_epi32((int)(uint32_t)s->step), c3 = _mm_set1_epi32((int)(uint32_t)(s->step >> 32));
	uint32_t k0 = KEY ^ s->seed, k1 = s->purpose;

	for (int round = 0; round < ROUNDS; round++) {
		struct halves a = multiply(c0, FACTOR_0), b = multiply(c2, FACTOR_1);

		c0 = _mm_xor_si128(_mm_xor_si128(b.high, c1), _mm_set1_epi32((int)k0));
		c2 = _mm_xor_si128(_mm_xor_si128(a.high, c3), _mm_set1_epi32((int)k1));
		c1 = b.low;
		c3 = a.low;
		k0 += KEY_STEP_0;
		k1 += KEY_STEP_1;
	}
	const __m128i a = _mm_unpacklo_epi32(c0, c1), b = _mm_unpackhi_epi32(c0, c1);
	const __m128i c = _mm_unpacklo_epi32(c2, c3), d = _mm_unpackhi_epi32(c2, c3);

	_mm_storeu_si128((__m128i *)(void *)out, _mm_unpacklo_epi64(a, c));
	_mm_storeu_si128((__m128i *)(void *)(out + 4), _mm_unpackhi_epi64(a, c));
	_mm_storeu_si128((__m128i *)(void *)(out + 8), _mm_unpacklo_epi64(b, d));
	_mm_storeu_si128((__m128i *)(void *)(out + 12), _mm_unpackhi_epi64(b, d));
}
#else
static void quads(const struct random_stream *s, uint32_t high, const uint32_t low[AT_ONCE], uint32_t *out)
{
	for (int i = 0; i < AT_ONCE; i++)
		random_quad(s, (uint64_t)high << 32 | low[i], out + 4 * i);
}
#endif

void random_each(const struct random_stream *s, uint64_t first, const uint32_t *index, size_t n, uint32_t *out)
{
	uint32_t low[AT_ONCE], four[4 * AT_ONCE];
	size_t i = 0;

	for (; i + AT_ONCE <= n; i += AT_ONCE) {
		uint64_t begin = (first + index[i]) / 4, end = (first + index[i + AT_ONCE - 1]) / 4;

		if (begin >> 32 != end >> 32)
			break; /* once in 2^34 coordinates: the rest one by one */
		for (size_t j = 0; j < AT_ONCE; j++)
			low[j] = (uint32_t)((first + index[i + j]) / 4);
		quads(s, (uint32_t)(begin >> 32), low, four);
		for (size_t j = 0; j < AT_ONCE; j++)
			out[i + j] = four[4 * j + (first + index[i + j]) % 4];
	}
	for (; i < n; i++)
		out[i] = random_at(s, first + index[i]);
}

void random_run(const struct random_stream *s, uint64_t first, size_t n, uint32_t *out)
{
	uint32_t last[4];
	size_t i = 0;

	for (; i < n && (first + i) % 4; i++)
		out[i] = random_at(s, first + i);
	for (; i + 4 * AT_ONCE <= n; i += 4 * AT_ONCE) {
		uint64_t quad = (first + i) / 4;
		const uint32_t at = (uint32_t)quad, low[AT_ONCE] = { at, at + 1, at + 2, at + 3 };

		if (at <= UINT32_MAX - AT_ONCE)
			quads(s, (uint32_t)(quad >> 32), low, out + i);
		else
			for (uint64_t j = 0; j < AT_ONCE; j++)
				random_quad(s, quad + j, out + i + 4 * j);
	}
	for (; i + 4 <= n; i += 4)
		random_quad(s, (first + i) / 4, out + i);
	if (i < n)
		random_quad(s, (first + i) / 4, last);
	for (size_t j = 0; i + j < n; j++)
		out[i + j] = last[j];
}
