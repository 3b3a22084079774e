/* SPDX-License-Identifier: BSD-3-Clause
 * Writes the entry of a model in the job's page (job/page.h), and its steps into the trace. */
#ifndef RUNTIME_SHOWN_H
#define RUNTIME_SHOWN_H
#include "model/stopwatch.h"
#include "sluice.h"

/* Reserves an entry of the page and writes its constant fields. */
void shown_open(sluice_model *model);
void shown_close(sluice_model *model);
/* Writes the model's slices into this trace from now on, instead of that of SLUICE_TRACE. NULL:
 * writes no slices. */
void shown_trace(sluice_model *model, struct trace *trace);
/* Called where a step ends, by the thread that works with the model. The page is written under the
 * job's token. If another thread holds the token, this does not wait, and the next step shows the
 * numbers of both steps. */
void shown_step(sluice_job *job, int entry, const sluice_model_stats *stats,
		struct stopwatch *watch);
/* Does the same for a caller that holds the token. version: that of a server's first shard. */
void shown_held(sluice_job *job, int entry, const sluice_model_stats *stats,
		struct stopwatch *watch, uint64_t version);
#endif
