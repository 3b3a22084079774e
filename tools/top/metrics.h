/* SPDX-License-Identifier: BSD-3-Clause
 * The table of what a page shows of a model: names, units and meanings. The screen and the JSON
 * text both take them from here. */
#ifndef TOOLS_TOP_METRICS_H
#define TOOLS_TOP_METRICS_H
#include "tools/top/seen.h"

struct metric {
	const char *name;
	const char *unit; /* "bytes", "seconds", or "" for a plain number */
	int counts;       /* 1: a sum that grows, 0: the value of the last step */
	const char *help;
	double (*get)(const struct page_numbers *numbers);
};
extern const struct metric metrics[];
extern const size_t n_metrics;

/* The parts of a step's time, as the sums of sluice_stats() in nanoseconds. */
enum step_part { PART_COMPRESS, PART_PUSH, PART_WAIT, PART_PULL, PART_APPLY, STEP_PARTS };
uint64_t part_ns(const sluice_model_stats *stats, enum step_part part);
#endif
