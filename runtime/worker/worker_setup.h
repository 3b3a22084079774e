/* SPDX-License-Identifier: BSD-3-Clause
 * Opens, restarts and closes the worker half of a model. */
#ifndef RUNTIME_WORKER_SETUP_H
#define RUNTIME_WORKER_SETUP_H
#include "model/model.h"

int worker_open(sluice_model *model);
void worker_close(sluice_model *model);
/* Bytes that worker_open() takes. */
uint64_t worker_memory(const struct layout *l, const struct recipe *recipe);
/* All shards are at `version` and all rings empty: after open and restore. */
void worker_restart(sluice_model *model, uint64_t version);
/* All workers begin with params. */
void worker_begin(sluice_model *model, const float *params);
#endif
