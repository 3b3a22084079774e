/* SPDX-License-Identifier: BSD-3-Clause
 * Measures the first steps of a job; see watch.c. */
#ifndef RUNTIME_WATCH_H
#define RUNTIME_WATCH_H
#include "model/model.h"

/* Called when a pull has ended. Measures the step. After the first few steps, makes a proposal or
 * logs a verdict. */
void watch_step(struct worker *w);
/* Returns 1 on the worker that logs and decides for all. */
int is_first_worker(const sluice_job *job);
/* Called when a delta has announced the candidate that all workers use. */
void watch_chosen(struct worker *w, unsigned chosen);
#endif
