/* SPDX-License-Identifier: BSD-3-Clause
 * The ranks of a simulated job as threads of which one runs at a time: each has a seat, and hands
 * its turn over where a real rank would sleep. The turn goes round by rank, so a run is the same
 * every time. join.c asks here who the calling thread is, progress.c how to wait; simulate.c starts
 * the threads. */
#ifndef RUNTIME_SEAT_H
#define RUNTIME_SEAT_H
#include "rdma/in_process.h"
#include "slurm/bootstrap.h"

/* One simulated rank, and all of them. */
struct seat;
struct seats;

/* ---- of the calling thread, for a job ---- */
/* NULL in a real job. */
struct seat *seat_of_thread(void);
/* SLUICE_EINVAL if the seat has a job already. */
int seat_take(struct seat *seat, int *rank_out, int *size_out);
struct neighbours *seat_neighbours(struct seat *seat);
/* As bootstrap_exchange(). */
int seat_exchange(struct seat *seat, const uint8_t *payload, size_t payload_bytes,
		  struct card **cards_out);
/* The other ranks run until it is this one's turn again. 0: all of them had many turns and none of
 * them came any further, so nobody ever will. */
int seat_hand_over(struct seat *seat);
/* What this rank waited for has come. */
void seat_moved(struct seat *seat);

/* ---- for simulate.c ---- */
int seats_open(int size, struct seats **out); /* 0 or SLUICE_ENOMEM */
void seats_close(struct seats **seats);
struct seat *seats_at(struct seats *seats, int rank);
/* Rank 0 gets the first turn; or, not going, nobody ever gets one. */
void seats_begin(struct seats *seats, int going);
/* The calling thread becomes this rank at its first turn. 0: it gets none. */
int seat_enter(struct seat *seat);
/* The rank's thread ends, and the others go on without it. */
void seat_leave(struct seat *seat);
#endif
