/* SPDX-License-Identifier: BSD-3-Clause
 * A device that lags behind the host (lag.c). Called by runtime.c. */
#ifndef EMULATED_LAG_H
#define EMULATED_LAG_H
#include "stream.h"

int lag_lags(void);
/* Takes its place in the queue; or, where CUDA would wait for it, is done after what is there. */
cudaError_t lag_put(const struct node *node);
/* Does it at once, when the device is free. */
void lag_do(const struct node *node);
/* Does all there is; what of it failed. */
cudaError_t lag_drain(void);
/* The same, not asking. */
void lag_settle(void);
/* cudaErrorNotReady, or what failed, or success. */
cudaError_t lag_state(void);
#endif
