/* SPDX-License-Identifier: BSD-3-Clause
 * A job that may lose workers (on_failure=continue): what test_continue*.c share. Four workers,
 * two servers, two shards. What each shard counted in each step is taken down (the linker wraps
 * reduction_change); an oracle of a few lines replays it in the test's process, and survivors and
 * oracle must agree bit by bit. */
#ifndef TESTS_SURVIVORS_H
#define TESTS_SURVIVORS_H
#include "ranks.h"
#include "scratch.h"
#include <stdatomic.h>

enum {
	WORKERS = 4,
	SERVERS = 2,
	RANKS = WORKERS + SERVERS,
	SHARDS = 2,
	COUNT = 600,
	STEPS_MAX = 4000,
	/* Its gradient is 1 << rank for worker rank: what the shard's sum there is, says who was
	   counted. */
	WITNESS = 0
};

struct plan {
	const char *recipe;
	int sparse;
	uint64_t steps;
	unsigned victims; /* bits of the ranks that are lost */
	int with_sums;    /* a sluice_sum() after every step */
	int dies_in_mail; /* the victim kills itself in the middle of writing its mails */
	int stops; /* not killed: SIGSTOP, and SIGCONT when the others have gone on without it */
	int stops_itself;  /* it does, somewhere in the step or in the checkpoint of kill_at: */
	int stops_in_pull; /* when it has looked at the headers of so many of its deltas, and has
			      not yet added the last of them */
	int wakes_at_end;  /* not as soon as the others go on, but when worker `watched` has
			    * finished */
	uint64_t kill_at;  /* when worker `watched` is at this step */
	int watched, kill_after_us;
	/* What came of it. */
	atomic_ullong at[WORKERS];              /* step of each worker */
	uint8_t counted[SHARDS][STEPS_MAX + 1]; /* bits of workers */
	uint32_t divisor[SHARDS][STEPS_MAX + 1];
	uint64_t digest[WORKERS], sums[WORKERS];
	int named[RANKS]; /* bits of the lost workers that this rank logged */
	int living[RANKS];
	uint64_t lost[RANKS], refused[RANKS];
	atomic_int finished[WORKERS];
	atomic_int told; /* stopped workers that learnt that they were dropped */
	uint64_t checkpoints;
	atomic_int done;    /* the signals are out */
	atomic_int stopped; /* victims that stopped themselves */
	char dir[SCRATCH_PATH];
};

/* A plan in memory that all ranks share: kills at step 20 of 60. Free with munmap(). */
struct plan *new_plan(int is_sparse, unsigned victims);

/* ---- in a rank: the plan is the one that it joined with -------------------- */

float worker_gradient(uint64_t step, uint64_t rank, uint64_t i);
/* It changes after the loss: the rate of a worker that is gone must not stay. */
float worker_rate(uint64_t step);
sluice_job *survivors_join(struct plan *p);
sluice_model *survivors_open(sluice_job *job, float *params);
/* Writes down what this rank knows of the lost ones. */
void survivors_note(sluice_job *job, sluice_model *model, int rank);
/* Closes both; 0. */
int survivors_leave(sluice_job *job, sluice_model *model);
/* A stopped one wakes up: every call fails and tells why. Closes both; 0. */
int dropped_too_late(sluice_job *job, sluice_model *model, float *params, int rc);
/* The rank function: trains as planned, to be judged by survivors_judge(). */
int survivors_train(int rank, void *argument);

/* ---- in the test ----------------------------------------------------------- */

/* Long enough that a rank which only waits for its turn on a loaded machine is not taken for
 * lost. */
int lost_after_ms(void);
void wait_for_step(struct plan *p, int worker, uint64_t step);
/* The supervisor: kills or stops the plan's victims when it is time. */
void lose(const pid_t *pids, void *argument);
/* The ranks in `killed` were ended by a signal, and all others returned 0. */
void check_ends(const int *status, unsigned killed);
/* How survivors_train() ended, and that the oracle ends with the same bits. */
void survivors_judge(const struct plan *p, const int *status);
#endif
