/* SPDX-License-Identifier: BSD-3-Clause
 * Writes the entry of a model in the job's page (job/page.h), and its steps into the trace. */
#ifndef RUNTIME_SHOWN_H
#define RUNTIME_SHOWN_H
#include "model/stopwatch.h"
#include "sluice.h"

/* Takes an entry of the page and writes what does not change in it. */
void shown_open(sluice_model *model);
void shown_close(sluice_model *model);
/* Writes the model's slices into this trace from now on, or into none if it is NULL, instead of
 * SLUICE_TRACE's. */
void shown_trace(sluice_model *model, struct trace *trace);
/* Called where a step ends, by the thread that works with the model. Threads that hold the job's
 * token also count, so this takes it, unless another thread holds it: the next step then shows
 * both. */
void shown_step(sluice_job *job, int entry, const sluice_model_stats *stats,
		struct stopwatch *watch);
/* Does the same where the token is held. version: of a server's first shard. */
void shown_held(sluice_job *job, int entry, const sluice_model_stats *stats,
		struct stopwatch *watch, uint64_t version);
#endif
