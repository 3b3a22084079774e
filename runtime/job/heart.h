/* SPDX-License-Identifier: BSD-3-Clause
 * The heartbeat of a rank, and its view of the heartbeats of the others; see heart.c. join.c starts
 * it, progress.c calls heart_tick(), and peers.c handles the ranks that it declares lost. */
#ifndef RUNTIME_HEART_H
#define RUNTIME_HEART_H
#include "job/probe.h"
#include "sluice.h"
#include <stdint.h>

/* Allocates this rank's pulse, and memory into which it reads its peers' pulses. The job's regions
 * must be open. A simulated rank has no heart. */
int heart_open(sluice_job *job);
/* Writes the entry HEART_ENTRY of this rank's record, and its length to *n_out. If no open
 * transport uses a network, the length is 0 and no socket is opened. */
#define HEART_ENTRY "control"
int heart_record(sluice_job *job, uint8_t bytes[PROBE_RECORD_BYTES], size_t *n_out);
/* Reads the entries of all ranks, after the exchange of records. keys must stay valid until
 * heart_close(). If keys is NULL, no rank is remote. */
int heart_admit(sluice_job *job, const struct peer_keys *keys);
/* Starts the heartbeat. */
int heart_start(sluice_job *job);
/* Stops the heartbeat. Changes nothing else in the job. */
void heart_stop(sluice_job *job);
/* Stops the heartbeat and frees the heart. No transport may still write into the heart's memory. */
void heart_close(sluice_job *job);

/* The token must be held for the functions below. */

/* Called when this peer is connected. From then on its silence may mean that it is lost. */
void heart_met(sluice_job *job, int peer);
/* Called at each heartbeat: counts this rank's progress, and reads the pulses of its peers. */
void heart_tick(sluice_job *job, uint64_t now);
/* Called when the read of this peer's pulse has ended with this status. */
void heart_heard(sluice_job *job, int peer, int status);
/* Called when the transport has delivered a notify from this peer. */
void heart_noticed(sluice_job *job, int peer);
#endif
