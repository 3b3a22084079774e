/* SPDX-License-Identifier: BSD-3-Clause
 * Descriptors of this rank's regions for its peers. */
#ifndef RUNTIME_DESCRIBE_H
#define RUNTIME_DESCRIBE_H
#include "sluice.h"
#include <stdint.h>

struct region;

/* Writes a descriptor of the region for the peer. Waits while the connection is broken. Takes the
 * token. */
int describe_to_peer(sluice_job *job, int peer, const struct region *region, uint8_t *descriptor);
/* The same with the token held. */
int describe_held(sluice_job *job, int peer, const struct region *region, uint8_t *descriptor);
#endif
