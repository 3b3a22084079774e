/* SPDX-License-Identifier: BSD-3-Clause
 * Dense steps: the same bits as with single messages, which a measured model uses; and a gradient
 * or a sum that is not finite ends the job. */
#include "base/bytes.h"
#include "compress/dense.h"
#include "shard/inbox.h"
#include "shard/shard_dense.h"
#include "shard/state.h"
#include "worker/lane.h"
#include "worker/state.h"
#include "dense_values.h"
#include "same_bits.h"
#include "thinned.h"
#include "cases.h"
#include <math.h>
#include <string.h>

/* ---- the same bits --------------------------------------------------------- */

enum { STEPS = 6 };
struct shape {
	const char *recipe;
	uint64_t count;
	uint32_t shards;
	int worker_part, shard_part; /* 1: expected to be dense in step 1 */
};

static float value_of(const struct shape *shape, uint64_t step, int rank, uint64_t i)
{
	if (rank == 1 && step == 3 && i == shape->count / 2 && strstr(shape->recipe, "nonfinite="))
		return NAN;
	return i % 11 == step ? -0.0f : noise(7, step, (uint64_t)rank, i);
}

static int exchange(sluice_model *model, const float *grad, float *params)
{
	int rc = sluice_push(model, model->recipe.update == UPDATE_AVERAGE ? params : grad);

	return rc ? rc : sluice_pull(model, params);
}

static void draw(float *grad, const float *params, const struct side *s)
{
	for (uint64_t i = 0; i < s->attr.count; i++)
		grad[i] = value_of(s->training->own, s->step, s->rank, i);
}

static void push(struct side *s, const float *grad)
{
	float *params = s->params;

	for (uint64_t i = 0; i < s->attr.count && s->model->recipe.update == UPDATE_AVERAGE; i++)
		params[i] += grad[i];
	side_push(s, grad);
}

/* Opens the side that reads each message and the accumulator. */
static void open_measured(struct side *s)
{
	side_open(s);
	CHECK_OK(sluice_set(s->model, SLUICE_MEASURE, 1));
}

static void check_parts(struct side *dense, struct side *measured)
{
	const struct shape *shape = dense->training->own;
	struct lanes *lanes = dense->model->worker->lanes;

	for (uint32_t s = 0; s < dense->model->n_own; s++) {
		const struct shard *own = &dense->model->shards[s];

		CHECK(is_zero(own->reduction.sum, own->at->span));
		CHECK(dense->step > 1 || shard_dense_summed(own) == shape->shard_part);
		CHECK(!shard_dense_summed(&measured->model->shards[s]));
	}
	/* Only a slot that is mapped in this process can be filled in place. */
	CHECK(dense->step > 1 || (lane_sent_way(lanes, 0) == LANE_PLACED) ==
					 (shape->worker_part && lane_slot_there(lanes, 0, 1)));
	CHECK(lane_sent_way(measured->model->worker->lanes, 0) == LANE_STAGED);
	CHECK_OK(sluice_barrier(dense->job)); /* no rank continues before all have looked */
}

static void both_ways(sluice_job *job, int rank, void *argument)
{
	static const struct way dense = { .push = push },
				measured = { .open = open_measured, .push = push };
	const struct shape *shape = argument;

	same_bits(job,
		  &(struct training){ .attr = ATTR(.count = shape->count, .shards = shape->shards,
						   .recipe = shape->recipe, .lr = 0.3f),
				      .steps = STEPS,
				      .gradient = draw,
				      .after = check_parts,
				      .own = shape },
		  &dense, &measured);
}

TEST(step__any_recipe__same_bits_as_message_by_message)
{
	static struct shape shapes[] = {
		{ SGD, 4001, 3, 1, 1 },
		{ MOMENTUM, 4001, 3, 1, 1 },
		{ "up=all down=all update=nesterov(0.5) decay=0.01", 4001, 3, 1, 1 },
		{ "up=all down=all update=sgd decay=0.01", 4001, 3, 1, 1 },
		{ "up=all down=all update=ema(0.3)", 4001, 3, 1, 1 },
		{ "up=all down=all update=none", 4001, 3, 1, 1 },
		{ "up=all down=all update=average", 4001, 3, 1, 1 },
		{ "up=all down=all memory=residual", 4001, 3, 1, 1 },
		{ "up=all down=all memory=residual update=momentum(0.9)", 4001, 3, 1, 1 },
		{ "up=all down=all signal=momentum(0.9)", 4001, 3, 0, 1 },
		{ "up=all down=all clip=1", 4001, 3, 0, 1 },
		{ "up=all down=all nonfinite=skip", 4001, 3, 0, 1 },
		{ "up=all down=all nonfinite=zero", 4001, 3, 0, 1 },
		{ "up=all,bf16 down=all memory=none", 4001, 3, 0, 0 },
		{ "up=all down=all,bf16 memory=none", 4001, 3, 1, 0 },
		{ "up=topk(0.1) down=topk(0.2) reset=2", 4001, 3, 0, 0 },
		{ "up=topk(0.1) down=topk(0.2) reset=2 update=momentum(0.9)", 4001, 3, 0, 0 },
		{ "up=all down=topk(0.2)", 4001, 3, 1, 0 },
		{ "auto", 4001, 3, 1, 1 },
	};
	for (size_t i = 0; i < COUNT_OF(shapes); i++)
		if (!thinned(i, 4))
			run_in_job(3, both_ways, &shapes[i]);
}

