/* SPDX-License-Identifier: BSD-3-Clause
 * Clipping by the 2-norm, as the CPU (runtime/worker/signal.c) and the GPU (gpu/fold.cu) compute
 * it. The sum of squares comes from moments.h, and both use its order. Pure, inline. */
#ifndef COMPRESS_CLIP_RULES_H
#define COMPRESS_CLIP_RULES_H
#include "base/both.h"
#include <math.h>

/* The factor that makes the norm of a vector at most `most`, if its squares sum up to `squares`. */
HOST_AND_DEVICE static inline float clip_factor(double squares, float most)
{
	const double norm = sqrt(squares);

	return norm > (double)most ? (float)((double)most / norm) : 1.0f;
}
#endif
