/* SPDX-License-Identifier: BSD-3-Clause
 * Plain passes over a vector as long as the gradient, with which a step is compared. */
#ifndef BENCH_STEP_LIMITS_H
#define BENCH_STEP_LIMITS_H
#include "tools/bench/samples.h"
#include <stdint.h>

enum limit {
	LIMIT_READ,
	LIMIT_COPY,
	LIMIT_ADD,
	LIMITS
}; /* each is one pass; ADD: residual += gradient */

struct step_limits {
	float *scratch; /* count */
	uint64_t count;
	struct samples ms[LIMITS];
	uint32_t sink;
};

/* Returns 0, or -1 if there is no memory. */
int step_limits_open(struct step_limits *l, uint64_t count, uint64_t steps);
void step_limits_close(struct step_limits *l);
/* Measures each pass once. All workers call it at the same time, as they make their steps. */
void step_limits_measure(struct step_limits *l, const float *gradient);
/* Returns the bandwidth below which sparse steps are faster than a dense exchange that takes only
 * network time: bytes per second of one worker, in both directions together. Returns NaN if sparse
 * steps do not send less. */
double step_break_even(double sparse_ms, double sparse_bytes, double dense_bytes);
#endif
