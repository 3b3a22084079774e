/* SPDX-License-Identifier: BSD-3-Clause
 * See metrics.h. */
#include "metrics/metrics.h"
#include <math.h>
#include <string.h>

#define OF_STATS(member) offsetof(struct page_numbers, stats.member)
#define COUNT(member)    METRIC_COUNT, OF_STATS(member)
#define SECONDS(member)  METRIC_NANOSECONDS, OF_STATS(member)
#define REAL(member)     METRIC_REAL, OF_STATS(member)

const struct metric metrics[] = {
	{ "steps", "", 1, COUNT(steps), "completed pulls" },
	{ "version", "", 1, METRIC_COUNT, offsetof(struct page_numbers, version),
	  "steps, or the version of a server's first shard" },
	{ "pushed_bytes", "bytes", 1, COUNT(pushed_bytes), "gradient messages to other ranks" },
	{ "pulled_bytes", "bytes", 1, COUNT(pulled_bytes), "delta messages from other ranks" },
	{ "dense_bytes", "bytes", 1, COUNT(dense_bytes), "the same without compression" },
	{ "control_bytes", "bytes", 1, COUNT(control_bytes), "notices to other ranks" },
	{ "pushed_elements", "", 1, COUNT(pushed_elements), "coordinates in gradient messages" },
	{ "pulled_elements", "", 1, COUNT(pulled_elements), "coordinates in delta messages" },
	{ "deferred_elements", "", 1, COUNT(deferred_elements),
	  "selected coordinates that stayed in the residual" },
	{ "nonfinite_elements", "", 1, COUNT(nonfinite_elements),
	  "NaN or infinite values of gradients" },
	{ "compress", "seconds", 1, SECONDS(compress_ns), "accumulating, selecting and encoding" },
	{ "push", "seconds", 1, SECONDS(push_ns), "posting writes and waiting for slots" },
	{ "wait", "seconds", 1, SECONDS(wait_ns), "waiting for versions, and for a GPU" },
	{ "pull", "seconds", 1, SECONDS(pull_ns), "reading deltas" },
	{ "apply", "seconds", 1, SECONDS(apply_ns), "checking deltas and adding them" },
	{ "device", "seconds", 1, SECONDS(device_ns), "the part of wait in which a GPU worked" },
	{ "density_up", "", 0, REAL(density_up), "density of the last push" },
	{ "density_down", "", 0, REAL(density_down), "density of the last pull" },
	{ "compression_error", "", 0, REAL(compression_error),
	  "share of the last push that was lost (SLUICE_MEASURE)" },
	/* Only sluice_stats() computes it, so it is 0 until the program has called that. */
	{ "residual_norm", "", 0, METRIC_NORM, OF_STATS(residual_norm),
	  "2-norm of the residual, as of the last sluice_stats()" },
	{ "staleness_most", "", 0, COUNT(staleness_most),
	  "the most versions that a push was behind" },
	{ "refused_messages", "", 1, COUNT(refused_messages), "pushes that shards refused" },
	{ "skipped_pushes", "", 1, COUNT(skipped_pushes), "lazy pushes without an upload" },
	{ "missed_exchanges", "", 1, COUNT(missed_exchanges),
	  "exchanges that closed without this worker" },
	{ "memory_bytes", "bytes", 0, COUNT(memory_bytes), "memory of the model on this rank" },
};
const size_t n_metrics = sizeof(metrics) / sizeof(metrics[0]);

double metric_value(const struct metric *metric, const struct page_numbers *numbers)
{
	const char *at = (const char *)numbers + metric->offset;
	uint64_t count;
	double real;

	memcpy(&count, at, sizeof(count));
	memcpy(&real, at, sizeof(real));
	switch (metric->kind) {
	case METRIC_COUNT: return (double)count;
	case METRIC_NANOSECONDS: return (double)count / 1e9;
	case METRIC_NORM: return real > 0 ? real : (double)NAN;
	case METRIC_REAL: break;
	}
	return real;
}

uint64_t part_ns(const sluice_model_stats *stats, enum step_part part)
{
	const uint64_t sums[STEP_PARTS] = { [PART_COMPRESS] = stats->compress_ns,
					    [PART_PUSH] = stats->push_ns,
					    [PART_WAIT] = stats->wait_ns,
					    [PART_PULL] = stats->pull_ns,
					    [PART_APPLY] = stats->apply_ns };

	return sums[part];
}
