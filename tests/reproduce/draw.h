/* SPDX-License-Identifier: BSD-3-Clause
 * Random numbers of the reproductions. They depend only on their purpose
 * (runtime/compress/random.h), so a run can be repeated bit by bit, alone or with others. */
#ifndef REPRODUCE_DRAW_H
#define REPRODUCE_DRAW_H
#include "compress/random.h"
#include <stddef.h>

/* Numbers beyond the library's own purposes. */
enum draw_purpose {
	DRAW_START = 1000,
	DRAW_SHUFFLE,
	DRAW_BATCH,
	DRAW_NOISE,
	DRAW_CURVATURE,
	DRAW_TOKENS,
	DRAW_WEIGHTS,
	DRAW_LABELS,
	DRAW_TEMPLATES,
	DRAW_PIXELS,
	DRAW_SMOOTH,
	DRAW_KEEP,
	DRAW_DELAY,
	DRAW_SHAPE
};

/* owner: a worker or another number below 2^10. seed: below 2^14. */
struct random_stream draw_stream(enum draw_purpose purpose, unsigned seed, unsigned owner,
				 uint64_t step);

double draw_uniform(const struct random_stream *s, uint64_t i); /* in (0, 1) */
uint64_t draw_below(const struct random_stream *s, uint64_t i,
		    uint64_t n);                                        /* 0 .. n-1, n <= 2^32 */
double draw_normal(const struct random_stream *s, uint64_t i);          /* N(0, 1) */
void draw_normals(const struct random_stream *s, size_t n, float *out); /* the numbers 0 .. n-1 */
/* Makes order[0..n) a permutation of 0 .. n-1. */
void draw_order(unsigned seed, uint32_t n, uint32_t *order);
#endif