TEST(step__any_length__same_bits_as_message_by_message)
{
	static struct shape shapes[] = {
		{ SGD, 1, 1, 1, 1 },
		{ SGD, 2, 2, 1, 1 },
		{ MOMENTUM, 7, 3, 1, 1 },
		{ SGD, DENSE_PIECE - 1, 1, 1, 1 },
		{ SGD, DENSE_PIECE, 1, 1, 1 },
		{ MOMENTUM, DENSE_PIECE + 1, 1, 1, 1 },
		{ SGD, 3 * DENSE_PIECE, 3, 1, 1 },
		{ SGD, 2 * (2 * DENSE_PIECE + 1) + 1, 2, 1, 1 },
		{ SGD, (1 << 20) + 3, 1, 1, 1 }, /* exceeds the caches */
	};
	for (size_t i = 0; i < COUNT_OF(shapes); i++)
		if (!thinned(i + 1, 3))
			run_in_job(shapes[i].count > 1 << 20 ? 2 : 3, both_ways, &shapes[i]);
}

/* ---- a gradient that is not finite ----------------------------------------- */

enum { RANKS = 3, COUNT = RANKS * (2 * DENSE_PIECE + 5), SPAN = COUNT / RANKS };

TEST_IN_JOB(push__nan_in_the_last_coordinate__ends_the_job_and_nothing_is_posted, RANKS)
{
	static float params[COUNT], grad[COUNT];
	log_capture();
	sluice_model *model = OPEN(job, params, .count = COUNT, .shards = RANKS, .recipe = SGD);
	/* Rank 1 may leave the barrier and fail while another rank is still in it. */
	int rc = sluice_barrier(job);
	CHECK(!rc || rank != 1);
	fill(grad, COUNT, 3);
	grad[COUNT - 1] = rank == 1 ? NAN : 0;
	rc = rc ? rc : sluice_push(model, grad);
	if (rank == 1)
		CHECK(rc == SLUICE_ENUMERIC);
	else if (!rc)
		rc = sluice_pull(model, params);
	CHECK(rc != 0 && error_says("rank 1 (node n1)", "NaN"));
	CHECK(is_zero(params, COUNT) && model->shards[0].version == 0);
	for (int w = 0; w < RANKS; w++) /* no part of the gradient was posted */
		CHECK(inbox_arrivals(&model->shards[0], w) <= (w != 1));
	sluice_model_close(&model);
}

/* ---- sums that overflow ---------------------------------------------------- */

static void overflow(sluice_job *job, int rank, void *argument)
{
	static float params[COUNT], before[COUNT], grad[COUNT];
	log_capture();
	sluice_model *model = OPEN(job, params, .count = COUNT, .shards = RANKS,
				   .recipe = argument);
	fill(grad, COUNT, 3);
	CHECK_OK(exchange(model, grad, params));
	memcpy(before, params, sizeof params);
	CHECK_OK(sluice_barrier(job));
	grad[2 * SPAN - 1] = 3e38f; /* the last coordinate of shard 1 */
	int rc = exchange(model, grad, params);
	if (!rc) /* the other shards published before */
		rc = sluice_barrier(job);
	CHECK(rc == (rank == 1 ? SLUICE_ENUMERIC : SLUICE_EPEER));
	CHECK(error_says("shard 1 at rank 1 (node n1) in step 2 is NaN or infinite",
			 "lower the learning rate"));
	CHECK(!memcmp(params + SPAN, before + SPAN, SPAN * sizeof *params));
	sluice_model_close(&model);
}

TEST(step__sums_that_overflow__end_the_job_before_anybody_adds_them)
{
	run_in_job(RANKS, overflow, SGD);
	run_in_job(RANKS, overflow, MOMENTUM);
}
