/* SPDX-License-Identifier: BSD-3-Clause
 * Opens, restarts and closes the worker half of a model. */
#ifndef RUNTIME_WORKER_SETUP_H
#define RUNTIME_WORKER_SETUP_H
#include "model/model.h"

int worker_open(sluice_model *model);
/* Lists the methods that take part in the model's steps: when it is opened, and when measuring
 * begins or ends. */
void worker_list_methods(sluice_model *model);
void worker_close(sluice_model *model);
/* Bytes that worker_open() takes. */
uint64_t worker_memory(const struct layout *l, const struct recipe *recipe);
/* Called after open and restore, when all shards are at `version` and all rings are empty. */
void worker_restart(sluice_model *model, uint64_t version);
/* Called when all workers begin with these parameters. */
void worker_begin(sluice_model *model, const float *params);
#endif
