/* SPDX-License-Identifier: BSD-3-Clause
 * What a model in GPU memory keeps: over a checkpoint; where a call of CUDA fails, each of them
 * once, and the push is made again; a gradient that is not finite is named. */
#include "gpu_step.h"
#include "ranks.h"
#include "scratch.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { CALLS = 120, QUIET = 12 };

/* ---- checkpoint ------------------------------------------------------------ */

static int train_and_resume(int rank, void *argument)
{
	static float grad[COUNT], last[COUNT];
	static const struct shape shape = {
		.recipe = "up=topk(0.02) down=topk(0.05) signal=momentum(0.9) memory=residual"
	};
	const struct device_ops *ops = device();
	struct memory params_memory, grad_memory;
	float *there = device_vector(ops, &params_memory),
	      *grad_there = device_vector(ops, &grad_memory);
	sluice_job *job = rank_join(NULL);
	sluice_model_attr attr = { .size = sizeof attr, .count = COUNT, .recipe = shape.recipe };
	for (int life = 0; life < 2; life++) {
		sluice_model *model = NULL;
		uint64_t step = 0;
		CHECK_OK(ops->zero(there, COUNT * sizeof(float), NULL));
		CHECK_OK(sluice_model_open(job, &attr, there, &model));
		if (life)
			CHECK_OK(sluice_restore(model, argument, there, &step));
		for (int s = (int)step + 1; s <= STEPS; s++) {
			gradient(grad, rank, s, &shape);
			to_device(ops, grad_there, grad);
			CHECK_OK(sluice_push(model, grad_there));
			CHECK_OK(sluice_pull(model, there));
			if (s == STEPS / 2 && !life)
				CHECK_OK(sluice_checkpoint(model, argument));
		}
		if (life) {
			CHECK(step == STEPS / 2);
			expect_on_device(ops, there, last);
		}
		CHECK_OK(ops->copy(last, there, sizeof last, NULL));
		CHECK_OK(ops->wait(NULL));
		sluice_model_close(&model);
	}
	sluice_finalize(&job);
	ops->release(&params_memory);
	ops->release(&grad_memory);
	return 0;
}

static void checkpoint__residual_and_momentum_on_the_gpu_are_restored(void **state)
{
	char dir[SCRATCH_PATH];
	(void)state;
	assert_int_equal(scratch_make(dir), 0);
	run_ranks(2, train_and_resume, dir);
	scratch_remove(dir);
}

/* Calls to CUDA fail once, each in turn. */
static void (*fail_later)(unsigned, int);

/* Parameters that one rank cannot bring to the host: the others do not wait for it. */
static int restore_failing(int rank, void *argument)
{
	enum { CULPRIT = 1, FIND = 2 };
	static float grad[COUNT];
	const struct device_ops *ops = device();
	struct memory params_memory;
	float *there = device_vector(ops, &params_memory);
	sluice_job *job = rank_join(NULL);
	sluice_model_attr attr = { .size = sizeof attr, .count = COUNT };
	log_capture();
	device_look_up("emulated_fail", &fail_later);
	for (int life = 0; life < 2; life++) {
		sluice_model *model = NULL;
		CHECK_OK(sluice_model_open(job, &attr, there, &model));
		if (life) {
			fail_later(rank == CULPRIT ? FIND : 1u << 30, 719);
			CHECK(sluice_restore(model, argument, there, NULL) == SLUICE_EGPU);
			fail_later(1u << 30, 0);
			CHECK(error_says("cudaErrorLaunchFailure",
					 rank == CULPRIT ? "parameters" : "rank 1"));
			CHECK_OK(sluice_restore(model, argument, there, NULL));
		}
		gradient(grad, rank, 1, &(struct shape){ 0 });
		CHECK_OK(sluice_push(model, grad));
		CHECK_OK(sluice_pull(model, there));
		if (!life)
			CHECK_OK(sluice_checkpoint(model, argument));
		sluice_model_close(&model);
	}
	sluice_finalize(&job);
	ops->release(&params_memory);
	return 0;
}

