/* SPDX-License-Identifier: BSD-3-Clause
 * Selection by a magnitude that is known before the vector is sorted: threshold (Sahu et al., 2021), and
 * gaussiank (Shi et al., 2019), which guesses it from mean and deviation and refines it by counting. */
#include "choose.h"
#include <float.h>
#include <math.h>

/* |x| >= level, or > with strict; exempt spans give all their non-zeros. The first `ties` coordinates with
 * floor < |x| that do not pass are taken too. */
static size_t emit(const struct choice *c, float level, int strict, float floor, uint64_t ties)
{
	size_t n = 0;

	for (size_t s = 0; s < c->n_spans; s++)
		for (uint64_t i = c->spans[s].begin; i < c->spans[s].end; i++) {
			float a = fabsf(c->x[i]);
			int take = a > 0 && (c->spans[s].exempt || (strict ? a > level : a >= level));

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

/* ---- gaussiank ------------------------------------------------------------------------------- */

struct shape {
	double mean, deviation;
	float largest;
	uint64_t n;
};

static struct shape shape_of(const struct choice *c)
{
	struct shape s = { 0, 0, 0, 0 };
	double sum = 0, squares = 0;

	for (size_t p = 0; p < c->n_spans; p++) {
		if (c->spans[p].exempt)
			continue;
		s.n += c->spans[p].end - c->spans[p].begin;
		for (uint64_t i = c->spans[p].begin; i < c->spans[p].end; i++) {
			double v = (double)c->x[i];

			sum += v;
			squares += v * v;
			s.largest = fabsf(c->x[i]) > s.largest ? fabsf(c->x[i]) : s.largest;
		}
	}
	if (s.n) {
		s.mean = sum / (double)s.n;
		double variance = squares / (double)s.n - s.mean * s.mean;
		s.deviation = variance > 0 ? sqrt(variance) : 0;
	}
	return s;
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

/* z with P(|Z| > z) = share for a standard normal Z. */
static double two_sided_quantile(double share)
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

/* The guess is refined within a bracket until the count lies in [2/3, 4/3] k, where the paper multiplies
 * by 0.5 or 1.5 up to three times, which need not end anywhere near k. */
size_t choose_gaussiank(const struct choice *c)
{
	enum { COUNTS_MAX = 15 };
	const double narrow = 1 + 0x1p-20;
	const struct shape s = shape_of(c);
	double level = fabs(s.mean) + s.deviation * two_sided_quantile(c->density);
	double low = 0, high = (double)s.largest;
	uint64_t k = c->k, above_high = 0;

	if (!(high > 0))
		return emit(c, FLT_MAX, 1, FLT_MAX, 0); /* exempt ones only */
	if (!(level < high))
		level = high / 2;
	for (int counts = 0; counts < COUNTS_MAX; counts++) {
		uint64_t n = count_above(c, (float)level);

		if (3 * n >= 2 * k && 3 * n <= 4 * k)
			return emit(c, (float)level, 1, FLT_MAX, 0);
		if (3 * n < 2 * k) {
			high = level;
			above_high = n;
		} else {
			low = level;
		}
		if (low > 0 && high / low < narrow)
			break;
		/* What is not bracketed from below yet falls fast. */
		level = low > 0 ? sqrt(low * high) : level / 2;
		if ((float)level <= 0)
			break;
	}
	/* Many equal magnitudes, or a shape that 15 counts cannot tell: the heaviest, then by index. */
	return emit(c, (float)high, 1, (float)low, k - above_high);
}
