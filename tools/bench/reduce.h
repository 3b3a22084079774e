/* SPDX-License-Identifier: BSD-3-Clause
 * Measures what a shard does with the messages of a step, and a worker with the publication, in
 * this process: no job, no peers. */
#ifndef BENCH_REDUCE_H
#define BENCH_REDUCE_H
#include "tools/bench/options.h"

/* Measures and prints. Returns 0, or -1 after printing a sentence on stderr. */
int bench_reduce(const struct options *options);
#endif
