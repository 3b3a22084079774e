/* SPDX-License-Identifier: BSD-3-Clause
 * clip=median and reduce=senders: all shards scale a worker's push by one factor, which follows
 * from everything that it sends, and divide each coordinate by the number of its senders.
 * tests/oracle compares longer jobs with numpy. */
#include "worker/state.h"
#include "model/model.h"
#include "ranks.h"
#include "cases.h"
#include <math.h>
#include <string.h>

enum { N = 300, LOW = 7, HIGH = 290 };

/* Pushes values with the norms 5, 10, 500 and 0 in the first and the last of three shards. */
static void push_two(sluice_job *job, int rank, const char *recipe, float *params)
{
	static const float scales[] = { 1, 2, 100, 0 };
	float grad[N] = { 0 };
	sluice_model *model = OPEN(job, memset(params, 0, N * sizeof(*params)), .count = N,
				   .shards = 3, .recipe = recipe, .lr = 1);

	grad[LOW] = 3 * scales[rank];
	grad[HIGH] = 4 * scales[rank];
	CHECK_STEP(model, grad, params);
	/* What is scaled away is lost. */
	for (int i = 0; i < N; i++)
		CHECK(worker_residual(model->worker)[i] == 0);
	sluice_model_close(&model);
}

static int is_near(float value, float expected)
{
	return fabsf(value - expected) <= 1e-6f * fabsf(expected);
}

#define RECIPE "up=topk(k=2) down=all memory=residual update=sgd dense=none "

TEST_IN_JOB(clip_median__one_push_is_far_longer__all_shards_scale_it_to_the_median, 4)
{
	float params[N];

	push_two(job, rank, RECIPE "clip=median", params);
	CHECK(is_near(params[LOW], -(3 + 6 + 6) / 4.0f));
	CHECK(is_near(params[HIGH], -(4 + 8 + 8) / 4.0f));
}

TEST_IN_JOB(clip_median__with_senders__divides_by_the_workers_that_sent_a_value, 4)
{
	float params[N];

	push_two(job, rank, RECIPE "clip=median reduce=senders", params);
	CHECK(is_near(params[LOW], -(3 + 6 + 6) / 3.0f));
	CHECK(is_near(params[HIGH], -(4 + 8 + 8) / 3.0f));
}

TEST_IN_JOB(reduce_senders__one_worker_sends_a_coordinate__it_moves_by_the_whole_value, 3)
{
	float params[N] = { 0 }, grad[N] = { 0 };
	sluice_model *model = OPEN(job, params, .count = N, .shards = 2, .lr = 1,
				   .recipe = RECIPE "reduce=senders");

	grad[10 + rank] = 6;
	grad[200] = 3;
	CHECK_STEP(model, grad, params);
	for (int r = 0; r < 3; r++)
		CHECK(params[10 + r] == -6);
	CHECK(is_near(params[200], -3));
	/* The numbers of senders are those of one step. */
	CHECK_STEP(model, grad, params);
	CHECK(params[10] == -12);
	sluice_model_close(&model);
}

/* The grid follows from the whole vector. A worker whose random coordinates are all zero sends
 * zeros, and its norm is 0. */
TEST_IN_JOB(clip_median__grid_and_only_zeros_drawn__trains, 2)
{
	float params[N] = { 0 }, grad[N] = { 1, 1, 1 };
	sluice_model *model = OPEN(job, params, .count = N, .lr = 0.1f,
				   .recipe = "up=randk(0.1),grid(4) down=all clip=median");

	for (int step = 0; step < 8; step++)
		CHECK_STEP(model, grad, params);
	sluice_model_close(&model);
}

/* Seeded selectors draw in all fragments. The norm is that of the fragment that is exchanged, and
 * not also of values that an earlier exchange of the other fragment has left. */
TEST_IN_JOB(clip_median__seeded_and_fragments__compares_only_what_is_exchanged, 3)
{
	float params[N] = { 0 };
	sluice_model *model = OPEN(job, params, .count = N,
				   .recipe = "up=randk(1) down=all memory=none signal=drift "
					     "when=every(2),fragments(2) clip=median");

	/* Rank 0 moves far in the first fragment, and like the others in the second one. */
	for (int i = 0; i < N; i++)
		params[i] -= i < N / 2 && !rank ? 100 : 1;
	CHECK_STEP(model, params, params);
	CHECK(is_near(params[0], -1));
	CHECK_STEP(model, params, params);
	CHECK(is_near(params[N - 1], -1));
	sluice_model_close(&model);
}

TEST_IN_JOB(clip_median__a_single_worker__is_refused, 1)
{
	float params[N] = { 0 };
	const sluice_model_attr attr = { .size = sizeof(attr),
					 .count = N,
					 .recipe = RECIPE "clip=median" };
	sluice_model *model = NULL;

	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EINVAL);
	CHECK(strstr(sluice_last_error(), "clip=median compares the pushes of several workers"));
}
