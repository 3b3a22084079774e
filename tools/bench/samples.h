/* SPDX-License-Identifier: BSD-3-Clause
 * Measured durations and their summary. */
#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H
#include <stddef.h>
#include <stdint.h>

struct samples {
	double *values;
	size_t n, capacity;
};

struct summary {
	double p50, p99, max; /* NaN if there are no samples */
	size_t n;
};

int samples_open(struct samples *s, size_t capacity); /* returns 0, or -1 if there is no memory */
void samples_close(struct samples *s);
void samples_add(struct samples *s, double value); /* drops values beyond the capacity */
/* Sorts the samples and computes percentiles by nearest rank: the smallest value that at least p
 * percent of all values do not exceed. */
struct summary samples_summary(struct samples *s);
#endif
