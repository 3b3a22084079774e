/* SPDX-License-Identifier: BSD-3-Clause
 * Runs the ranks of a simulated job as threads, one at a time. Each rank has a seat and passes its
 * turn on where a real rank would sleep. Turns go round by rank, so a run is the same every time.
 * join.c asks here which rank the calling thread is, progress.c waits by it, and simulate.c starts
 * the threads. */
#ifndef RUNTIME_SEAT_H
#define RUNTIME_SEAT_H
#include "rdma/in_process.h"
#include "slurm/bootstrap.h"

/* A seat is one simulated rank; seats are all ranks of the job. */
struct seat;
struct seats;

/* ---- of the calling thread, for a job ---- */
/* The seat of the calling thread; NULL in a real job. */
struct seat *seat_of_thread(void);
/* Gives the seat to a job. SLUICE_EINVAL if it has one already. */
int seat_take(struct seat *seat, int *rank_out, int *size_out);
struct neighbours *seat_neighbours(struct seat *seat);
/* The counterpart of bootstrap_exchange(). */
int seat_exchange(struct seat *seat, const uint8_t *payload, size_t payload_bytes,
		  struct card **cards_out);
/* Lets the other ranks run until it is this rank's turn again. Returns 0 if every rank had many
 * turns and none of them made progress, so that none ever will. */
int seat_hand_over(struct seat *seat);
/* Reports progress: what this rank waited for has arrived. */
void seat_moved(struct seat *seat);

/* ---- for simulate.c ---- */
int seats_open(int size, struct seats **out); /* 0 or SLUICE_ENOMEM */
void seats_close(struct seats **seats);
struct seat *seats_at(struct seats *seats, int rank);
/* Gives rank 0 the first turn. If not going, no rank ever gets one. */
void seats_begin(struct seats *seats, int going);
/* Waits for this rank's first turn, as the calling thread. Returns 0 if it gets none. */
int seat_enter(struct seat *seat);
/* Ends this rank's thread; the others go on without it. */
void seat_leave(struct seat *seat);
#endif
