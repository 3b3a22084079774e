/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/stopwatch.h"
#include "base/clock.h"

struct lap stopwatch_begin(void)
{
	return (struct lap){ .began = now_ns() };
}

void stopwatch_without(const struct stopwatch *watch, struct lap *lap, unsigned sums)
{
	lap->without = sums;
	lap->inner = stopwatch_ns(watch, sums);
}

void stopwatch_end(struct stopwatch *watch, unsigned sums, const struct lap *lap)
{
	const uint64_t inner = stopwatch_ns(watch, lap->without) - lap->inner;
	const uint64_t ns = now_ns() - lap->began - inner;

	for (unsigned i = 0; i < TIME_SUMS; i++)
		if (sums & 1u << i)
			watch->ns[i] += ns;
}

uint64_t stopwatch_ns(const struct stopwatch *watch, unsigned sums)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < TIME_SUMS; i++)
		if (sums & 1u << i)
			total += watch->ns[i];
	return total;
}

void stopwatch_copy(const struct stopwatch *watch, sluice_model_stats *stats)
{
	stats->compress_ns = stopwatch_ns(watch, TIME_COMPRESS);
	stats->push_ns = stopwatch_ns(watch, TIME_PUSH);
	stats->wait_ns = stopwatch_ns(watch, TIME_WAIT);
	stats->pull_ns = stopwatch_ns(watch, TIME_PULL);
	stats->apply_ns = stopwatch_ns(watch, TIME_APPLY);
	stats->device_ns = stopwatch_ns(watch, TIME_DEVICE);
}
