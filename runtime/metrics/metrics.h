/* SPDX-License-Identifier: BSD-3-Clause
 * The table of what a page shows of a model: names, units and meanings. The screen and the JSON
 * text of sluice-top and the OpenMetrics text all take them from here. */
#ifndef RUNTIME_METRICS_H
#define RUNTIME_METRICS_H
#include "metrics/seen.h"

enum metric_kind {
	METRIC_COUNT,       /* uint64_t */
	METRIC_NANOSECONDS, /* uint64_t, shown in seconds */
	METRIC_REAL,        /* double */
	METRIC_NORM         /* double; 0 means that it is unknown */
};

struct metric {
	const char *name;
	const char *unit; /* "bytes", "seconds", or "" for a plain number */
	int counts;       /* 1: a sum that grows, 0: the value of the last step */
	enum metric_kind kind;
	size_t offset; /* in struct page_numbers */
	const char *help;
};
extern const struct metric metrics[];
extern const size_t n_metrics;

/* Returns the value, or NaN if it is unknown. */
double metric_value(const struct metric *metric, const struct page_numbers *numbers);

/* The parts of a step's time, as the sums of sluice_stats() in nanoseconds. */
enum step_part { PART_COMPRESS, PART_PUSH, PART_WAIT, PART_PULL, PART_APPLY, STEP_PARTS };
uint64_t part_ns(const sluice_model_stats *stats, enum step_part part);
#endif
