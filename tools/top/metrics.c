/* SPDX-License-Identifier: BSD-3-Clause
 * See metrics.h. */
#include "tools/top/metrics.h"
#include <math.h>

#define COUNT(member)                                                                              \
	static double get_##member(const struct page_numbers *numbers)                             \
	{                                                                                          \
		return (double)numbers->stats.member;                                              \
	}
#define SECONDS(member)                                                                            \
	static double get_##member(const struct page_numbers *numbers)                             \
	{                                                                                          \
		return (double)numbers->stats.member / 1e9;                                        \
	}
COUNT(steps)
COUNT(pushed_bytes)
COUNT(pulled_bytes)
COUNT(dense_bytes)
COUNT(control_bytes)
COUNT(pushed_elements)
COUNT(pulled_elements)
COUNT(deferred_elements)
COUNT(nonfinite_elements)
COUNT(refused_messages)
COUNT(skipped_pushes)
COUNT(missed_exchanges)
COUNT(staleness_most)
COUNT(memory_bytes)
COUNT(density_up)
COUNT(density_down)
COUNT(compression_error)
SECONDS(compress_ns)
SECONDS(push_ns)
SECONDS(wait_ns)
SECONDS(pull_ns)
SECONDS(apply_ns)
SECONDS(device_ns)

static double get_version(const struct page_numbers *numbers)
{
	return (double)numbers->version;
}

/* Only sluice_stats() computes it, so it is 0 until the program has called that. */
static double get_residual_norm(const struct page_numbers *numbers)
{
	return numbers->stats.residual_norm > 0 ? numbers->stats.residual_norm : NAN;
}

const struct metric metrics[] = {
	{ "steps", "", 1, "completed pulls", get_steps },
	{ "version", "", 1, "steps, or the version of a server's first shard", get_version },
	{ "pushed_bytes", "bytes", 1, "gradient messages to other ranks", get_pushed_bytes },
	{ "pulled_bytes", "bytes", 1, "delta messages from other ranks", get_pulled_bytes },
	{ "dense_bytes", "bytes", 1, "the same without compression", get_dense_bytes },
	{ "control_bytes", "bytes", 1, "notices to other ranks", get_control_bytes },
	{ "pushed_elements", "", 1, "coordinates in gradient messages", get_pushed_elements },
	{ "pulled_elements", "", 1, "coordinates in delta messages", get_pulled_elements },
	{ "deferred_elements", "", 1, "selected coordinates that stayed in the residual",
	  get_deferred_elements },
	{ "nonfinite_elements", "", 1, "NaN or infinite values of gradients",
	  get_nonfinite_elements },
	{ "compress", "seconds", 1, "accumulating, selecting and encoding", get_compress_ns },
	{ "push", "seconds", 1, "posting writes and waiting for slots", get_push_ns },
	{ "wait", "seconds", 1, "waiting for versions, and for a GPU", get_wait_ns },
	{ "pull", "seconds", 1, "reading deltas", get_pull_ns },
	{ "apply", "seconds", 1, "checking deltas and adding them", get_apply_ns },
	{ "device", "seconds", 1, "the part of wait in which a GPU worked", get_device_ns },
	{ "density_up", "", 0, "density of the last push", get_density_up },
	{ "density_down", "", 0, "density of the last pull", get_density_down },
	{ "compression_error", "", 0, "share of the last push that was lost (SLUICE_MEASURE)",
	  get_compression_error },
	{ "residual_norm", "", 0, "2-norm of the residual, as of the last sluice_stats()",
	  get_residual_norm },
	{ "staleness_most", "", 0, "the most versions that a push was behind", get_staleness_most },
	{ "refused_messages", "", 1, "pushes that shards refused", get_refused_messages },
	{ "skipped_pushes", "", 1, "lazy pushes without an upload", get_skipped_pushes },
	{ "missed_exchanges", "", 1, "exchanges that closed without this worker",
	  get_missed_exchanges },
	{ "memory_bytes", "bytes", 0, "memory of the model on this rank", get_memory_bytes },
};
const size_t n_metrics = sizeof(metrics) / sizeof(metrics[0]);

uint64_t part_ns(const sluice_model_stats *stats, enum step_part part)
{
	const uint64_t sums[STEP_PARTS] = { [PART_COMPRESS] = stats->compress_ns,
					    [PART_PUSH] = stats->push_ns,
					    [PART_WAIT] = stats->wait_ns,
					    [PART_PULL] = stats->pull_ns,
					    [PART_APPLY] = stats->apply_ns };

	return sums[part];
}
