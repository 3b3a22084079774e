/* SPDX-License-Identifier: BSD-3-Clause
 * The memory of a process as its memory control group counts it: its anonymous pages, and all pages
 * of the memory files that it created, no matter which process used them. Mapped files of other
 * ranks do not count. */
#ifndef TOOLS_BENCH_RESIDENT_H
#define TOOLS_BENCH_RESIDENT_H
#include <stdint.h>

struct resident {
	uint64_t anonymous, regions; /* bytes */
};

/* Measures the resident memory of the calling process. Returns 0, or -1 if /proc does not report
 * it. */
int resident_now(struct resident *out);
#endif
