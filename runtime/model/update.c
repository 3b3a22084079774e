/* SPDX-License-Identifier: BSD-3-Clause
 * Applies the update rule in one pass over the shard per step. No fused multiply-add is used, so
 * the bits are the same everywhere. */
#include "model/update.h"
#include "base/shrink.h"
#include "compress/sparse.h"
#include <math.h>

enum { PIECE = 2048 };

/* Returns the step size, or 1 with placement "inside", where messages already include it, unless
 * the rule takes their sign. */
static float step_of(const struct update *u, float lr)
{
	return u->placement == STEP_INSIDE && u->kind != UPDATE_SIGN ? 1.0f : lr;
}

float update_alpha(const struct update *u, uint64_t step)
{
	if (u->kind != UPDATE_EMA || step <= 1 ||
	    step > UINT64_MAX - 2) /* includes the step before the first one */
		return 1;
	return u->alpha > 0 ? u->alpha : 1 / (float)step;
}

/* Only multiplies, so that the bits are the same with every libm. */
static double power(float base, uint64_t exponent)
{
	double result = 1, square = (double)base;

	for (; exponent; exponent >>= 1, square *= square)
		result *= exponent & 1 ? square : 1;
	return result;
}

struct update update_of_step(const struct update *u, uint64_t step, uint64_t first)
{
	struct update now = *u;

	now.first = first;
	now.alpha = update_alpha(u, step);
	if (u->kind != UPDATE_ADAM && u->kind != UPDATE_ADAMW)
		return now;
	now.frozen = u->adam.freeze && step > u->adam.freeze;
	now.unbias1 = (float)(1 / (1 - power(u->adam.beta1, step)));
	now.unbias2 = (float)(1 /
			      sqrt(1 - power(u->adam.beta2, now.frozen ? u->adam.freeze : step)));
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

/* Returns the decay on the scale of the messages, which include the step size with placement
 * "inside". */
static float decay_of(const struct update *u, float lr)
{
	return u->placement == STEP_INSIDE ? u->decay * lr : u->decay;
}

/* Returns the factor by which a square is multiplied to give the variance that would result if each
 * step had this square. */
static float steady_of(const struct update *u)
{
	return 1 / (u->unbias2 * u->unbias2);
}

static struct update_factors factors_of_adam(const struct update *u, unsigned divisor, float lr)
{
	const int apart = u->kind == UPDATE_ADAMW;
	const float step = step_of(u, lr);

	return (struct update_factors){ .share = 1.0f / (float)divisor,
					.decay = apart ? 0 : decay_of(u, lr),
					.keep = u->adam.beta1,
					.take = 1 - u->adam.beta1,
					.by = -(step * u->unbias1),
					.keep_square = u->adam.beta2,
					.take_square = u->frozen ? steady_of(u) : 1 - u->adam.beta2,
					.unbias = u->unbias2,
					.apart = apart ? step * u->decay : 0 };
}

struct update_factors update_factors_of(const struct update *u, unsigned divisor, float lr)
{
	if (u->kind == UPDATE_ADAM || u->kind == UPDATE_ADAMW)
		return factors_of_adam(u, divisor, lr);

	const int mean = u->kind == UPDATE_NONE || u->kind == UPDATE_AVERAGE,
		  ema = u->kind == UPDATE_EMA;

