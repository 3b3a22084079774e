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

/* Of the calling process, now. 0, or -1 where /proc does not say it. */
int resident_now(struct resident *out);
#endif
