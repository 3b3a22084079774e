/* SPDX-License-Identifier: BSD-3-Clause
 * See inner.h. */
#include "tools/train/inner.h"
#include "base/shrink.h"

#include <math.h>
#include <stdlib.h>

int inner_open(struct inner *inner, enum inner_kind kind, size_t count, float beta1, float beta2)
{
	*inner = (struct inner){ .kind = kind, .beta1 = beta1, .beta2 = beta2, .count = count };
	if (kind == INNER_SGD)
		return 0;
	inner->first = calloc(count, sizeof(*inner->first));
	inner->second = calloc(count, sizeof(*inner->second));
	return inner->first && inner->second ? 0 : -1;
}

void inner_close(struct inner *inner)
{
	free(inner->first);
	free(inner->second);
	*inner = (struct inner){ 0 };
}

static void adamw(struct inner *inner, float *restrict params, const float *restrict grad, float lr)
{
	const float beta1 = inner->beta1, beta2 = inner->beta2, epsilon = 1e-8f, decay = 0.01f;
	float *restrict first = inner->first, *restrict second = inner->second;
	const double steps = (double)++inner->steps;
	const float step = (float)((double)lr / (1 - pow((double)beta1, steps)));
	const float unbias = (float)(1 / sqrt(1 - pow((double)beta2, steps)));

	for (size_t i = 0; i < inner->count; i++) {
		first[i] = shrunk(beta1 * first[i] + (1 - beta1) * grad[i]);
		second[i] = shrunk_square(beta2 * second[i] +
					  (1 - beta2) * grad[i] * grad[i]);
		params[i] -= lr * decay * params[i];
		params[i] -= step * first[i] / (sqrtf(second[i]) * unbias + epsilon);
	}
}

int inner_step(struct inner *inner, const struct compute *compute, float *params, const float *grad,
	       float lr)
{
	if (inner->kind == INNER_SGD)
		return compute->ops->descend(compute->state, params, grad, lr, inner->count);
	adamw(inner, params, grad, lr);
	return 0;
}
