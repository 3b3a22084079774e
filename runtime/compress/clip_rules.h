/* SPDX-License-Identifier: BSD-3-Clause
 * Clipping by the 2-norm, as the CPU (runtime/worker/signal.c) and the GPU (gpu/fold.cu) compute
 * it; the sum of squares is of moments.h, whose order both follow. Pure, inline. */
#ifndef COMPRESS_CLIP_RULES_H
#define COMPRESS_CLIP_RULES_H
#include "base/both.h"
#include <math.h>

/* By which a vector whose squares sum up to `squares` is multiplied so that its norm is at most
 * `most`. */
HOST_AND_DEVICE static inline float clip_factor(double squares, float most)
{
	const double norm = sqrt(squares);

	return norm > (double)most ? (float)((double)most / norm) : 1.0f;
}
#endif
