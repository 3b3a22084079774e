/* SPDX-License-Identifier: BSD-3-Clause
 * Things on which all ranks must agree: whether to begin at all, and that the replicas have the
 * same bits. Built on sluice_gather(); every rank that calls gets the same answer. */
#ifndef TRAIN_AGREE_H
#define TRAIN_AGREE_H
#include "sluice.h"
#include "tools/train/complaint.h"

/* 0 when no worker complains. Otherwise -1 on every rank, after rank 0 printed each different
 * complaint once with the ranks that have it. Dedicated servers call it too, before sluice_serve(),
 * and print what no worker complains about. */
int agree_on_complaints(sluice_job *job, const struct complaint *complaint);

/* The lowest worker that is not lost, on every rank alike: it speaks for all. *living_out: how many
 * there are. Workers only; -1 if the library failed, which said why. */
int agree_on_leader(sluice_job *job, int *leader_out, int *living_out);

/* Compares digests of the parameters after a step; workers only. 0 when all are equal; otherwise -1
 * on every rank, after the leader named the ranks that differ from the majority. Lost ones have
 * none. */
int agree_on_digest(sluice_job *job, uint64_t digest, uint64_t step);
#endif
