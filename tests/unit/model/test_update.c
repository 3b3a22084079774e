/* SPDX-License-Identifier: BSD-3-Clause
 * Update rules against the same rules in double precision, over several steps. */
#include "model/update.h"
#include "base/bytes.h"
#include "random.h"
#include "cases.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 257, STEPS = 8 };

/* Computes one coordinate in double and updates *velocity. `size` receives the sum of the
 * magnitudes of all terms, to which rounding errors are proportional. */
static double oracle(const struct update *u, double sum, double *velocity, double *velocity_size,
		     double param, unsigned divisor, double lr, double *size)
{
	double step = u->placement == STEP_INSIDE ? 1 : lr;
	double decay = (double)u->decay * (u->placement == STEP_INSIDE ? lr : 1);
	double m = (double)u->momentum, g = sum / divisor + decay * param;
	*size = fabs(sum / divisor) + fabs(decay * param);
	switch (u->kind) {
	case UPDATE_NONE:
	case UPDATE_AVERAGE: return g;
	case UPDATE_SGD:
	case UPDATE_ACCELERATED: *size *= step; return -step * g;
	case UPDATE_MOMENTUM:
		*velocity = m * *velocity + g;
		*velocity_size = m * *velocity_size + *size;
		*size = step * *velocity_size;
		return -step * *velocity;
	case UPDATE_NESTEROV:
		*velocity = m * *velocity + g;
		*velocity_size = m * *velocity_size + *size;
		*size = step * (*size + m * *velocity_size);
		return -step * (g + m * *velocity);
	case UPDATE_EMA:
		*velocity = (1 - (double)u->alpha) * *velocity + (double)u->alpha * g;
		*velocity_size = (1 - (double)u->alpha) * *velocity_size + (double)u->alpha * *size;
		*size = step * *velocity_size;
		return -step * *velocity;
	}
	return NAN;
}

static void compare_with_oracle(const struct update *u, unsigned divisor, float lr)
{
	static float sum[N], velocity[N], params[N];
	static double exact_velocity[N], velocity_size[N];
	struct random random = { divisor + 17 };
	memset(velocity, 0, sizeof velocity);
	memset(exact_velocity, 0, sizeof exact_velocity);
	memset(velocity_size, 0, sizeof velocity_size);
	for (int step = 0; step < STEPS; step++) {
		double before[N];
		for (int i = 0; i < N; i++) {
			params[i] = random_normal(&random);
			sum[i] = random_normal(&random) *
				 ldexpf(1, (int)(random_bits(&random) % 40) - 20);
			before[i] = (double)sum[i];
		}
		update_apply(u, sum, u->kind >= UPDATE_MOMENTUM ? velocity : NULL, params, N,
			     divisor, lr);
		for (int i = 0; i < N; i++) {
			double size,
				want = oracle(u, before[i], &exact_velocity[i], &velocity_size[i],
					      (double)params[i], divisor, (double)lr, &size);
			/* a handful of roundings, each half an ulp of a partial result <= size */
			assert_true(fabs((double)sum[i] - want) <=
				    8 * (double)FLT_EPSILON / 2 * size);
		}
	}
}

TEST(apply__each_rule_and_placement__is_the_double_precision_rule)
{
	static const enum update_kind kinds[] = { UPDATE_NONE, UPDATE_SGD, UPDATE_MOMENTUM,
						  UPDATE_NESTEROV, UPDATE_EMA };
	static const float decays[] = { 0, 0.01f };
	static const unsigned divisors[] = { 1, 2, 3, 7, 64 };
	for (size_t k = 0; k < 5; k++)
		for (size_t d = 0; d < 2; d++)
			for (size_t w = 0; w < 5; w++)
				for (int inside = 0; inside < 2; inside++)
					compare_with_oracle(
						&(struct update){
							.kind = kinds[k],
							.momentum = 0.9f,
							.alpha = 0.1f,
							.decay = decays[d],
							.placement = inside ? STEP_INSIDE :
									      STEP_OUTSIDE },
						divisors[w], 0.05f);
}

TEST(update_of_step__ema__weighs_the_first_step_whole_then_alpha)
{
	const struct update constant = { .kind = UPDATE_EMA, .alpha = 0.25f },
			    falling = { .kind = UPDATE_EMA };
	const struct update other = { .kind = UPDATE_MOMENTUM, .momentum = 0.5f };

	assert_true(update_of_step(&constant, 1, 0).alpha == 1 &&
		    update_of_step(&constant, 2, 0).alpha == 0.25f);
	assert_true(update_of_step(&falling, 1, 0).alpha == 1 &&
		    update_of_step(&falling, 8, 0).alpha == 0.125f);
	assert_true(update_alpha(&constant, 0) == 1 && update_alpha(&constant, UINT64_MAX) == 1);
	assert_true(update_alpha(&other, 9) == 1);
}

TEST(apply__sgd_one_worker_lr_power_of_two__is_exact_to_the_bit)
{
	const struct update u = { .kind = UPDATE_SGD, .placement = STEP_OUTSIDE };
	struct random random = { 5 };
	for (int e = -12; e <= 3; e++) {
		float sum[N], want[N], lr = ldexpf(1, e);
		for (int i = 0; i < N; i++) {
			sum[i] = random_normal(&random);
			want[i] = -(sum[i] * lr);
		}
		update_apply(&u, sum, NULL, NULL, N, 1, lr);
		for (int i = 0; i < N; i++)
			assert_int_equal(float_bits(sum[i]), float_bits(want[i]));
	}
}

TEST(apply__none_two_or_four_workers__is_the_exact_mean)
{
	const struct update u = { .kind = UPDATE_NONE, .placement = STEP_OUTSIDE };
	for (unsigned divisor = 1; divisor <= 4; divisor *= 2) {
		float sum[N];
		for (int i = 0; i < N; i++)
			sum[i] = (float)(3 * i - 100);
		update_apply(&u, sum, NULL, NULL, N, divisor, 0.1f);
		for (int i = 0; i < N; i++)
			assert_true(sum[i] == (float)(3 * i - 100) / (float)divisor);
	}
}

TEST(apply__placement_inside__leaves_lr_out_of_the_gradient_but_not_of_the_decay)
{
	const struct update u = { .kind = UPDATE_SGD, .decay = 0.5f, .placement = STEP_INSIDE };
	float sum[2] = { 8, 0 }, params[2] = { 0, 4 };
	update_apply(&u, sum, NULL, params, 2, 1, 0.25f);
	assert_true(sum[0] == -8 && sum[1] == -0.5f * 0.25f * 4);
}

TEST(apply__momentum_zero_gradient__keeps_moving_and_nothing_else_does)
{
	const struct update u = { .kind = UPDATE_MOMENTUM,
				  .momentum = 0.5f,
				  .placement = STEP_OUTSIDE };
	float sum[2] = { 4, 0 }, velocity[2] = { 0, 0 };
	update_apply(&u, sum, velocity, NULL, 2, 2, 1);
	assert_true(sum[0] == -2 && velocity[0] == 2 && sum[1] == 0);
	sum[0] = sum[1] = 0;
	update_apply(&u, sum, velocity, NULL, 2, 2, 1);
	assert_true(sum[0] == -1 && velocity[0] == 1 && sum[1] == 0 && velocity[1] == 0);
}

TEST(apply__no_elements__touches_nothing)
{
	const struct update u = { .kind = UPDATE_NESTEROV, .momentum = 0.9f, .decay = 1 };
	update_apply(&u, NULL, NULL, NULL, 0, 4, 1);
}
