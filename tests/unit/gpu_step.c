/* SPDX-License-Identifier: BSD-3-Clause
 * See gpu_step.h. */
#include "gpu_step.h"
#include "base/bytes.h"
#include "ranks.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

float *device_vector(const struct device_ops *ops, struct memory *m)
{
	static const float zeros[COUNT];
	return device_floats(ops, m, zeros, COUNT);
}

void to_device(const struct device_ops *ops, float *there, const float *here)
{
	CHECK_OK(ops->copy(there, here, COUNT * sizeof(float), NULL));
	CHECK_OK(ops->wait(NULL));
}

void expect_on_device(const struct device_ops *ops, const float *there, const float *here)
{
	static float got[COUNT];
	CHECK_OK(ops->copy(got, there, sizeof got, NULL));
	CHECK_OK(ops->wait(NULL));
	CHECK(!memcmp(got, here, sizeof got));
}

void gradient(float *grad, int rank, int step, const struct shape *shape)
{
	for (size_t i = 0; i < COUNT; i++)
		grad[i] = noise(7, (uint64_t)step, (uint64_t)rank, i) *
			  (i % 100 && !(shape->skewed && i < COUNT / SHARDS_SKEWED) ? 1.0f : 20.0f);
	if (step == shape->nan_at && rank == 1)
		grad[321] = NAN;
}

void expect_same_messages(const sluice_model *host, const sluice_model *gpu)
{
	enum { MODEL = 84 };
	for (uint32_t s = 0; s < host->layout.n_shards; s++) {
		const uint64_t seq = lane_next_seq(host->worker->lanes, s) - 1;
		const uint8_t *a = lane_slot(host->worker->lanes, s, seq),
			      *b = lane_slot(gpu->worker->lanes, s, seq);
		size_t bytes, gpu_bytes;
		lane_sent(host->worker->lanes, s, &bytes);
		lane_sent(gpu->worker->lanes, s, &gpu_bytes);
		CHECK(lane_next_seq(gpu->worker->lanes, s) - 1 == seq && gpu_bytes == bytes);
		CHECK(!memcmp(a, b, MODEL) && !memcmp(a + MODEL + 4, b + MODEL + 4, 4));
		const int apart = lane_sent_way(gpu->worker->lanes, s) != LANE_STAGED;
		CHECK(apart == (on_device_packed(gpu->worker, s) &&
				on_device_way(gpu->worker, s) != PAYLOAD_STAGED));
		if (apart)
			continue;
		CHECK(!memcmp(a + MESSAGE_HEADER_BYTES, b + MESSAGE_HEADER_BYTES,
			      bytes - MESSAGE_HEADER_BYTES));
	}
}

void expect_overflow(sluice_model *gpu, int overflows)
{
	sluice_model_stats stats = { .size = sizeof stats };
	CHECK_OK(sluice_stats(gpu, &stats));
	CHECK(selection_kinds[gpu->recipe.up.select].varies ||
	      !overflows == !stats.deferred_elements);
}

sluice_model_attr attr_of_shape(const struct shape *shape)
{
	static const sluice_tensor tensors[] = { { "weight", COUNT - 100 }, { "bias", 100 } };
	return ATTR(.count = COUNT, .recipe = shape->recipe,
		    .shards = shape->skewed ? SHARDS_SKEWED : SHARDS, .tensors = tensors,
		    .n_tensors = 2);
}

void expect_same_stats(sluice_model *host, sluice_model *gpu, int overflows)
{
	sluice_model_stats a = { .size = sizeof a }, b = { .size = sizeof b };
	CHECK_OK(sluice_stats(host, &a));
	CHECK_OK(sluice_stats(gpu, &b));
	CHECK(a.pushed_bytes == b.pushed_bytes && a.pulled_bytes == b.pulled_bytes);
	CHECK(a.pushed_elements == b.pushed_elements && a.deferred_elements == b.deferred_elements);
	expect_overflow(gpu, overflows);
	CHECK(a.nonfinite_elements == b.nonfinite_elements);
	CHECK(float_bits((float)a.residual_norm) == float_bits((float)b.residual_norm));
}
