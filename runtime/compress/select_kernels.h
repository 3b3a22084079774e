/* SPDX-License-Identifier: BSD-3-Clause
 * The hot loop of selection, in two versions with one meaning: portable C and AVX2. Chosen once
 * per selector; private to select*.c and the tests.
 *
 * Keys are explained in select_rules.h. A kernel walks x[begin, end) and lists, in ascending order,
 * the *sure* coordinates (key > above) and, apart from them, the *near* ones (below < key <= above)
 * with their values. above >= below >= 0. */
#ifndef COMPRESS_SELECT_KERNELS_H
#define COMPRESS_SELECT_KERNELS_H
#include "select_rules.h"
#include <stddef.h>
#include <stdint.h>

struct select_bounds {
	int32_t above, below;
};

/* Kernels store whole registers: beyond what is listed, up to LISTS_SLACK more entries are
 * written. */
enum { LISTS_SLACK = 16 };

/* Every array has room for end - begin + LISTS_SLACK entries. Kernels set the counts; largest
 * becomes the largest key if that is larger (so NaN is seen without a pass of its own). */
struct select_lists {
	uint32_t *index;
	float *value; /* of the sure ones; not used by list and add_list */
	size_t n;
	uint32_t *near_index;
	float *near_value;
	size_t n_near;
	int32_t largest;
};

typedef void select_list_fn(const float *x, size_t begin, size_t end, struct select_bounds bounds,
			    struct select_lists *lists);
/* First residual[i] += scale * grad[i], and what is listed is the sum. */
typedef void select_add_fn(float *residual, const float *grad, float scale, size_t begin,
			   size_t end, struct select_bounds bounds, struct select_lists *lists);

struct select_kernels {
	const char *name;
	int (*usable)(void); /* on this processor */
	select_list_fn *list, *list_values;
	select_add_fn *add_list;
	select_add_fn *add_take; /* lists values too, and zeroes the sure ones in residual */
	size_t (*nonfinite)(const float *x,
			    size_t n); /* index of the first NaN or infinity, else n */
};

extern const struct select_kernels select_portable;
#if defined(__x86_64__)
extern const struct select_kernels select_avx2;
#endif

/* All versions this library was built with, best first; NULL ends the list. */
extern const struct select_kernels *const select_versions[];
/* The best one that is usable here, or the one that SLUICE_KERNELS names; NULL: that one is not
 * usable here. */
const struct select_kernels *select_best(void);
#endif
