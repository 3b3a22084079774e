/* SPDX-License-Identifier: BSD-3-Clause
 * Averages that lose a share in each step: momentum, variance, memories that decay. Where the
 * gradient stays zero, as for a dead unit or for a row of an embedding that no sample names, they
 * would shrink to denormal numbers and stay there: 0.9 times the least of them rounds to itself.
 * Processors can take twenty times as long for these. So an average becomes zero when it is too
 * small to matter, on the CPU and on the GPU. NaN and infinity stay. */
#ifndef BASE_SHRINK_H
#define BASE_SHRINK_H
#include "base/both.h"
#include <float.h>
#include <math.h>

/* Above the least normal number, so that products with learning rates are normal numbers too. */
#define AVERAGE_LEAST 0x1p-100f

HOST_AND_DEVICE static inline float shrunk(float average)
{
	return fabsf(average) < AVERAGE_LEAST ? 0.0f : average;
}

/* The mean of squares. Its root stands next to epsilon, so it may be as small as a normal number
 * can be. */
HOST_AND_DEVICE static inline float shrunk_square(float variance)
{
	return variance < FLT_MIN ? 0.0f : variance;
}
#endif
