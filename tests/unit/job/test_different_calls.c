/* SPDX-License-Identifier: BSD-3-Clause
 * Ranks in different collective calls: both learn the names of both calls, without waiting for a
 * time-out. */
#include "job/state.h"
#include "ranks.h"
#include "cases.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 100 };

static sluice_model *open_one(sluice_job *job, float *params)
{
	sluice_model *model = OPEN(job, params, .count = N,
				   .recipe = "up=topk(0.1) down=topk(0.1)");
	return model;
}

static int make_step(sluice_model *model, float *params)
{
	const float grad[N] = { 1 };
	const int rc = sluice_push(model, grad);
	return rc ? rc : sluice_pull(model, params);
}

static void leave(sluice_job *job, sluice_model *model)
{
	sluice_model_close(&model);
	sluice_finalize(&job);
}

/* ---- a model against a checkpoint ------------------------------------------- */

struct pair {
	int steps, restores;
	const char *call;
};

/* Rank 0 makes one step more than rank 1, which saves or restores. */
static int step_against_checkpoint(int rank, void *argument)
{
	const struct pair *pair = argument;
	float params[N] = { 0 };
	uint64_t step;
	sluice_job *job = rank_join(NULL);
	sluice_model *model = open_one(job, params);
	int rc;
	for (int s = 0; s < pair->steps; s++)
		CHECK_OK(make_step(model, params));
	log_capture();
	if (!rank)
		rc = make_step(model, params);
	else if (pair->restores)
		rc = sluice_restore(model, "/nonexistent", params, &step);
	else
		rc = sluice_checkpoint(model, "/nonexistent");
	CHECK(rc == SLUICE_EPEER && error_says(pair->call, "sluice_pull"));
	CHECK(error_says("rank 0 (node n1)", "rank 1 (node n1)"));
	CHECK(!log_saw("SLUICE_WAIT_TIMEOUT", NULL, NULL, NULL));
	leave(job, model);
	return 0;
}

TEST(step__against_a_checkpoint__both_learn_both_calls)
{
	struct pair first = { 0, 1, "sluice_restore of model 0 after 0 steps" },
		    restore = { 2, 1, "sluice_restore of model 0 after 2 steps" },
		    save = { 3, 0, "sluice_checkpoint of model 0 after 3 steps" };
	run_ranks(2, step_against_checkpoint, &first);
	run_ranks(2, step_against_checkpoint, &restore);
	run_ranks(2, step_against_checkpoint, &save);
}

/* ---- two collectives, and a rank that joins neither --------------------------- */

static void third_never_comes(sluice_job *job, int rank, void *argument)
{
	atomic_int *told = argument;
	double one = 1;
	log_capture();
	if (rank < 2) {
		const int rc = rank ? sluice_sum(job, &one, 1) : sluice_barrier(job);
		CHECK(rc == SLUICE_EINVAL || rc == SLUICE_EPEER);
		CHECK(error_says("sluice_barrier", "sluice_sum"));
		CHECK(!log_saw("SLUICE_WAIT_TIMEOUT", NULL, NULL, NULL));
		atomic_fetch_add(told, 1);
	} else {
		while (atomic_load(told) < 2)
			sleep_ms(1);
	}
}

TEST(collectives__that_differ__are_named_though_a_third_rank_computes)
{
	run_in_job(3, third_never_comes, shared_memory(sizeof(atomic_int)));
}

/* ---- closing ------------------------------------------------------------------ */

/* After this, the ranks would have different numbers for the same region, and a notify of one
 * region would end a wait for another. */
TEST_IN_JOB(close__of_different_regions__names_both, 2)
{
	sluice_region *of[2];

	for (int i = 0; i < 2; i++)
		CHECK_OK(sluice_region_open(job, 64, &of[i]));
	log_capture();
	sluice_region_close(&of[rank]);
	const int rc = sluice_barrier(job);
	CHECK(rc == SLUICE_EINVAL || rc == SLUICE_EPEER);
	CHECK(error_says("rank 0 (node n1) closes region 0", "rank 1 (node n1) closes region 1"));
	sluice_region_close(&of[1 - rank]);
}

static void third_never_closes(sluice_job *job, int rank, void *told_memory)
{
	atomic_int *told = told_memory;
	sluice_region *of[2];

	for (int i = 0; i < 2; i++)
		CHECK_OK(sluice_region_open(job, 64, &of[i]));
	log_capture();
	if (rank < 2) {
		sluice_region_close(&of[rank]);
		CHECK(error_says("closes region 0", "closes region 1"));
		atomic_fetch_add(told, 1);
	} else {
		while (atomic_load(told) < 2)
			sleep_ms(1);
	}
	for (int i = 0; i < 2; i++)
		sluice_region_close(&of[i]);
}

TEST(close__of_different_regions__is_named_though_a_third_rank_computes)
{
	run_in_job(3, third_never_closes, shared_memory(sizeof(atomic_int)));
}

TEST_IN_JOB(close__of_a_model_against_a_region__names_both, 2)
{
	float params[N] = { 0 };
	sluice_model *model = open_one(job, params);
	sluice_region *region;

	CHECK_OK(sluice_region_open(job, 64, &region));
	log_capture();
	if (rank)
		sluice_region_close(&region);
	else
		sluice_model_close(&model);
	const int rc = sluice_barrier(job);
	CHECK(rc == SLUICE_EINVAL || rc == SLUICE_EPEER);
	CHECK(error_says("rank 0 (node n1) closes model 0", "rank 1 (node n1) closes region 0"));
	sluice_region_close(&region);
	sluice_model_close(&model);
}

/* ---- a step against a call that another thread's push may end ---------------- */

TEST_IN_RANKS(step__against_a_barrier__the_limit_names_both, 2)
{
	float params[N] = { 0 };
	sluice_job *job = rank_join(NULL);
	sluice_model *model = open_one(job, params);
	log_capture();
	if (!rank) {
		be_impatient(job, 300);
		CHECK(make_step(model, params) == SLUICE_ETIMEDOUT);
		CHECK(error_says("step 1", "rank 1 (node n1) is in sluice_barrier and waits"));
	} else {
		CHECK(sluice_barrier(job) == SLUICE_EPEER);
		CHECK(error_says("rank 0 (node n1)", "is in sluice_barrier and waits"));
	}
	leave(job, model);
	return 0;
}

/* ---- valid orders of calls ---------------------------------------------------- */

/* Rank 1 always ends a step first, and saves or sums while rank 0 still pulls. */
static int hurry(int rank, void *argument)
{
	float params[N] = { 0 };
	double one;
	sluice_job *job = rank_join(NULL);
	sluice_model *model = open_one(job, params);
	const char *folder = argument;
	for (int s = 0; s < 20; s++) {
		const float grad[N] = { 1 };
		CHECK_OK(sluice_push(model, grad));
		if (!rank)
			sleep_ms(2);
		CHECK_OK(sluice_pull(model, params));
		one = 1;
		CHECK_OK(s % 2 ? sluice_checkpoint(model, folder) : sluice_sum(job, &one, 1));
	}
	leave(job, model);
	return 0;
}

TEST(collectives__that_one_rank_reaches_first__are_right)
{
	char folder[] = "/tmp/sluice-calls-XXXXXX", command[64];
	assert_non_null(mkdtemp(folder));
	run_ranks(2, hurry, folder);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(system(command), 0);
}
