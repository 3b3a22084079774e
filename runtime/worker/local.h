/* SPDX-License-Identifier: BSD-3-Clause
 * when=every(P) at the worker: it trains on a model of its own for P steps, by plain SGD, and the
 * workers exchange what these steps did. local.c owns the common model and the sum of the period's
 * steps, which are kept apart, so that after an exchange all replicas have the same bits. */
#ifndef RUNTIME_LOCAL_H
#define RUNTIME_LOCAL_H
#include "model/model.h"

struct local; /* worker.local is NULL unless the recipe has a period and no average */

/* 0 or SLUICE_ENOMEM. Without a memory the steps are summed up in the residual itself. */
int local_open(const sluice_model *model, struct local **out);
void local_close(struct local **local);

/* 1 if the step that begins is this worker's own, without an exchange. */
int local_step(const sluice_model *model);
/* All workers hold params. */
void local_begin(sluice_model *model, const float *params);
/* Where the gradients of the period are summed up. */
float *local_sum(const struct local *local);
/* The common model, into which a pull adds. */
float *local_base(const struct local *local);
/* Before an exchange is sent, the steps of the period enter the residual. After it, a new period
 * begins. */
void local_gather(sluice_model *model);
void local_restart(sluice_model *model);
/* The end of a step that was this worker's own. */
void local_pull(sluice_model *model, float *params);
#endif
