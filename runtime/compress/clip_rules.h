/* SPDX-License-Identifier: BSD-3-Clause
 * Clipping by the 2-norm, as the CPU (runtime/worker/signal.c) and the GPU (gpu/fold.cu) compute
 * it. The sum of squares comes from moments.h, and both use its order. Pure, inline. */
#ifndef COMPRESS_CLIP_RULES_H
#define COMPRESS_CLIP_RULES_H
#include "base/both.h"
#include <math.h>

/* Returns the factor that limits a vector's norm to `most`. `squares` is the sum of its squares. */
HOST_AND_DEVICE static inline float clip_factor(double squares, float most)
{
	const double norm = sqrt(squares);

	return norm > (double)most ? (float)((double)most / norm) : 1.0f;
}
#endif
