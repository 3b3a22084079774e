/* SPDX-License-Identifier: BSD-3-Clause
 * A PMIx that lives in the test: what the job looks like, what goes wrong, what was called. The
 * test program defines the PMIx_* functions that slurm/pmix_calls.c uses, so libpmix's are not
 * reached. */
#ifndef TESTS_FAKE_PMIX_H
#define TESTS_FAKE_PMIX_H
#include <pmix.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_RANKS = 8, FAKE_RECORD_BYTES = 4096 };
enum fake_fence { FENCE_ANSWERS, FENCE_AT_ONCE, FENCE_NEVER };

struct fake_pmix {
	/* the job */
	int size;
	pmix_rank_t rank;
	const char *node;                              /* NULL: the server does not tell */
	const char *local;                             /* the ranks on this node; NULL: not told */
	pmix_data_type_t size_type;                    /* of PMIX_JOB_SIZE */
	uint8_t record[FAKE_RANKS][FAKE_RECORD_BYTES]; /* of the peers; the own one comes by Put */
	size_t record_bytes[FAKE_RANKS];               /* 0: Get finds none */
	/* what goes wrong */
	pmix_status_t init_status, put_status, commit_status, fence_status, get_status;
	pmix_rank_t get_fails_at; /* get_status is for the record of this rank */
	int init_sleeps_ms, get_sleeps_ms, finalize_sleeps_ms;
	int card_is_text; /* Get gives a string */
	enum fake_fence fence;
	/* what was called */
	int inits, puts, commits, fences, aborts;
	/* These are written by helpers that were given up too, while the test goes on: who has seen
	 * the last of its counts may reset the fake. */
	atomic_int finalizes, calls_after_finalize, cards_asked_for;
	int collected; /* the fence asked for PMIX_COLLECT_DATA */
	int fence_timeout_s;
	pmix_op_cbfunc_t pending; /* of FENCE_NEVER */
	void *pending_context;
	pmix_value_cbfunc_t unanswered; /* of the last Get_nb about a rank that offered nothing */
	void *unanswered_context;
};

extern struct fake_pmix fake_pmix;

/* A job of `size` in which all goes well, this process being rank. */
void fake_pmix_reset(int size, int rank);
/* Answers the fence (and a Get_nb) that was left pending, as a server does that comes back late. */
void fake_pmix_answer_fence(void);
#endif
