/* SPDX-License-Identifier: BSD-3-Clause
 * The optimizers of workers that train by themselves, against the formulas of torch.optim in double
 * precision. */
#include "tools/train/inner.h"
#include "cases.h"

#include <float.h>
#include <math.h>

enum { N = 5, STEPS = 40 };

static float gradient_of(int step, int i)
{
	return sinf((float)(3 * step + i)) * powf(10, (float)(i - 2));
}

TEST(inner_step__adamw__is_the_rule_of_torch)
{
	const double beta1 = 0.9, beta2 = 0.999, lr = 0.01, decay = 0.01;
	float params[N], grad[N];
	double want[N], first[N] = { 0 }, second[N] = { 0 };
	struct compute compute = { .ops = &compute_cpu };
	struct inner inner;

	assert_int_equal(inner_open(&inner, INNER_ADAMW, N, INNER_BETA1, INNER_BETA2), 0);
	for (int i = 0; i < N; i++)
		want[i] = (double)(params[i] = (float)(i - 2));
	for (int step = 1; step <= STEPS; step++) {
		for (int i = 0; i < N; i++) {
			const double g = (double)(grad[i] = gradient_of(step, i));

			first[i] = beta1 * first[i] + (1 - beta1) * g;
			second[i] = beta2 * second[i] + (1 - beta2) * g * g;
			want[i] -= lr * decay * want[i];
			want[i] -= lr * first[i] / (1 - pow(beta1, step)) /
				   (sqrt(second[i] / (1 - pow(beta2, step))) + 1e-8);
		}
		assert_int_equal(inner_step(&inner, &compute, params, grad, (float)lr), 0);
		for (int i = 0; i < N; i++) /* a step is at most about lr */
			assert_true(fabs((double)params[i] - want[i]) <=
				    step * (lr * 1e-4 + (double)FLT_EPSILON * fabs(want[i])));
	}
	inner_close(&inner);
	assert_null(inner.first);
}

TEST(inner_step__sgd__moves_against_the_gradient)
{
	float params[2] = { 1, -2 };
	const float grad[2] = { 4, 0.5f };
	struct compute compute = { .ops = &compute_cpu };
	struct inner inner;

	assert_int_equal(inner_open(&inner, INNER_SGD, 2, 0, 0), 0);
	assert_int_equal(inner_step(&inner, &compute, params, grad, 0.25f), 0);
	assert_true(params[0] == 0 && params[1] == -2.125f);
	inner_close(&inner);
}
