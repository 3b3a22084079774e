/* SPDX-License-Identifier: BSD-3-Clause
 * A job whose ranks are threads, each with its own model, for the tests of sluice_checkpoint() and
 * sluice_restore(). The linker replaces the collective, the token and the functions that a restore
 * calls in the two halves of a model with small working fakes (checkpoint_fakes.c). Rounds, folders
 * and files are real. */
#ifndef TESTS_CHECKPOINT_RANKS_H
#define TESTS_CHECKPOINT_RANKS_H
#include "worker/push.h"
#include "worker/device.h"
#include "checkpoint/checkpoint_folder.h"
#include "shard/state.h"
#include "worker/state.h"
#include "scratch.h"
#include "cases.h"
#include <pthread.h>

enum { COUNT = 40, SHARDS = 3, RANKS_MAX = 3 };

struct rank_state {
	sluice_job job;
	sluice_model model;
	struct worker worker;
	struct shard shards[SHARDS];
	struct shard_layout layout[SHARDS];
	float residual[COUNT], velocity[COUNT], params[COUNT];
	float copy[SHARDS][COUNT], shard_residual[SHARDS][COUNT];
	int restore; /* the thread calls sluice_restore, otherwise sluice_checkpoint */
	const char *dir;
	int code;
	char error[ERROR_TEXT_BYTES];
	uint64_t step_out;
	int fsync_error; /* error of this rank's disk */
	int rounds;
};

struct world {
	int size, workers;
	struct rank_state ranks[RANKS_MAX];
	pthread_barrier_t barrier;
	const uint8_t *mine[RANKS_MAX];
	uint32_t op[RANKS_MAX];
	size_t bytes[RANKS_MAX];
	float published[COUNT]; /* snapshots */
	uint64_t published_version[SHARDS];
	int lost_in_round; /* a peer is lost in this round; 0: in none */
	char dir[SCRATCH_PATH];
};

extern struct world world;
extern _Thread_local struct rank_state *self;

/* Set up and tear down a test: RANKS_MAX workers that own shards, and an empty directory. */
int world_open(void **state);
int world_close(void **state);
#define CASE(name) TEST_WITH(name, world_open, world_close)

/* Sets all ranks to the state after `step` steps; step 0: freshly opened, all zero. */
void open_job(int size, int workers, uint64_t step);
/* Makes all ranks checkpoint, or restore. */
void run_job(int restore);
/* Checks that all workers return the code with a message that contains this text. Servers continue
 * unless the job failed. */
void assert_all(int code, const char *text);
/* Checks that every rank has exactly the state of that step. */
void assert_state(uint64_t step);
void checkpoint_at(uint64_t step);
void restore_gives(uint64_t step);
/* Returns a rank's file in the only generation. */
void file_of(uint32_t rank, char path[DURABLE_PATH_BYTES]);
#endif
