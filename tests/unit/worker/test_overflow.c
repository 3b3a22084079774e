/* SPDX-License-Identifier: BSD-3-Clause
 * Sums that leave the range of floats: for every value type, no infinite value is sent or silently
 * replaced by a large number, and the rank where it happened names the coordinate. */
#include "ranks.h"
#include "sluice.h"
#include "cases.h"
#include <math.h>
#include <string.h>

enum {
	RANKS = 3,
	COUNT = 3 * 4000,
	SPAN = COUNT / RANKS,
	BAD = 2 * SPAN - 7 /* in shard 1 */,
	CULPRIT = 1
};

static const sluice_tensor tensors[] = { { "weight", SPAN }, { "bias", COUNT - SPAN } };

struct trial {
	const char *recipe;
	int ranges; /* 1: the gradient comes in two ranges */
};

static sluice_model *open_model(sluice_job *job, const char *recipe, float *params)
{
	sluice_model *model = OPEN(job, params, .count = COUNT, .shards = RANKS, .recipe = recipe,
				   .tensors = tensors, .n_tensors = 2, .lr = 1);
	return model;
}

static int push_and_pull(sluice_model *model, const struct trial *trial, const float *grad,
			 float *params)
{
	int rc = trial->ranges ? sluice_push_range(model, grad + SPAN, SPAN, COUNT - SPAN) :
				 sluice_push(model, grad);
	if (!rc && trial->ranges)
		rc = sluice_push_range(model, grad, 0, SPAN);
	return rc ? rc : sluice_pull(model, params);
}

/* Makes one step that succeeds and one that fails, in which nothing of shard 1 is added. The
 * parameter at BAD begins with first. */
static void train(sluice_job *job, const struct trial *trial, float first, float large, float lr,
		  int culprit, const char *says)
{
	static float params[COUNT], before[COUNT], grad[COUNT];
	log_capture();
	params[BAD] = first;
	sluice_model *model = open_model(job, trial->recipe, params);
	for (int i = 0; i < COUNT; i++)
		grad[i] = noise(3, (uint64_t)sluice_rank(job), 0, (uint64_t)i);
	CHECK_OK(push_and_pull(model, trial, grad, params));
	memcpy(before, params, sizeof params);
	int rc = sluice_barrier(
		job); /* the culprit may have failed before the others have finished */
	if (!rc)
		rc = sluice_set(model, SLUICE_LR, lr);
	CHECK(!rc || sluice_rank(job) != culprit);
	grad[BAD] = large;
	if (!rc)
		rc = push_and_pull(model, trial, grad, params);
	if (!rc) /* the other shards published before */
		rc = sluice_barrier(job);
	CHECK(rc == (sluice_rank(job) == culprit ? SLUICE_ENUMERIC : SLUICE_EPEER));
	CHECK(error_says(says, "index 3993 of tensor bias"));
	CHECK(error_says(first > 0 ? "range of floats" : "overflowed", "lower the learning rate"));
	/* With when=every, the local step has already written the wrong parameters. */
	CHECK(strstr(trial->recipe, "when=every") ||
	      !memcmp(params + SPAN, before + SPAN, SPAN * sizeof *params));
	CHECK(sluice_push(model, grad) == rc); /* the job has ended */
	sluice_model_close(&model);
}

static void overflow_at_a_worker(sluice_job *job, int rank, void *argument)
{
	/* With the step size inside of the memory, it multiplies finite values. */
	train(job, argument, 0, rank == CULPRIT ? -1e38f : 1, 10, CULPRIT,
	      "the gradient of rank 1 (node n1) at step 2");
}

static void overflow_at_a_shard(sluice_job *job, int rank, void *argument)
{
	train(job, argument, 0, 3e38f, 1, CULPRIT,
	      "shard 1 at rank 1 (node n1) in step 2 is NaN or infinite");
}

/* The mean is finite, but not its square. */
static void overflow_of_a_square(sluice_job *job, int rank, void *argument)
{
	train(job, argument, 0, 1e30f, 1, CULPRIT,
	      "shard 1 at rank 1 (node n1) in step 2 is NaN or infinite");
}

