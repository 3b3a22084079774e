/* SPDX-License-Identifier: BSD-3-Clause
 * See growth.h. */
#include "model/growth.h"
#include <math.h>
#include <string.h>

/* Steps that say how large a step is at first. */
enum { FIRST_STEPS = 8, LEAST_SIGNS = 8 };

/* Growth over all windows, and of each over the one before it: noise grows less, or not in each.
 * The second half of the windows must grow nearly as fast as the first, because a residual that
 * fills up grows more and more slowly. A constant gradient adds up to no more than the number of
 * steps times its size, so that far_beyond times that is no residual that fills up. */
static const double growth_over_all = 3, growth_of_each = 1.03, second_half = 0.7, far_beyond = 1e4,
		    turned_least = 0.3;

void growth_open(struct growth *g, uint64_t count)
{
	memset(g, 0, sizeof(*g));
	while (count >> g->shift > GROWTH_SAMPLES)
		g->shift++;
	g->begun = 1;
}

void growth_see(struct growth *g, uint64_t first, const uint32_t *index, const float *value,
		uint64_t n)
{
	const uint64_t between = (UINT64_C(1) << g->shift) - 1;
	double squares = 0;

	for (uint64_t i = 0; i < n; i++) {
		const uint64_t at = first + index[i];

		squares += (double)value[i] * (double)value[i];
		if (at & between || value[i] == 0)
			continue;

		int8_t *sign = &g->sign[at >> g->shift & (GROWTH_SAMPLES - 1)];
		const int8_t now = value[i] > 0 ? 1 : -1;

		g->turned += *sign == -now;
		g->repeated += *sign == now;
		*sign = now;
	}
	g->squares += squares;
}

void growth_forget(struct growth *g, uint64_t step)
{
	g->n = 0;
	g->window = 0;
	g->begun = step + 1;
	g->turned = g->repeated = 0;
}

static double share_turned(const struct growth *g)
{
	const uint64_t signs = g->turned + g->repeated;

	return signs < LEAST_SIGNS ? 0 : (double)g->turned / (double)signs;
}

static void end_window(struct growth *g, uint64_t step)
{
	const unsigned last = GROWTH_WINDOWS;
	const uint64_t steps = step + 1 - g->begun;

	memmove(g->norm, g->norm + 1, last * sizeof(*g->norm));
	memmove(g->ended, g->ended + 1, last * sizeof(*g->ended));
	g->norm[last] = sqrt(g->window / (double)steps);
	g->ended[last] = step;
	g->n += g->n <= last;
	g->share = share_turned(g);
	g->window = 0;
	g->begun = step + 1;
	g->turned = g->repeated = 0;
}

/* Geometric growth over the last windows. */
static int grows_steadily(const struct growth *g)
{
	const unsigned last = GROWTH_WINDOWS, half = last / 2;

	if (g->n <= last || !(g->norm[0] > 0) || g->share < turned_least ||
	    g->norm[last] < growth_over_all * g->norm[0])
		return 0;
	for (unsigned i = 0; i < last; i++)
		if (g->norm[i + 1] < growth_of_each * g->norm[i])
			return 0;
	return log(g->norm[last] / g->norm[half]) >= second_half * log(g->norm[half] / g->norm[0]);
}

/* Growth within a window, faster than anything that adds up. */
static int explodes(const struct growth *g, double norm)
{
	return g->steps > FIRST_STEPS && g->first > 0 &&
	       norm > far_beyond * (double)g->steps * g->first && share_turned(g) >= turned_least;
}

int growth_step(struct growth *g, uint64_t step, double lr, int delay, struct growth_verdict *out)
{
	double norm;

	g->rate = lr > g->rate ? lr : g->rate;
	norm = g->rate > 0 ? sqrt(g->squares) / g->rate : 0;
	g->window += norm * norm;
	g->squares = 0;
	if (norm > 0 && ++g->steps <= FIRST_STEPS)
		g->first = norm > g->first ? norm : g->first;

	const int far = explodes(g, norm);
	const double share = share_turned(g);

	if (delay)
		end_window(g, step);
	if (far)
		*out = (struct growth_verdict){ g->first * g->rate, norm * g->rate, FIRST_STEPS,
						step, share };
	else if (delay && grows_steadily(g))
		*out = (struct growth_verdict){ g->norm[0] * g->rate,
						g->norm[GROWTH_WINDOWS] * g->rate, g->ended[0],
						step, g->share };
	else
		return 0;
	return 1;
}
