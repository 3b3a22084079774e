/* SPDX-License-Identifier: BSD-3-Clause
 * The loss of compression: |a - C(a)|^2 / |a|^2, for the vector that a worker pushes or a shard
 * publishes. Measuring takes passes over the vectors, so it is done only on request
 * (SLUICE_MEASURE). Called by worker_measure.c and shard.c. */
#ifndef RUNTIME_MEASURE_H
#define RUNTIME_MEASURE_H
#include "sluice.h"
#include <math.h>

/* Squared norms for the step under way, or for the last step. */
struct loss {
	double all, lost;
};

struct measure {
	int on;
	int under_way; /* worker: the push of this step is measured */
	float *before; /* worker: if sent values stay in the vector, a copy of it from before
			  selection; otherwise NULL */
	struct loss up;
};

/* Returns NaN if nothing was measured, or if there was nothing to lose. */
static inline double loss_share(struct loss l)
{
	return l.all > 0 ? l.lost / l.all : NAN;
}

/* SLUICE_MEASURE of sluice_set(). */
int measure_switch(sluice_model *model, int on);

double loss_squares(const float *x, uint64_t n);
/* Returns the decrease of the squared error if decoded[0..n) is sent for the coordinates
 * index[] of x (NULL: all). */
double loss_spared(const float *x, const uint32_t *index, const float *decoded, uint32_t n);
#endif
