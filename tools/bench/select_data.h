/* SPDX-License-Identifier: BSD-3-Clause
 * The vectors of sluice-bench select, and the plain passes that its times are compared with. */
#ifndef BENCH_SELECT_DATA_H
#define BENCH_SELECT_DATA_H
#include "tools/bench/options.h"

void data_fill(enum distribution kind, uint64_t seed, float *x, size_t n);
/* Reads x[0..n) once with vector loads, with this number of threads. The returned sum keeps the
 * compiler from removing the reads. */
uint32_t pass_read(const float *x, size_t n, unsigned threads);
/* residual[i] += grad[i] */
void pass_add(float *residual, const float *grad, size_t n);
#endif
