/* SPDX-License-Identifier: BSD-3-Clause
 * A simulated job: its ranks are threads of this process of which one runs at a time, and which hand over
 * where a real rank would sleep. join.c asks here who the calling thread is, progress.c how to wait. */
#ifndef RUNTIME_SIMULATE_H
#define RUNTIME_SIMULATE_H
#include "rdma/in_process.h"
#include "slurm/bootstrap.h"

/* One simulated rank. */
struct seat;

/* The calling thread's, NULL in a real job. */
struct seat *seat_of_thread(void);
/* SLUICE_EINVAL if the seat has a job already. */
int seat_take(struct seat *seat, int *rank_out, int *size_out);
struct neighbours *seat_neighbours(struct seat *seat);
/* As bootstrap_exchange(). */
int seat_exchange(struct seat *seat, const uint8_t *payload, size_t payload_bytes, struct card **cards_out);

/* The other ranks run until it is this one's turn again. 0: all of them had many turns and none of them came
 * any further, so nobody ever will. */
int seat_hand_over(struct seat *seat);
/* What this rank waited for has come. */
void seat_moved(struct seat *seat);
#endif
