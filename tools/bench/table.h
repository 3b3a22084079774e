/* SPDX-License-Identifier: BSD-3-Clause
 * The output of put, get and notify on rank 0: a table, or one JSON object. */
#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H
#include "tools/bench/options.h"
#include "tools/bench/samples.h"
#include "sluice.h"

struct row {
	size_t bytes;
	struct summary us;                /* latency */
	double bandwidth, rate;           /* bytes, messages per second */
	double limit_us, limit_bandwidth; /* figures of the machine itself; NaN: not measured */
	const char *windows, *ordering;   /* settings of the card; NULL: they do not vary */
};

void table_begin(const struct options *options, sluice_job *job, int second, const char *transport,
		 int limits, int settings);
void table_row(const struct options *options, const char *transport, const struct row *row);
void table_end(const struct options *options);
#endif
