/* SPDX-License-Identifier: BSD-3-Clause
 * Unbiased random selection (choose_level.c), as the CPU and the GPU compute it: lambda follows
 * from sums over the coordinates with lambda |x| < 1, and then each coordinate is drawn once. Pure,
 * inline. */
#ifndef COMPRESS_DRAW_RULES_H
#define COMPRESS_DRAW_RULES_H
#include "base/both.h"
#include "moments.h"
#include <float.h>

enum { DRAW_CORRECTIONS = 2, DRAW_ROUNDS_MAX = 100 };

struct draw_search {
	int by_variance; /* 1: `wanted` is epsilon, not the density */
	double wanted;
	uint64_t total; /* number of coordinates that are not exempt */
	double lambda, allowed;
	uint64_t before; /* in the previous round, the number of coordinates with lambda |x| < 1 */
	unsigned rounds;
};

HOST_AND_DEVICE static inline void draw_begin(struct draw_search *s, int by_variance, double wanted,
					      uint64_t total)
{
	s->by_variance = by_variance;
	s->wanted = wanted;
	s->total = total;
	s->lambda = s->allowed = 0;
	s->before = UINT64_MAX;
	s->rounds = 0;
}

/* Finds the lambda with sum x^2 / p = (1 + epsilon) sum x^2. Each round sets the coordinates with p
 * = 1 aside and solves for the others. The number of coordinates that are set aside only grows, so
 * the rounds end. They end at the lambda that the closed form finds with a sort. */
HOST_AND_DEVICE static inline int draw_by_variance(struct draw_search *s,
						   const struct moments *below)
{
	if (!s->rounds++)
		s->allowed = s->wanted * below->second;
	if (below->n == s->before || !(below->first > 0))
		return 0;
	s->before = below->n;
	s->lambda = below->first / (s->allowed + below->second);
	return s->rounds < DRAW_ROUNDS_MAX;
}

HOST_AND_DEVICE static inline int draw_by_density(struct draw_search *s,
						  const struct moments *below)
{
	const double of_all = s->wanted * (double)s->total;

	if (!s->rounds++) {
		s->lambda = below->first > 0 ? of_all / below->first : 0;
		return s->lambda > 0;
	}
	double mass = s->lambda * below->first;
	double left = of_all - (double)(s->total - below->n);

	if (!(mass > 0 && left > mass))
		return 0;
	s->lambda *= left / mass;
	return s->rounds <= DRAW_CORRECTIONS && s->lambda > 0;
}

/* below: the sums over the coordinates with s->lambda |x| < 1. Returns 1 if lambda has changed, so
 * that the sums for the new lambda are needed. */
HOST_AND_DEVICE static inline int draw_next(struct draw_search *s, const struct moments *below)
{
	return s->by_variance ? draw_by_variance(s, below) : draw_by_density(s, below);
}

/* Returns the magnitude of a kept coordinate with p < 1. It is 1 / lambda, which avoids a quotient
 * of two small numbers. */
HOST_AND_DEVICE static inline float draw_value(double lambda)
{
	return lambda > 0 && 1 / lambda < (double)FLT_MAX ? (float)(1 / lambda) : FLT_MAX;
}

HOST_AND_DEVICE static inline double draw_probability(double lambda, float x)
{
	return lambda * fabs((double)x);
}

HOST_AND_DEVICE static inline int draw_keeps(double probability, uint32_t number)
{
	return (double)number < probability * 0x1p32;
}
#endif
