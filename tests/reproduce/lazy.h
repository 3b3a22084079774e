/* SPDX-License-Identifier: BSD-3-Clause
 * Runs until the objective is near its minimum, and counts the uploads until then. For the sections
 * about methods that skip uploads. */
#ifndef REPRODUCE_LAZY_H
#define REPRODUCE_LAZY_H
#include "tests/reproduce/page.h"

struct descent {
	const char *label;
	const struct problem *problem;
	const char *recipe;
	int workers;
	double optimum, smoothness; /* constants of the problem; the rate is 1 / smoothness */
	uint64_t most_steps;
	const char *figure;          /* or NULL */
	const double *smoothness_of; /* smoothness of each worker's part, for rules that need it,
					or NULL */
};

struct reached {
	uint64_t steps;            /* 0: never */
	uint64_t uploads;          /* number of pushes with elements, of all workers */
	double payload_bits, bits; /* bits of all pushes, without and with headers */
};

/* Trains until f - f* <= 1e-6 (f_0 - f*). If it does not return 0, a row without a verdict
 * follows. */
int descend(struct page *page, const struct descent *d, struct reached *reached,
	    struct outcome *out);
#endif
