/* SPDX-License-Identifier: BSD-3-Clause
 * See growth.h. */
#include "model/growth.h"
#include "base/bytes.h"
#include "compress/moments.h"
#include <math.h>
#include <string.h>

/* FIRST_STEPS: the number of steps at the start of the training. The largest norm among them is the
 * initial size. */
enum {
	FIRST_STEPS = 8,
	LEAST_SIGNS = 8,
	TREATED_FALLS = 3,
	EAGER_CIRCLES = 4,
	LEAST_RAPID_STEPS = 64
};

/* The norm must grow over all windows, and from each window to the next. Noise does not do that.
 * The second half of the windows must grow nearly as fast as the first, because the growth of a
 * residual that fills up slows down. Such a residual at most doubles from one window to the next,
 * which is less than rapid_growth. At high densities windows are short, and a few large gradients
 * in a row do not count as rapid growth. A constant gradient adds up to at most the number of steps
 * times its size. If the norm is far_beyond times that, the cause is not a residual that fills up.
 *
 * The norm need not grow if nearly all coordinates change sign each time and steps stay larger than
 * the first ones: then the training overshoots in circles. Noise alone changes half of the signs,
 * and with a well-chosen step only noise remains.
 *
 * An eager caller needs less certainty, because its reaction does no harm if there is no growth.
 * After the densities have doubled, the waiting values are sent first, so the norm may fall before
 * it grows again. Until a few windows have fallen, each window that rises counts as growth. Later,
 * a window counts if it is as large as right after the doubling. */
static const double growth_over_all = 3, growth_of_each = 1.03, second_half = 0.7, rapid_growth = 3,
		    far_beyond = 1e4, turned_least = 0.3;
static const double eager_beyond = 10, treated_growth = 1.1, circling_turned = 0.9,
		    circling_norm = 0.9;

void growth_open(struct growth *g, uint64_t count, int eager)
{
	memset(g, 0, sizeof(*g));
	g->eager = eager;
	while (count >> g->shift > GROWTH_SAMPLES)
		g->shift++;
	g->begun = 1;
}

enum { RUN = 16 };

/* Returns the number of samples among RUN coordinates. Most runs have none. */
static unsigned count_samples(uint32_t first, const uint32_t *index, uint32_t between)
{
	unsigned n = 0;

	for (unsigned i = 0; i < RUN; i++)
		n += !((first + index[i]) & between);
	return n;
}

static void see_sample(struct growth *g, uint64_t at, float value)
{
	int8_t *sign = &g->sign[at >> g->shift & (GROWTH_SAMPLES - 1)];
	const int8_t now = value > 0 ? 1 : -1;

	g->turned += *sign == -now;
	g->repeated += *sign == now;
	*sign = now;
}

double growth_see(struct growth *g, uint64_t first, const uint32_t *index, const float *value,
		  uint64_t n)
{
	const uint32_t between = (UINT32_C(1) << g->shift) - 1;

	for (uint64_t i = 0, end; i < n; i = end) {
		end = n - i < RUN ? n : i + RUN;
		if (end - i == RUN && !count_samples((uint32_t)first, index + i, between))
			continue;
		for (; i < end; i++)
			if (!((first + index[i]) & between) && value[i] != 0)
				see_sample(g, first + index[i], value[i]);
	}
	return squares_of(value, n);
}

void growth_add(struct growth *g, double squares)
{
	g->squares += squares;
}

void growth_forget(struct growth *g, uint64_t step)
{
	g->n = 0;
	g->squares = 0;
	g->window = 0;
	g->begun = step + 1;
	g->turned = g->repeated = 0;
}

void growth_treated(struct growth *g, uint64_t step)
{
	growth_forget(g, step);
	g->treated = 1;
	g->to_fall = TREATED_FALLS;
	g->first = 0;
	g->steps = 0;
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
	g->circles = g->share >= circling_turned ? g->circles + 1 : 0;
	if (g->to_fall && g->n >= 2 && g->norm[last] < g->norm[last - 1])
		g->to_fall--;
	g->window = 0;
	g->begun = step + 1;
	g->turned = g->repeated = 0;
}

/* Returns 1 if each of the last windows has at least `factor` times the norm of the previous
 * one. */
