/* SPDX-License-Identifier: BSD-3-Clause
 * Applies the update rule in one pass over the shard per step. No fused multiply-add is used, so
 * the bits are the same everywhere. */
#include "model/update.h"
#include "compress/sparse.h"

enum { PIECE = 2048 };

/* Returns the factor that messages do not include yet. With placement "inside", messages already
 * include the step size. */
static float step_of(const struct update *u, float lr)
{
	return u->placement == STEP_INSIDE ? 1.0f : lr;
}

float update_alpha(const struct update *u, uint64_t step)
{
	if (u->kind != UPDATE_EMA || step <= 1 ||
	    step > UINT64_MAX - 2) /* also true of the step before the first one */
		return 1;
	return u->alpha > 0 ? u->alpha : 1 / (float)step;
}

struct update update_of_step(const struct update *u, uint64_t step, uint64_t first)
{
	struct update now = *u;

	now.first = first;
	now.alpha = update_alpha(u, step);
	return now;
}

int update_scales(const struct update *u, unsigned divisor, float lr, float *share, float *by)
{
	if (u->decay > 0 || u->tensors ||
	    (u->kind != UPDATE_NONE && u->kind != UPDATE_SGD && u->kind != UPDATE_AVERAGE))
		return 0;
	*share = 1.0f / (float)divisor;
	*by = u->kind == UPDATE_NONE || u->kind == UPDATE_AVERAGE ? 1.0f : -step_of(u, lr);
	return 1;
}

/* Returns the decay with the same scale as messages, which include the step size with placement
 * "inside". */
static float decay_of(const struct update *u, float lr)
{
	return u->placement == STEP_INSIDE ? u->decay * lr : u->decay;
}

struct update_factors update_factors_of(const struct update *u, unsigned divisor, float lr)
{
	const int mean = u->kind == UPDATE_NONE || u->kind == UPDATE_AVERAGE,
		  ema = u->kind == UPDATE_EMA;

	return (struct update_factors){ .share = 1.0f / (float)divisor,
					.decay = decay_of(u, lr),
					.keep = ema ? 1 - u->alpha : u->momentum,
					.take = ema ? u->alpha : 1,
					.by = mean ? 1.0f : -step_of(u, lr) };
}

/* Applies the rule to a piece that fits into the first-level cache, where it stays between the
 * passes. */
static void apply_piece(const struct update *u, float *restrict sum, float *restrict velocity,
			const float *restrict params, size_t n, float share, float step, float lr)
{
	const float m = u->momentum;
	const float decay = decay_of(u, lr);

	for (size_t i = 0; i < n; i++)
		sum[i] *= share;
	if (u->decay > 0)
		for (size_t i = 0; i < n; i++)
			sum[i] += decay * params[i];
	switch (u->kind) {
	case UPDATE_NONE:
	case UPDATE_AVERAGE: return;
	case UPDATE_SGD:
	case UPDATE_ACCELERATED: /* shard_async.c has the other vectors of this rule */
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
	case UPDATE_EMA:
		for (size_t i = 0; i < n; i++) {
			velocity[i] = (1 - u->alpha) * velocity[i] + u->alpha * sum[i];
			sum[i] = -step * velocity[i];
		}
		return;
	}
}

/* Applies the rule of each tensor. */
static void apply_rules(const struct update *u, float *sum, float *velocity, const float *params,
			size_t n, float share, float lr)
{
	struct update own = *u;

	for (size_t at = 0, here; at < n; at += here) {
		const struct tensor_run run = tensors_run(u->tensors, u->first + at);
		const uint64_t left = run.end - (u->first + at);

		here = n - at < PIECE ? n - at : PIECE;
		here = left < here ? (size_t)left : here;
		own.decay = run.decay;
		apply_piece(&own, sum + at, velocity ? velocity + at : NULL, params + at, here,
			    share, run.lr * step_of(u, lr), lr);
	}
}

void update_apply(const struct update *u, float *sum, float *velocity, const float *params,
		  size_t n, unsigned divisor, float lr)
{
	float share = 1.0f / (float)divisor, by;

	if (update_scales(u, divisor, lr, &share, &by)) {
		sparse_scale(sum, share, by, (uint32_t)n);
		return;
	}
	if (u->tensors) {
		apply_rules(u, sum, velocity, params, n, share, lr);
		return;
	}
	for (size_t at = 0; at < n; at += PIECE)
		apply_piece(u, sum + at, velocity ? velocity + at : NULL, params + at,
			    n - at < PIECE ? n - at : PIECE, share, step_of(u, lr), lr);
}
