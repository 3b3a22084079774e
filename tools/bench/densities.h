/* SPDX-License-Identifier: BSD-3-Clause
 * The loop over numbers of coordinates that select, codec and reduce share, and the number of
 * repetitions that fit into the given time. */
#ifndef BENCH_DENSITIES_H
#define BENCH_DENSITIES_H
#include "tools/bench/options.h"

/* Returns the largest k that densities_run() will use. */
size_t densities_most(const struct options *options);
/* Calls one() for --k or --density, or otherwise for 0.1, 1 and 10 % of n. Each call measures and
 * prints one row; with --json, all rows are in one JSON list. Stops at the first result that is not
 * 0. */
int densities_run(const struct options *options, int (*one)(void *bench, size_t k, int first),
		  void *bench);
/* Returns the number of rounds, from 5 to most: --repeat, or as many as fit into --seconds, given
 * the time of the warm-up. */
uint64_t densities_rounds(const struct options *options, double warmup_seconds, uint64_t most);
#endif
