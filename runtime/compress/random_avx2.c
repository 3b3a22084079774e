/* SPDX-License-Identifier: BSD-3-Clause
 * Random numbers for AVX2. For Philox, the words of a counter are kept in the lower halves of
 * 64-bit lanes, where the products are formed; the upper halves are ignored. Eight counters at
 * once, as two groups of four, hide the latency of a multiplication. */
#include "random_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))

struct counters {
	__m256i c0, c1, c2, c3;
};

AVX2 static inline __attribute__((always_inline)) struct counters first_round(
	const struct random_plan *p, __m256i quad)
{
	const __m256i a = _mm256_mul_epu32(quad, _mm256_set1_epi64x(RANDOM_FACTOR_0));
	const __m256i high = _mm256_slli_epi64(_mm256_srli_epi64(quad, 32), 24);

	return (struct counters){
		_mm256_xor_si256(high, _mm256_set1_epi64x((int64_t)p->c0)),
		_mm256_set1_epi64x((int64_t)p->c1),
		_mm256_xor_si256(_mm256_srli_epi64(a, 32), _mm256_set1_epi64x((int64_t)p->c2)), a
	};
}

/* Prevents the compiler from moving this computation down. The key is then ready while the product
 * is still being computed. */
AVX2 static inline __m256i early(__m256i v)
{
	__asm__("" : "+x"(v));
	return v;
}

AVX2 static inline __attribute__((always_inline)) void next_round(struct counters *c, __m256i key_0,
								  __m256i key_1)
{
	const __m256i a = _mm256_mul_epu32(c->c0, _mm256_set1_epi64x(RANDOM_FACTOR_0));
	const __m256i b = _mm256_mul_epu32(c->c2, _mm256_set1_epi64x(RANDOM_FACTOR_1));

	c->c0 = _mm256_xor_si256(_mm256_srli_epi64(b, 32), early(_mm256_xor_si256(c->c1, key_0)));
	c->c2 = _mm256_xor_si256(_mm256_srli_epi64(a, 32), early(_mm256_xor_si256(c->c3, key_1)));
	c->c1 = b;
	c->c3 = a;
}

/* Computes all rounds of eight counters. */
AVX2 static inline __attribute__((always_inline)) void philox(const struct random_plan *p,
							      __m256i low, __m256i high,
							      struct counters c[2])
{
	struct counters x = first_round(p, low), y = first_round(p, high);

	for (int round = 1; round < RANDOM_ROUNDS; round++) {
		const __m256i key_0 = _mm256_set1_epi64x((int64_t)p->key_0[round]);
		const __m256i key_1 = _mm256_set1_epi64x((int64_t)p->key_1[round]);

		next_round(&x, key_0, key_1);
		next_round(&y, key_0, key_1);
	}
	c[0] = x;
	c[1] = y;
}

/* Returns the lower half of each lane of a, with the lower half of the lane of b above it. */
AVX2 static inline __m256i pairs(__m256i a, __m256i b)
{
	return _mm256_blend_epi32(a, _mm256_slli_epi64(b, 32), 0xaa);
}

AVX2 static void run_avx2(const struct random_stream *s, uint64_t quad, size_t n, uint32_t *out)
{
	struct random_plan p;
	__m256i low = _mm256_add_epi64(_mm256_set1_epi64x((int64_t)quad),
				       _mm256_setr_epi64x(0, 1, 2, 3));
	const __m256i four = _mm256_set1_epi64x(4);

	random_plan_make(s, &p);
	for (size_t i = 0; i < n; i += 32) {
		const __m256i high = _mm256_add_epi64(low, four);
		struct counters c[2];

		philox(&p, low, high, c);
		low = _mm256_add_epi64(high, four);
		for (int j = 0; j < 2; j++) {
			const __m256i a = pairs(c[j].c0, c[j].c1), b = pairs(c[j].c2, c[j].c3);
			const __m256i even = _mm256_unpacklo_epi64(a, b),
				      odd = _mm256_unpackhi_epi64(a, b);
			__m256i *to = (__m256i *)(void *)(out + i + 16 * j);

			_mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
			_mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
		}
	}
}

const struct random_kernels random_avx2 = { "avx2", kernels_avx2, run_avx2 };
#else
typedef int no_avx2_on_this_machine;
#endif
