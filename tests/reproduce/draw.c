/* SPDX-License-Identifier: BSD-3-Clause
 * See draw.h. */
#include "tests/reproduce/draw.h"

struct random_stream draw_stream(enum draw_purpose purpose, unsigned seed, unsigned owner,
				 uint64_t step)
{
	return (struct random_stream){ .purpose = purpose,
				       .rank = seed << 10 | owner,
				       .step = step };
}

double draw_uniform(const struct random_stream *s, uint64_t i)
{
	return ((double)random_at(s, i) + 0.5) * 0x1p-32;
}

uint64_t draw_below(const struct random_stream *s, uint64_t i, uint64_t n)
{
	return random_at(s, i) * n >> 32;
}

double draw_normal(const struct random_stream *s, uint64_t i)
{
	float one;

	random_normal_run(s, i, 1, &one);
	return (double)one;
}

void draw_normals(const struct random_stream *s, size_t n, float *out)
{
	random_normal_run(s, 0, n, out);
}

void draw_order(unsigned seed, uint32_t n, uint32_t *order)
{
	const struct random_stream s = draw_stream(DRAW_SHUFFLE, seed, 0, 0);

	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	for (uint32_t i = n; i > 1; i--) {
		uint32_t j = (uint32_t)draw_below(&s, i, i), kept = order[i - 1];

		order[i - 1] = order[j];
		order[j] = kept;
	}
}
