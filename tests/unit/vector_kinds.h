/* SPDX-License-Identifier: BSD-3-Clause
 * Coordinates of vectors of every kind that a selection may meet. */
#ifndef TESTS_VECTOR_KINDS_H
#define TESTS_VECTOR_KINDS_H
#include "base/bytes.h"
#include "random.h"
#include <math.h>

enum { VECTOR_KINDS = 9 };

/* Gaussian, ties, equal magnitudes, zeros, few, denormals, near each other, infinities, heavy
 * tails. */
static inline float value_of(int kind, struct random *r)
{
	uint32_t bits = random_bits(r);

	switch (kind) {
	case 0: return random_normal(r);
	case 1: return (float)((int)(bits % 7) - 3);
	case 2: return bits & 1 ? 0.25f : -0.25f;
	case 3: return bits & 1 ? 0.0f : -0.0f;
	case 4: return bits % 50 ? 0.0f : random_normal(r);
	case 5: return bits_float(bits & 0x807fffff); /* denormal */
	case 6: return bits_float(0x3f800000 + bits % 3000);
	case 7: return bits % 10 ? random_normal(r) : bits & 1 ? INFINITY : -INFINITY;
	default: return (float)pow(random_unit(r) + 1e-6, -3) * random_normal(r);
	}
}
#endif
