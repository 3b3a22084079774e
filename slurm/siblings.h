/* SPDX-License-Identifier: BSD-3-Clause
 * Finds tasks of the job on this node that have ended without the launcher saying so: Slurm reports
 * no task that ends before it has called PMIx_Init. Called by pmix_calls.c while ranks wait for
 * each other. */
#ifndef SLURM_SIBLINGS_H
#define SLURM_SIBLINGS_H

/* local: the ranks on this node, "0,1,5", among them self; in_namespace: the value of
 * PMIX_NAMESPACE that they share. The lowest of these ranks whose process has ended; -1 if there is
 * none, or where /proc does not show it for certain. */
int siblings_ended(const char *in_namespace, const char *local, int self);
#endif
