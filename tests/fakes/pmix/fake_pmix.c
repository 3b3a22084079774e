/* SPDX-License-Identifier: BSD-3-Clause
 * A fake of a PMIx that works: Get returns the values that were put, and fences answer from their
 * own thread, like those of the real library. Thread-safe only as far as test_bootstrap.c needs it:
 * one helper at a time, and only PMIx_Finalize() besides a helper that has timed out. */
#include "fake_pmix.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The functions must have the parameters of the functions that they replace. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

struct fake_pmix fake_pmix;

void fake_pmix_reset(int size, int rank)
{
	memset(&fake_pmix, 0, sizeof(fake_pmix));
	fake_pmix.size = size;
	fake_pmix.rank = (pmix_rank_t)rank;
	fake_pmix.node = "n7";
	fake_pmix.size_type = PMIX_UINT32;
	fake_pmix.get_fails_at = PMIX_RANK_UNDEF;
}

static void sleep_ms(int ms)
{
	struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };

	if (ms)
		nanosleep(&t, NULL);
}

static void note_call(void)
{
	if (fake_pmix.finalizes)
		fake_pmix.calls_after_finalize++;
}

pmix_status_t PMIx_Init(pmix_proc_t *proc, pmix_info_t info[], size_t ninfo)
{
	note_call();
	sleep_ms(fake_pmix.init_sleeps_ms);
	fake_pmix.inits++;
	if (fake_pmix.init_status != PMIX_SUCCESS)
		return fake_pmix.init_status;
	memset(proc, 0, sizeof(*proc));
	strcpy(proc->nspace, "fake");
	proc->rank = fake_pmix.rank;
	return PMIX_SUCCESS;
}

pmix_status_t PMIx_Finalize(const pmix_info_t info[], size_t ninfo)
{
	note_call();
	sleep_ms(fake_pmix.finalize_sleeps_ms);
	fake_pmix.finalizes++;
	return PMIX_SUCCESS;
}

pmix_status_t PMIx_Abort(int status, const char msg[], pmix_proc_t procs[], size_t nprocs)
{
	note_call();
	fake_pmix.aborts += !procs && !nprocs; /* a NULL list means the whole job */
	return PMIX_SUCCESS;
}

/* Returns 1 for the key of the current round. A key cannot be put twice, nor got before it was
 * put. */
static int is_card(const char *key)
{
	return !strcmp(key, fake_pmix.puts > 1 ? "sluice.card2" : "sluice.card");
}

pmix_status_t PMIx_Put(pmix_scope_t scope, const char key[], pmix_value_t *value)
{
	note_call();
	fake_pmix.puts++;
	if (scope != PMIX_GLOBAL || !is_card(key) || value->type != PMIX_BYTE_OBJECT ||
	    value->data.bo.size > FAKE_RECORD_BYTES)
		return PMIX_ERR_BAD_PARAM;
	memcpy(fake_pmix.record[fake_pmix.rank], value->data.bo.bytes, value->data.bo.size);
	fake_pmix.record_bytes[fake_pmix.rank] = value->data.bo.size;
	return fake_pmix.put_status;
}

pmix_status_t PMIx_Commit(void)
{
	note_call();
	fake_pmix.commits++;
	return fake_pmix.commit_status;
}

struct answer {
	pmix_op_cbfunc_t callback;
	void *context;
	pmix_status_t status;
};

static void *answer_body(void *argument)
{
	struct answer a = *(struct answer *)argument;

	free(argument);
	a.callback(a.status, a.context);
	return NULL;
}

pmix_status_t PMIx_Fence_nb(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
			    size_t ninfo, pmix_op_cbfunc_t callback, void *context)
{
	struct answer *a;
	pthread_t thread;
	size_t i;

	note_call();
	fake_pmix.fences++;
	for (i = 0; i < ninfo; i++) {
		if (PMIX_CHECK_KEY(&info[i], PMIX_COLLECT_DATA))
			fake_pmix.collected = info[i].value.data.flag;
		if (PMIX_CHECK_KEY(&info[i], PMIX_TIMEOUT))
			fake_pmix.fence_timeout_s = info[i].value.data.integer;
	}
	if (fake_pmix.fence == FENCE_AT_ONCE)
		return fake_pmix.fence_status ? fake_pmix.fence_status : PMIX_OPERATION_SUCCEEDED;
	if (fake_pmix.fence == FENCE_NEVER) {
		fake_pmix.pending = callback;
		fake_pmix.pending_context = context;
		return PMIX_SUCCESS;
	}
	a = malloc(sizeof(*a));
	*a = (struct answer){ callback, context, fake_pmix.fence_status };
	pthread_create(&thread, NULL, answer_body, a);
	pthread_detach(thread);
	return PMIX_SUCCESS;
}

