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
static const struct averages none;

/* Computes one coordinate in double and updates *velocity. `size` receives the sum of the
 * magnitudes of all terms, to which rounding errors are proportional. */
static double oracle(const struct update *u, double sum, double *velocity, double *velocity_size,
		     double *variance, double param, unsigned divisor, double lr, double *size)
{
	double step = u->placement == STEP_INSIDE ? 1 : lr;
	double decay = (double)u->decay * (u->placement == STEP_INSIDE ? lr : 1);
	const int apart = u->kind == UPDATE_ADAMW;
	const double b1 = (double)u->adam.beta1, b2 = (double)u->adam.beta2, left = lr * decay;
	double m = (double)u->momentum, g = sum / divisor + (apart ? 0 : decay * param), root;
	*size = fabs(sum / divisor) + (apart ? 0 : fabs(decay * param));
	switch (u->kind) {
	case UPDATE_NONE:
	case UPDATE_AVERAGE: return g;
	case UPDATE_SGD:
	case UPDATE_ACCELERATED: *size *= step; return -step * g;
	case UPDATE_SIGN: *size = 0; return -lr * ((g > 0) - (g < 0));
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
	case UPDATE_ADAM:
	case UPDATE_ADAMW:
		*velocity = b1 * *velocity + (1 - b1) * g;
		*velocity_size = b1 * *velocity_size + (1 - b1) * *size;
		if (!u->frozen)
			*variance = b2 * *variance + (1 - b2) * g * g;
		else if (!(*variance > 0))
			*variance = g * g / ((double)u->unbias2 * (double)u->unbias2);
		root = sqrt(*variance) * (double)u->unbias2 + (double)u->adam.epsilon;
		*size = lr * (double)u->unbias1 * *velocity_size / root + fabs(left * param);
		return -lr * (double)u->unbias1 * *velocity / root - (apart ? left * param : 0);
	}
	return NAN;
}

static void compare_with_oracle(const struct update *u, unsigned divisor, float lr)
{
	static float sum[N], velocity[N], variance[N], params[N];
	static double exact_velocity[N], velocity_size[N], exact_variance[N];
	struct random random = { divisor + 17 };
	memset(velocity, 0, sizeof velocity);
	memset(exact_velocity, 0, sizeof exact_velocity);
	memset(velocity_size, 0, sizeof velocity_size);
	memset(variance, 0, sizeof(variance));
	memset(exact_variance, 0, sizeof(exact_variance));
	for (int step = 0; step < STEPS; step++) {
		const struct update now = update_of_step(u, (uint64_t)step + 1, 0);
		const int adam = u->kind == UPDATE_ADAM || u->kind == UPDATE_ADAMW;
		const struct averages kept = { u->kind >= UPDATE_MOMENTUM &&
							       (!adam || u->adam.beta1 > 0) ?
						       velocity :
						       NULL,
					       adam ? variance : NULL };
		double before[N];
		for (int i = 0; i < N; i++) {
			params[i] = random_normal(&random);
			sum[i] = random_normal(&random) *
				 ldexpf(1, (int)(random_bits(&random) % 40) - 20);
			before[i] = (double)sum[i];
		}
		update_apply(adam ? &now : u, sum, kept, params, N, divisor, lr);
		for (int i = 0; i < N; i++) {
			double size, want = oracle(adam ? &now : u, before[i], &exact_velocity[i],
						   &velocity_size[i], &exact_variance[i],
						   (double)params[i], divisor, (double)lr, &size);
			/* a handful of roundings, each half an ulp of a partial result <= size;
			 * Adam divides two such results */
			assert_true(fabs((double)sum[i] - want) <=
				    (adam ? 16 : 8) * (double)FLT_EPSILON / 2 * size);
		}
	}
}

TEST(apply__each_rule_and_placement__is_the_double_precision_rule)
{
	static const enum update_kind kinds[] = { UPDATE_NONE,     UPDATE_SGD, UPDATE_MOMENTUM,
						  UPDATE_NESTEROV, UPDATE_EMA, UPDATE_SIGN };
	static const float decays[] = { 0, 0.01f };
	static const unsigned divisors[] = { 1, 2, 3, 7, 64 };
	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
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

static struct adam_words adam_of(struct adam_words words, uint64_t freeze)
{
	words.freeze = freeze;
	return words;
}

/* Decay apart from the gradient, a variance that stands still, and no momentum at all. */
TEST(apply__adam__is_the_double_precision_rule)
{
	static const struct adam_words words[] = { { 0.9f, 0.999f, 1e-8f, 0, 0 },
						   { 0.2f, 0.99f, 1e-4f, 0, 0 },
						   { 0, 0.95f, 1e-8f, 0, 0 },
						   { 0.5f, 0.5f, 1e-6f, 0, 0 } };

	for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++)
		for (unsigned bits = 0; bits < 8; bits++)
			for (unsigned divisor = 1; divisor < 8; divisor += 3)
				compare_with_oracle(
					&(struct update){
						.kind = bits & 1 ? UPDATE_ADAMW : UPDATE_ADAM,
						.adam = adam_of(words[w], bits & 4 ? 3 : 0),
						.decay = bits & 2 ? 0.01f : 0,
						.placement = STEP_OUTSIDE },
					divisor, 0.05f);
}

