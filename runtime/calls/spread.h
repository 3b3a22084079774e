/* SPDX-License-Identifier: BSD-3-Clause
 * Distributes the parameters to all ranks at open. */
#ifndef RUNTIME_SPREAD_H
#define RUNTIME_SPREAD_H
#include "sluice.h"

/* Makes rank 0's params version 0 of every shard, and copies them to the params of every worker,
 * for n models of one job. Collective. */
int models_spread(sluice_model *const *models, size_t n, float *const *params);
#endif
