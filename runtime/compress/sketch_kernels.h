/* SPDX-License-Identifier: BSD-3-Clause
 * The hot loops of count sketches, in several versions with the same results. sketch_rules.h
 * defines buckets and signs. Private to sketch*.c and the tests. */
#ifndef COMPRESS_SKETCH_KERNELS_H
#define COMPRESS_SKETCH_KERNELS_H
#include "base/bytes.h"
#include "kernels.h"
#include "sketch_rules.h"
#include <stddef.h>

/* SKETCH_RUN: the most coordinates in one call of a kernel. SKETCH_GROUP: n is "whole" if it is a
 * multiple of this. */
enum { SKETCH_GROUP = 8, SKETCH_RUN = 1024 };

struct sketch_kernels {
	const char *name;
	int (*usable)(void);
	/* Computes the lower halves of sketch_signs() for the coordinates first .. first + n - 1. n
	 * must be whole. The results for coordinates from 2^32 on, which no sketch has, are
	 * unspecified. */
	void (*signs)(const struct sketch_hashes *h, uint32_t first, size_t n, uint32_t *signs);
	/* Computes sketch_bucket() for the same coordinates. */
	void (*buckets)(const struct sketch_hashes *h, uint32_t row, uint32_t first,
			uint32_t columns, size_t n, uint32_t *buckets);
	/* Sets out[i] to x[i] with the sign that signs[i] has for the row. A zero becomes -0, which
	 * changes no sum. n may be any number. */
	void (*addends)(const float *x, const uint32_t *signs, uint32_t row, size_t n, float *out);
	/* Sets out[i] to the median over the rows of cells[row][i], each with the sign that
	 * signs[i] has for the row. n is a multiple of SKETCH_GROUP, and the number of rows is
	 * odd. */
	void (*medians)(float (*cells)[SKETCH_RUN], uint32_t rows, const uint32_t *signs, size_t n,
			float *out);
};

static inline float sketch_addend(float x, uint32_t signs, uint32_t row)
{
	return x == 0 ? -0.0f : bits_float(float_bits(x) ^ (signs >> row & 1) << 31);
}

extern const struct sketch_kernels sketch_portable;
#if defined(__x86_64__)
extern const struct sketch_kernels sketch_avx2;
#endif

/* The best version comes first; NULL ends the list. */
extern const struct sketch_kernels *const sketch_versions[];
/* Uses another version from now on; for tests and measurements. */
void sketch_kernels_use(const struct sketch_kernels *kernels);
#endif
