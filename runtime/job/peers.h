/* SPDX-License-Identifier: BSD-3-Clause
 * The state of each peer, and what its loss means for the job; see peers.c. */
#ifndef RUNTIME_PEERS_H
#define RUNTIME_PEERS_H
#include "sluice.h"

struct remote;

/* Limits the reports of other ranks that this rank logs to ten in a minute. */
struct report_limit {
	uint64_t since_ns; /* the beginning of the minute; 0 at first */
	unsigned passed, suppressed;
};
/* Returns 1 if a report that arrives now is logged. *suppressed_out: the number of reports that
 * were not logged in the minute before, to be logged first. */
int reports_pass(struct report_limit *limit, uint64_t now, unsigned *suppressed_out);

/* Opens a peer's region, or its control region if descriptor is NULL. Fails as remote_open() and
 * control() of the transport do. With SLUICE_EPEER the peer has ended, and the message names it as
 * lost. The token need not be held. */
int peers_open_region(sluice_job *job, int peer, const uint8_t *descriptor, struct remote **out);

/* Records the first failure of the job, logs it, and reports to all living peers which rank is to
 * blame. Returns code, or the code of an earlier failure. The token must be held, here and
 * in the functions below. */
int job_fail(sluice_job *job, int code, int culprit, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* Does the same as job_fail() if this rank is to blame. Takes the token if `held` is 0. */
int job_fail_here(sluice_job *job, int held, int code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* Called when a peer broke the rules. With on_failure=continue, a worker is dropped as if it were
 * lost. Otherwise this does the same as job_fail(). Returns code. */
int job_blame(sluice_job *job, int code, int peer, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* Called when the peer is lost: this rank can no longer write to it or expect anything from it. why
 * is for example "its process ended". For a root, this function and peers_gone() also inform every
 * group that contains the peer. */
void peers_lost(sluice_job *job, int peer, const char *why);
void peers_gone(sluice_job *job, int peer, const char *why); /* EVENT_GONE */
/* Returns 1 if this peer of a root is alive in the root or in one of its groups, so that its
 * heartbeat counts. */
int peers_matter(sluice_job *job, int peer);
void peers_status(sluice_job *job, int peer);  /* IMM_STATUS */
void peers_members(sluice_job *job, int peer); /* IMM_MEMBERS */
/* Names to the living peers the rank for which a shard of this rank waits, because they wait for
 * the shard. */
void peers_report(sluice_job *job, const char *text);
/* Handles IMM_REPORT. waits: 1 if a call of this rank is waiting. */
void peers_reported(sluice_job *job, int peer, int waits);
#endif
