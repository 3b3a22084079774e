/* SPDX-License-Identifier: BSD-3-Clause
 * Checks on which all ranks agree: whether to begin at all, and whether the replicas have the same
 * bits. Built on sluice_gather(); every rank that calls gets the same result. */
#ifndef TRAIN_AGREE_H
#define TRAIN_AGREE_H
#include "sluice.h"
#include "tools/train/complaint.h"

/* Returns 0 if no worker complains. Otherwise returns -1 on every rank, after rank 0 has printed
 * each different complaint once with its ranks. Dedicated servers call it too, before
 * sluice_serve(), and print complaints that no worker has. */
int agree_on_complaints(sluice_job *job, const struct complaint *complaint);

/* Finds the lowest worker that is not lost, which reports for all. All workers get the same result.
 * *living_out: number of living workers. Only workers call it. Returns -1 if the library failed,
 * which has then reported the reason. */
int agree_on_leader(sluice_job *job, int *leader_out, int *living_out);

/* Compares digests of the parameters after a step. Only workers call it. Returns 0 if all are
 * equal, otherwise -1 on every rank, after the leader has named the ranks that differ from the
 * majority. Lost workers do not count. */
int agree_on_digest(sluice_job *job, uint64_t digest, uint64_t step);
#endif
