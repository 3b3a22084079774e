/* SPDX-License-Identifier: BSD-3-Clause
 * Update rules at the shard: they turn the mean of the workers' messages into the change of the
 * model. */
#ifndef RUNTIME_UPDATE_H
#define RUNTIME_UPDATE_H
#include "model/tensors.h"
#include "recipe/recipe.h"
#include <stddef.h>

struct update {
	enum update_kind kind;
	float momentum, decay;
	float alpha;              /* ema: the weight of the newest mean; 0: 1/t */
	enum placement placement; /* inside: the messages already include the step size */
	/* If not NULL, `first` is the coordinate of sum[0]. NULL: no tensor has its own rate or
	 * decay. */
	const struct tensors *tensors;
	uint64_t first;
};

/* sum[0..n) is the sum of the messages, and becomes the change that is added to the model. With
 * update=none it becomes the mean. velocity: n floats for momentum and nesterov, otherwise NULL.
 * params: the shard's copy of the parameters. */
void update_apply(const struct update *u, float *sum, float *velocity, const float *params,
		  size_t n, unsigned divisor, float lr);
/* Returns the weight of step t = 1, 2, ... in the running average. It is 1 in the first step, and
 * always for rules without an average. */
float update_alpha(const struct update *u, uint64_t step);
/* Returns the rule with the weight of one step, for a sum whose first element has coordinate
 * `first`. */
struct update update_of_step(const struct update *u, uint64_t step, uint64_t first);
/* Returns 1 if the change at each coordinate is exactly *by * (sum * *share), so that a sum of zero
 * changes nothing. Returns 0 if the rule is more complex. */
int update_scales(const struct update *u, unsigned divisor, float lr, float *share, float *by);
/* The factors of update_apply() if no tensor has its own rule, for a device that does the same.
 * With v as the velocity:
 *
 *     mean = sum * share, plus decay * params if decay is above 0
 *     v    = keep * v + take * mean
 *     sum  = by * mean, by * v (momentum, ema), or by * (mean + keep * v) (nesterov) */
struct update_factors {
	float share, decay, keep, take, by;
};
/* Returns the factor of a worker's push: the step size if messages include it, otherwise 1. */
static inline float update_pushed(const struct update *u, float lr)
{
	return u->placement == STEP_INSIDE ? lr : 1.0f;
}
struct update_factors update_factors_of(const struct update *u, unsigned divisor, float lr);
#endif
