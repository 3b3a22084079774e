/* SPDX-License-Identifier: BSD-3-Clause
 * Random numbers for AVX-512: random_avx2.c in registers twice as wide, and both exclusive ors of a
 * round of Philox in one instruction. */
#include "random_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f")))
enum { XOR = 0x96 };

struct counters {
	__m512i c0, c1, c2, c3;
};

AVX512 static inline __attribute__((always_inline)) struct counters first_round(
	const struct random_plan *p, __m512i quad)
{
	const __m512i a = _mm512_mul_epu32(quad, _mm512_set1_epi64(RANDOM_FACTOR_0));
	const __m512i high = _mm512_slli_epi64(_mm512_srli_epi64(quad, 32), 24);

	return (struct counters){
		_mm512_xor_si512(high, _mm512_set1_epi64((int64_t)p->c0)),
		_mm512_set1_epi64((int64_t)p->c1),
		_mm512_xor_si512(_mm512_srli_epi64(a, 32), _mm512_set1_epi64((int64_t)p->c2)), a
	};
}

AVX512 static inline __attribute__((always_inline)) void next_round(struct counters *c,
								    __m512i key_0, __m512i key_1)
{
	const __m512i a = _mm512_mul_epu32(c->c0, _mm512_set1_epi64(RANDOM_FACTOR_0));
	const __m512i b = _mm512_mul_epu32(c->c2, _mm512_set1_epi64(RANDOM_FACTOR_1));

	c->c0 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(b, 32), c->c1, key_0, XOR);
	c->c2 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(a, 32), c->c3, key_1, XOR);
	c->c1 = b;
	c->c3 = a;
}

/* All rounds of sixteen counters. */
AVX512 static inline __attribute__((always_inline)) void philox(const struct random_plan *p,
								__m512i low, __m512i high,
								struct counters c[2])
{
	struct counters x = first_round(p, low), y = first_round(p, high);

	for (int round = 1; round < RANDOM_ROUNDS; round++) {
		const __m512i key_0 = _mm512_set1_epi64((int64_t)p->key_0[round]);
		const __m512i key_1 = _mm512_set1_epi64((int64_t)p->key_1[round]);

		next_round(&x, key_0, key_1);
		next_round(&y, key_0, key_1);
	}
	c[0] = x;
	c[1] = y;
}

/* The lower half of each lane of a, and above it that of b. */
AVX512 static inline __m512i pairs(__m512i a, __m512i b)
{
	return _mm512_mask_mov_epi32(a, 0xaaaa, _mm512_slli_epi64(b, 32));
}

AVX512 static void run(const struct random_stream *s, uint64_t quad, size_t n, uint32_t *out)
{
	struct random_plan p;
	const __m512i lower = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
	const __m512i upper = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
	const __m512i eight = _mm512_set1_epi64(8);
	__m512i low = _mm512_add_epi64(_mm512_set1_epi64((int64_t)quad),
				       _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));

	random_plan_make(s, &p);
	for (size_t i = 0; i < n; i += RANDOM_RUN) {
		const __m512i high = _mm512_add_epi64(low, eight);
		struct counters c[2];

		philox(&p, low, high, c);
		low = _mm512_add_epi64(high, eight);
		for (int j = 0; j < 2; j++) {
			const __m512i a = pairs(c[j].c0, c[j].c1), b = pairs(c[j].c2, c[j].c3);
			const __m512i even = _mm512_unpacklo_epi64(a, b),
				      odd = _mm512_unpackhi_epi64(a, b);
			uint32_t *to = out + i + 32 * j;

			_mm512_storeu_si512(to, _mm512_permutex2var_epi64(even, lower, odd));
			_mm512_storeu_si512(to + 16, _mm512_permutex2var_epi64(even, upper, odd));
		}
	}
}

static int usable(void)
{
	return __builtin_cpu_supports("avx512f");
}

const struct random_kernels random_avx512 = { "avx512", usable, run };
#else
typedef int no_avx512_on_this_machine;
#endif
