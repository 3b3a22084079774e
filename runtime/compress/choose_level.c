/* SPDX-License-Identifier: BSD-3-Clause
 * Selectors that decide about each coordinate by one number for the whole vector, without sorting:
 * threshold (Sahu et al., 2021); gaussiank (Shi et al., 2019), which estimates the number from mean
 * and deviation and refines it by counting (gaussian_rules.h); and random and variance (Wangni et
 * al., 2018), which select at random. */
#include "choose.h"
#include "draw_rules.h"
#include "gaussian_rules.h"
#include "moments.h"
#include <float.h>
#include <math.h>

/* Selects |x| >= level, or |x| > level if `strict` is set, and all non-zeros of exempt spans. Also
 * selects the first `ties` of the other coordinates with |x| > floor. */
static size_t choose_by_level(const struct choice *c, float level, int strict, float floor,
			      uint64_t ties)
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
	return choose_by_level(c, c->level, 0, FLT_MAX, 0);
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

static uint64_t count_above_level(const struct choice *c, float level)
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
	const struct moments m = moments_of(NULL, terms, c->x, c->spans, c->n_spans);
	struct gaussian g;
	struct gaussian_cut cut;
	int counting = gaussian_begin(&g, m.first, m.second, m.n, largest_not_exempt(c),
				      gaussian_quantile(c->density), c->k, &cut);

	while (counting)
		counting = gaussian_count(&g, count_above_level(c, (float)g.level), &cut);
	return choose_by_level(c, cut.above, 1, cut.floor, cut.ties);
}

/* ---- random, variance -------------------------------------------------------- */

/* Coordinate j is kept with probability p = min(1, lambda |x_j|) and then divided by p, so its mean
 * is x_j. lambda follows either from the wanted density or from the allowed variance. */

/* Draws each coordinate once. If a coordinate is kept, it gets its scaled value. */
static size_t draw(const struct choice *c, double lambda)
{
	const float step = draw_value(lambda);
	uint32_t four[4];
	uint64_t have = UINT64_MAX;
	size_t n = 0;

	for (size_t s = 0; s < c->n_spans; s++)
		for (uint64_t i = c->spans[s].begin; i < c->spans[s].end; i++) {
			double p = draw_probability(lambda, c->x[i]);

			if (c->x[i] == 0)
				continue;
			if (!c->spans[s].exempt && p < 1) {
				if (have != i / 4) {
					have = i / 4;
					random_quad(&c->stream, have, four);
				}
				if (!draw_keeps(p, four[i % 4]))
					continue;
				c->x[i] = copysignf(step, c->x[i]);
			}
			c->index[n++] = (uint32_t)i;
		}
	return n;
}

static size_t search_and_draw(const struct choice *c, int by_variance, double wanted)
{
	struct moment_terms terms = { .magnitudes = 1, .factor = 0 };
	struct moments below = moments_of(NULL, terms, c->x, c->spans, c->n_spans);
	struct draw_search s;
	uint64_t total = 0;

	for (size_t p = 0; p < c->n_spans; p++)
		total += c->spans[p].exempt ? 0 : c->spans[p].end - c->spans[p].begin;
	draw_begin(&s, by_variance, wanted, total);
	while (draw_next(&s, &below)) {
		terms.factor = s.lambda;
		below = moments_of(NULL, terms, c->x, c->spans, c->n_spans);
	}
	return draw(c, s.lambda);
}

size_t choose_random(const struct choice *c)
{
	return search_and_draw(c, 0, c->density);
}

size_t choose_variance(const struct choice *c)
{
	return search_and_draw(c, 1, (double)c->level);
}