static void restore__parameters_of_one_rank_cannot_be_copied__all_say_so(void **state)
{
	char dir[SCRATCH_PATH];
	(void)state;
	if (device_is_real())
		skip();
	assert_int_equal(scratch_make(dir), 0);
	run_ranks(3, restore_failing, dir);
	scratch_remove(dir);
}

/* ---- errors ---------------------------------------------------------------- */

static int push_nan(int rank, void *argument)
{
	static float grad[COUNT];
	static const struct shape shape = { .nan_at = 1 };
	const struct device_ops *ops = device();
	struct memory params_memory, grad_memory;
	float *there = device_vector(ops, &params_memory),
	      *grad_there = device_vector(ops, &grad_memory);
	sluice_job *job = rank_join(NULL);
	sluice_model *model = NULL;
	sluice_tensor tensors[] = { { "weight", 300 }, { "bias", COUNT - 300 } };
	sluice_model_attr attr = { .size = sizeof attr,
				   .count = COUNT,
				   .recipe = argument,
				   .tensors = tensors,
				   .n_tensors = 2 };
	log_capture();
	CHECK_OK(sluice_model_open(job, &attr, there, &model));
	gradient(grad, 1, 1, &shape);
	to_device(ops, grad_there, grad);
	CHECK(sluice_push(model, grad_there) == (rank < 0 ? 0 : SLUICE_ENUMERIC));
	CHECK(error_says("is NaN at index 21 of tensor bias", NULL));
	sluice_model_close(&model);
	sluice_finalize(&job);
	ops->release(&params_memory);
	ops->release(&grad_memory);
	return 0;
}

static void push__nan_in_gpu_memory_is_named(void **state)
{
	(void)state;
	run_ranks(1, push_nan, "up=topk(0.02) down=all memory=residual");
	run_ranks(1, push_nan, "up=all down=all");
}

/* A push that fails is made again. Returns 1 if it failed. */
static int push_twice(sluice_model *gpu, const float *grad, unsigned after)
{
	fail_later(after, 719);
	int rc = sluice_push(gpu, grad);
	fail_later(1u << 30, 0);
	if (!rc)
		return 0;
	CHECK(rc == SLUICE_EGPU);
	CHECK(error_says("cudaErrorLaunchFailure (unspecified launch failure)", NULL));
	CHECK_OK(sluice_push(gpu, grad));
	return 1;
}

struct failing {
	const char *recipe;
	int skewed, pulls; /* pulls: it is the pull's calls that fail */
	int alone;         /* one shard: fewer calls */
	int nan;           /* the gradient of `step` holds one */
	unsigned step;
	unsigned least; /* calls that must be among them */
};

