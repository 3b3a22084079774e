/* SPDX-License-Identifier: BSD-3-Clause
 * Many models in one job and in one group: each of them trains, they are closed in any order and
 * their numbers are used again, a poll advances only those that have something to do, and the limit
 * is refused by name. */
#include "calls/events.h"
#include "job/progress_token.h"
#include "model/model.h"
#include "ranks.h"
#include "thinned.h"
#include "cases.h"
#include <stdlib.h>
#include <sys/resource.h>

enum { MODELS = 300, FEW = 40, N = 48, STEPS = 2, FILES = 200 };

static sluice_model *open_one(sluice_job *job, int m, float *params)
{
	sluice_model *model = OPEN(job, params, .count = N, .lr = 1, .shards = 1 + (uint32_t)m % 3,
				   .recipe = m % 2 ? "up=topk(0.5) down=all" : "up=all down=all");
	return model;
}

/* Each model has other gradients, which are equal on all ranks. */
static float slope(int m, int i)
{
	return (float)(m % 64 + 1) / (float)(1 << (i % 8));
}

static void step_one(sluice_model *model, int m, float *params)
{
	float grad[N];
	for (int i = 0; i < N; i++)
		grad[i] = slope(m, i);
	CHECK_STEP(model, grad, params);
}

static void open_all(sluice_job *job, sluice_model **models, float (*params)[N], int n)
{
	for (int m = 0; m < n; m++)
		if (!models[m]) {
			for (int i = 0; i < N; i++)
				params[m][i] = 0;
			models[m] = open_one(job, m, params[m]);
		}
}

/* Makes all pushes of a step before its pulls, as FSDP does with its modules. */
static void step_all(sluice_model **models, float (*params)[N], int n)
{
	float grad[N];
	for (int m = 0; m < n; m++) {
		for (int i = 0; i < N; i++)
			grad[i] = slope(m, i);
		CHECK_OK(sluice_push(models[m], grad));
	}
	for (int m = n; m-- > 0;)
		CHECK_OK(sluice_pull(models[m], params[m]));
}

/* A dense model has moved by exactly its gradients, and a sparse one only at coordinates that it
 * sends. */
static void check_all(float (*params)[N], int n, int steps)
{
	for (int m = 0; m < n; m += 2)
		for (int i = 0; i < N; i++)
			CHECK(params[m][i] == -(float)steps * slope(m, i));
	for (int m = 1; m < n; m += 2)
		CHECK(params[m][0] < 0);
}

static int quiet(void *job)
{
	return clients_n_stirred(&((sluice_job *)job)->clients) == 0;
}

static void describe_quiet(void *job, char *text, size_t cap)
{
	*text = 0;
}

/* Checks that polls skip models without work. */
static void check_quiet(sluice_job *job)
{
	CHECK_OK(sluice_barrier(job));
	progress_take(job);
	CHECK_OK(progress_until(job, quiet, describe_quiet, job));
	progress_release(job);
}

static void train_many(sluice_job *job)
{
	const int n = under_valgrind() || UNDER_THREAD_SANITIZER ? FEW : MODELS;
	sluice_model **models = calloc((size_t)n, sizeof(*models));
	float(*params)[N] = calloc((size_t)n, sizeof(*params));
	CHECK(models && params);
	open_all(job, models, params, n);
	for (int s = 0; s < STEPS; s++)
		step_all(models, params, n);
	check_all(params, n, STEPS);
	check_quiet(job);
	const uint32_t channels = job->clients.channels_end;
	/* Every third model is closed, and its number is used again. */
	for (int m = 0; m < n; m += 3)
		sluice_model_close(&models[m]);
	for (int m = 1; m < n; m += 3)
		step_one(models[m], m, params[m]);
	open_all(job, models, params, n);
	CHECK(job->clients.channels_end == channels);
	CHECK((int)clients_models_end(&job->clients) == n);
	for (int m = 0; m < n; m += 3)
		for (int s = 0; s < STEPS; s++)
			step_one(models[m], m, params[m]);
	for (int m = 0; m < n; m += 6)
		for (int i = 0; i < N; i++)
			CHECK(params[m][i] == -(float)STEPS * slope(m, i));
	check_same(job, params, (size_t)n * sizeof(*params));
	for (int m = n; m-- > 0;)
		sluice_model_close(&models[m]);
	CHECK(!clients_have_models(&job->clients));
	free(models);
	free(params);
}

