/* SPDX-License-Identifier: BSD-3-Clause
 * Writes what SLUICE_METRICS, SLUICE_METRICS_PORT and SLUICE_TRACE ask for. A thread of its rank
 * does this, which takes no lock of the job and calls no transport, so a slow file system delays
 * the files, sluice_finalize() and exit(), but no step. A failure to write is a warning: the job
 * continues. reporter.c owns struct reporter. */
#ifndef RUNTIME_REPORTER_H
#define RUNTIME_REPORTER_H
#include "metrics/trace.h"
#include "sluice.h"

/* Called when the ranks are connected. Does nothing in a simulated rank or without a setting. */
void reporter_open(sluice_job *job);
/* Returns the ring of the job or of the job to which this group belongs, or NULL. */
struct trace *reporter_trace(const sluice_job *job);
/* Writes this rank's trace now. */
void reporter_flush(sluice_job *job);
/* On rank 0, joins the traces of all ranks when all have written theirs. */
void reporter_join_traces(sluice_job *job);
/* Ends the thread, and removes the file of metrics. The trace stays valid. */
void reporter_stop(sluice_job *job);
/* Writes the trace unless reporter_flush() has done so, and frees everything. */
void reporter_close(sluice_job *job);
#endif
