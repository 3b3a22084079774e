/* SPDX-License-Identifier: BSD-3-Clause
 * One pass over the shard per step; no fused multiply-add, so the same bits everywhere. */
#include "update.h"

static void decay_into(float *g, const float *params, size_t n, float factor)
{
	for (size_t i = 0; i < n; i++)
		g[i] += factor * params[i];
}

void update_apply(const struct update *u, float *sum, float *velocity, const float *params, size_t n,
		  unsigned divisor, float lr)
{
	const float share = 1.0f / (float)divisor;
	/* What is left to multiply by: messages of placement "inside" carry the step size. */
	const float step = u->placement == STEP_INSIDE ? 1.0f : lr;
	const float m = u->momentum;

	for (size_t i = 0; i < n; i++)
		sum[i] *= share;
	if (u->decay > 0)
		decay_into(sum, params, n, u->placement == STEP_INSIDE ? u->decay * lr : u->decay);
	switch (u->kind) {
	case UPDATE_NONE:
		return;
	case UPDATE_SGD:
		for (size_t i = 0; i < n; i++)
			sum[i] = -step * sum[i];
		return;
	case UPDATE_MOMENTUM:
		for (size_t i = 0; i < n; i++) {
			velocity[i] = m * velocity[i] + sum[i];
			sum[i] = -step * velocity[i];
		}
		return;
	case UPDATE_NESTEROV:
		for (size_t i = 0; i < n; i++) {
			velocity[i] = m * velocity[i] + sum[i];
			sum[i] = -step * (sum[i] + m * velocity[i]);
		}
		return;
	}
}
