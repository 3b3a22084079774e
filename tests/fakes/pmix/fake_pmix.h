/* SPDX-License-Identifier: BSD-3-Clause
 * A PMIx inside the test: the properties of the job, the failures to simulate, and the counts of
 * calls. The test program defines the PMIx_* functions that slurm/pmix_calls.c uses, so libpmix's
 * are not reached. */
#ifndef TESTS_FAKE_PMIX_H
#define TESTS_FAKE_PMIX_H
#include <pmix.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_RANKS = 512, FAKE_RECORD_BYTES = 4096 };
enum fake_fence { FENCE_ANSWERS, FENCE_AT_ONCE, FENCE_NEVER };

struct fake_pmix {
	/* the job */
	int size;
	pmix_rank_t rank;
	const char *node;                              /* NULL: the server does not provide it */
	const char *local;                             /* the ranks on this node; NULL: the
							  server does not provide them */
	pmix_data_type_t size_type;                    /* of PMIX_JOB_SIZE */
	uint8_t record[FAKE_RANKS][FAKE_RECORD_BYTES]; /* records of the peers; Put stores this
							  rank's record */
	size_t record_bytes[FAKE_RANKS];               /* 0: Get finds no record */
	/* the failures to simulate */
	pmix_status_t init_status, put_status, commit_status, fence_status, get_status;
	pmix_rank_t get_fails_at; /* get_status applies to the record of this rank */
	int init_sleeps_ms, get_sleeps_ms, finalize_sleeps_ms;
	int card_is_text; /* 1: Get returns a string */
	enum fake_fence fence;
	/* numbers of calls */
	int inits, puts, commits, fences, aborts;
	/* Helper threads that have timed out may also write these while the test continues. If a
	 * test has seen the last of the counts that it expects, it may reset the fake. */
	atomic_int finalizes, calls_after_finalize, cards_asked_for;
	int collected; /* 1: the fence requested PMIX_COLLECT_DATA */
	int fence_timeout_s;
	pmix_op_cbfunc_t pending; /* of FENCE_NEVER */
	void *pending_context;
	pmix_value_cbfunc_t unanswered; /* callback of the last Get_nb about a rank that has put
					   no record */
	void *unanswered_context;
};

extern struct fake_pmix fake_pmix;

/* Sets up a job of `size` ranks without failures, in which this process is `rank`. */
void fake_pmix_reset(int size, int rank);
/* Answers the pending fence (and Get_nb), like a server that responds late. */
void fake_pmix_answer_fence(void);
#endif
