/* SPDX-License-Identifier: BSD-3-Clause
 * How much compression takes away: |a - C(a)|^2 / |a|^2 of what a worker pushes, or a shard publishes.
 * Passes over the vectors, so only when asked for (sluice_measure). Called by step.c, worker.c, shard.c. */
#ifndef RUNTIME_MEASURE_H
#define RUNTIME_MEASURE_H
#include "sluice.h"

struct shard;

/* Squared norms of a step under way, or of the last one. */
struct loss {
	double all, lost;
};

struct measure {
	int on;
	int under_way;   /* worker: the push of this step is measured */
	float *before;   /* worker: a copy where what is sent does not leave; else NULL */
	struct loss up;
};

static inline double loss_share(struct loss l)
{
	return l.all > 0 ? l.lost / l.all : 0;
}

/* Worker: the accumulator of this step is complete, nothing is selected yet. */
void measure_push(sluice_model *model);
/* Worker: worker.value[0..n) are the decoded values of index[] (shard-relative; NULL: all). */
void measure_sent(sluice_model *model, uint64_t begin, const uint32_t *index, uint32_t n);
/* Worker: the step is over. */
void measure_step(sluice_model *model);
/* Shard: of x, model->value[0..n) is published at index[] (NULL: everywhere). */
void measure_published(sluice_model *model, struct shard *shard, const float *x, const uint32_t *index,
		       uint32_t n);
#endif
