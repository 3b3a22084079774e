/* SPDX-License-Identifier: BSD-3-Clause
 * Looks at the first steps of a job; see watch.c. */
#ifndef RUNTIME_WATCH_H
#define RUNTIME_WATCH_H
#include "model/model.h"

/* A pull has ended: its step is measured; after the first few there is a proposal, or a verdict. */
void watch_step(sluice_model *model);
/* Whether this is the worker that speaks for all. */
int is_first_worker(const sluice_job *job);
/* A delta said how to go on. */
void watch_chosen(sluice_model *model, unsigned chosen);
#endif
