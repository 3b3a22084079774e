/* SPDX-License-Identifier: BSD-3-Clause
 * Runs the ranks of a simulated job as threads, one at a time. Each rank yields its turn where a
 * real rank would sleep. Turns rotate by rank, so every run is the same. join.c asks which rank the
 * calling thread is, progress.c waits by yielding, and simulate.c starts the threads. */
#ifndef RUNTIME_SIM_RANK_H
#define RUNTIME_SIM_RANK_H
#include "rdma/in_process.h"
#include "slurm/bootstrap.h"

/* One simulated rank, and all simulated ranks of the job. */
struct sim_rank;
struct sim_ranks;

/* ---- functions for a job, about the simulated rank of the calling thread ---- */
/* Returns the simulated rank of the calling thread, or NULL in a real job. */
struct sim_rank *sim_rank_of_thread(void);
/* Assigns the rank to a job. Fails with SLUICE_EINVAL if the rank has a job already. */
int sim_rank_claim(struct sim_rank *sim_rank, int *rank_out, int *size_out);
struct neighbours *sim_rank_neighbours(struct sim_rank *sim_rank);
/* Replaces bootstrap_exchange(). */
int sim_rank_exchange(struct sim_rank *sim_rank, const uint8_t *payload, size_t payload_bytes,
		      struct rank_record **records_out);
/* Lets the other ranks run until it is this rank's turn again. Returns 0 if every rank has had many
 * turns without progress, so that no rank will ever make any. */
int sim_rank_yield(struct sim_rank *sim_rank);
/* Reports progress: the event for which this rank waited has occurred. */
void sim_rank_progressed(struct sim_rank *sim_rank);

/* Returns the time in nanoseconds, for a wait that ends by the clock. In a simulated job each turn
 * takes a millisecond, and the call reports progress. sim_rank NULL: returns now_ns(). */
uint64_t sim_rank_time_ns(struct sim_rank *sim_rank);

/* ---- for simulate.c ---- */
int sim_ranks_open(int size, struct sim_ranks **out); /* 0 or SLUICE_ENOMEM */
void sim_ranks_close(struct sim_ranks **sim_ranks);
struct sim_rank *sim_ranks_at(struct sim_ranks *sim_ranks, int rank);
/* Gives rank 0 the first turn. If `going` is 0, the simulation is abandoned: no rank gets a
 * turn. */
void sim_ranks_begin(struct sim_ranks *sim_ranks, int going);
/* Waits for this rank's first turn. Returns 0 if the rank gets no turn. */
int sim_rank_enter(struct sim_rank *sim_rank);
/* Called when this rank's thread ends. The others continue without it. */
void sim_rank_leave(struct sim_rank *sim_rank);
#endif
