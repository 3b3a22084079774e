/* SPDX-License-Identifier: BSD-3-Clause
 * Unbiased random selection (Wangni et al., 2018): coordinate j is kept with probability p = min(1,
 * lambda |x_j|) and then divided by p, so that the mean is x whatever is dropped. lambda follows
 * either from the wanted density or from the allowed variance; both lead to the same draw. */
#include "choose.h"
#include "draw_rules.h"
#include <math.h>

/* Draws each coordinate once. A coordinate that is kept gets its scaled value. */
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
	struct moments below = moments_of(terms, c->x, c->spans, c->n_spans);
	struct draw_search s;
	uint64_t total = 0;

	for (size_t p = 0; p < c->n_spans; p++)
		total += c->spans[p].exempt ? 0 : c->spans[p].end - c->spans[p].begin;
	draw_begin(&s, by_variance, wanted, total);
	while (draw_next(&s, &below)) {
		terms.factor = s.lambda;
		below = moments_of(terms, c->x, c->spans, c->n_spans);
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
