/* SPDX-License-Identifier: BSD-3-Clause
 * Sums of two terms over a vector, in one order that threads can share out: floating point sums are
 * only equal where their order is. The CPU (moments.c) and the GPU (gpu/moments.h) follow it:
 *
 * A tile is 1024 coordinates from a multiple of 1024 on: 128 sums, the i-th of coordinates i, i +
 * 128, ... in this order, then added up by neighbours (0 + 1, 2 + 3, ...; pairs likewise). 1024
 * tiles are a group: 32 sums, the i-th of tiles i, i + 32, ..., then by neighbours. Groups are
 * added up as the tiles of a group are. What is exempt, or beyond the end, counts as zero. */
#ifndef COMPRESS_MOMENTS_H
#define COMPRESS_MOMENTS_H
#include "base/both.h"
#include "select.h"
#include <math.h>
#include <stdint.h>

enum { MOMENT_TILE = 1024, MOMENT_ROW = 128, MOMENT_GROUP = 1024, MOMENT_LANES = 32 };

/* The two terms of a coordinate: x and x^2; or |x| and x^2 where factor * |x| < 1, else nothing. */
struct moment_terms {
	int magnitudes;
	double factor;
};

struct moments {
	double first, second;
	uint64_t n; /* magnitudes: coordinates with factor * |x| < 1, zeros included */
};

/* Adds a coordinate's terms; returns whether it has none (magnitudes). */
HOST_AND_DEVICE static inline int moment_add(struct moment_terms terms, float x, double *first,
					     double *second)
{
	double v = (double)x;

	if (terms.magnitudes) {
		v = fabs(v);
		if (!(terms.factor * v < 1))
			return 1;
	}
	*first += v;
	*second += v * v;
	return 0;
}

/* Sums of a vector that comes in pieces; zeroed before the first. */
struct moment_lanes {
	double first[MOMENT_LANES], second[MOMENT_LANES];
};

struct moment_sum {
	struct moment_lanes of_group, of_all;
	uint64_t tiles, groups, left_out;
};

/* The next n coordinates: whole tiles, but for the last piece. */
void moments_add(struct moment_sum *s, struct moment_terms terms, const float *x, size_t n);
/* Of all pieces; n stays 0. */
struct moments moments_end(struct moment_sum *s);

/* Of what is not exempt in the spans, which ascend; coordinates of x. */
struct moments moments_of(struct moment_terms terms, const float *x, const struct span *spans,
			  size_t n_spans);
#endif
