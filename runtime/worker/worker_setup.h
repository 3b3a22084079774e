/* SPDX-License-Identifier: BSD-3-Clause
 * Opens, restarts and closes the worker half of a model. */
#ifndef RUNTIME_WORKER_SETUP_H
#define RUNTIME_WORKER_SETUP_H
#include "model/model.h"

/* Stores the parts of the job and the model that the worker uses. */
void worker_stand_on(struct worker *w, sluice_model *model);
/* worker_make() allocates the worker. Every rank has one, although a server does not use it. stream
 * is the application's stream. worker_open() opens a worker. Both fail with SLUICE_ENOMEM or the
 * error of a vector. */
int worker_make(sluice_model *model, void *stream);
int worker_open(sluice_model *model);
/* Decides which methods take part in the model's steps. Called when the model is opened, and when
 * measuring begins or ends. */
void worker_list_methods(struct worker *w);
/* Called after on_device_close(). */
void worker_close(struct worker *w);
/* Returns how many bytes worker_open() allocates. */
uint64_t worker_memory(const struct layout *l, const struct recipe *recipe);
/* Called after open and restore, when all shards are at the version that they have after this
 * number of steps, and all rings are empty. */
void worker_restart(struct worker *w, uint64_t steps);
/* Called when all workers begin with these parameters. */
void worker_begin(struct worker *w, const float *params);
#endif
