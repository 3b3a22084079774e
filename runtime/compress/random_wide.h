/* SPDX-License-Identifier: BSD-3-Clause
 * Runs of random numbers, for the instruction set of wide.h. The words of a counter are kept in the
 * lower halves of 64-bit lanes, where the products are formed; the upper halves are ignored. Two
 * registers of counters at once hide the latency of a multiplication. */
#ifndef COMPRESS_RANDOM_WIDE_H
#define COMPRESS_RANDOM_WIDE_H
#include "random_kernels.h"
#include "wide.h"

struct counters {
	longs c0, c1, c2, c3;
};

FOR_WIDE struct counters first_round(const struct random_plan *p, longs quad)
{
	const longs a = multiply_low(quad, RANDOM_FACTOR_0), none = { 0 };

	return (struct counters){ (quad >> 32 << 24) ^ p->c0, none + p->c1, (a >> 32) ^ p->c2, a };
}

/* Prevents the compiler from moving this computation down. The key is then ready while the product
 * is still being computed. */
FOR_WIDE longs early(longs v)
{
#if defined(__x86_64__)
	__asm__("" : "+x"(v));
#endif
	return v;
}

FOR_WIDE void next_round(struct counters *c, uint64_t key_0, uint64_t key_1)
{
	const longs a = multiply_low(c->c0, RANDOM_FACTOR_0);
	const longs b = multiply_low(c->c2, RANDOM_FACTOR_1);

	c->c0 = (b >> 32) ^ early(c->c1 ^ key_0);
	c->c2 = (a >> 32) ^ early(c->c3 ^ key_1);
	c->c1 = b;
	c->c3 = a;
}

FOR_WIDE void store_quads(uint32_t *to, struct counters c)
{
	store_alternately(to, join_halves(c.c0, c.c1 << 32), join_halves(c.c2, c.c3 << 32));
}

WIDE_TARGET static void random_numbers(const struct random_stream *s, uint64_t quad, size_t n,
				       uint32_t *out)
{
	struct random_plan p;
	longs low = long_numbers() + quad, high;

	random_plan_make(s, &p);
	for (size_t i = 0; i < n; i += 8 * LONGS, low = high + LONGS) {
		high = low + LONGS;
		struct counters x = first_round(&p, low), y = first_round(&p, high);

		for (int round = 1; round < RANDOM_ROUNDS; round++) {
			next_round(&x, p.key_0[round], p.key_1[round]);
			next_round(&y, p.key_0[round], p.key_1[round]);
		}
		store_quads(out + i, x);
		store_quads(out + i + 4 * LONGS, y);
	}
}

const struct random_kernels WIDE(random) = { WIDE_NAME, WIDE_USABLE, random_numbers };
#endif