TEST(publish__square_that_overflowed__ends_the_job_by_name_and_nothing_is_added)
{
	static struct trial trials[] = {
		{ "up=topk(0.01) down=topk(0.01) memory=residual update=adam(0.9,0.99,1e-8)", 0 },
		{ "up=topk(0.01),uniform(4) down=topk(0.01),uniform(4) update=adam(0,0.99,1e-8)",
		  0 },
		{ "up=topk(0.01) down=topk(0.01),bf16 update=adam(0.9,0.99,1e-8) "
		  "warmup=dense(2)",
		  1 },
		{ "up=all down=all memory=none update=adamw(0.9,0.99,1e-8,0.1)", 0 },
	};
	for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
		run_in_job(RANKS, overflow_of_a_square, &trials[i]);
}

TEST(push__sum_that_overflowed__ends_the_job_by_name_with_every_value_type)
{
	static struct trial trials[] = {
		{ "up=topk(0.01) down=topk(0.01) memory=residual(inside)", 0 },
		{ "up=topk(0.01),f16 down=topk(0.01) memory=residual(inside)", 0 },
		{ "up=topk(0.01),bf16 down=topk(0.01) memory=residual(inside)", 0 },
		{ "up=topk(0.01),uniform(4) down=topk(0.01) memory=residual(inside)", 0 },
		{ "up=topk(0.01),uniform(1) down=topk(0.01) memory=residual(inside)", 0 },
		{ "up=topk(0.01),grid(4) down=topk(0.01) memory=residual(inside)", 0 },
		{ "up=topk(0.01),round(0.001) down=topk(0.01) memory=residual(inside)", 0 },
		{ "up=topk(0.5),bf16 down=topk(0.5) memory=residual(inside)", 0 },
		{ "up=all down=all memory=residual(inside)", 0 },
		{ "up=all,f16 down=all memory=residual(inside)", 0 },
		{ "up=all,bf16 down=all memory=residual(inside)", 0 },
		{ "up=all,bf16 down=all memory=residual(inside)", 1 },
		{ "up=topk(0.01),bf16 down=all memory=residual(inside)", 1 },
		{ "up=all,uniform(8) down=all memory=residual(inside)", 0 },
		{ "up=all,grid(3) down=all memory=residual(inside)", 0 },
		{ "up=all,round(0.001) down=all memory=residual(inside)", 0 },
		{ "up=threshold(0.5),f16 down=all memory=residual(inside)", 0 },
		{ "up=threshold(0.5),f16 down=all memory=residual(inside) nonfinite=zero", 0 },
	};
	for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
		run_in_job(RANKS, overflow_at_a_worker, &trials[i]);
}

TEST(publish__sum_that_overflowed__ends_the_job_by_name_and_nothing_is_added)
{
	static struct trial trials[] = {
		{ "up=topk(0.01) down=topk(0.01) memory=residual update=sgd", 0 },
		{ "up=topk(0.01) down=topk(0.01),f16 memory=residual update=sgd", 0 },
		{ "up=topk(0.01),bf16 down=topk(0.01),bf16 memory=residual update=sgd", 0 },
		{ "up=topk(0.01),f16 down=topk(0.01),uniform(4) memory=residual update=sgd", 0 },
		{ "up=topk(0.01),uniform(4) down=topk(0.01),grid(4) memory=residual update=sgd",
		  0 },
		{ "up=topk(0.01) down=topk(0.01),round(0.001) memory=residual update=sgd", 0 },
		{ "up=topk(0.01) down=all memory=residual update=sgd", 0 },
		{ "up=topk(0.6) down=all memory=residual update=sgd", 0 },
		{ "up=topk(0.01) down=all,bf16 memory=residual update=momentum(0.9)", 0 },
		{ "up=all down=all memory=none update=sgd", 0 },
		{ "up=all down=all memory=none update=momentum(0.9)", 0 },
		{ "up=all,bf16 down=all memory=none update=sgd", 0 },
		{ "up=all down=all,bf16 memory=none update=sgd", 0 },
		{ "up=all down=all,uniform(8) memory=none update=sgd", 0 },
		{ "up=cyclic(0.01) down=all memory=residual update=sgd", 0 },
	};
	for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
		run_in_job(RANKS, overflow_at_a_shard, &trials[i]);
}

