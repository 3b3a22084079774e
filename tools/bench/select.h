/* SPDX-License-Identifier: BSD-3-Clause
 * Exact top-k alone, in this process: no job, no peers. */
#ifndef BENCH_SELECT_H
#define BENCH_SELECT_H
#include "tools/bench/options.h"

/* Measures and prints. Returns 0, or -1 after printing a sentence on stderr. */
int bench_select(const struct options *options);
#endif
