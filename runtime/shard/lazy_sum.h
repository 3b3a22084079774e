/* SPDX-License-Identifier: BSD-3-Clause
 * The shard half of signal=innovation (worker/lazy.h). It keeps a running sum of all workers'
 * references, to which each step adds. This sum equals the sum of the references only if no upload
 * is lost and none is added twice. lazy_sum.c owns the sum and the count of uploads. */
#ifndef RUNTIME_LAZY_SUM_H
#define RUNTIME_LAZY_SUM_H
#include "shard/shard_hooks.h"

struct lazy_sum; /* shard.lazy; NULL unless the recipe has signal=innovation */

extern const struct shard_hooks lazy_sum_hooks;

/* For tests, which corrupt these values: the number of uploads added for a worker, and the running
 * sum. */
uint32_t *lazy_sum_uploads(struct shard *shard, int worker);
float *lazy_sum_running(struct shard *shard);
#endif
