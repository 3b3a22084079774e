/* SPDX-License-Identifier: BSD-3-Clause
 * What select, codec and reduce have in common: one number of coordinates after another, and how
 * many repetitions fit into the time given. */
#ifndef BENCH_DENSITIES_H
#define BENCH_DENSITIES_H
#include "tools/bench/options.h"

/* The largest k that densities_run() will ask for. */
size_t densities_most(const struct options *options);
/* --k or --density, else 0.1, 1 and 10 % of n: measures and prints one row each, all within one
 * JSON list if asked for. Ends with the first one that is not 0. */
int densities_run(const struct options *options, int (*one)(void *bench, size_t k, int first),
		  void *bench);
/* Returns the number of rounds: --repeat, or the number that fits into --seconds, given the time
 * of the warm-up; from 5 to most. */
uint64_t densities_rounds(const struct options *options, double warmup_seconds, uint64_t most);
#endif
