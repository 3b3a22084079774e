/* SPDX-License-Identifier: BSD-3-Clause
 * The state of each peer, and what its loss means for the job; see peers.c. */
#ifndef RUNTIME_PEERS_H
#define RUNTIME_PEERS_H
#include "sluice.h"
#include <stdint.h>

struct region;

/* Records the first failure of the job, logs it, and reports to all living peers which rank is to
 * blame. Returns code, or the code of an earlier failure. Token held, here and in the functions
 * below. */
int job_fail(sluice_job *job, int code, int culprit, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* Does the same when this rank is to blame. held: the caller holds the token; if not, it is taken
 * here. */
int job_fail_here(sluice_job *job, int held, int code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* Called when a peer broke the rules. With on_failure=continue, a worker is dropped as if it were
 * lost. Otherwise, and for a server, this does the same as job_fail(). Returns code. */
int job_blame(sluice_job *job, int code, int peer, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* Called when the peer is lost: nothing can be written to it or expected from it. why is for
 * example "its process ended". Called for a root, this function and peers_gone() also inform every
 * group that contains the peer. */
void peers_lost(sluice_job *job, int peer, const char *why);
void peers_gone(sluice_job *job, int peer, const char *why); /* EVENT_GONE */
/* Returns 1 if this peer of a root is alive in it or in one of its groups, so that its heartbeat
 * counts. */
int peers_matter(sluice_job *job, int peer);
void peers_status(sluice_job *job, int peer);  /* IMM_STATUS */
void peers_members(sluice_job *job, int peer); /* IMM_MEMBERS */
/* Informs the living peers for which rank this rank's shard waits, because they wait for the
 * shard. */
void peers_report(sluice_job *job, const char *text);
/* Writes a descriptor of the region for the peer. Waits while the connection is broken. Takes the
 * token. */
int peers_describe(sluice_job *job, int peer, const struct region *region, uint8_t *descriptor);
/* Handles IMM_REPORT. waits: a call of this rank waits. */
void peers_reported(sluice_job *job, int peer, int waits);
#endif
