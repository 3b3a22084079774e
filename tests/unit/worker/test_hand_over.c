/* SPDX-License-Identifier: BSD-3-Clause
 * Another recipe in the middle of a run: the means of both models together contain every pushed
 * gradient, and models that do not fit are refused. */
#include "base/error.h"
#include "cases.h"
#include "ranks.h"
#include "sluice_vector.h"
#include <string.h>

enum { COUNT = 500, STEPS = 6 };
static const char sparse[] = "up=topk(0.05) down=topk(0.1) update=none",
		  dense[] = "up=all down=all memory=residual update=none";

/* Small integers, so that sums are exact. */
static float value(int rank, int step, int i)
{
	return (float)((7 * rank + 5 * step + 3 * i) % 31 - 15);
}

static sluice_model *open_model(sluice_job *job, const char *recipe, uint64_t count)
{
	float params[COUNT] = { 0 };
	sluice_model *model = NULL;
	sluice_model_attr attr = {
		.size = sizeof attr, .count = count, .recipe = recipe, .shards = 3
	};

	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	return model;
}

static void make_step(sluice_model *model, int rank, int step, float *sum)
{
	float grad[COUNT], mean[COUNT];

	for (int i = 0; i < COUNT; i++)
		grad[i] = value(rank, step, i);
	CHECK_OK(sluice_push(model, grad));
	CHECK_OK(sluice_pull(model, mean));
	for (int i = 0; i < COUNT; i++)
		sum[i] += mean[i];
}

TEST_IN_JOB(hand_over__to_a_dense_recipe__everything_arrives, 1, 2, 4)
{
	const int workers = sluice_workers(job);
	float sum[COUNT] = { 0 }, residual[COUNT];
	sluice_model *from = open_model(job, sparse, COUNT), *to;
	int lacks = 0, left = 0;

	for (int step = 0; step < STEPS; step++)
		make_step(from, rank, step, sum);
	CHECK_OK(sluice_residual(from, residual));
	for (int i = 0; i < COUNT; i++)
		left += residual[i] != 0;
	CHECK(left > COUNT / 2);
	to = open_model(job, dense, COUNT);
	CHECK_OK(sluice_hand_over(from, to));
	sluice_model_close(&from);
	make_step(to, rank, STEPS, sum);
	for (int i = 0; i < COUNT; i++) {
		float all = 0;
		for (int step = 0; step <= STEPS; step++)
			for (int r = 0; r < workers; r++)
				all += value(r, step, i);
		lacks += sum[i] != all / (float)workers;
	}
	CHECK(!lacks);
	CHECK_OK(sluice_residual(to, residual));
	for (int i = 0; i < COUNT; i++)
		CHECK(residual[i] == 0);
	sluice_model_close(&to);
}

/* With reduce=senders a push of one worker counts whole. Only the owner of a shard pushes the
 * values that the shard has not published. */
TEST_IN_JOB(hand_over__to_reduce_senders__unpublished_values_arrive_once, 2, 4)
{
	const char *all = "up=all down=topk(0.1) memory=residual update=none",
		   *senders = "up=all down=all memory=residual update=none reduce=senders";
	float sum[COUNT] = { 0 }, zeros[COUNT] = { 0 }, mean[COUNT];
	sluice_model *from = open_model(job, all, COUNT), *to;

	make_step(from, rank, 0, sum);
	to = open_model(job, senders, COUNT);
	CHECK_OK(sluice_hand_over(from, to));
	sluice_model_close(&from);
	CHECK_STEP(to, zeros, mean);
	for (int i = 0; i < COUNT; i++) {
		float of_all = 0;

		for (int r = 0; r < sluice_workers(job); r++)
			of_all += value(r, 0, i);
		CHECK(sum[i] + mean[i] == of_all / (float)sluice_workers(job));
	}
	sluice_model_close(&to);
}

/* A second call would send the residual twice. Another model can take over, because a program may
 * have to give up the first one. */
TEST_IN_JOB(hand_over__twice_to_one_model__is_refused_and_changes_nothing, 2)
{
	float sum[COUNT] = { 0 }, once[COUNT], twice[COUNT];
	sluice_model *from = open_model(job, sparse, COUNT), *to = open_model(job, dense, COUNT),
		     *other = open_model(job, dense, COUNT);

	log_capture();
	make_step(from, rank, 0, sum);
	CHECK_OK(sluice_hand_over(from, to));
	CHECK_OK(sluice_residual(to, once));
	CHECK(sluice_hand_over(from, to) == SLUICE_EINVAL);
	CHECK(error_says("sluice_hand_over", "already taken over"));
	CHECK_OK(sluice_residual(to, twice));
	CHECK(!memcmp(once, twice, sizeof once));
	CHECK_OK(sluice_hand_over(from, other));
	CHECK_OK(sluice_residual(other, twice));
	CHECK(!memcmp(once, twice, sizeof once));
	sluice_model_close(&other);
	sluice_model_close(&to);
	sluice_model_close(&from);
}

static void refused(sluice_job *job, const char *old, const char *new, const char *why)
{
	sluice_model *from = open_model(job, old, COUNT), *to = open_model(job, new, COUNT);

	CHECK(sluice_hand_over(from, to) == SLUICE_EINVAL);
	CHECK(error_says("sluice_hand_over", why));
	sluice_model_close(&from);
	sluice_model_close(&to);
}

TEST_IN_JOB(hand_over__of_models_that_do_not_fit__is_refused, 2)
{
	float sum[COUNT] = { 0 }, grad[COUNT] = { 0 }, mean[COUNT];
	sluice_model *from = open_model(job, sparse, COUNT), *to = open_model(job, dense, COUNT),
		     *longer = open_model(job, dense, COUNT - 1);

	log_capture();
	CHECK(sluice_hand_over(NULL, to) == SLUICE_EINVAL);
	CHECK(sluice_hand_over(from, NULL) == SLUICE_EINVAL);
	CHECK(sluice_hand_over(from, from) == SLUICE_EINVAL);
	CHECK(error_says("open another one", NULL));
	CHECK(sluice_hand_over(from, longer) == SLUICE_EINVAL);
	CHECK(error_says("lengths", NULL));
	CHECK(sluice_residual(from, NULL) == SLUICE_EINVAL);
	CHECK_OK(sluice_push(from, grad));
	CHECK(sluice_hand_over(from, to) == SLUICE_EINVAL);
	CHECK(sluice_residual(from, sum) == SLUICE_EINVAL);
	CHECK_OK(sluice_pull(from, mean));
	make_step(to, rank, 0, sum);
	CHECK(sluice_hand_over(from, to) == SLUICE_EINVAL);
	CHECK(error_says("made steps", NULL));
	refused(job, sparse, "up=topk(0.1) down=all memory=none update=none", "lose the residual");
	refused(job, sparse, "up=topk(0.1) down=all update=none clip=median", "lose the rest");
	refused(job, "up=topk(0.1) down=all update=sgd", dense, "the old model has update=");
	refused(job, sparse, "up=topk(0.1) down=all update=sgd", "the new model has update=");
	sluice_model_close(&longer);
	sluice_model_close(&to);
	sluice_model_close(&from);
}
