/* SPDX-License-Identifier: BSD-3-Clause
 * Unbiased random selection (Wangni et al., 2018): coordinate j is kept with probability
 * p = min(1, lambda |x_j|) and then divided by p, so that the mean is x whatever was dropped. Both ways
 * to choose lambda, by the density wanted and by the variance allowed, end in the same draw. */
#include "choose.h"
#include <float.h>
#include <math.h>

struct sums {
	double magnitude, square;    /* of coordinates with p < 1 */
	uint64_t n;                  /* of these, zeros included */
};

static struct sums sums_below(const struct choice *c, double lambda, uint64_t *total)
{
	struct sums s = { 0, 0, 0 };

	*total = 0;
	for (size_t p = 0; p < c->n_spans; p++) {
		if (c->spans[p].exempt)
			continue;
		*total += c->spans[p].end - c->spans[p].begin;
		for (uint64_t i = c->spans[p].begin; i < c->spans[p].end; i++) {
			double a = fabs((double)c->x[i]);

			if (lambda * a < 1) {
				s.magnitude += a;
				s.square += a * a;
				s.n++;
			}
		}
	}
	return s;
}

/* One draw a coordinate; what is kept takes its scaled value. A kept coordinate with p < 1 is
 * sign / lambda, not a quotient of two small numbers. */
static size_t draw(const struct choice *c, double lambda)
{
	float step = lambda > 0 && 1 / lambda < (double)FLT_MAX ? (float)(1 / lambda) : FLT_MAX;
	uint32_t four[4];
	uint64_t have = UINT64_MAX;
	size_t n = 0;

	for (size_t s = 0; s < c->n_spans; s++)
		for (uint64_t i = c->spans[s].begin; i < c->spans[s].end; i++) {
			double p = lambda * fabs((double)c->x[i]);

			if (c->x[i] == 0)
				continue;
			if (!c->spans[s].exempt && p < 1) {
				if (have != i / 4) {
					have = i / 4;
					random_quad(&c->stream, have, four);
				}
				if (!((double)four[i % 4] < p * 0x1p32))
					continue;
				c->x[i] = copysignf(step, c->x[i]);
			}
			c->index[n++] = (uint32_t)i;
		}
	return n;
}

size_t choose_random(const struct choice *c)
{
	enum { CORRECTIONS = 2 };
	uint64_t d;
	struct sums all = sums_below(c, 0, &d);
	double lambda = all.magnitude > 0 ? c->density * (double)d / all.magnitude : 0;

	for (int i = 0; i < CORRECTIONS && lambda > 0; i++) {
		struct sums below = sums_below(c, lambda, &d);
		double mass = lambda * below.magnitude;
		double left = c->density * (double)d - (double)(d - below.n);

		if (!(mass > 0 && left > mass))
			break;
		lambda *= left / mass;
	}
	return draw(c, lambda);
}

/* lambda with sum x^2 / p = (1 + epsilon) sum x^2. Each round puts those with p = 1 aside and solves for
 * the rest; they only become more, so it ends, at the closed form, without a sort. */
size_t choose_variance(const struct choice *c)
{
	enum { ROUNDS_MAX = 100 };
	uint64_t d, before = UINT64_MAX;
	const double allowed = (double)c->level * sums_below(c, 0, &d).square;
	double lambda = 0;

	for (int i = 0; i < ROUNDS_MAX; i++) {
		struct sums below = sums_below(c, lambda, &d);

		if (below.n == before || !(below.magnitude > 0))
			break;
		before = below.n;
		lambda = below.magnitude / (allowed + below.square);
	}
	return draw(c, lambda);
}