	return (struct update_factors){ .share = 1.0f / (float)divisor,
					.decay = decay_of(u, lr),
					.keep = ema ? 1 - u->alpha : u->momentum,
					.take = ema ? u->alpha : 1,
					.by = mean ? 1.0f : -step_of(u, lr) };
}

/* A coordinate that no message names counts as having a gradient of zero, so both averages shrink
 * there too. If the variance is frozen before the coordinate had a gradient, the first gradient
 * sets it. Otherwise the step would be divided by epsilon alone. */
static void apply_adam(const struct update *u, float *restrict sum, float *restrict velocity,
		       float *restrict variance, const float *restrict params, size_t n, float step)
{
	const float beta1 = u->adam.beta1, take1 = 1 - beta1, beta2 = u->adam.beta2,
		    take2 = 1 - beta2, epsilon = u->adam.epsilon, unbias2 = u->unbias2;
	const float rate = step * u->unbias1, decay = step * u->decay;
	const float steady = steady_of(u);

	if (u->frozen)
		for (size_t i = 0; i < n; i++)
			variance[i] = variance[i] > 0 ? variance[i] : steady * (sum[i] * sum[i]);
	else
		for (size_t i = 0; i < n; i++)
			variance[i] = shrunk_square(beta2 * variance[i] +
						    take2 * (sum[i] * sum[i]));
	const size_t bad = first_nonfinite(variance, n);
	if (velocity)
		for (size_t i = 0; i < n; i++)
			sum[i] = velocity[i] = shrunk(beta1 * velocity[i] + take1 * sum[i]);
	for (size_t i = 0; i < n; i++)
		sum[i] = -rate * (sum[i] / (sqrtf(variance[i]) * unbias2 + epsilon));
	if (u->kind == UPDATE_ADAMW && u->decay > 0)
		for (size_t i = 0; i < n; i++)
			sum[i] -= decay * params[i];
	if (bad < n)
		sum[bad] = INFINITY; /* otherwise the coordinate would never move again */
}

/* Applies the rule to a piece that fits into the first-level cache, where the piece stays between
 * the passes. */
static void apply_piece(const struct update *u, float *restrict sum, struct averages averages,
			const float *restrict params, size_t n, float share, float step, float lr)
{
	float *restrict velocity = averages.velocity;
	const float m = u->momentum;
	const float decay = decay_of(u, lr);

	for (size_t i = 0; i < n; i++)
		sum[i] *= share;
	if (u->decay > 0 && u->kind != UPDATE_ADAMW)
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
			velocity[i] = shrunk(m * velocity[i] + sum[i]);
			sum[i] = -step * velocity[i];
		}
		return;
	case UPDATE_NESTEROV:
		for (size_t i = 0; i < n; i++) {
			velocity[i] = shrunk(m * velocity[i] + sum[i]);
			sum[i] = -step * (sum[i] + m * velocity[i]);
		}
		return;
	case UPDATE_SIGN:
		for (size_t i = 0; i < n; i++) /* 0 * sum turns NaN and infinity into NaN, which
						  is reported */
			sum[i] = -step * ((float)((sum[i] > 0) - (sum[i] < 0)) + 0 * sum[i]);
		return;
	case UPDATE_EMA:
		for (size_t i = 0; i < n; i++) {
			velocity[i] = shrunk((1 - u->alpha) * velocity[i] + u->alpha * sum[i]);
			sum[i] = -step * velocity[i];
		}
		return;
	case UPDATE_ADAM:
	case UPDATE_ADAMW: apply_adam(u, sum, velocity, averages.variance, params, n, step); return;
	}
}

/* Applies the rule tensor by tensor. */
static void apply_rules(const struct update *u, float *sum, struct averages averages,
			const float *params, size_t n, float share, float lr)
{
	struct update own = *u;

	for (size_t at = 0, here; at < n; at += here) {
		const struct tensor_run run = tensors_run(u->tensors, u->first + at);
		const uint64_t left = run.end - (u->first + at);

		here = n - at < PIECE ? n - at : PIECE;
		here = left < here ? (size_t)left : here;
		own.decay = run.decay;
		apply_piece(&own, sum + at, averages_at(averages, at), params + at, here, share,
			    run.lr * step_of(u, lr), lr);
	}
}

void update_apply(const struct update *u, float *sum, struct averages averages, const float *params,
		  size_t n, unsigned divisor, float lr)
{
	float share = 1.0f / (float)divisor, by;

	if (update_scales(u, divisor, lr, &share, &by)) {
		sparse_scale(sum, share, by, (uint32_t)n);
		return;
	}
	if (u->tensors) {
		apply_rules(u, sum, averages, params, n, share, lr);
		return;
	}
	for (size_t at = 0; at < n; at += PIECE)
		apply_piece(u, sum + at, averages_at(averages, at), params + at,
			    n - at < PIECE ? n - at : PIECE, share, step_of(u, lr), lr);
}
