/* SPDX-License-Identifier: BSD-3-Clause
 * Workers with unequal amounts of data: all end after the same step with the same parameters, one
 * that has joined counts like one with zeros and keeps its residual, and refusals. */
#include "four_tensors.h"
#include "ranks.h"
#include "worker/state.h"
#include "cases.h"
#include <string.h>

enum { EPOCHS = 2 };
/* Number of batches of a rank in an epoch. */
static const int batches[EPOCHS][3] = { { 5, 0, 2 }, { 3, 3, 3 } };
/* The longest epochs, plus one step for each. */
enum { LAST_STEP = 5 + 1 + 3 + 1 };

static const char *const recipes[] = {
	"up=all down=all update=sgd memory=none",
	"up=all down=all update=none",
	"up=topk(0.02) down=topk(0.1)",
	"up=topk(0.02) down=all signal=momentum(0.9) update=momentum(0.5)",
	"up=threshold(0.02) down=all",
	"up=all,grid(4) down=all",
	"up=cyclic(0.1) down=all",
	"up=sketch(0.05,5,1.6,4) down=all",
	"up=topk(0.05) down=all nonfinite=skip clip=1",
};
enum { RECIPES = sizeof recipes / sizeof *recipes };

/* Does the part of the step that update=none leaves to the program. */
static void apply(float *params, const float *mean)
{
	for (int i = 0; i < COUNT; i++)
		params[i] -= 0.1f * mean[i];
}

TEST_IN_JOB(join__unequal_numbers_of_batches__all_end_alike, 3)
{
	log_capture();
	for (int r = 0; r < RECIPES; r++) {
		const int none = strstr(recipes[r], "update=none") != NULL;
		const int kept = strstr(recipes[r], "topk") || strstr(recipes[r], "threshold");
		float params[COUNT], grad[COUNT], mean[COUNT];
		sluice_model_attr attr = attributes(recipes[r], 4);
		attr.uneven = 1;
		for (int i = 0; i < COUNT; i++)
			params[i] = noise(2, 0, 0, (uint64_t)i);
		sluice_model *model = rank_open(job, params, attr);
		for (int epoch = 0; epoch < EPOCHS; epoch++) {
			float *target = none ? mean : params;
			int more = 1, joined = 0, most = 0;
			for (int p = 0; p < 3; p++)
				most = batches[epoch][p] > most ? batches[epoch][p] : most;
			for (int b = 0; b < batches[epoch][rank]; b++) {
				fill_gradient(grad, rank, (uint64_t)(epoch * 10 + b), params);
				sluice_raise(model, 0xff);
				if (b % 2)
					CHECK_OK(sluice_push(model, grad));
				else if (sluice_push_range(model, grad, 0, COUNT))
					CHECK_OK(sluice_push(model, grad)); /* clip= */
				CHECK_OK(sluice_pull(model, none ? mean : params));
				CHECK(step_of(model).raised == 0x7f);
				if (none)
					apply(params, mean);
			}
			const uint64_t residual = kept ? sluice_digest(
								 worker_residual(model->worker),
								 sizeof params) :
							 0;
			for (; more; joined++) {
				CHECK_OK(sluice_idle_step(model, target, &more));
				if (none)
					apply(params, mean);
			}
			CHECK(joined == most - batches[epoch][rank] + 1);
			CHECK(!kept || residual == sluice_digest(worker_residual(model->worker),
								 sizeof params));
			check_same(job, params, sizeof params);
		}
		CHECK(step_of(model).steps == LAST_STEP);
		sluice_model_close(&model);
	}
}

/* Rank 1 has no data: it joins, or pushes gradients of zeros. */
struct zeros {
	int joins;
	uint64_t digest;
};

static void train_with_zeros(sluice_job *job, int rank, void *argument)
{
	struct zeros *zeros = argument;
	float params[COUNT] = { 0 }, grad[COUNT];
	sluice_model_attr attr = attributes("up=all down=topk(0.3) update=momentum(0.5)", 3);
	int more = 1;
	attr.uneven = zeros->joins;
	sluice_model *model = rank_open(job, params, attr);
	for (uint64_t step = 1; step <= 4; step++) {
		const int has = !rank && step < 4;
		memset(grad, 0, sizeof grad);
		if (has)
			fill_gradient(grad, rank, step, params);
		if (zeros->joins && !has) {
			CHECK_OK(sluice_idle_step(model, params, &more));
			CHECK(more == (step < 4));
		} else {
			CHECK_STEP(model, grad, params);
		}
	}
	uint64_t digest = check_same(job, params, sizeof params);
	if (!rank)
		zeros->digest = digest;
	sluice_model_close(&model);
}

TEST(joined_worker__counts_like_one_with_zeros)
{
	struct zeros *pushed = shared_memory(sizeof *pushed),
		     *joined = shared_memory(sizeof *joined);
	joined->joins = 1;
	run_in_job(2, train_with_zeros, pushed);
	run_in_job(2, train_with_zeros, joined);
	assert_true(pushed->digest && pushed->digest == joined->digest);
}

TEST_IN_JOB(calls__that_are_wrong__are_refused, 2)
{
	static const struct {
		const char *recipe, *says;
	} refused[] = { { "up=all down=all when=async(3)", "when=async" },
			{ "up=topk(0.1) down=all when=every(2)", "local or lazy steps" },
			{ "up=all down=all update=average", "update=average" },
			{ "up=all down=all signal=innovation", "innovation" } };
	float params[COUNT] = { 0 }, grad[COUNT] = { 0 };
	sluice_model *model = NULL;
	int more = 7;
	log_capture();
	sluice_model_attr attr = attributes("up=all down=all", 2);
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	CHECK(sluice_idle_step(model, params, &more) == SLUICE_EINVAL);
	CHECK(error_says("not opened with uneven=1", NULL));
	sluice_model_close(&model);
	attr.uneven = 2;
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EINVAL);
	CHECK(error_says("uneven=2", NULL));
	attr.uneven = rank;
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EPEER);
	CHECK(error_says("with uneven=0 and uneven=1", "rank 1 (node n1)"));
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		attr = attributes(refused[i].recipe, 2);
		attr.uneven = 1;
		CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EINVAL);
		CHECK(error_says(refused[i].says, "uneven"));
	}
	attr = attributes("up=all down=all", 2);
	attr.uneven = 1;
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	CHECK(sluice_idle_step(NULL, params, &more) == SLUICE_EINVAL);
	CHECK(sluice_idle_step(model, NULL, &more) == SLUICE_EINVAL);
	CHECK(sluice_idle_step(model, params, NULL) == SLUICE_EINVAL);
	CHECK_OK(sluice_push(model, grad));
	CHECK(sluice_idle_step(model, params, &more) == SLUICE_EINVAL);
	CHECK(error_says("the last push was not pulled yet", NULL));
	CHECK_OK(sluice_pull(model, params));
	CHECK(more == 7);
	CHECK_OK(sluice_idle_step(model, params, &more));
	CHECK(!more && step_of(model).steps == 2);
	sluice_model_close(&model);
}
