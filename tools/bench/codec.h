/* SPDX-License-Identifier: BSD-3-Clause
 * Measures the encoding of positions and values in this process: no job, no peers. */
#ifndef BENCH_CODEC_H
#define BENCH_CODEC_H
#include "tools/bench/options.h"

/* Measures and prints. Returns 0, or -1 after printing a sentence on stderr. */
int bench_codec(const struct options *options);
#endif