static int grew(const struct growth *g, unsigned windows, double factor)
{
	const unsigned last = GROWTH_WINDOWS;

	if (g->n < windows || !(g->norm[last + 1 - windows] > 0))
		return 0;
	for (unsigned i = last + 1 - windows; i < last; i++)
		if (g->norm[i + 1] < factor * g->norm[i])
			return 0;
	return 1;
}

static int grows_rapidly(const struct growth *g)
{
	const unsigned last = GROWTH_WINDOWS;
	const uint64_t least = g->eager ? 0 : LEAST_RAPID_STEPS;

	return grew(g, 3, rapid_growth) && g->ended[last] - g->ended[last - 2] >= least;
}

/* Returns 1 if the norm grew geometrically over the last windows. */
static int grows_steadily(const struct growth *g)
{
	const unsigned last = GROWTH_WINDOWS, half = last / 2;

	return grew(g, last + 1, growth_of_each) && g->norm[last] >= growth_over_all * g->norm[0] &&
	       log(g->norm[last] / g->norm[half]) >= second_half * log(g->norm[half] / g->norm[0]);
}

/* Returns 1 if the norm neither falls nor grows, and is at least as large as at the start. */
static int circles(const struct growth *g, unsigned windows)
{
	const unsigned last = GROWTH_WINDOWS, from = last + 1 - windows;

	return g->n >= windows && g->circles >= windows &&
	       g->norm[last] >= circling_norm * g->norm[from] && g->norm[last] > g->start;
}

/* Returns the number of windows whose growth must be reported, or 0. */
static unsigned windows_of_growth(const struct growth *g)
{
	const unsigned circling = g->eager ? EAGER_CIRCLES : GROWTH_WINDOWS;

	if (g->share < turned_least)
		return 0;
	if (g->to_fall && grew(g, 2, treated_growth))
		return 2;
	if (g->treated && g->n >= 2 && g->norm[GROWTH_WINDOWS] > g->first)
		return 1;
	if (grows_rapidly(g))
		return 3;
	if (grows_steadily(g))
		return GROWTH_WINDOWS + 1;
	return circles(g, circling) ? circling : 0;
}

/* Returns 1 if the norm within a window grows faster than any sum of gradients can. */
static int explodes(const struct growth *g, double norm)
{
	const double beyond = g->eager ? eager_beyond : far_beyond;

	return g->steps > FIRST_STEPS && g->first > 0 &&
	       norm > beyond * (double)g->steps * g->first && share_turned(g) >= turned_least;
}

int growth_step(struct growth *g, uint64_t step, double lr, int delay, struct growth_verdict *out)
{
	double norm;

	g->rate = lr > g->rate ? lr : g->rate;
	norm = g->rate > 0 ? sqrt(g->squares) / g->rate : 0;
	g->window += norm * norm;
	g->squares = 0;
	if (norm > 0 && ++g->steps <= FIRST_STEPS) {
		g->first = norm > g->first ? norm : g->first;
		g->start = g->treated ? g->start : g->first;
		g->since = step;
	}

	const int far = explodes(g, norm);
	const double share = share_turned(g);

	if (delay)
		end_window(g, step);

	const unsigned windows = delay ? windows_of_growth(g) : 0;
	const unsigned from = GROWTH_WINDOWS + 1 - windows;

	*out = (struct growth_verdict){ .to = step, .share = far ? share : g->share };
	if (far || windows == 1) {
		out->then = g->first * g->rate;
		out->from = g->since;
	} else if (windows) {
		out->then = g->norm[from] * g->rate;
		out->from = g->ended[from];
		out->circles = windows > 3 &&
			       g->norm[GROWTH_WINDOWS] < growth_over_all * g->norm[from];
	}
	out->now = (far ? norm : g->norm[GROWTH_WINDOWS]) * g->rate;
	return far || windows;
}

/* ---- checkpoints ------------------------------------------------------------- */