/* Says in which calls a push or pull of `step` failed; all else is as if none had. */
static int push_failing(int rank, void *argument)
{
	const struct failing *f = argument;
	static float grad[COUNT], params[COUNT], zero[COUNT];
	const struct shape shape = { .skewed = f->skewed };
	const struct device_ops *ops = device();
	struct memory params_memory, grad_memory;
	float *there = device_vector(ops, &params_memory),
	      *grad_there = device_vector(ops, &grad_memory);
	unsigned failed = 0, quiet = 0;
	log_capture();
	device_look_up("emulated_fail", &fail_later);
	for (unsigned after = 0; after < CALLS && quiet < QUIET; after++) {
		sluice_job *job = rank_join(NULL);
		sluice_model *host = NULL, *gpu = NULL;
		sluice_model_attr attr = { .size = sizeof attr,
					   .count = COUNT,
					   .recipe = f->recipe,
					   .shards = f->skewed ? SHARDS_SKEWED :
						     f->alone  ? 1 :
								 SHARDS };
		int rc = 0, here = 0;
		to_device(ops, there, zero);
		memset(params, 0, sizeof params);
		CHECK_OK(sluice_model_open(job, &attr, params, &host));
		CHECK_OK(sluice_model_open(job, &attr, there, &gpu));
		for (unsigned step = 1; step <= f->step + 1 && !rc; step++) {
			gradient(grad, rank, (int)step, &shape);
			if (f->nan && step == f->step)
				grad[321] = NAN;
			to_device(ops, grad_there, grad);
			CHECK_OK(sluice_push(host, grad));
			here += push_twice(gpu, grad_there,
					   step == f->step && !f->pulls ? after : 1u << 30);
			expect_same_messages(host, gpu);
			CHECK_OK(sluice_pull(host, params));
			fail_later(step == f->step && f->pulls ? after : 1u << 30, 719);
			rc = sluice_pull(gpu, there);
			fail_later(1u << 30, 0);
			if (!rc) {
				expect_same_messages(host, gpu);
				expect_on_device(ops, there, params);
				CHECK_OK(on_device_fetch_residual(gpu));
				/* without a memory it is scratch */
				CHECK(host->recipe.memory == MEMORY_NONE ||
				      !memcmp(gpu->worker->residual, host->worker->residual,
					      sizeof params));
				CHECK_OK(on_device_fetch_velocity(gpu));
				CHECK(!host->worker->velocity ||
				      !memcmp(gpu->worker->velocity, host->worker->velocity,
					      sizeof params));
				expect_same_stats(host, gpu, f->skewed);
			}
		}
		CHECK(!rc || (rc == SLUICE_EGPU && f->pulls));
		CHECK(here <= 1);
		failed += here || rc;
		quiet = here || rc ? 0 : quiet + 1;
		sluice_model_close(&gpu);
		sluice_model_close(&host);
		sluice_finalize(&job);
	}
	/* Some failures are none: a buffer that cannot be exported, a window that cannot be pinned.
	 * But so many after each other mean that all calls have been through. */
	CHECK(quiet == QUIET);
	CHECK(failed >= f->least);
	ops->release(&params_memory);
	ops->release(&grad_memory);
	return 0;
}

static void push_and_pull__any_cuda_call_failing_is_EGPU_and_the_push_can_be_made_again(
	void **state)
{
	static struct failing cases[] = {
		{ .recipe = "up=topk(0.02),f16 down=all memory=residual", .step = 1, .least = 25 },
		{ .recipe = "up=topk(0.02),f16 down=all memory=residual", .step = 2, .least = 10 },
		{ .recipe = "up=topk(0.02) down=all memory=residual(inside)",
		  .step = 2,
		  .least = 10,
		  .skewed = 1 },
		{ .recipe = "up=topk(0.02),uniform(4,16) down=all memory=residual",
		  .step = 2,
		  .least = 12 },
		{ .recipe = "up=topk(0.02),grid(4) down=all memory=residual",
		  .step = 1,
		  .least = 28 },
		{ .recipe = "up=topk(0.02),round(0.02) down=all memory=residual",
		  .step = 2,
		  .least = 10 },
		{ .recipe = "up=topk(0.02) down=all memory=residual nonfinite=skip",
		  .step = 2,
		  .least = 10,
		  .nan = 1 },
		{ .recipe = "up=topk(0.02) down=all signal=momentum(0.9) clip=1 nonfinite=zero",
		  .step = 1,
		  .least = 25,
		  .nan = 1 },
		{ .recipe = "up=topk(0.02) down=all signal=momentum(0.9),mask nonfinite=zero",
		  .step = 2,
		  .least = 10,
		  .nan = 1,
		  .skewed = 1 },
		{ .recipe = "up=topk(0.02) down=all signal=momentum(0.9) nonfinite=skip",
		  .step = 2,
		  .least = 10,
		  .nan = 1 },
		{ .recipe = "up=random(0.02) down=all signal=momentum(0.9) clip=1 nonfinite=zero "
			    "memory=none",
		  .step = 2,
		  .least = 10,
		  .nan = 1 },
		{ .recipe = "up=topk(0.02) down=all memory=residual",
		  .step = 2,
		  .least = 5,
		  .pulls = 1 },
		{ .recipe = "up=sketch(0.02,1) down=all memory=residual",
		  .step = 1,
		  .least = 15,
		  .alone = 1 },
		{ .recipe = "up=sketch(0.02,1) down=all memory=residual(inside)",
		  .step = 2,
		  .least = 8,
		  .alone = 1 },
		{ .recipe = "up=sketch(0.02,1) down=all nonfinite=skip",
		  .step = 2,
		  .least = 8,
		  .nan = 1,
		  .alone = 1 },
		{ .recipe = "up=sketch(0.02,1) down=all memory=residual",
		  .step = 2,
		  .least = 8,
		  .pulls = 1,
		  .alone = 1 },
	};
	(void)state;
	if (device_is_real())
		skip();
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		run_ranks(1, push_failing, &cases[i]);
}

