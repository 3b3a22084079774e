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
	float alpha; /* ema: the weight of the newest mean; 0: 1/t */
	struct adam_words adam;
	/* adam: the factors 1 / (1 - beta1^t) and 1 / sqrt(1 - beta2^t) of the step; `frozen` is 1
	 * if the step does not change the variance. */
	float unbias1, unbias2;
	int frozen;
	enum placement placement; /* STEP_INSIDE: the messages already include the step size */
	/* The tensors that have their own rate or decay; NULL if there are none. `first` is the
	 * coordinate of sum[0]. */
	const struct tensors *tensors;
	uint64_t first;
};

/* The running averages of a rule. An average that the rule does not keep is NULL
 * (recipe_velocity(), recipe_variance()). */
struct averages {
	float *velocity, *variance;
};
static inline struct averages averages_at(struct averages m, size_t at)
{
	return (struct averages){ m.velocity ? m.velocity + at : NULL,
				  m.variance ? m.variance + at : NULL };
}

/* Turns sum[0..n), the sum of the messages, into the change that is added to the model, or with
 * update=none into the mean. averages: n floats each. params: the shard's copy of the parameters.
 * If a square overflows, the change there is infinite. */
void update_apply(const struct update *u, float *sum, struct averages averages, const float *params,
		  size_t n, unsigned divisor, float lr);
/* Returns the weight of step t = 1, 2, ... in the running average. It is 1 in the first step, and
 * always for rules without an average. */
float update_alpha(const struct update *u, uint64_t step);
/* Returns the rule with the weights of one step t = 1, 2, ..., for a sum whose first element has
 * coordinate `first`. */
struct update update_of_step(const struct update *u, uint64_t step, uint64_t first);
/* Returns 1 if the change at each coordinate is exactly *by * (sum * *share), so that a sum of zero
 * changes nothing. Returns 0 if the rule is more complex. */
int update_scales(const struct update *u, unsigned divisor, float lr, float *share, float *by);
/* The factors of update_apply() if no tensor has its own rule, for a device that computes the same.
 * With v as the velocity:
 *     mean = sum * share, plus decay * params if decay is above 0
 *     v    = keep * v + take * mean
 *     sum  = by * mean, by * v (momentum, ema), or by * (mean + keep * v) (nesterov)
 *
 * Only Adam uses the last four (struct device_change). */
struct update_factors {
	float share, decay, keep, take, by, keep_square, take_square, unbias, apart;
};
/* Returns the factor of a worker's push: the step size if messages include it, otherwise 1. */
static inline float update_pushed(const struct update *u, float lr)
{
	return u->placement == STEP_INSIDE ? lr : 1.0f;
}
struct update_factors update_factors_of(const struct update *u, unsigned divisor, float lr);
#endif
