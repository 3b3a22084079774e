/* SPDX-License-Identifier: BSD-3-Clause
 * Measures a whole push and pull of a synthetic model, on all ranks. */
#ifndef BENCH_STEP_H
#define BENCH_STEP_H
#include "tools/bench/options.h"
#include "sluice_vector.h"

/* Measures and prints. Collective over all ranks; dedicated servers serve. Returns 0 or
 * SLUICE_E*. */
int step_run(sluice_job *job, const struct options *options);
#endif
