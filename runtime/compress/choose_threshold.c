/* SPDX-License-Identifier: BSD-3-Clause
 * Selection by a magnitude that is known without sorting the vector: threshold (Sahu et al., 2021),
 * and gaussiank (Shi et al., 2019), which estimates it from mean and deviation and refines it by
 * counting (gaussian_rules.h). */
#include "choose.h"
#include "gaussian_rules.h"
#include "moments.h"
#include <float.h>
#include <math.h>

/* Selects |x| >= level, or > level with strict, and all non-zeros of exempt spans. Of the
 * coordinates that this leaves out, the first `ties` with |x| > floor are selected as well. */
static size_t emit(const struct choice *c, float level, int strict, float floor, uint64_t ties)
{
	size_t n = 0;

	for (size_t s = 0; s < c->n_spans; s++)
		for (uint64_t i = c->spans[s].begin; i < c->spans[s].end; i++) {
			float a = fabsf(c->x[i]);
			int take = a > 0 &&
				   (c->spans[s].exempt || (strict ? a > level : a >= level));

			if (!take && ties && !c->spans[s].exempt && a > floor) {
				take = 1;
				ties--;
			}
			if (take)
				c->index[n++] = (uint32_t)i;
		}
	return n;
}

size_t choose_threshold(const struct choice *c)
{
	return emit(c, c->level, 0, FLT_MAX, 0);
}

/* ---- gaussiank ------------------------------------------------------------- */

static float largest_not_exempt(const struct choice *c)
{
	float largest = 0;

	for (size_t p = 0; p < c->n_spans; p++)
		if (!c->spans[p].exempt)
			for (uint64_t i = c->spans[p].begin; i < c->spans[p].end; i++)
				largest = fabsf(c->x[i]) > largest ? fabsf(c->x[i]) : largest;
	return largest;
}

static uint64_t count_above(const struct choice *c, float level)
{
	uint64_t n = 0;

	for (size_t p = 0; p < c->n_spans; p++)
		if (!c->spans[p].exempt)
			for (uint64_t i = c->spans[p].begin; i < c->spans[p].end; i++)
				n += fabsf(c->x[i]) > level;
	return n;
}

double gaussian_quantile(double share)
{
	double low = 0, high = 40;

	for (int i = 0; i < 60; i++) {
		double z = (low + high) / 2;

		if (erfc(z * 0.70710678118654752) > share)
			low = z;
		else
			high = z;
	}
	return (low + high) / 2;
}

size_t choose_gaussiank(const struct choice *c)
{
	const struct moment_terms terms = { .magnitudes = 0 };
	const struct moments m = moments_of(terms, c->x, c->spans, c->n_spans);
	struct gaussian g;
	struct gaussian_cut cut;
	int counting = gaussian_begin(&g, m.first, m.second, m.n, largest_not_exempt(c),
				      gaussian_quantile(c->density), c->k, &cut);

	while (counting)
		counting = gaussian_count(&g, count_above(c, (float)g.level), &cut);
	return emit(c, cut.above, 1, cut.floor, cut.ties);
}
