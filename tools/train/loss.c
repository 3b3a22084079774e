/* SPDX-License-Identifier: BSD-3-Clause
 * The three losses with their derivatives. Called by layers.c for each block of rows. */
#include "tools/train/network.h"

#include <math.h>

/* Softmax and cross-entropy; label: class number. */
static void cross_entropy(float *z, const float *label, size_t n, size_t width, float scale,
			  struct score *score)
{
	for (size_t i = 0; i < n; i++, z += width) {
		size_t wanted = (size_t)label[i], best = 0;
		float largest, logit = z[wanted], sum = 0;

		for (size_t c = 1; c < width; c++)
			best = z[c] > z[best] ? c : best;
		largest = z[best];
		for (size_t c = 0; c < width; c++) {
			z[c] = expf(z[c] - largest);
			sum += z[c];
		}
		score->loss += logf(sum) + largest - logit;
		score->correct += best == wanted;
		for (size_t c = 0; c < width; c++)
			z[c] = scale * (z[c] / sum - (c == wanted));
	}
}

/* Sigmoid and log-loss; label: 0 or 1. */
static void logistic(float *z, const float *label, size_t n, float scale, struct score *score)
{
	for (size_t i = 0; i < n; i++) {
		float margin = label[i] > 0 ? z[i] : -z[i];
		float small = expf(-fabsf(z[i])); /* never overflows */
		float sigmoid = z[i] >= 0 ? 1 / (1 + small) : small / (1 + small);

		score->loss += log1pf(small) + (margin < 0 ? -margin : 0);
		score->correct += (z[i] > 0) == (label[i] > 0);
		z[i] = scale * (sigmoid - label[i]);
	}
}

/* Squared error; label: target. */
static void squared(float *z, const float *label, size_t n, float scale, struct score *score)
{
	for (size_t i = 0; i < n; i++) {
		float error = z[i] - label[i];

		score->loss += (double)error * error;
		score->correct += fabsf(error) < 0.5f;
		z[i] = scale * 2 * error;
	}
}

void loss_apply(enum loss_kind kind, float *z, const float *label, size_t n, size_t width,
		float scale, struct score *score)
{
	switch (kind) {
	case LOSS_CROSS_ENTROPY: cross_entropy(z, label, n, width, scale, score); break;
	case LOSS_LOGISTIC: logistic(z, label, n, scale, score); break;
	case LOSS_SQUARED: squared(z, label, n, scale, score); break;
	}
	score->rows += (double)n;
}