struct failed {
	const char *recipe;
	char dir[SCRATCH_PATH];
};

/* The gradient may be in the residual already: it cannot be added to it on the host too, and a
 * checkpoint of it would be of no step. */
static int push_failing_then_host(int rank, void *argument)
{
	const struct failed *f = argument;
	static float grad[COUNT];
	const struct device_ops *ops = device();
	struct memory params_memory, grad_memory;
	float *there = device_vector(ops, &params_memory),
	      *grad_there = device_vector(ops, &grad_memory);
	sluice_job *job = rank_join(NULL);
	sluice_model *model = NULL;
	sluice_model_attr attr = { .size = sizeof attr, .count = COUNT, .recipe = f->recipe };
	log_capture();
	device_look_up("emulated_fail", &fail_later);
	gradient(grad, rank, 1, &(struct shape){ 0 });
	to_device(ops, grad_there, grad);
	CHECK_OK(sluice_model_open(job, &attr, there, &model));
	CHECK_OK(sluice_push(model, grad_there));
	CHECK_OK(sluice_pull(model, there));
	fail_later(10, 719);
	CHECK(sluice_push(model, grad_there) == SLUICE_EGPU);
	fail_later(1u << 30, 0);
	CHECK(sluice_push(model, grad) == SLUICE_EINVAL);
	CHECK(error_says("push the same gradient from GPU memory again", NULL));
	CHECK(sluice_checkpoint(model, f->dir) == SLUICE_EINVAL);
	CHECK(error_says("sluice_checkpoint: the last push failed on the GPU",
			 "from GPU memory again"));
	CHECK_OK(sluice_push(model, grad_there));
	CHECK_OK(sluice_pull(model, there));
	CHECK_OK(sluice_checkpoint(model, f->dir));
	CHECK_OK(sluice_push(model, grad)); /* the residual can come home */
	CHECK_OK(sluice_pull(model, there));
	sluice_model_close(&model);
	sluice_finalize(&job);
	ops->release(&params_memory);
	ops->release(&grad_memory);
	return 0;
}

static void push_and_checkpoint__after_a_failure_on_the_gpu__are_refused_until_it_is_made_again(
	void **state)
{
	struct failed f = { "up=topk(0.02) down=all memory=residual", "" };
	(void)state;
	if (device_is_real())
		skip();
	assert_int_equal(scratch_make(f.dir), 0);
	run_ranks(1, push_failing_then_host, &f);
	scratch_remove(f.dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checkpoint__residual_and_momentum_on_the_gpu_are_restored),
		cmocka_unit_test(restore__parameters_of_one_rank_cannot_be_copied__all_say_so),
		cmocka_unit_test(push__nan_in_gpu_memory_is_named),
		cmocka_unit_test(
			push_and_pull__any_cuda_call_failing_is_EGPU_and_the_push_can_be_made_again),
		cmocka_unit_test(
			push_and_checkpoint__after_a_failure_on_the_gpu__are_refused_until_it_is_made_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
