/* SPDX-License-Identifier: BSD-3-Clause
 * Sums of two terms over a vector. Floating-point sums depend on their order, so the order is
 * fixed, but in a way that lets several threads share the work. The CPU (moments.c) and the GPU
 * (gpu/moments.h) use the same one:
 *
 * A tile is 1024 coordinates that begin at a multiple of 1024. It has 128 sums; sum i adds
 * coordinates i, i + 128, ... in this order. Neighbours are then added (0 + 1, 2 + 3, ...), and
 * their sums in the same way. A group is 1024 tiles. It has 32 sums; sum i adds tiles i, i + 32,
 * ... They are then added by neighbours, too. Groups are added like the tiles of a group.
 * Coordinates that are exempt or beyond the end count as zero. */
#ifndef COMPRESS_MOMENTS_H
#define COMPRESS_MOMENTS_H
#include "base/both.h"
#include "select.h"
#include <math.h>
#include <stdint.h>

enum { MOMENT_TILE = 1024, MOMENT_ROW = 128, MOMENT_GROUP = 1024, MOMENT_LANES = 32 };

/* The two terms of a coordinate. They are x and x^2. For magnitudes they are |x| and x^2 where
 * factor * |x| < 1, and zero elsewhere. */
struct moment_terms {
	int magnitudes;
	double factor;
};

struct moments {
	double first, second;
	uint64_t n; /* for magnitudes: number of coordinates with factor * |x| < 1, including
		       zeros */
};

/* Adds the terms of a coordinate. Returns 1 if the coordinate has no terms, which happens only for
 * magnitudes. */
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

/* The sums of a vector that arrives in pieces. Must be zeroed before the first piece. */
struct moment_lanes {
	double first[MOMENT_LANES], second[MOMENT_LANES];
};

struct moment_sum {
	struct moment_lanes of_group, of_all;
	uint64_t tiles, groups, left_out;
};

/* Adds the squares of the next n coordinates. Every piece except the last must consist of whole
 * tiles. */
void moments_add_squares(struct moment_sum *s, const float *x, size_t n);
/* Adds the sums of the next group, which moments_end() has returned for that group alone. The last
 * group may be shorter. */
void moments_join(struct moment_sum *s, struct moments of_group);
/* Returns the sums over all pieces; the member n is 0. */
struct moments moments_end(struct moment_sum *s);

/* Returns the sum of the squares of n values. */
double squares_of(const float *x, size_t n);

/* Returns the sums over the coordinates of x that are not in the exempt spans. Spans are ascending.
 * team: threads that may help, or NULL. */
struct moments moments_of(struct team *team, struct moment_terms terms, const float *x,
			  const struct span *spans, size_t n_spans);
#endif
