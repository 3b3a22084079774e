/* SPDX-License-Identifier: BSD-3-Clause
 * A dedicated server's part in the workers' sluice_checkpoint() and sluice_restore(). */
#ifndef RUNTIME_CHECKPOINT_H
#define RUNTIME_CHECKPOINT_H
#include "sluice.h"
#include <stdint.h>

/* Called by sluice_serve() when collective_pending() is op: COLLECTIVE_CHECKPOINT or
 * COLLECTIVE_RESTORE. Returns 0 even if the checkpoint or restore failed: the failure is logged,
 * and the workers receive it and decide how to continue. Other errors are those of the job (EPEER,
 * ETIMEDOUT). */
int checkpoint_serve(sluice_model *model, uint32_t op);
#endif
