/* SPDX-License-Identifier: BSD-3-Clause
 * gaussiank (Shi et al., 2019), with the same result on the CPU and the GPU. Mean and deviation
 * give a first level, which is refined within a bracket until the number of magnitudes above it is
 * in [2/3, 4/3] k. (The paper multiplies by 0.5 or 1.5 up to three times instead, which may end far
 * from k.) Pure, inline; the caller counts. */
#ifndef COMPRESS_GAUSSIAN_RULES_H
#define COMPRESS_GAUSSIAN_RULES_H
#include "base/both.h"
#include <float.h>
#include <math.h>
#include <stdint.h>

enum { GAUSSIAN_COUNTS_MAX = 15 };

struct gaussian {
	double level, low, high;
	uint64_t k, above_high;
	unsigned counts; /* number of counting passes so far */
};

/* The selection: all magnitudes above `above`, and the first `ties` magnitudes that are above
 * `floor` but not above `above`. */
struct gaussian_cut {
	float above, floor;
	uint64_t ties;
};

HOST_AND_DEVICE static inline struct gaussian_cut gaussian_above(float level)
{
	struct gaussian_cut cut;

	cut.above = level;
	cut.floor = FLT_MAX;
	cut.ties = 0;
	return cut;
}

HOST_AND_DEVICE static inline struct gaussian_cut gaussian_between(const struct gaussian *g)
{
	struct gaussian_cut cut;

	cut.above = (float)g->high;
	cut.floor = (float)g->low;
	cut.ties = g->k - g->above_high;
	return cut;
}

/* Begins with the sums of x and x^2 of n coordinates. quantile: z with P(|Z| > z) = the density,
 * for a standard normal Z. Returns 1 if the number of magnitudes above (float)level is needed, or 0
 * if *cut is known. */
HOST_AND_DEVICE static inline int gaussian_begin(struct gaussian *g, double sum, double squares,
						 uint64_t n, float largest, double quantile,
						 uint64_t k, struct gaussian_cut *cut)
{
	double mean = 0, deviation = 0;

	if (n) {
		mean = sum / (double)n;
		double variance = squares / (double)n - mean * mean;
		deviation = variance > 0 ? sqrt(variance) : 0;
	}
	g->level = fabs(mean) + deviation * quantile;
	g->low = 0;
	g->high = (double)largest;
	g->k = k;
	g->above_high = 0;
	g->counts = 0;
	*cut = gaussian_above(FLT_MAX); /* selects only exempt coordinates */
	if (!(g->high > 0))
		return 0;
	if (!(g->level < g->high))
		g->level = g->high / 2;
	return 1;
}

/* Continues with n, the number of magnitudes above (float)level. Returns the same as
 * gaussian_begin(). */
HOST_AND_DEVICE static inline int gaussian_count(struct gaussian *g, uint64_t n,
						 struct gaussian_cut *cut)
{
	const double narrow = 1 + 0x1p-20;

	*cut = gaussian_above((float)g->level);
	if (3 * n >= 2 * g->k && 3 * n <= 4 * g->k)
		return 0;
	if (3 * n < 2 * g->k) {
		g->high = g->level;
		g->above_high = n;
	} else {
		g->low = g->level;
	}
	/* This is the result if the refinement ends below, because many magnitudes are equal or 15
	 * counting passes were not enough: all magnitudes above g->high, then those between g->low
	 * and g->high in index order until there are k. */
	*cut = gaussian_between(g);
	if (++g->counts == GAUSSIAN_COUNTS_MAX || (g->low > 0 && g->high / g->low < narrow))
		return 0;
	/* The level is halved as long as there is no lower bound. */
	g->level = g->low > 0 ? sqrt(g->low * g->high) : g->level / 2;
	return (float)g->level > 0;
}
#endif
