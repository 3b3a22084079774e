/* SPDX-License-Identifier: BSD-3-Clause
 * Distributes the parameters to all ranks at open. */
#ifndef RUNTIME_SPREAD_H
#define RUNTIME_SPREAD_H
#include "sluice.h"

/* Makes rank 0's params version 0 of every shard, and copies them to the params of every worker.
 * Collective. */
int model_spread(sluice_model *model, float *params);
#endif
