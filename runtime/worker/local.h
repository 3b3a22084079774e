/* SPDX-License-Identifier: BSD-3-Clause
 * when=every(P) at the worker. The worker trains its own copy of the model for P steps, by plain
 * SGD, and the workers then exchange the sum of these steps. local.c owns the common model and that
 * sum. They are kept apart, so that after an exchange all replicas have the same bits. */
#ifndef RUNTIME_LOCAL_H
#define RUNTIME_LOCAL_H
#include "model/vector.h"
#include "worker/hooks.h"

struct local; /* worker.local is NULL unless the recipe has a period and no average */

/* Returns the sum of the period's gradients. With memory=none it is the residual itself. */
float *local_sum(const struct local *local);
/* Returns the common model, to which a pull adds. */
float *local_base(const struct local *local);
/* Returns 1 if the parameters have the same bits on all workers. */
int local_in_sync(const struct worker *w);
/* Ends a step without an exchange: params become the common model minus the sum of the period.
 * SLUICE_ENUMERIC: a parameter is beyond the range of floats, and the job has ended. */
int local_pull(struct worker *w, const struct vector *params);

extern const struct step_hooks local_hooks;
#endif
