/* SPDX-License-Identifier: BSD-3-Clause
 * What a process holds of memory, as its memory control group counts it: its anonymous pages, and
 * the memory files that it made, whoever has touched them. Those of other ranks, which it maps too,
 * are theirs. */
#ifndef TOOLS_BENCH_RESIDENT_H
#define TOOLS_BENCH_RESIDENT_H
#include <stdint.h>

struct resident {
	uint64_t anonymous, regions; /* bytes */
};

/* The resident memory of the calling process. Returns 0, or -1 if /proc does not tell it. */
int resident_now(struct resident *out);
#endif
