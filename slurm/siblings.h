/* SPDX-License-Identifier: BSD-3-Clause
 * Finds tasks of the job on this node that have ended unnoticed by the launcher: Slurm does not
 * report a task that ends before it has called PMIx_Init. Called by pmix_calls.c while ranks wait
 * for each other. */
#ifndef SLURM_SIBLINGS_H
#define SLURM_SIBLINGS_H

/* Returns the lowest rank whose process has ended. Returns -1 if no process has ended, or if /proc
 * does not prove that one has. local lists the ranks on this node including self, such as "0,1,5".
 * in_namespace is their common value of PMIX_NAMESPACE. */
int siblings_ended(const char *in_namespace, const char *local, int self);
#endif
