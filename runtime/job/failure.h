/* SPDX-License-Identifier: BSD-3-Clause
 * The first failure of a job, and how a rank leaves: with a bye, or with a status from which the
 * peers learn which rank is to blame. failure.c owns struct failure; other files may read its code.
 * Most failures are recorded by job_fail() in peers.c. */
#ifndef RUNTIME_FAILURE_H
#define RUNTIME_FAILURE_H
#include "base/error.h"
#include "job/lines.h"

struct failure {
	int code;       /* 0: the job has not failed */
	int culprit;    /* the rank that caused the failure */
	int finalizing; /* 1 after sluice_finalize() was called; from then on peers may send
			   their bye */
	int due;        /* number of peers that still need this rank's status */
	int said_bye; /* 1 when all ranks have called sluice_finalize(), so no rank can be lost any
			 more */
	char text[ERROR_TEXT_BYTES];
};

/* Records the first failure of the job, logs it, and reports it to all peers. reporter: the peer
 * that reported the failure to this rank, or -1 if this rank detected it. Returns code, or the code
 * of an earlier failure. The token must be held. */
int failure_record(sluice_job *job, int code, int culprit, const char *text, int reporter);
/* Returns 0 or the code of the recorded failure, whose text becomes sluice_last_error(). Logs
 * nothing. */
int job_failed(sluice_job *job);
const char *failure_text(const sluice_job *job);
/* Reports this rank's failure, and the rank that caused it, to every peer that has not left. The
 * token must be held. */
void failure_announce(sluice_job *job, int culprit, const char *text);
/* In each poll: writes the status to the peers whose queue was full. */
void failure_post(sluice_job *job);
/* Called when the application ends the job. Returns 1 if the job has not failed. The token must be
 * held. */
int failure_finalize(sluice_job *job);
/* Reports to every peer that this rank is done, after all ranks have called sluice_finalize().
 * The token must be held. */
void failure_announce_end(sluice_job *job);
/* Returns 1 after failure_finalize() has succeeded. */
int failure_finalizing(const sluice_job *job);
/* Returns 1 after failure_announce_end(). */
int failure_said_bye(const sluice_job *job);
/* Returns for example "rank 3 (node n2)", in one of a few thread-local buffers that are reused in
 * turn. */
const char *rank_text(const sluice_job *job, int rank);
/* Returns SLUICE_EINVAL in a forked child, otherwise 0. */
int job_check(const sluice_job *job, const char *function);
#endif
