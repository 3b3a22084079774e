/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_broadcast() on a rank that only serves shards; see broadcast.c. */
#ifndef RUNTIME_BROADCAST_H
#define RUNTIME_BROADCAST_H
#include "sluice.h"

/* Takes part in the broadcast that the workers have begun. */
int broadcast_serve(sluice_job *job);
#endif
