/* SPDX-License-Identifier: BSD-3-Clause
 * Count sketch (Charikar, Chen, Farach-Colton 2002), as Sketched-SGD uses it (Ivkin and others,
 * NeurIPS 2019): a linear summary of a vector from which its large coordinates can be found.
 * Sketches of equal shape and seed are added cell by cell. Pure. */
#ifndef COMPRESS_SKETCH_H
#define COMPRESS_SKETCH_H
#include <stddef.h>
#include <stdint.h>

enum { SKETCH_ROWS_MAX = 15 };

struct sketch_shape {
	uint32_t rows;    /* odd, so that one estimate is in the middle; 1 .. SKETCH_ROWS_MAX */
	uint32_t columns; /* >= 1 */
	uint64_t seed;
};

/* Does cells[r * columns + bucket] += sign * x[j] for each of the n coordinates and each row. */
void sketch_add(const struct sketch_shape *shape, const float *x, uint32_t n, float *cells);
/* Sets out[j] to the median over the rows of the estimates of coordinate j. */
void sketch_estimate(const struct sketch_shape *shape, const float *cells, uint32_t n, float *out);
#endif
