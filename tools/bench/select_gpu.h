/* SPDX-License-Identifier: BSD-3-Clause
 * sluice-bench select --device cuda. */
#ifndef BENCH_SELECT_GPU_H
#define BENCH_SELECT_GPU_H
#include "tools/bench/options.h"

int bench_select_gpu(const struct options *options);
#endif
