/* SPDX-License-Identifier: BSD-3-Clause
 * Joining a job, for sluice_init(). */
#ifndef RUNTIME_JOIN_H
#define RUNTIME_JOIN_H
#include "sluice.h"

struct bootstrap;

/* Does the work of sluice_init(). The caller closes *boot, and on failure frees the parts of the
 * job that exist. */
int job_join(sluice_job *job, const sluice_job_attr *attr, struct bootstrap **boot);
#endif
