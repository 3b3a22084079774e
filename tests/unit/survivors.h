/* SPDX-License-Identifier: BSD-3-Clause
 * A job that may lose workers (on_failure=continue), shared by test_continue*.c. Four workers, two
 * servers, two shards. The test records the pushes that each shard counted in each step (the linker
 * wraps reduction_change). A short oracle replays them in the test's process, and survivors and
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
	/* Its gradient is 1 << rank on worker `rank`, so the shard's sum there shows which workers
	 * were counted. */
	WITNESS = 0
};

struct plan {
	const char *recipe;
	int sparse;
	uint64_t steps;
	unsigned victims;  /* bits: ranks that are lost */
	int with_sums;     /* 1: a sluice_sum() after every step */
	int dies_in_mail;  /* 1: the victim kills itself while it writes its messages */
	int stops;         /* 1: not killed, but SIGSTOP, and SIGCONT when the others have continued
			      without it */
	int stops_itself;  /* 1: it stops itself, in the step or in the checkpoint of kill_at: */
	int stops_in_pull; /* after it has read the headers of this many of its deltas, and
			      before it adds the last of them */
	int wakes_at_end;  /* 1: it resumes only when worker `watched` has finished */
	uint64_t kill_at;  /* the victims are lost when worker `watched` is at this step */
	int watched, kill_after_us;
	/* The results. */
	atomic_ullong at[WORKERS];              /* step of each worker */
	uint8_t counted[SHARDS][STEPS_MAX + 1]; /* bits: workers */
	uint32_t divisor[SHARDS][STEPS_MAX + 1];
	uint64_t digest[WORKERS], sums[WORKERS];
	int named[RANKS]; /* bits: lost workers that this rank has logged */
	int living[RANKS];
	uint64_t lost[RANKS], refused[RANKS];
	atomic_int finished[WORKERS];
	atomic_int told; /* number of stopped workers that learnt that they were dropped */
	uint64_t checkpoints;
	atomic_int done;    /* 1: the signals were sent */
	atomic_int stopped; /* number of victims that have stopped themselves */
	char dir[SCRATCH_PATH];
};

/* Makes a plan in memory that all ranks share, with the loss at step 20 of 60. The caller frees it
 * with munmap(). */
struct plan *new_plan(int is_sparse, unsigned victims);

/* ---- in a rank: the plan is the one that it joined with -------------------- */

float worker_gradient(uint64_t step, uint64_t rank, uint64_t i);
/* Returns the rate, which changes after the loss, so that the rate of a lost worker cannot stay in
 * use. */
float worker_rate(uint64_t step);
sluice_job *survivors_join(struct plan *p);
sluice_model *survivors_open(sluice_job *job, float *params);
/* Records what this rank knows about the lost workers. */
void survivors_note(sluice_job *job, sluice_model *model, int rank);
/* Closes model and job. Returns 0. */
int survivors_leave(sluice_job *job, sluice_model *model);
/* Called by a worker that was stopped and has resumed: every call must fail with the reason. Closes
 * both and returns 0. */
int dropped_too_late(sluice_job *job, sluice_model *model, float *params, int rc);
/* The rank function: trains as planned. survivors_judge() checks the results. */
int survivors_train(int rank, void *argument);

/* ---- in the test ----------------------------------------------------------- */

/* Long enough that a rank which only waits for its turn on a busy machine is not declared lost. */
int lost_after_ms(void);
void wait_for_step(struct plan *p, int worker, uint64_t step);
/* The supervisor: kills or stops the plan's victims at the right step. */
void lose(const pid_t *pids, void *argument);
/* Checks that a signal ended the ranks in `killed`, and that all others returned 0. */
void check_ends(const int *status, unsigned killed);
/* Checks how survivors_train() ended, and that the oracle ends with the same bits. */
void survivors_judge(const struct plan *p, const int *status);
#endif
