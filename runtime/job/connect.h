/* SPDX-License-Identifier: BSD-3-Clause
 * The connections with peers. sluice_init() connects a rank with all peers, or in a large job with
 * the hubs (hubs.h). Two other ranks connect when something first needs it: a model of which one
 * of them holds a shard, a region, or a group. */
#ifndef RUNTIME_CONNECT_H
#define RUNTIME_CONNECT_H
#include "rdma/transport.h"
#include "sluice.h"

/* Returns this rank's transport on that card of its record, or NULL if that transport is not
 * open. */
struct transport *connect_transport(const sluice_job *job, const struct transport_ops *ops,
				    int card);

/* Starts the threads of the job, and connects the ranks that must be connected at the start, all at
 * once. Returns when all ranks of the job have joined. */
int connect_all(sluice_job *job);

/* Collective, in a job or group with hubs, when the ranks that connect at the start have done so.
 */
int connect_rows(sluice_job *job);
/* Opens a peer's lines in a group. Returns 0 or SLUICE_E*. Token held. */
int connect_lines(sluice_job *group, int peer, const uint8_t *descriptor);

/* Returns 1 if two ranks of the job must be connected; a < b. */
typedef int (*connect_needs)(const void *context, int a, int b);
/* Collective. Connects those pairs of ranks that are not connected yet and for which needs()
 * returns 1; needs NULL stands for all pairs. needs() must return the same on every rank. what: the
 * purpose of the connections ("a model"), for the message of a failure. A failure ends the job. */
int connect_pairs(sluice_job *job, connect_needs needs, const void *context, const char *what);
#endif
