/* SPDX-License-Identifier: BSD-3-Clause
 * The hot loop of selection, in three versions with the same results: portable C, AVX2 and
 * AVX-512. Each selector chooses one when it is opened. Private to select*.c and the tests.
 * select_rules.h explains keys.
 *
 * A kernel walks over x[begin, end) and lists, in ascending order, the *sure* coordinates (key >
 * above) and, separately, the *near* ones (below < key <= above) with their values. above >= below
 * >= 0. */
#ifndef COMPRESS_SELECT_KERNELS_H
#define COMPRESS_SELECT_KERNELS_H
#include "kernels.h"
#include "select_rules.h"
#include <stddef.h>
#include <stdint.h>

struct select_bounds {
	int32_t above, below;
};

/* Kernels store whole registers, so up to LISTS_SLACK more entries are written after the last
 * one. */
enum { LISTS_SLACK = 16 };

/* Every array has room for end - begin + LISTS_SLACK entries. Kernels set the counts. They raise
 * `largest` to the largest key of the range, so NaN is detected without another pass. */
struct select_lists {
	uint32_t *index;
	float *value; /* values of the sure ones; the kernels list and add_list do not write them */
	size_t n;
	uint32_t *near_index;
	float *near_value;
	size_t n_near;
	int32_t largest;
};

typedef void select_list_fn(const float *x, size_t begin, size_t end, struct select_bounds bounds,
			    struct select_lists *lists);
/* First computes residual[i] += scale * grad[i], and then lists coordinates of the sum. */
typedef void select_add_fn(float *residual, const float *grad, float scale, size_t begin,
			   size_t end, struct select_bounds bounds, struct select_lists *lists);

struct select_kernels {
	const char *name;
	int (*usable)(void);
	select_list_fn *list, *list_values;
	select_add_fn *add_list;
	select_add_fn *add_take; /* also lists values, and zeroes the sure ones in residual */
	size_t (*nonfinite)(const float *x,
			    size_t n); /* returns the index of the first NaN or infinity, or n */
	/* Keeps those of the n entries whose values have keys above `level`, and returns their
	 * number. After value[n], there must be LISTS_SLACK zeros. */
	size_t (*keep_above)(const float *value, uint32_t *index, size_t n, int32_t level);
};

extern const struct select_kernels select_portable;
#if defined(__x86_64__)
extern const struct select_kernels select_avx2, select_avx512;
#endif

/* All versions in this library, with the best first; NULL ends the list. */
extern const struct select_kernels *const select_versions[];
/* Returns the best version that is usable on this processor, or the one that SLUICE_KERNELS names.
 * Returns NULL if the named one is not usable. */
const struct select_kernels *select_best(void);
#endif
