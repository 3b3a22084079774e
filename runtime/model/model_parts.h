/* SPDX-License-Identifier: BSD-3-Clause
 * The parts of its model that a half uses, besides the rules (rulebook.h). They outlive the half,
 * and do not give it access to the other half. */
#ifndef RUNTIME_MODEL_PARTS_H
#define RUNTIME_MODEL_PARTS_H
#include "model/home.h"
#include "model/measure.h"
#include "model/stopwatch.h"
#include "model/tensors.h"
#include "model/worth.h"

struct model_parts {
	uint32_t id, channel; /* number and channel of the model; the channel is that of shard 0
				 (job/client.h) */
	const struct home *home;
	const struct tensors *tensors;
	struct measure *measure;
	struct worth *worth;
	sluice_model_stats *stats;
	struct stopwatch *stopwatch;
	int shown; /* entry in the job's page */
};
#endif
