/* SPDX-License-Identifier: BSD-3-Clause
 * See draw.h. Normal numbers by Box and Muller, two of a pair of words. */
#include "tests/reproduce/draw.h"
#include <math.h>

struct random_stream draw_stream(enum draw_purpose purpose, unsigned seed, unsigned owner,
				 uint64_t step)
{
	return (struct random_stream){ .purpose = purpose, .rank = seed << 10 | owner, .step = step };
}

static double unit(uint32_t word)
{
	return ((double)word + 0.5) * 0x1p-32;
}

double draw_uniform(const struct random_stream *s, uint64_t i)
{
	return unit(random_at(s, i));
}

uint64_t draw_below(const struct random_stream *s, uint64_t i, uint64_t n)
{
	return random_at(s, i) * n >> 32;
}

static void normal_quad(const struct random_stream *s, uint64_t quad, double out[4])
{
	uint32_t word[4];

	random_quad(s, quad, word);
	for (int pair = 0; pair < 4; pair += 2) {
		double length = sqrt(-2 * log(unit(word[pair])));
		double angle = 6.283185307179586477 * unit(word[pair + 1]);

		out[pair] = length * cos(angle);
		out[pair + 1] = length * sin(angle);
	}
}

double draw_normal(const struct random_stream *s, uint64_t i)
{
	double four[4];

	normal_quad(s, i / 4, four);
	return four[i % 4];
}

void draw_normals(const struct random_stream *s, size_t n, float *out)
{
	double four[4];

	for (size_t i = 0; i < n; i++) {
		if (i % 4 == 0)
			normal_quad(s, i / 4, four);
		out[i] = (float)four[i % 4];
	}
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
