/* SPDX-License-Identifier: BSD-3-Clause
 * Measures where a model's calls spend their time: the sums that sluice_stats() returns. A lap is
 * one measurement. It reads the clock only when it begins and when it ends. With SLUICE_TRACE, each
 * lap is also a slice of the trace. */
#ifndef RUNTIME_STOPWATCH_H
#define RUNTIME_STOPWATCH_H
#include "metrics/trace.h"
#include "sluice.h"
#include <stdint.h>

/* The members of sluice_model_stats with these names, as flags. */
enum {
	TIME_COMPRESS = 1,
	TIME_PUSH = 2,
	TIME_WAIT = 4,
	TIME_PULL = 8,
	TIME_APPLY = 16,
	TIME_DEVICE = 32,
	TIME_SUMS = 6
};

struct stopwatch {
	uint64_t ns[TIME_SUMS];
	struct trace *trace; /* NULL: none */
	uint32_t model;
	uint64_t steps, step_ns; /* the last step in the trace, and when it ended */
};

/* Adds all laps from now on to the trace, or to none if it is NULL. */
void stopwatch_trace(struct stopwatch *watch, struct trace *trace, uint32_t model);
/* Adds a step to the trace that ends now, unless this number is in the trace. One thread calls
 * this. */
void stopwatch_step(struct stopwatch *watch, uint64_t step);

/* Begins a slice that belongs to no sum. Returns 0 without a trace, and then reads no clock. */
uint64_t stopwatch_slice(const struct stopwatch *watch);
/* Adds the slice that began at `began` to the trace. Adds nothing if began is 0. */
void stopwatch_slice_ends(const struct stopwatch *watch, enum trace_kind kind, uint64_t began);

struct lap {
	uint64_t began;
	unsigned without; /* sums whose growth is subtracted from the time of the lap */
	uint64_t inner;   /* total of those sums at stopwatch_without() */
};

struct lap stopwatch_begin(void);
/* From now on, time that is added to these sums is subtracted from the lap. Called at most once per
 * lap. If other threads add to these sums, the caller holds the token here and in
 * stopwatch_end(). */
void stopwatch_without(const struct stopwatch *watch, struct lap *lap, unsigned sums);
/* Adds the lap's time to each of the sums. */
void stopwatch_end(struct stopwatch *watch, unsigned sums, const struct lap *lap);
/* Returns the total of these sums. */
uint64_t stopwatch_ns(const struct stopwatch *watch, unsigned sums);
/* Copies the sums to the members with these names. */
void stopwatch_copy(const struct stopwatch *watch, sluice_model_stats *stats);
#endif
