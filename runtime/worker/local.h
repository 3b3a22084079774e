/* SPDX-License-Identifier: BSD-3-Clause
 * when=every(P) and signal=drift at the worker. The worker trains its own copy of the model for P
 * steps, and the workers then exchange how far they moved. Without signal=drift the steps are of
 * plain SGD, and local.c owns their sum. With signal=drift the program makes the steps. Either way
 * local.c owns the common model, so that it has the same bits at all workers. */
#ifndef RUNTIME_LOCAL_H
#define RUNTIME_LOCAL_H
#include "model/vector.h"
#include "worker/hooks.h"

/* worker.local is NULL unless the recipe has signal=drift, or a period and no average. */
struct local;

/* Returns the sum of the period's gradients, which is the residual itself with memory=none; NULL:
 * there is none. */
float *local_sum(const struct local *local);
/* Returns the common model, to which a pull adds. */
float *local_base(const struct local *local);
/* Writes the parameters that the last exchange gave to this worker, from coordinate `at` on: the
 * common model less keep= times the residual, which does not change until the next exchange. */
void local_point(const struct local *local, uint64_t at, size_t n, float *point);
/* Returns 1 if this worker has a local model (signal=drift) and its next step is between exchanges,
 * so that the step is only counted. */
int local_idles(const struct worker *w);
/* Returns 1 if the parameters have the same bits on all workers. */
int local_in_sync(const struct worker *w);
/* Returns 1 if a checkpoint can be made now. */
int local_can_save(const struct worker *w);
/* Returns 1 if local_pull() reads params, or leaves some of them unchanged. */
int local_reads(const struct worker *w);
/* Sets params after a step to the common model minus the sum of the period. With signal=drift, sets
 * the coordinates of the exchange to local_point(), mixed with their old values by mix=.
 * SLUICE_ENUMERIC: a parameter is beyond the range of floats, and the job has ended. */
int local_pull(struct worker *w, const struct vector *params);

extern const struct step_hooks local_hooks;
#endif
