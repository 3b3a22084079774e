/* SPDX-License-Identifier: BSD-3-Clause
 * The hot loops of count sketches, in several versions with one meaning; what buckets and signs are
 * is in sketch_rules.h. Private to sketch*.c and the tests. */
#ifndef COMPRESS_SKETCH_KERNELS_H
#define COMPRESS_SKETCH_KERNELS_H
#include "base/bytes.h"
#include "sketch_rules.h"
#include <stddef.h>

/* SKETCH_RUN: no kernel is called for more coordinates at once. SKETCH_GROUP: where n is said to be
 * whole it is a multiple of this. */
enum { SKETCH_GROUP = 8, SKETCH_RUN = 1024 };

struct sketch_kernels {
	const char *name; /* as of the kernels of selection */
	int (*usable)(void);
	/* The lower half of sketch_signs() of coordinates first .. first + n - 1, n whole. Those
	 * from 2^32 on, which no sketch has, may be anything. */
	void (*signs)(const struct sketch_hashes *h, uint32_t first, size_t n, uint32_t *signs);
	/* sketch_bucket() of the same. */
	void (*buckets)(const struct sketch_hashes *h, uint32_t row, uint32_t first,
			uint32_t columns, size_t n, uint32_t *buckets);
	/* out[i] becomes x[i] with the sign that signs[i] has for the row; a zero becomes -0, which
	 * leaves any number as it is that it is added to. Any n. */
	void (*addends)(const float *x, const uint32_t *signs, uint32_t row, size_t n, float *out);
	/* out[i] becomes the median of cells[row][i] over the rows, each with the sign that
	 * signs[i] has for it. n whole; rows odd. */
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

/* Best first; NULL ends the list. */
extern const struct sketch_kernels *const sketch_versions[];
/* Another one from now on, for tests and measurements. */
void sketch_kernels_use(const struct sketch_kernels *kernels);
#endif
