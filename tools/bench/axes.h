/* SPDX-License-Identifier: BSD-3-Clause
 * The axes of --axes: vectors of 2^16 to 2^28 elements, 2^3 to 2^23 coordinates, and keys whose
 * bits have several entropies, as in CUB's benchmark of its top-k. Called by options.c,
 * select_gpu.c and step.c. */
#ifndef BENCH_AXES_H
#define BENCH_AXES_H
#include <stddef.h>
#include <stdint.h>

#define AXES_ELEMENTS_LEAST    (UINT64_C(1) << 16)
#define AXES_ELEMENTS_MOST     (UINT64_C(1) << 28)
#define AXES_COORDINATES_LEAST (UINT64_C(1) << 3)
#define AXES_COORDINATES_MOST  (UINT64_C(1) << 23)

struct axes_point {
	size_t n, k;
	int ands;       /* number of random words that AND combines, minus one */
	double entropy; /* entropy of a bit of the resulting keys */
};

/* Calls one() for each point with n <= n_most, k <= k_most and k < n. k varies fastest and the
 * entropy slowest. Stops at the first result that is not 0, and returns it. */
int axes_run(uint64_t n_most, uint64_t k_most,
	     int (*one)(void *bench, const struct axes_point *point), void *bench);

/* Fills x with finite floats that are not negative, whose bits below the highest exponents have
 * that entropy. */
void axes_fill(int ands, uint64_t seed, float *x, size_t n);
#endif