void fake_pmix_answer_fence(void)
{
	fake_pmix.pending(PMIX_SUCCESS, fake_pmix.pending_context);
	fake_pmix.pending = NULL;
	if (fake_pmix.unanswered)
		fake_pmix.unanswered(PMIX_ERR_TIMEOUT, NULL, fake_pmix.unanswered_context);
	fake_pmix.unanswered = NULL;
}

static pmix_status_t give_size(pmix_value_t *v)
{
	v->type = fake_pmix.size_type;
	switch (fake_pmix.size_type) {
	case PMIX_UINT64: v->data.uint64 = (uint64_t)fake_pmix.size; break;
	case PMIX_INT: v->data.integer = fake_pmix.size; break;
	case PMIX_UINT16: v->data.uint16 = (uint16_t)fake_pmix.size; break;
	case PMIX_SIZE: v->data.size = (size_t)fake_pmix.size; break;
	case PMIX_PROC_RANK: v->data.rank = (pmix_rank_t)fake_pmix.size; break;
	case PMIX_STRING: v->data.string = strdup("4"); break;
	default: v->data.uint32 = (uint32_t)fake_pmix.size; break;
	}
	return PMIX_SUCCESS;
}

static pmix_status_t give_card(pmix_rank_t rank, pmix_value_t *v)
{
	size_t n;

	if (rank == fake_pmix.get_fails_at)
		return fake_pmix.get_status;
	n = rank < FAKE_RANKS ? fake_pmix.record_bytes[rank] : 0;
	if (!n)
		return PMIX_ERR_NOT_FOUND;
	if (fake_pmix.card_is_text) {
		v->type = PMIX_STRING;
		v->data.string = strdup("a record?");
		return PMIX_SUCCESS;
	}
	v->type = PMIX_BYTE_OBJECT;
	v->data.bo.bytes = malloc(n);
	v->data.bo.size = n;
	memcpy(v->data.bo.bytes, fake_pmix.record[rank], n);
	return PMIX_SUCCESS;
}

pmix_status_t PMIx_Get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
		       size_t ninfo, pmix_value_t **value)
{
	pmix_value_t *v = calloc(1, sizeof(*v));
	pmix_status_t status = PMIX_ERR_NOT_FOUND;

	note_call();
	if (strcmp(key, PMIX_JOB_SIZE) == 0 && proc->rank == PMIX_RANK_WILDCARD) {
		status = give_size(v);
	} else if (strcmp(key, PMIX_HOSTNAME) == 0 && fake_pmix.node) {
		v->type = PMIX_STRING;
		v->data.string = strdup(fake_pmix.node);
		status = PMIX_SUCCESS;
	} else if (strcmp(key, PMIX_LOCAL_PEERS) == 0 && fake_pmix.local) {
		v->type = PMIX_STRING;
		v->data.string = strdup(fake_pmix.local);
		status = PMIX_SUCCESS;
	} else if (is_card(key)) {
		sleep_ms(fake_pmix.get_sleeps_ms);
		status = give_card(proc->rank, v);
		fake_pmix.cards_asked_for++;
	}
	if (status != PMIX_SUCCESS) {
		free(v);
		v = NULL;
	}
	*value = v;
	return status;
}

/* Answers at once, except about a rank that has put no record: that request is never answered. */
pmix_status_t PMIx_Get_nb(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
			  size_t ninfo, pmix_value_cbfunc_t callback, void *context)
{
	pmix_value_t *value;

	if (PMIx_Get(proc, key, info, ninfo, &value) != PMIX_SUCCESS) {
		fake_pmix.unanswered = callback;
		fake_pmix.unanswered_context = context;
		return PMIX_SUCCESS;
	}
	callback(PMIX_SUCCESS, value, context);
	PMIX_VALUE_RELEASE(value);
	return PMIX_SUCCESS;
}

const char *PMIx_Get_version(void)
{
	return "FakePMIx 9.8.7, for tests";
}
