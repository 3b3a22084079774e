/* SPDX-License-Identifier: BSD-3-Clause
 * See step_limits.h. */
#include "tools/bench/step_limits.h"
#include "base/clock.h"
#include "tools/bench/select_data.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int step_limits_open(struct step_limits *l, uint64_t count, uint64_t steps)
{
	*l = (struct step_limits){ .count = count,
				   .scratch = malloc((size_t)count * sizeof(float)) };
	if (!l->scratch)
		return -1;
	memset(l->scratch, 0, (size_t)count * sizeof(float));
	for (int i = 0; i < LIMITS; i++)
		if (samples_open(&l->ms[i], (size_t)steps))
			return -1;
	return 0;
}

void step_limits_close(struct step_limits *l)
{
	free(l->scratch);
	for (int i = 0; i < LIMITS; i++)
		samples_close(&l->ms[i]);
	l->scratch = NULL;
}

void step_limits_measure(struct step_limits *l, const float *gradient)
{
	uint64_t began[LIMITS + 1];
	size_t n = (size_t)l->count;

	began[LIMIT_READ] = now_ns();
	l->sink ^= pass_read(gradient, n, 1);
	began[LIMIT_COPY] = now_ns();
	memcpy(l->scratch, gradient, n * sizeof(float));
	__asm__ volatile("" : : "r"(l->scratch) : "memory");
	began[LIMIT_ADD] = now_ns();
	pass_add(l->scratch, gradient, n);
	__asm__ volatile("" : : "r"(l->scratch) : "memory");
	began[LIMITS] = now_ns();
	for (int i = 0; i < LIMITS; i++)
		samples_add(&l->ms[i], (double)(began[i + 1] - began[i]) * 1e-6);
}

double step_break_even(double sparse_ms, double sparse_bytes, double dense_bytes)
{
	if (!(dense_bytes > sparse_bytes) || !(sparse_ms > 0))
		return NAN;
	return (dense_bytes - sparse_bytes) / (sparse_ms * 1e-3);
}