static void overflow_of_a_parameter(sluice_job *job, int rank, void *argument)
{
	/* All workers send this value. Neither the sum nor the mean overflows. */
	train(job, argument, 3e38f, -1e38f, 1, CULPRIT,
	      "step 2 computes inf for the parameter of shard 1 at rank 1 (node n1)");
}

TEST(publish__delta_that_makes_a_parameter_infinite__ends_the_job_before_it_is_added)
{
	static struct trial trials[] = {
		{ "up=all down=all memory=none update=sgd", 0 },
		{ "up=all down=all memory=none update=sgd", 1 },
		{ "up=all,bf16 down=all memory=none update=sgd", 0 },
		{ "up=all down=all,bf16 memory=none update=sgd", 0 },
		{ "up=all down=all,uniform(8) memory=none update=momentum(0.9)", 0 },
		{ "up=topk(0.01) down=topk(0.01) memory=residual update=sgd", 0 },
		{ "up=topk(0.01) down=all memory=residual update=sgd", 0 },
		{ "up=topk(0.6) down=all memory=residual(inside)", 0 },
		{ "up=topk(0.01) down=topk(0.01),bf16 memory=residual update=ema(0.9)", 0 },
		{ "up=cyclic(0.01) down=all memory=residual update=sgd", 0 },
		{ "up=all down=all when=every(2)", 0 },
	};
	for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
		run_in_job(RANKS, overflow_of_a_parameter, &trials[i]);
}

static void overflow_of_a_local_step(sluice_job *job, int rank, void *argument)
{
	train(job, argument, 3e38f, rank == CULPRIT ? -1e38f : 0, 1, CULPRIT,
	      "step 2 computes inf for the parameter at rank 1 (node n1)");
}

TEST(pull__own_step_that_makes_a_parameter_infinite__ends_the_job_by_name)
{
	static struct trial trial = { "up=all down=all when=every(3)", 0 };
	run_in_job(RANKS, overflow_of_a_local_step, &trial);
}

/* The sums of a transform can overflow to NaN, which no selector selects. The error names no
 * coordinate, because the sums are not those of the gradient's coordinates. */
static void overflow_in_a_transform(sluice_job *job, int rank, void *argument)
{
	static const sluice_tensor matrix = { "matrix", 64 };
	static const uint64_t columns = 8;
	float params[64] = { 0 }, grad[64];
	int rc = 0;

	log_capture();
	sluice_model *model = OPEN(job, params, .count = 64, .recipe = argument, .lr = 1,
				   .tensors = &matrix, .n_tensors = 1, .columns = &columns);
	for (int i = 0; i < 64; i++)
		grad[i] = rank != CULPRIT ? 0 : i % 3 ? 3e38f : -3e38f;
	for (int step = 0; step < 2 && !rc; step++) {
		rc = sluice_push(model, grad);
		if (!rc)
			rc = sluice_pull(model, params);
	}
	CHECK(rc == (rank == CULPRIT ? SLUICE_ENUMERIC : SLUICE_EPEER));
	CHECK(error_says("the gradient of rank 1 (node n1) at step 1", "it overflowed"));
	sluice_model_close(&model);
}

TEST(push__transform_that_overflowed__ends_the_job_by_name)
{
	static const char *const recipes[] = {
		"up=topk(0.1) down=all transform=dct(8)",
		"up=tensor-topk(0.1) down=all transform=dct(8)",
		"up=topk(0.1) down=all transform=dct(8) nonfinite=skip",
		"up=topk(0.1),twomeans down=all transform=dct(8) clip=1",
	};
	for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
		run_in_job(2, overflow_in_a_transform, (void *)recipes[i]);
}
