/* SPDX-License-Identifier: BSD-3-Clause
 * put, get and notify between two ranks. */
#ifndef BENCH_MOVES_H
#define BENCH_MOVES_H
#include "tools/bench/options.h"
#include "sluice.h"

/* Measures and prints. Collective over all ranks. Returns 0 or SLUICE_E*, or -1 after printing the
 * reason. */
int moves_run(sluice_job *job, const struct options *options);
#endif
