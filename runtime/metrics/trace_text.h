/* SPDX-License-Identifier: BSD-3-Clause
 * Traces as JSON in the trace event format, which browsers' viewers (chrome://tracing, Perfetto)
 * read: an object with one event per line. */
#ifndef RUNTIME_TRACE_TEXT_H
#define RUNTIME_TRACE_TEXT_H
#include "metrics/trace.h"
#include <stdio.h>

/* The owner of a trace. */
struct trace_origin {
	int rank;
	const char *node, *job;
	uint64_t meeting; /* as in struct page_who */
};

/* Prints the ring. A rank is a process of the trace; a row shows the steps of a model, and the
 * others the calls of each thread. Times are microseconds since the year 2026 began, by the wall
 * clock of the node. Returns 0, or -1 if there is no memory. */
int trace_print(const struct trace *trace, const struct trace_origin *origin, FILE *to);

/* Joins the traces of several ranks of one job. */
struct trace_merge {
	FILE *to;
	uint64_t meeting; /* of the first file */
	size_t files, events;
};
void trace_merge_begin(struct trace_merge *merge, FILE *to);
/* Adds the events of a file that trace_print() or trace_merge_end() has written. Returns NULL, or
 * why the file is not one: then its events up to the bad line have been added. */
const char *trace_merge_add(struct trace_merge *merge, FILE *from);
void trace_merge_end(struct trace_merge *merge);
#endif
