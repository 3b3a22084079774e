/* SPDX-License-Identifier: BSD-3-Clause
 * Durations that were measured, and what is said about them. */
#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H
#include <stddef.h>
#include <stdint.h>

struct samples {
	double *values;
	size_t n, capacity;
};

struct summary {
	double p50, p99, max; /* NaN without samples */
	size_t n;
};

int samples_open(struct samples *s, size_t capacity); /* 0, or -1: no memory */
void samples_close(struct samples *s);
void samples_add(struct samples *s, double value); /* beyond the capacity it is dropped */
/* By nearest rank: the smallest value that at least p percent of all do not exceed. Sorts. */
struct summary samples_summary(struct samples *s);
#endif
