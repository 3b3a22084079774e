/* SPDX-License-Identifier: BSD-3-Clause
 * The threads that share a rank's passes over long vectors. They start when the first model needs
 * them, on the processors of the thread that opens it, and sleep between steps. All models of a job
 * and of its groups share them. */
#ifndef RUNTIME_THREADS_H
#define RUNTIME_THREADS_H
#include "sluice.h"
#include <stddef.h>

struct team;
struct threads {
	struct team *team; /* NULL: not started, or the calling thread works alone */
	int tried;         /* 1: starting it was tried, or it is not wanted */
};

/* Returns the team of the job, or NULL if one thread works. memory: bytes for each of its workers;
 * all callers pass the same number. If the team cannot be started, logs a warning. Called when a
 * model is opened. */
struct team *threads_team(sluice_job *job, size_t memory);
/* Ends the threads. Called when no model of the job is open any more. */
void threads_end(sluice_job *job);

/* Returns how many threads a rank should use that may run on `allowed` of the `online` processors
 * of its machine, where `ranks` ranks of the job run. */
unsigned threads_of_rank(unsigned allowed, unsigned online, unsigned ranks);
#endif
