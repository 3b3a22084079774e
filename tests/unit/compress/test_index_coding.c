/* SPDX-License-Identifier: BSD-3-Clause
 * Index codings: each decodes what it encoded, has the layout of its definition, and takes the
 * expected number of bits. */
#include "index_layout.h"
#include "message_example.h"
#include "cases.h"
#include <math.h>

TEST(every_coding__reads_back_what_it_wrote)
{
	const double densities[] = { 0, 0.003, 0.1, 0.7, 1 };
	const uint32_t spans[] = { 0, 1, 127, 128, 129, 5000 };
	uint32_t index[5000], got[5001];
	struct random r = { 3 };
	const char *why;

	for (size_t s = 0; s < COUNT_OF(spans); s++)
		for (size_t d = 0; d < COUNT_OF(densities); d++)
			for (size_t c = 1; c < CODINGS; c++) {
				uint32_t count = random_support(&r, spans[s], densities[d], index);
				uint64_t bytes = index_bytes(NULL, codings[c], index, count,
							     spans[s]);
				if (codings[c] == CODING_RUN && bytes == UINT32_MAX)
					continue; /* no run */

				uint8_t *coded = get_memory(bytes);

				assert_int_equal(bytes,
						 slow_bytes(codings[c], index, count, spans[s]));
				index_encode(NULL, codings[c], index, count, spans[s], coded,
					     bytes);
				expect_layout(codings[c], coded, index, count, spans[s]);
				got[count] = 0xabcdef01;
				assert_int_equal(index_decode(NULL, codings[c], coded, bytes, count,
							      spans[s], got, &why),
						 0);
				if (count)
					assert_memory_equal(got, index, 4 * (size_t)count);
				assert_int_equal(got[count], 0xabcdef01);
				free(coded);
			}
}

/* The cost is at most 0.3 bit above the entropy of random positions. */
TEST(size__rice_costs_little_more_than_the_entropy)
{
	const double densities[] = { 1e-3, 1e-2, 0.1 };
	const uint32_t span = 2000000;
	uint32_t *index = get_memory(4 * (size_t)span);
	struct random r = { 5 };

	for (size_t i = 0; i < COUNT_OF(densities); i++) {
		uint32_t count = random_support(&r, span, densities[i], index);
		double p = (double)count / span;
		double entropy = -(p * log2(p) + (1 - p) * log2(1 - p)) / p;
		double bits = 8.0 * (double)index_bytes(NULL, CODING_RICE, index, count, span) /
			      count;

		assert_true(bits >= entropy - 0.1 && bits < entropy + 0.3);
	}
	free(index);
}

/* Checks the bits per coordinate of uniformly random supports of 2e6 elements against precomputed
 * values. */
TEST(size__delta_costs_what_the_design_says)
{
	const struct {
		double density, bits;
	} expected[] = { { 1e-3, 13.3 }, { 1e-2, 9.63 }, { 5e-2, 7.22 } };
	const uint32_t span = 2000000;
	uint32_t *index = get_memory(4 * (size_t)span);
	struct random r = { 4 };

	for (size_t i = 0; i < COUNT_OF(expected); i++) {
		uint32_t count = random_support(&r, span, expected[i].density, index);
		double bits = 8.0 * (double)index_bytes(NULL, CODING_DELTA, index, count, span) /
			      count;
		float *value = calloc(count, sizeof(*value));
		size_t bound = message_bound(span, count, plain(VALUE_F32));
		uint8_t *out = get_memory(bound);
		struct message m = example(span, count, VALUE_F32);

		assert_non_null(value);
		assert_true(bits > 0.95 * expected[i].bits && bits < 1.05 * expected[i].bits);
		message_encode(NULL, &m, index, value, value, out, bound);
		assert_int_equal(m.coding, CODING_DELTA);
		free(value);
		free(out);
	}
	free(index);
}
