/* SPDX-License-Identifier: BSD-3-Clause
 * The three losses of a row with their derivatives, written once for the CPU (compute_cpu.c) and
 * for GPUs (cuda_layers.cu). */
#ifndef TRAIN_LOSS_H
#define TRAIN_LOSS_H
#include "base/both.h"

#include <math.h>
#include <stddef.h>

enum loss_kind { LOSS_CROSS_ENTROPY, LOSS_LOGISTIC, LOSS_SQUARED };

/* The contribution of one row to the sums. correct is 0 or 1. */
struct row_score {
	double loss, correct;
};

/* Softmax and cross-entropy. label is a class number. */
HOST_AND_DEVICE static inline struct row_score loss_cross_entropy(float *z, float label,
								  size_t width, float scale)
{
	struct row_score score;
	size_t wanted = (size_t)label, best = 0;
	float largest, logit = z[wanted], sum = 0;

	for (size_t c = 1; c < width; c++)
		best = z[c] > z[best] ? c : best;
	largest = z[best];
	for (size_t c = 0; c < width; c++) {
		z[c] = expf(z[c] - largest);
		sum += z[c];
	}
	score.loss = (double)(logf(sum) + largest - logit);
	score.correct = best == wanted;
	for (size_t c = 0; c < width; c++)
		z[c] = scale * (z[c] / sum - (float)(c == wanted));
	return score;
}

/* Sigmoid and log-loss. label is 0 or 1. */
HOST_AND_DEVICE static inline struct row_score loss_logistic(float *z, float label, float scale)
{
	struct row_score score;
	float margin = label > 0 ? *z : -*z;
	float small = expf(-fabsf(*z)); /* never overflows */
	float sigmoid = *z >= 0 ? 1 / (1 + small) : small / (1 + small);

	score.loss = (double)(log1pf(small) + (margin < 0 ? -margin : 0));
	score.correct = (*z > 0) == (label > 0);
	*z = scale * (sigmoid - label);
	return score;
}

/* Squared error. label is the target. */
HOST_AND_DEVICE static inline struct row_score loss_squared(float *z, float label, float scale)
{
	struct row_score score;
	float error = *z - label;

	score.loss = (double)error * (double)error;
	score.correct = fabsf(error) < 0.5f;
	*z = scale * 2 * error;
	return score;
}

/* z has `width` outputs of the last layer, which are replaced by scale * d loss / d z. */
HOST_AND_DEVICE static inline struct row_score loss_of_row(enum loss_kind kind, float *z,
							   float label, size_t width, float scale)
{
	switch (kind) {
	case LOSS_LOGISTIC: return loss_logistic(z, label, scale);
	case LOSS_SQUARED: return loss_squared(z, label, scale);
	case LOSS_CROSS_ENTROPY: break;
	}
	return loss_cross_entropy(z, label, width, scale);
}
#endif
