/* SPDX-License-Identifier: BSD-3-Clause
 * The shard half of signal=innovation (worker/lazy.h): a running sum of all workers' references,
 * to which each step adds. It is that of all of them only as long as no upload is lost or comes
 * twice. lazy_sum.c owns the sum and the count of uploads. Where shard.lazy is NULL, the functions
 * do nothing. */
#ifndef RUNTIME_LAZY_SUM_H
#define RUNTIME_LAZY_SUM_H
#include "model/model.h"

struct shard;
struct lazy_sum; /* shard.lazy; NULL unless the recipe says signal=innovation */

int lazy_sum_open(const sluice_model *model, struct shard *shard); /* 0 or SLUICE_ENOMEM */
void lazy_sum_close(struct shard *shard);
void lazy_sum_restart(const sluice_model *model, struct shard *shard);

/* Compares how many uploads a worker has made with how many were taken: where one is missing or
 * came twice, all workers are asked to begin anew. */
void lazy_sum_take(const sluice_model *model, struct shard *shard, int worker,
		   const struct message *m);
/* The sum of the step joins the running one, and the reduction holds that. */
void lazy_sum_join(struct shard *shard);
/* All pushes of a step are in: 1 if the sum is not that of all references, and the workers are to
 * begin anew. */
int lazy_sum_lacks(const struct shard *shard, uint32_t counted);
void lazy_sum_step_ends(struct shard *shard);

/* For tests, which spoil them: the uploads taken of a worker, and the running sum. */
uint32_t *lazy_sum_uploads(struct shard *shard, int worker);
float *lazy_sum_running(struct shard *shard);
#endif
