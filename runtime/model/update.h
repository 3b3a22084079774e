/* SPDX-License-Identifier: BSD-3-Clause
 * Update rules at the shard: from the mean of what the workers sent to the change of the model. */
#ifndef RUNTIME_UPDATE_H
#define RUNTIME_UPDATE_H
#include "recipe/recipe.h"
#include <stddef.h>

struct update {
	enum update_kind kind;
	float momentum, decay;
	float alpha;              /* ema: weight of the newest mean; 0: 1/t */
	enum placement placement; /* inside: the messages already carry the step size */
};

/* sum[0..n): sum of the messages; becomes the change that is added to the model (update=none: the
 * mean itself). velocity: n floats for momentum and nesterov, else NULL. params: the shard's
 * copy. */
void update_apply(const struct update *u, float *sum, float *velocity, const float *params,
		  size_t n, unsigned divisor, float lr);
/* The weight of step t = 1, 2, ... in the running average; in the first step all, and always all
 * for rules that keep none. */
float update_alpha(const struct update *u, uint64_t step);
/* The rule of one step. */
struct update update_of_step(const struct update *u, uint64_t step);
/* 1 if the change is *by * (sum * *share) at each coordinate, to the bit, so that a sum of zero
 * means no change; 0 if it takes more. */
int update_scales(const struct update *u, unsigned divisor, float lr, float *share, float *by);
#endif
