/* SPDX-License-Identifier: BSD-3-Clause
 * Ending groups, which sluice_split() makes. */
#ifndef RUNTIME_SPLIT_H
#define RUNTIME_SPLIT_H
#include "sluice.h"

/* Ends a group; called by sluice_finalize(). */
void group_finalize(sluice_job *group);
/* Frees the groups of a root that were not ended. The root's transports must still be open. */
void groups_free(sluice_job *root);
#endif
