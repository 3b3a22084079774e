/* SPDX-License-Identifier: BSD-3-Clause
 * Values for the tests of codes of few bits, and functions that encode and decode them. */
#ifndef TESTS_FEW_BITS_VALUES_H
#define TESTS_FEW_BITS_VALUES_H
#include "compress/few_bits.h"
#include "random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { N = 3000, BYTES = 4 * N + 4096 };
static float v[N], sent[N], got[N];
static uint8_t bytes[BYTES];

static inline void fill(uint64_t seed, int spread)
{
	struct random r = { seed };

	for (int i = 0; i < N; i++) {
		float z = random_normal(&r);

		v[i] = ldexpf(z, spread ? -(int)(random_bits(&r) % (unsigned)spread) : 0);
	}
}

static inline struct value_coding uniform(unsigned bits, unsigned block)
{
	return (struct value_coding){ VALUE_UNIFORM, bits, block, 0 };
}

static inline struct value_coding grid(unsigned bits)
{
	return (struct value_coding){ VALUE_GRID, bits, 0, 0 };
}

static inline struct value_coding rounded(float width)
{
	return (struct value_coding){ VALUE_ROUND, 0, 0, width };
}

static inline struct value_coding of_type(enum value_type type)
{
	return (struct value_coding){ type, value_bits(type), UNIFORM_BLOCK, 0 };
}

/* Encodes v[0..n) and decodes it into sent[]. Returns the scale. */
static inline float there_and_back(struct value_coding *c, size_t n, uint64_t step)
{
	const struct rounding rounding = { .stream = { RANDOM_ROUND, 3, step, 0 } };
	float scale = few_bits_fit(c, v, n, 0);
	uint64_t length = few_bits_bytes(c, (uint32_t)n);
	const char *why = "";

	assert_true(few_bits_valid(c, scale, &why));
	memset(bytes, 0xa5, sizeof(bytes));
	few_bits_encode(NULL, c, scale, v, n, &rounding, bytes, sent);
	for (size_t i = length; i < sizeof(bytes); i++)
		assert_int_equal(bytes[i], 0xa5);
	if (few_bits_decode(NULL, c, scale, bytes, n, got, &why))
		fail_msg("refused: %s", why);
	assert_memory_equal(got, sent, n * sizeof(*got));
	return scale;
}
#endif
