/* SPDX-License-Identifier: BSD-3-Clause
 * Makes runs that take minutes several at a time, each in its own process. Called by
 * section_local.c. */
#ifndef REPRODUCE_POOL_H
#define REPRODUCE_POOL_H
#include "tests/reproduce/harness.h"

struct result {
	struct outcome out; /* x is NULL */
	double value;       /* the objective; NaN if the run failed */
};

/* Makes the n runs, at most `jobs` at a time, and fills results[0..n). */
void pool_run(const struct run *const *runs, struct result *results, size_t n, int jobs);
#endif
