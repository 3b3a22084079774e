/* SPDX-License-Identifier: BSD-3-Clause
 * A device that lags behind the host (lag.c). Called by runtime.c. */
#ifndef EMULATED_LAG_H
#define EMULATED_LAG_H
#include "stream.h"

int lag_lags(void);
/* Enqueues an operation. If CUDA would wait for it, runs the queue and then the operation. */
cudaError_t lag_put(const struct node *node);
/* Runs an operation at once, when the device is free. */
void lag_do(const struct node *node);
/* Runs the whole queue. Returns the error of a failed operation. */
cudaError_t lag_drain(void);
/* As lag_drain(), without a result. */
void lag_settle(void);
/* Returns cudaErrorNotReady, the error of a failed operation, or success. */
cudaError_t lag_state(void);
#endif
