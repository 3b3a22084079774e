/* SPDX-License-Identifier: BSD-3-Clause
 * What each worker does during a step: the slices of a trace (metrics/trace.h), relative to the
 * barrier before the step. */
#ifndef BENCH_TIMELINE_H
#define BENCH_TIMELINE_H
#include "sluice.h"
#include <stdint.h>

struct timeline;
/* Records the model's slices from now on. Returns NULL if there is no memory. */
struct timeline *timeline_open(sluice_model *model);
/* Called before the model is closed. *timeline may be NULL. */
void timeline_close(struct timeline **timeline);
/* A step took from began_ns to ended_ns. All workers report the same steps. */
void timeline_step(struct timeline *timeline, uint64_t began_ns, uint64_t ended_ns);
/* Rank 0 prints the slices of all workers in one step: of the last steps, the one that took the
 * median time on rank 0. With json, it prints the member "timeline" of an object. Collective over
 * the workers. */
int timeline_print(struct timeline *timeline, sluice_job *job, int json);
#endif
