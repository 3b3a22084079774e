/* SPDX-License-Identifier: BSD-3-Clause
 * Many models in one job and in one group: each of them trains, they are closed in any order and
 * their numbers are used again, a poll advances only those that have something to do, several are
 * opened in one call, and the limit is refused by name. */
#include "calls/events.h"
#include "job/progress_token.h"
#include "model/model.h"
#include "ranks.h"
#include "thinned.h"
#include "cases.h"
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { MODELS = 300, FEW = 40, N = 48, STEPS = 2, FILES = 200 };

static sluice_model_attr attr_of(int m)
{
	return ATTR(.count = N, .lr = 1, .shards = 1 + (uint32_t)m % 3,
		    .recipe = m % 2 ? "up=topk(0.5) down=all" : "up=all down=all");
}

static sluice_model *open_one(sluice_job *job, int m, float *params)
{
	return rank_open(job, params, attr_of(m));
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

/* ---- opening several at once ----------------------------------------------------- */

enum { BATCH = 24 };

static int open_batch(sluice_job *job, size_t n, sluice_model_attr *attrs, float (*params)[N],
		      sluice_model **models)
{
	void *vectors[BATCH];
	for (size_t m = 0; m < n; m++)
		vectors[m] = params[m];
	return sluice_models_open(job, n, attrs, vectors, models);
}

/* Rank 0 gives each model other parameters. */
static void begin_params(float (*params)[N], int rank)
{
	for (int m = 0; m < BATCH; m++)
		for (int i = 0; i < N; i++)
			params[m][i] = rank ? -1 : (float)(m * N + i);
}

/* Two models are open before, and the number of one of them is free again. */
TEST_IN_JOB(models__opened_in_one_call__are_those_of_single_calls, 1, 3)
{
	float first[2][N] = { { 0 } }, params[BATCH][N], singles[BATCH][N];
	sluice_model *models[BATCH] = { NULL }, *single[BATCH], *before[2];
	sluice_model_attr attrs[BATCH];
	for (int m = 0; m < 2; m++)
		before[m] = open_one(job, m, first[m]);
	sluice_model_close(&before[0]);
	begin_params(params, rank);
	begin_params(singles, rank);
	for (int m = 0; m < BATCH; m++)
		attrs[m] = attr_of(m);
	const uint64_t begun = messages_completed(job);
	CHECK_OK(open_batch(job, BATCH, attrs, params, models));
	const uint64_t batch = messages_completed(job) - begun;
	for (int m = 0; m < BATCH; m++)
		single[m] = rank_open(job, singles[m], attrs[m]);
	/* Only the descriptors of regions take more rounds if there are more models. */
	CHECK(8 * batch < messages_completed(job) - begun - batch);
	CHECK(models[0]->id == 0 && models[1]->id == 2);
	CHECK(!memcmp(params, singles, sizeof(params)) && params[3][5] == 3 * N + 5);
	for (int s = 0; s < STEPS; s++) {
		step_all(models, params, BATCH);
		step_all(single, singles, BATCH);
	}
	CHECK(!memcmp(params, singles, sizeof(params)));
	step_one(before[1], 1, first[1]);
	check_same(job, params, sizeof(params));
	for (int m = BATCH; m-- > 0;)
		sluice_model_close(m % 2 ? &models[m] : &single[m]);
	for (int m = 0; m < BATCH; m++)
		sluice_model_close(m % 2 ? &single[m] : &models[m]);
	sluice_model_close(&before[1]);
	CHECK(!clients_have_models(&job->clients));
}

/* After each refusal the job can open models. */
TEST_IN_JOB(models__that_cannot_be_opened_in_one_call__are_refused_by_name, 2)
{
	float params[BATCH][N] = { { 0 } };
	sluice_model *models[BATCH] = { NULL };
	sluice_model_attr attrs[3] = { attr_of(0), attr_of(1), attr_of(2) };
	log_capture();
	attrs[1].recipe = "up=nothing";
	CHECK(open_batch(job, 3, attrs, params, models) == SLUICE_EINVAL && !models[0]);
	CHECK(error_says("model 1 of 3: ", "nothing"));
	attrs[1] = attr_of(rank ? 3 : 1);
	CHECK(open_batch(job, 3, attrs, params, models) == SLUICE_EPEER && !models[0]);
	CHECK(error_says("opened different models", "of 2 and 1 shards"));
	attrs[1] = attr_of(1);
	CHECK(open_batch(job, 2 + (size_t)rank, attrs, params, models) == SLUICE_EPEER);
	CHECK(error_says("opened different models", "2 and 3 of them in one call"));
	attrs[2].size -= 8;
	CHECK(open_batch(job, 3, attrs, params, models) == SLUICE_EINVAL);
	CHECK(error_says("model 2 of 3: ", "that of model 0 is"));
	attrs[2] = attr_of(2);
	params[2][7] = rank ? 0 : NAN;
	CHECK(open_batch(job, 3, attrs, params, models) < 0 && !models[2]);
	params[2][7] = 0;
	CHECK(open_batch(job, 0, attrs, params, models) == SLUICE_EINVAL);
	CHECK(error_says("n=0, must be 1 .. 65535", ""));
	CHECK_OK(open_batch(job, 3, attrs, params, models));
	CHECK(models[2]->id == 2);
	for (int m = 3; m-- > 0;)
		sluice_model_close(&models[m]);
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
