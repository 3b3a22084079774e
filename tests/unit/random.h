/* SPDX-License-Identifier: BSD-3-Clause
 * Seeded random numbers for property tests: the same on every machine, so that a failure
 * repeats. */
#ifndef TESTS_UNIT_RANDOM_H
#define TESTS_UNIT_RANDOM_H
#include <stdint.h>

struct random {
	uint64_t state;
};

static inline uint32_t random_bits(struct random *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)(z >> 32);
}

static inline double random_unit(struct random *r) /* [0, 1) */
{
	return random_bits(r) * 0x1p-32;
}

static inline float random_normal(struct random *r) /* approximately normal: a sum of twelve
						       numbers */
{
	double sum = -6;

	for (int i = 0; i < 12; i++)
		sum += random_unit(r);
	return (float)sum;
}
#endif
