/* SPDX-License-Identifier: BSD-3-Clause
 * How positions and values are written for the wire, in this process: no job, no peers. */
#ifndef BENCH_CODEC_H
#define BENCH_CODEC_H
#include "tools/bench/options.h"

/* Measures and prints. 0, or -1 with a sentence on stderr. */
int bench_codec(const struct options *options);
#endif
