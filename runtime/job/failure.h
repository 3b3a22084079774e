/* SPDX-License-Identifier: BSD-3-Clause
 * The first failure of a job, and how a rank leaves: with a bye, or with a status that tells the
 * peers who is to blame. failure.c owns struct failure; other files may read its code. job_fail()
 * in peers.c is what finds a failure, as a rule. */
#ifndef RUNTIME_FAILURE_H
#define RUNTIME_FAILURE_H
#include "base/error.h"
#include "job/lines.h"

struct failure {
	int code;       /* 0: none */
	int culprit;    /* a rank */
	int finalizing; /* sluice_finalize() was called: a peer's bye is now in order */
	int said_bye;   /* all were there: nobody can be lost any more */
	char text[ERROR_TEXT_BYTES];
};

/* Records the first failure of the job, logs it, and tells all peers. Returns code; or the code of
 * the failure that is recorded already. Token held. */
int failure_record(sluice_job *job, int code, int culprit, const char *text, int reporter);
/* Returns the recorded failure to a caller (sets sluice_last_error, logs nothing). */
int job_failed(sluice_job *job);
const char *failure_text(const sluice_job *job);
/* Tells every peer that has not left that this rank gave up, and who is to blame. Token held. */
void failure_announce(sluice_job *job, int culprit, const char *text);
/* The application ends the job: 1 if it has not failed. Token held. */
int failure_finalize(sluice_job *job);
/* Tells every peer that this rank is done. All ranks came to sluice_finalize(). Token held. */
void failure_say_bye(sluice_job *job);
/* Whether these two were called, and the job had not failed. */
int failure_finalizing(const sluice_job *job);
int failure_said_bye(const sluice_job *job);
#endif
