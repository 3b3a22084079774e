/* SPDX-License-Identifier: BSD-3-Clause
 * A job of several ranks without a launcher: forked processes that meet through a page of shared
 * memory. ranks.c defines the bootstrap's functions (slurm/bootstrap.h), so the linker takes these,
 * and everything above them is the real code. Ranks 0 and 1 live on "n1", 2 and 3 on "n2", ...
 * Inside a rank only CHECK() may be used, not cmocka's assertions. */
#ifndef TESTS_RANKS_H
#define TESTS_RANKS_H
#include "sluice_vector.h"
#include "tools/step_of.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

/* Functions of ranks need few of their parameters. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* RANKS_MAX: the size of arrays for the ranks of most tests; more than RANKS_MOST cannot run. */
enum { RANKS_MAX = 8, RANKS_MOST = 72 };

/* A vector of n pieces. */
#define IN_PIECES(list, n) (&(sluice_vector){ .segments = (list), .n_segments = (n) })

/* Used in ranks that go through many cases: the current case, for check_at(). */
extern const char *check_of;
/* If `holds` is 0, prints the place, the failed condition, the last error and the last log lines,
 * and exits with 1. Called in ranks. */
void check_at(int holds, const char *text, const char *file, int line);
#define CHECK(condition) check_at((condition) != 0, #condition, __FILE__, __LINE__)
/* Checks that a call succeeds, which returns 0 or SLUICE_E*. */
#define CHECK_OK(call) check_at((call) == 0, #call, __FILE__, __LINE__)

/* Makes a step that must succeed: pushes gradient and pulls into target. */
#define CHECK_STEP(model, gradient, target)                                                        \
	do {                                                                                       \
		CHECK_OK(sluice_push(model, gradient));                                            \
		CHECK_OK(sluice_pull(model, target));                                              \
	} while (0)

/* Makes a step that may fail. Returns the code of the call that failed, or 0. */
int try_step(sluice_model *model, const void *gradient, void *target);

/* The code of a rank. Its return value becomes the exit status. */
typedef int (*rank_function)(int rank, void *argument);
/* The code of a rank in a job that it has joined. */
typedef void (*job_function)(sluice_job *job, int rank, void *argument);
/* The code of the test in the parent meanwhile. */
typedef void (*rank_supervisor)(const pid_t *pids, void *argument);

/* Forks `size` ranks and waits for all of them. They must return 0. Fails the test with the names
 * of ranks that did not, or that hang for a minute. */
void run_ranks(int size, rank_function function, void *argument);
/* As run_ranks(), but the ranks first join a job with short timeouts, and leave it after the
 * function. */
void run_in_job(int size, job_function function, void *argument);
/* As run_ranks(), but returns every rank's wait status, calls supervise (may be NULL) after the
 * fork, and allows deadline_ms from then on. Hanging ranks also fail the test. */
void run_ranks_status(int size, rank_function function, void *argument, rank_supervisor supervise,
		      int deadline_ms, int *status);

/* If a rank sets this to 1 before it joins, on all ranks, each node counts as having its own
 * kernel. */
extern int nodes_have_kernels;

/* For cases.h: a case that ranks run in a job, once for each of the given numbers of ranks. */
#define TEST_IN_JOB(name, ...)                                                                     \
	static void name##_in_job(sluice_job *job, int rank, void *argument);                      \
	TEST(name)                                                                                 \
	{                                                                                          \
		static const int name##_sizes[] = { __VA_ARGS__ };                                 \
		for (size_t n = 0; n < sizeof name##_sizes / sizeof(int); n++)                     \
			run_in_job(name##_sizes[n], name##_in_job, NULL);                          \
	}                                                                                          \
	static void name##_in_job(sluice_job *job, int rank, void *argument)

/* As TEST_IN_JOB, for a rank_function, whose ranks join the job by themselves if at all. */
#define TEST_IN_RANKS(name, ...)                                                                   \
	static int name##_in_rank(int rank, void *argument);                                       \
	TEST(name)                                                                                 \
	{                                                                                          \
		static const int name##_sizes[] = { __VA_ARGS__ };                                 \
		for (size_t n = 0; n < sizeof name##_sizes / sizeof(int); n++)                     \
			run_ranks(name##_sizes[n], name##_in_rank, NULL);                          \
	}                                                                                          \
	static int name##_in_rank(int rank, void *argument)

/* Returns zeroed memory that the parent and all ranks share. It is freed when the process ends. */
void *shared_memory(size_t bytes);

/* Joins the job of run_ranks() with short timeouts. attr may be NULL. Ends the rank on failure. */
sluice_job *rank_join(const sluice_job_attr *attr);
/* Opens a model. Ends the rank on failure. attr.size may be left out. */
sluice_model *rank_open(sluice_job *job, void *params, sluice_model_attr attr);
/* As rank_open(), with a list of attributes: OPEN(job, params, .count = 100, .recipe =
 * "up=all"). */
#define OPEN(job, params, ...) rank_open(job, params, (sluice_model_attr){ __VA_ARGS__ })

#define ATTR(...) ((sluice_model_attr){ .size = sizeof(sluice_model_attr), __VA_ARGS__ })
/* Limits all further waits of this rank to this many milliseconds, times slowness(). Called when
 * only the wait that must time out is left, because on a busy machine all other waits need their
 * time. */
void be_impatient(sluice_job *job, int ms);
/* Checks that bytes[0..n) are the same on every worker, and ends the rank if not. Returns their
 * digest. */
uint64_t check_same(sluice_job *job, const void *bytes, size_t n);

/* From here on, log lines of this process are stored in a buffer instead of printed on stderr. */
void log_capture(void);
/* Returns 1 if one captured line contained all the given texts (NULL matches). */
int log_saw(const char *a, const char *b, const char *c, const char *d);
/* Returns 1 if sluice_last_error() contains both texts (NULL matches). */
int error_says(const char *a, const char *b);

/* Returns a factor of 1 or more for deadlines, because valgrind and sanitizers slow everything
 * down. */
int slowness(void);
void sleep_ms(int ms);

/* Returns a number in [-1, 1) from a counter, the same on every machine. */
float noise(uint64_t seed, uint64_t step, uint64_t rank, uint64_t i);
#endif
