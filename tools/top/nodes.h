/* SPDX-License-Identifier: BSD-3-Clause
 * The ranks of all nodes of a Slurm job: srun starts one sluice-top --relay on each node, and this
 * process reads what they print (relay.h). The job takes no part. srun ends with this process. */
#ifndef TOOLS_TOP_NODES_H
#define TOOLS_TOP_NODES_H
#include "metrics/seen.h"

struct nodes;

/* job: number of a Slurm job, or JOB.STEP. Returns NULL if srun cannot be started; errno has the
 * reason. */
struct nodes *nodes_begin(const char *job, int interval_ms);
/* A descriptor that becomes readable when nodes_read() has something to do. */
int nodes_fd(const struct nodes *nodes);
/* Reads what has arrived, without waiting. Returns 0, or -1 if nothing more can come. */
int nodes_read(struct nodes *nodes);
/* Returns the number of nodes of which a look has arrived. of: the number of nodes that look, or 0
 * as long as it is unknown. */
int nodes_heard(const struct nodes *nodes, int *of);
/* Copies the ranks of the last looks. Returns 0, or -1 if there is no memory. */
int nodes_look(const struct nodes *nodes, struct seen *out);
/* Returns the last line of srun or squeue themselves, or "". */
const char *nodes_said(const struct nodes *nodes);
/* Ends srun. */
void nodes_end(struct nodes *nodes);
#endif