/* The limit on open files is below the number of models, because an open model needs no file. */
TEST_IN_JOB(models__many_in_a_job_and_in_a_group__all_train, 2)
{
	struct rlimit few;
	sluice_job *group = NULL;
	CHECK_OK(sluice_split(job, 0, -rank, &group));
	CHECK(!getrlimit(RLIMIT_NOFILE, &few));
	few.rlim_cur = FILES; /* valgrind keeps the hard limit */
	CHECK(!setrlimit(RLIMIT_NOFILE, &few));
	train_many(job);
	train_many(group);
	sluice_finalize(&group);
}

/* ---- a notify of a model that was closed ------------------------------------- */

TEST_IN_JOB(notify__of_a_model_that_was_closed__does_no_harm, 2)
{
	float params[N] = { 0 };
	sluice_model *kept = open_one(job, 0, params), *closed = open_one(job, 1, params);
	const uint32_t channel = closed->channel;
	sluice_model_close(&closed);
	CHECK_OK(sluice_barrier(job));
	progress_take(job);
	if (rank)
		lines_put(job, 0, LINE_REPORT, outbox_at(job, LINE_REPORT), 8,
			  imm_make(IMM_PUSH, channel));
	progress_release(job);
	CHECK_OK(sluice_barrier(job));
	step_one(kept, 0, params);
	sluice_model_close(&kept);
}

/* ---- the limit ---------------------------------------------------------------- */

/* The table is filled with one model, which polls skip because it has no work. */
TEST_IN_RANKS(models__more_than_the_limit__are_refused_by_name, 1)
{
	float params[N] = { 0 };
	sluice_job *job = rank_join(NULL);
	sluice_model *model = open_one(job, 0, params), *more = NULL;
	struct clients *clients = &job->clients;
	uint32_t id, channel;
	check_quiet(job);
	progress_take(job);
	while ((id = clients_free_model(clients)) < JOB_MODELS) {
		CHECK_OK(clients_reserve(clients, id, 1, IMM_INDEX_MOST, &channel));
		clients_add_model(clients, id, model, channel, 1);
	}
	progress_release(job);
	log_capture();
	const sluice_model_attr attr = ATTR(.count = N);
	CHECK(sluice_model_open(job, &attr, params, &more) == SLUICE_EINVAL && !more);
	CHECK(error_says("65535 models are already open, the maximum of a job", "close"));
	progress_take(job);
	for (id = 1; id < JOB_MODELS; id++)
		clients_drop_model(clients, id, model);
	progress_release(job);
	more = open_one(job, 1, params);
	CHECK(more->id == 1);
	sluice_model_close(&more);
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

TEST(shards__more_than_a_notify_can_name__are_refused_by_name)
{
	struct clients clients = { .models_open = 0 };
	uint32_t channel;
	clients_init(&clients);
	log_capture();
	assert_int_equal(clients_reserve(&clients, 0, GROUP_INDEX_MOST, GROUP_INDEX_MOST, &channel),
			 0);
	assert_int_equal(channel, 0);
	clients_add_model(&clients, 0, (sluice_model *)&channel, channel, GROUP_INDEX_MOST);
	assert_int_equal(clients_reserve(&clients, 1, 2, GROUP_INDEX_MOST, &channel),
			 SLUICE_EINVAL);
	assert_true(error_says("no room for 2 more shards", "attr.shards"));
	clients_close(&clients);
}
