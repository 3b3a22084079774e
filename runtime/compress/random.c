/* SPDX-License-Identifier: BSD-3-Clause
 * Philox-4x32 with ten rounds: counter in, four numbers out. Pure. */
#include "random.h"

enum { ROUNDS = 10 };

void random_quad(const struct random_stream *s, uint64_t quad, uint32_t out[4])
{
	/* 34 bits of quad are enough for 2^36 coordinates; the rank shares the word of its high part. */
	uint32_t c0 = (uint32_t)quad, c1 = (uint32_t)(quad >> 32) << 24 ^ s->rank,
		 c2 = (uint32_t)s->step, c3 = (uint32_t)(s->step >> 32);
	uint32_t k0 = 0x534c5543u, k1 = s->purpose;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t a = (uint64_t)0xd2511f53u * c0, b = (uint64_t)0xcd9e8d57u * c2;

		c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
		c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
		c1 = (uint32_t)b;
		c3 = (uint32_t)a;
		k0 += 0x9e3779b9u;
		k1 += 0xbb67ae85u;
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
