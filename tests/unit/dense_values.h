/* SPDX-License-Identifier: BSD-3-Clause
 * Values, and recipes that send all coordinates, for tests of dense steps. */
#ifndef TESTS_DENSE_VALUES_H
#define TESTS_DENSE_VALUES_H
#include "base/bytes.h"
#include "compress/dense.h"
#include "ranks.h"

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))
#define SGD         "up=all down=all"
#define MOMENTUM    "up=all down=all update=momentum(0.9)"

static inline void fill(float *value, uint32_t n, uint64_t seed)
{
	for (uint32_t i = 0; i < n; i++)
		value[i] = i % 7 ? noise(seed, 0, 0, i) : -0.0f;
}

static inline int is_zero(const float *x, size_t n)
{
	uint32_t any = 0;
	for (size_t i = 0; i < n; i++)
		any |= float_bits(x[i]);
	return !any;
}
#endif
