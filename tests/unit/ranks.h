/* SPDX-License-Identifier: BSD-3-Clause
 * A job of several ranks without a launcher: forked processes that meet through a page of shared
 * memory. ranks.c defines the bootstrap's functions (slurm/bootstrap.h), so the linker takes these
 * and everything above them is what a real job runs. Ranks 0 and 1 live on "n1", 2 and 3 on "n2",
 * ... Inside a rank only CHECK() may be used, not cmocka's assertions. */
#ifndef TESTS_RANKS_H
#define TESTS_RANKS_H
#include "sluice_vector.h"
#include "tools/step_of.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

/* Few ranks' functions need all that they are given. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

enum { RANKS_MAX = 8 };

/* A vector of n pieces. */
#define IN_PIECES(list, n) (&(sluice_vector){ .segments = (list), .n_segments = (n) })

/* In a rank that goes through many cases: which one it is at, for check_at(). */
extern const char *check_of;
/* In a rank: prints where, what failed, the last error and the last log lines, and exits with 1. */
void check_at(int holds, const char *text, const char *file, int line);
#define CHECK(condition) check_at((condition) != 0, #condition, __FILE__, __LINE__)
/* For calls that return 0 or SLUICE_E*. */
#define CHECK_OK(call) check_at((call) == 0, #call, __FILE__, __LINE__)

/* A step that goes well: pushes gradient and pulls into target. */
#define CHECK_STEP(model, gradient, target)                                                        \
	do {                                                                                       \
		CHECK_OK(sluice_push(model, gradient));                                            \
		CHECK_OK(sluice_pull(model, target));                                              \
	} while (0)

/* The same, of a step that may fail: returns the code of the call that did, or 0. */
int try_step(sluice_model *model, const void *gradient, void *target);

/* What a rank does; its return value becomes its exit status. */
typedef int (*rank_function)(int rank, void *argument);
/* What a rank does in a job that it has joined. */
typedef void (*job_function)(sluice_job *job, int rank, void *argument);
/* What the test does meanwhile, in the parent. */
typedef void (*rank_supervisor)(const pid_t *pids, void *argument);

/* Forks `size` ranks and waits for all of them, who must return 0. Fails the test naming the ranks
 * that did not, and (after a minute) those that hang. */
void run_ranks(int size, rank_function function, void *argument);
/* The same with ranks that join a job with short timeouts, and leave it after the function. */
void run_in_job(int size, job_function function, void *argument);
/* The same, but gives every rank's wait status instead of judging it, runs supervise (may be NULL)
 * after the fork, and allows deadline_ms from then on. Hanging ranks fail the test all the same. */
void run_ranks_status(int size, rank_function function, void *argument, rank_supervisor supervise,
		      int deadline_ms, int *status);

/* 1, in a rank before it joins, in all of them: each node has a kernel of its own. */
extern int nodes_have_kernels;

/* With cases.h: a case that ranks run in a job, once with each of the given numbers of ranks. */
#define TEST_IN_JOB(name, ...)                                                                     \
	static void name##_in_job(sluice_job *job, int rank, void *argument);                      \
	TEST(name)                                                                                 \
	{                                                                                          \
		static const int name##_sizes[] = { __VA_ARGS__ };                                 \
		for (size_t n = 0; n < sizeof name##_sizes / sizeof(int); n++)                     \
			run_in_job(name##_sizes[n], name##_in_job, NULL);                          \
	}                                                                                          \
	static void name##_in_job(sluice_job *job, int rank, void *argument)

/* The same, of ranks that join by themselves, or not: a rank_function. */
#define TEST_IN_RANKS(name, ...)                                                                   \
	static int name##_in_rank(int rank, void *argument);                                       \
	TEST(name)                                                                                 \
	{                                                                                          \
		static const int name##_sizes[] = { __VA_ARGS__ };                                 \
		for (size_t n = 0; n < sizeof name##_sizes / sizeof(int); n++)                     \
			run_ranks(name##_sizes[n], name##_in_rank, NULL);                          \
	}                                                                                          \
	static int name##_in_rank(int rank, void *argument)

/* Zeroed memory that the parent and all ranks share; freed when the process ends. */
void *shared_memory(size_t bytes);

/* Joins the job of run_ranks() with short timeouts: attr may be NULL. Ends the rank on failure. */
sluice_job *rank_join(const sluice_job_attr *attr);
/* Opens a model, or ends the rank. attr.size may be left out. */
sluice_model *rank_open(sluice_job *job, void *params, sluice_model_attr attr);
/* The same, of a list of attributes: OPEN(job, params, .count = 100, .recipe = "up=all"). */
#define OPEN(job, params, ...) rank_open(job, params, (sluice_model_attr){ __VA_ARGS__ })
#define ATTR(...)              ((sluice_model_attr){ .size = sizeof(sluice_model_attr), __VA_ARGS__ })
/* From now on no wait of this rank lasts longer than so many milliseconds, times slowness(): to be
 * called when only the wait that is to end so lies ahead, because a loaded machine needs its time
 * for all others. */
void be_impatient(sluice_job *job, int ms);
/* The same digest of bytes[0..n) on every worker, else the rank ends. Returns it. */
uint64_t check_same(sluice_job *job, const void *bytes, size_t n);

/* From here on log lines of this process go into a buffer instead of stderr. */
void log_capture(void);
/* 1 if one captured line held all the given texts (NULL matches). */
int log_saw(const char *a, const char *b, const char *c, const char *d);
/* 1 if sluice_last_error() holds both texts (NULL matches). */
int error_says(const char *a, const char *b);

/* Under valgrind or a sanitizer everything takes longer: 1 or more, for deadlines. */
int slowness(void);
void sleep_ms(int ms);

/* A number of [-1, 1) from a counter, the same everywhere. */
float noise(uint64_t seed, uint64_t step, uint64_t rank, uint64_t i);
#endif
