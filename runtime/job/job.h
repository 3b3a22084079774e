/* SPDX-License-Identifier: BSD-3-Clause
 * What the models use of a job. The job calls the models through client.h alone.
 *
 * Each file of job/ calls only files above it in this list. Its own header has the details:
 *
 *   group                         which groups of ranks a job has
 *   lines, client, sim_rank,
 *   budget                        control lines, receivers of events, simulated ranks, timers
 *   messages                      the messages of the collectives
 *   failure                       the job's first failure, and how a rank leaves
 *   members                       continuing without lost workers
 *   peers                         the state of each peer, and what it means for the job
 *   heart                         heartbeats
 *   progress                      token, thread, waits; passes events to all of the above
 *   collective, window,
 *   broadcast, traffic            what the application calls
 *   join, split, job, simulate    from sluice_init() to sluice_finalize() */
#ifndef RUNTIME_JOB_H
#define RUNTIME_JOB_H
#include "job/collective.h"
#include "job/peers.h"
#include "job/progress_token.h"

/* ---- join.c ---- */
/* Does the work of sluice_init(). The caller closes *boot, and on failure frees what exists of the
 * job. */
int job_join(sluice_job *job, const sluice_job_attr *attr, struct bootstrap **boot);

/* ---- split.c ---- */
/* Ends a group, for sluice_finalize(). */
void group_finalize(sluice_job *group);
/* Frees what groups are left of a root, whose transports are still open. */
void groups_free(sluice_job *root);

#endif