/* The order of the saved numbers: the integers, the doubles, the windows, the signs. */
enum {
	AT_TURNED,
	AT_REPEATED,
	AT_BEGUN,
	AT_N,
	AT_STEPS,
	AT_SINCE,
	AT_TREATED,
	AT_TO_FALL,
	AT_CIRCLES,
	AT_RATE,
	AT_SHARE,
	AT_WINDOW,
	AT_FIRST,
	AT_START,
	AT_NORM,
	AT_ENDED = AT_NORM + GROWTH_WINDOWS + 1,
	AT_SIGN = AT_ENDED + GROWTH_WINDOWS + 1
};

void growth_save(const struct growth *g, uint64_t numbers[GROWTH_NUMBERS])
{
	numbers[AT_TURNED] = g->turned;
	numbers[AT_REPEATED] = g->repeated;
	numbers[AT_BEGUN] = g->begun;
	numbers[AT_N] = g->n;
	numbers[AT_STEPS] = g->steps;
	numbers[AT_SINCE] = g->since;
	numbers[AT_TREATED] = (uint64_t)g->treated;
	numbers[AT_TO_FALL] = g->to_fall;
	numbers[AT_CIRCLES] = g->circles;
	numbers[AT_RATE] = double_bits(g->rate);
	numbers[AT_SHARE] = double_bits(g->share);
	numbers[AT_WINDOW] = double_bits(g->window);
	numbers[AT_FIRST] = double_bits(g->first);
	numbers[AT_START] = double_bits(g->start);
	for (int i = 0; i <= GROWTH_WINDOWS; i++) {
		numbers[AT_NORM + i] = double_bits(g->norm[i]);
		numbers[AT_ENDED + i] = g->ended[i];
	}
	for (int i = 0; i < GROWTH_SAMPLES; i++) {
		if (i % 8 == 0)
			numbers[AT_SIGN + i / 8] = 0;
		numbers[AT_SIGN + i / 8] |= (uint64_t)(uint8_t)g->sign[i] << i % 8 * 8;
	}
}

static int8_t sign_in(const uint64_t *numbers, int i)
{
	return (int8_t)(numbers[AT_SIGN + i / 8] >> i % 8 * 8);
}

const char *growth_judge(const uint64_t numbers[GROWTH_NUMBERS], uint64_t step)
{
	for (int i = AT_RATE; i < AT_ENDED; i++)
		if (!(bits_double(numbers[i]) >= 0 && isfinite(bits_double(numbers[i]))))
			return "a norm of the guard is negative or not finite";
	if (bits_double(numbers[AT_SHARE]) > 1)
		return "the guard's share of changed signs is above 1";
	if (numbers[AT_N] > GROWTH_WINDOWS + 1 || numbers[AT_BEGUN] > step + 1 ||
	    numbers[AT_STEPS] > step || numbers[AT_SINCE] > step || numbers[AT_TREATED] > 1 ||
	    numbers[AT_TO_FALL] > TREATED_FALLS || numbers[AT_CIRCLES] > step)
		return "the guard's counts are too large";
	for (int i = 0; i < GROWTH_SAMPLES; i++)
		if (sign_in(numbers, i) < -1 || sign_in(numbers, i) > 1)
			return "a sign of the guard is not -1, 0 or 1";
	return NULL;
}

void growth_restore(struct growth *g, const uint64_t numbers[GROWTH_NUMBERS])
{
	g->turned = numbers[AT_TURNED];
	g->repeated = numbers[AT_REPEATED];
	g->begun = numbers[AT_BEGUN];
	g->n = (unsigned)numbers[AT_N];
	g->steps = numbers[AT_STEPS];
	g->since = numbers[AT_SINCE];
	g->treated = (int)numbers[AT_TREATED];
	g->to_fall = (unsigned)numbers[AT_TO_FALL];
	g->circles = numbers[AT_CIRCLES];
	g->rate = bits_double(numbers[AT_RATE]);
	g->share = bits_double(numbers[AT_SHARE]);
	g->window = bits_double(numbers[AT_WINDOW]);
	g->first = bits_double(numbers[AT_FIRST]);
	g->start = bits_double(numbers[AT_START]);
	for (int i = 0; i <= GROWTH_WINDOWS; i++) {
		g->norm[i] = bits_double(numbers[AT_NORM + i]);
		g->ended[i] = numbers[AT_ENDED + i];
	}
	for (int i = 0; i < GROWTH_SAMPLES; i++)
		g->sign[i] = sign_in(numbers, i);
}