/* The factors are those of Adam's paper; far out they are 1. */
TEST(update_of_step__adam__corrects_the_bias_of_the_averages)
{
	const struct update u = { .kind = UPDATE_ADAM, .adam = { 0.5f, 0.75f, 1e-8f, 0, 0 } },
			    frozen = { .kind = UPDATE_ADAM, .adam = { 0.5f, 0.75f, 1e-8f, 0, 2 } };
	const struct update first = update_of_step(&u, 1, 0), third = update_of_step(&u, 3, 0),
			    late = update_of_step(&u, UINT64_MAX, 0);

	assert_true(first.unbias1 == 2 && first.unbias2 == 2 && !first.frozen);
	assert_true(third.unbias1 == (float)(1 / 0.875) && !third.frozen);
	assert_true(late.unbias1 == 1 && late.unbias2 == 1);
	assert_true(!update_of_step(&frozen, 2, 0).frozen && update_of_step(&frozen, 3, 0).frozen);
	assert_true(update_of_step(&frozen, 3, 0).unbias1 == third.unbias1 &&
		    update_of_step(&frozen, 9, 0).unbias2 == update_of_step(&u, 2, 0).unbias2);
}

/* Otherwise the step would be divided by epsilon alone. */
TEST(apply__adam_frozen_before_the_first_gradient__takes_its_square)
{
	const struct update u = { .kind = UPDATE_ADAM,
				  .adam = { 0, 0.75f, 1e-30f, 0, 1 },
				  .placement = STEP_OUTSIDE };
	const struct update dense = update_of_step(&u, 1, 0), sparse = update_of_step(&u, 2, 0);
	float sum[2] = { 4, 0 }, variance[2] = { 0 };
	const struct averages kept = { NULL, variance };

	update_apply(&dense, sum, kept, NULL, 2, 1, 0.5f);
	assert_true(sum[0] == -0.5f && variance[0] == 4 && variance[1] == 0);
	sum[0] = 2;
	sum[1] = 8;
	update_apply(&sparse, sum, kept, NULL, 2, 1, 0.5f);
	assert_true(sum[0] == -0.25f && variance[0] == 4 && sum[1] == -0.5f && variance[1] == 16);
	sum[0] = sum[1] = 2;
	update_apply(&sparse, sum, kept, NULL, 2, 1, 0.5f);
	assert_true(sum[1] == -0.125f && variance[1] == 16);
}

/* Otherwise the coordinate would divide by infinity in all later steps. */
TEST(apply__adam_whose_square_overflows__is_an_infinite_change)
{
	const struct update u = { .kind = UPDATE_ADAM,
				  .adam = { 0.9f, 0.99f, 1e-8f, 0, 0 },
				  .placement = STEP_OUTSIDE };
	const struct update now = update_of_step(&u, 1, 0);
	float sum[3] = { 1, 1e30f, 0 }, velocity[3] = { 0 }, variance[3] = { 0 };

	update_apply(&now, sum, (struct averages){ velocity, variance }, NULL, 3, 1, 0.5f);
	assert_true(fabsf(sum[0] + 0.5f) < 1e-6f && isinf(sum[1]) && sum[2] == 0);
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
		update_apply(&u, sum, none, NULL, N, 1, lr);
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
		update_apply(&u, sum, none, NULL, N, divisor, 0.1f);
		for (int i = 0; i < N; i++)
			assert_true(sum[i] == (float)(3 * i - 100) / (float)divisor);
	}
}

TEST(apply__placement_inside__leaves_lr_out_of_the_gradient_but_not_of_the_decay)
{
	const struct update u = { .kind = UPDATE_SGD, .decay = 0.5f, .placement = STEP_INSIDE };
	float sum[2] = { 8, 0 }, params[2] = { 0, 4 };
	update_apply(&u, sum, none, params, 2, 1, 0.25f);
	assert_true(sum[0] == -8 && sum[1] == -0.5f * 0.25f * 4);
}

TEST(apply__momentum_zero_gradient__keeps_moving_and_nothing_else_does)
{
	const struct update u = { .kind = UPDATE_MOMENTUM,
				  .momentum = 0.5f,
				  .placement = STEP_OUTSIDE };
	float sum[2] = { 4, 0 }, velocity[2] = { 0, 0 };
	update_apply(&u, sum, (struct averages){ velocity, NULL }, NULL, 2, 2, 1);
	assert_true(sum[0] == -2 && velocity[0] == 2 && sum[1] == 0);
	sum[0] = sum[1] = 0;
	update_apply(&u, sum, (struct averages){ velocity, NULL }, NULL, 2, 2, 1);
	assert_true(sum[0] == -1 && velocity[0] == 1 && sum[1] == 0 && velocity[1] == 0);
}

TEST(apply__no_elements__touches_nothing)
{
	const struct update u = { .kind = UPDATE_NESTEROV, .momentum = 0.9f, .decay = 1 };
	update_apply(&u, NULL, none, NULL, 0, 4, 1);
}

TEST(apply__sign_of_a_sum_that_overflowed__is_not_finite)
{
	const struct update u = { .kind = UPDATE_SIGN, .placement = STEP_OUTSIDE };
	const float params[4] = { 0 };
	float sum[4] = { INFINITY, NAN, -3, 0 };

	update_apply(&u, sum, (struct averages){ 0 }, params, 4, 2, 0.5f);
	assert_false(isfinite(sum[0]) || isfinite(sum[1]));
	assert_true(sum[2] == 0.5f && sum[3] == 0);
}
