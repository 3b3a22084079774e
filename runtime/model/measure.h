/* SPDX-License-Identifier: BSD-3-Clause
 * The loss of compression: |a - C(a)|^2 / |a|^2, for the vector that a worker pushes or a shard
 * publishes. Measuring takes passes over the vectors, so the loss is measured only on request
 * (SLUICE_MEASURE). Called by worker_measure.c and shard.c. */
#ifndef RUNTIME_MEASURE_H
#define RUNTIME_MEASURE_H
#include "sluice.h"
#include <math.h>

/* Squared norms of the step under way, or of the last step. */
struct loss {
	double all, lost;
};

struct measure {
	int on;
	int under_way; /* in a worker: 1 if the push of this step is measured */
	float *before; /* in a worker: a copy of the vector, made before the selection; NULL if
			  sent values leave the vector, so no copy is needed */
	struct loss up;
};

/* Returns NaN if nothing was measured, or if the vector was zero. */
static inline double loss_share(struct loss l)
{
	return l.all > 0 ? l.lost / l.all : NAN;
}

/* Implements SLUICE_MEASURE of sluice_set(). */
int measure_switch(sluice_model *model, int on);

double loss_squares(const float *x, uint64_t n);
/* Returns how much the squared error decreases if decoded[0..n) is sent for the coordinates index[]
 * of x. NULL means all. */
double loss_spared(const float *x, const uint32_t *index, const float *decoded, uint32_t n);
#endif
