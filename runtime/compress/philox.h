/* SPDX-License-Identifier: BSD-3-Clause
 * Philox-4x32 with ten rounds: it turns a counter into four numbers. Inline, for random*.c and the
 * GPU kernels. random.h explains the meaning of the numbers. */
#ifndef COMPRESS_PHILOX_H
#define COMPRESS_PHILOX_H
#include "base/both.h"
#include "random.h"

enum { RANDOM_ROUNDS = 10 };
#define RANDOM_KEY        0x534c5543u
#define RANDOM_KEY_STEP_0 0x9e3779b9u
#define RANDOM_KEY_STEP_1 0xbb67ae85u
#define RANDOM_FACTOR_0   0xd2511f53u
#define RANDOM_FACTOR_1   0xcd9e8d57u

HOST_AND_DEVICE static inline void philox_quad(const struct random_stream *s, uint64_t quad,
					       uint32_t out[4])
{
	/* 34 bits of quad are enough for 2^36 coordinates. The rank shares a word with the high
	 * part of quad. */
	uint32_t c0 = (uint32_t)quad, c1 = (uint32_t)(quad >> 32) << 24 ^ s->rank;
	uint32_t c2 = (uint32_t)s->step, c3 = (uint32_t)(s->step >> 32);
	uint32_t k0 = RANDOM_KEY ^ s->seed, k1 = s->purpose;

	for (int round = 0; round < RANDOM_ROUNDS; round++) {
		uint64_t a = (uint64_t)RANDOM_FACTOR_0 * c0, b = (uint64_t)RANDOM_FACTOR_1 * c2;

		c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
		c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
		c1 = (uint32_t)b;
		c3 = (uint32_t)a;
		k0 += RANDOM_KEY_STEP_0;
		k1 += RANDOM_KEY_STEP_1;
	}
	out[0] = c0;
	out[1] = c1;
	out[2] = c2;
	out[3] = c3;
}
#endif
