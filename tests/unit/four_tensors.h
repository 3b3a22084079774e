/* SPDX-License-Identifier: BSD-3-Clause
 * A model of four tensors, two of them biases, and gradients for it that have zeros and equal
 * values: for tests of the ways to push. */
#ifndef TESTS_FOUR_TENSORS_H
#define TESTS_FOUR_TENSORS_H
#include "ranks.h"

enum { COUNT = 1500 };

static inline sluice_model_attr attributes(const char *recipe, uint32_t shards)
{
	static const sluice_tensor tensors[] = {
		{ "w1", 1000 },
		{ "b1.bias", 20 },
		{ "w2", 400 },
		{ "b2.bias", 80 },
	};
	return ATTR(.count = COUNT, .tensors = tensors, .n_tensors = 4, .recipe = recipe,
		    .shards = shards, .lr = 0.05f);
}

static inline void fill_gradient(float *grad, int rank, uint64_t step, const float *params)
{
	for (size_t i = 0; i < COUNT; i++) {
		float z = noise(1, step, (uint64_t)rank, i);
		grad[i] = i % 11 == 0 ? 0 : i % 13 == 0 ? 0.25f : z * z * z + 0.1f * params[i];
	}
}
#endif
