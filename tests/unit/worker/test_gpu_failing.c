/* SPDX-License-Identifier: BSD-3-Clause
 * The state of a model in GPU memory across a checkpoint; that each CUDA call that fails ends the
 * job or changes nothing; and that a gradient that is not finite is named. */
#include "gpu_step.h"
#include "ranks.h"
#include "scratch.h"
#include "cases.h"
#include <math.h>
#include <string.h>

enum { CALLS = 120, QUIET = 12 };

/* ---- checkpoint ------------------------------------------------------------ */

static void train_and_resume(sluice_job *job, int rank, void *argument)
{
	static float grad[COUNT], last[COUNT];
	static const struct shape shape = {
		.recipe = "up=topk(0.02) down=topk(0.05) signal=momentum(0.9) memory=residual"
	};
	const struct device_ops *ops = device();
	struct memory params_memory, grad_memory;
	float *there = device_vector(ops, &params_memory),
	      *grad_there = device_vector(ops, &grad_memory);
	sluice_model_attr attr = ATTR(.count = COUNT, .recipe = shape.recipe);
	for (int life = 0; life < 2; life++) {
		uint64_t step = 0;
		CHECK_OK(ops->zero(there, COUNT * sizeof(float), NULL));
		sluice_model *model = rank_open(job, there, attr);
		if (life)
			CHECK_OK(sluice_restore(model, argument, there, &step));
		for (int s = (int)step + 1; s <= STEPS; s++) {
			gradient(grad, rank, s, &shape);
			to_device(ops, grad_there, grad);
			CHECK_STEP(model, grad_there, there);
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
	ops->release(&params_memory);
	ops->release(&grad_memory);
}

TEST(checkpoint__residual_and_momentum_on_the_gpu_are_restored)
{
	char dir[SCRATCH_PATH];
	assert_int_equal(scratch_make(dir), 0);
	run_in_job(2, train_and_resume, dir);
	scratch_remove(dir);
}

/* Makes one CUDA call fail, each in turn. */
static void (*fail_later)(unsigned, int);

/* One rank cannot copy its parameters to the host. The others do not wait for it. */
static void restore_failing(sluice_job *job, int rank, void *argument)
{
	enum { CULPRIT = 1, FIND = 2 };
	static float grad[COUNT];
	const struct device_ops *ops = device();
	struct memory params_memory;
	float *there = device_vector(ops, &params_memory);
	sluice_model_attr attr = ATTR(.count = COUNT);
	log_capture();
	device_look_up("emulated_fail", &fail_later);
	for (int life = 0; life < 2; life++) {
		sluice_model *model = rank_open(job, there, attr);
		if (life) {
			fail_later(rank == CULPRIT ? FIND : 1u << 30, 719);
			CHECK(sluice_restore(model, argument, there, NULL) == SLUICE_EGPU);
			fail_later(1u << 30, 0);
			CHECK(error_says("cudaErrorLaunchFailure",
					 rank == CULPRIT ? "parameters" : "rank 1"));
			CHECK_OK(sluice_restore(model, argument, there, NULL));
		}
		gradient(grad, rank, 1, &(struct shape){ 0 });
		CHECK_STEP(model, grad, there);
		if (!life)
			CHECK_OK(sluice_checkpoint(model, argument));
		sluice_model_close(&model);
	}
	ops->release(&params_memory);
}

TEST(restore__parameters_of_one_rank_cannot_be_copied__all_say_so)
{
	char dir[SCRATCH_PATH];
	if (device_is_real())
		skip();
	assert_int_equal(scratch_make(dir), 0);
	run_in_job(3, restore_failing, dir);
	scratch_remove(dir);
}

/* ---- errors ---------------------------------------------------------------- */

static void push_nan(sluice_job *job, int rank, void *argument)
{
	static float grad[COUNT];
	static const struct shape shape = { .nan_at = 1 };
	const struct device_ops *ops = device();
	struct memory params_memory, grad_memory;
	float *there = device_vector(ops, &params_memory),
	      *grad_there = device_vector(ops, &grad_memory);
	sluice_tensor tensors[] = { { "weight", 300 }, { "bias", COUNT - 300 } };
	log_capture();
	sluice_model *model = OPEN(job, there, .count = COUNT, .recipe = argument,
				   .tensors = tensors, .n_tensors = 2);
	gradient(grad, 1, 1, &shape);
	to_device(ops, grad_there, grad);
	/* A GPU may still be selecting when the push returns. */
	int rc = sluice_push(model, grad_there);
	if (!rc)
		rc = sluice_pull(model, there);
	CHECK(rc == SLUICE_ENUMERIC);
	CHECK(error_says("is NaN at index 21 of tensor bias", NULL));
	sluice_model_close(&model);
	ops->release(&params_memory);
	ops->release(&grad_memory);
}

TEST(push__nan_in_gpu_memory_is_named)
{
	run_in_job(1, push_nan, "up=topk(0.02) down=all memory=residual");
	run_in_job(1, push_nan, "up=all down=all");
	run_in_job(1, push_nan, "up=all,f16 down=all memory=residual signal=momentum(0.9)");
	run_in_job(1, push_nan, "up=all,round(0.1) down=all memory=residual");
}

/* Returns 1 if a push in which CUDA failed has ended the job, and 0 if it was refused before
 * anything changed, so that the next one can follow. */
static int push_ended(sluice_model *gpu, const float *grad, unsigned step)
{
	char where[32];
	snprintf(where, sizeof where, "at step %u failed on its GPU", step);
	CHECK(error_says("cudaErrorLaunchFailure (unspecified launch failure)", NULL));
	if (!error_says("failed on its GPU", NULL)) {
		CHECK(error_says("determining the device", NULL) ||
		      error_says("asking whether a stream", NULL));
		CHECK_OK(sluice_push(gpu, grad));
		return 0;
	}
	CHECK(error_says("the push of rank 0", where));
	CHECK(error_says("start the job again", "from a checkpoint"));
	CHECK(sluice_push(gpu, grad) == SLUICE_EGPU); /* CUDA would succeed now, but the job has
							 ended */
	CHECK(error_says("cudaErrorLaunchFailure", where));
	return 1;
}

struct failing {
	const char *recipe;
	int skewed, pulls; /* pulls: the calls of the pull fail */
	int alone;         /* 1: one shard, so there are fewer calls */
	int nan;           /* 1: the gradient of `step` has NaN */
	unsigned step;
	unsigned least; /* minimum number of calls that fail */
};

/* Each CUDA call in turn fails in a push or pull of `step`. All steps before it, and a step in
 * which no call failed, give the normal result. */
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
		sluice_model_attr attr = ATTR(.count = COUNT, .recipe = f->recipe,
					      .shards = f->skewed ? SHARDS_SKEWED :
							f->alone  ? 1 :
								    SHARDS);
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
			fail_later(step == f->step && !f->pulls ? after : 1u << 30, 719);
			rc = sluice_push(gpu, grad_there);
			fail_later(1u << 30, 0);
			if (rc) {
				CHECK(rc == SLUICE_EGPU);
				here++;
				if (push_ended(gpu, grad_there, step))
					break;
			}
			expect_same_messages(host, gpu);
			CHECK_OK(sluice_pull(host, params));
			fail_later(step == f->step && f->pulls ? after : 1u << 30, 719);
			rc = sluice_pull(gpu, there);
			fail_later(1u << 30, 0);
			if (!rc) {
				expect_same_messages(host, gpu);
				expect_on_device(ops, there, params);
				CHECK_OK(on_device_fetch(gpu->worker));
				/* without a memory, the residual is scratch memory */
				CHECK(host->recipe.memory.kind == MEMORY_NONE ||
				      !memcmp(worker_residual(gpu->worker),
					      worker_residual(host->worker), sizeof params));
				CHECK(!compressor_velocity(host->worker->compressor) ||
				      !memcmp(compressor_velocity(gpu->worker->compressor),
					      compressor_velocity(host->worker->compressor),
					      sizeof params));
				expect_same_stats(host, gpu, f->skewed);
			}
		}
		CHECK(!rc || rc == SLUICE_EGPU);
		CHECK(here <= 1);
		failed += here || rc;
		quiet = here || rc ? 0 : quiet + 1;
		sluice_model_close(&gpu);
		sluice_model_close(&host);
		sluice_finalize(&job);
	}
	/* Some failures have no effect, such as a buffer that cannot be exported or a window that
	 * cannot be pinned. But after this many in a row, all calls have been tried. */
	CHECK(quiet == QUIET);
	CHECK(failed >= f->least);
	ops->release(&params_memory);
	ops->release(&grad_memory);
	return 0;
}

TEST(push_and_pull__any_cuda_call_failing__is_EGPU_and_ends_the_job_or_changes_nothing)
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
		{ .recipe = "up=all,f16 down=all memory=residual", .step = 1, .least = 20 },
		{ .recipe = "up=all,grid(4) down=all memory=residual clip=1 nonfinite=skip",
		  .step = 2,
		  .least = 9,
		  .nan = 1 },
		{ .recipe = "up=all down=all", .step = 2, .least = 5, .pulls = 1 },
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
	if (device_is_real())
		skip();
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		run_ranks(1, push_failing, &cases[i]);
}

/* The others in the job learn which rank's GPU failed, in which step, and CUDA's text. */
static void push_failing_on_one(sluice_job *job, int rank, void *argument)
{
	enum { CULPRIT = 1, ENQUEUED = 10 };
	static float grad[COUNT];
	const struct device_ops *ops = device();
	struct memory params_memory, grad_memory;
	float *there = device_vector(ops, &params_memory),
	      *grad_there = device_vector(ops, &grad_memory);
	log_capture();
	device_look_up("emulated_fail", &fail_later);
	sluice_model *model = OPEN(job, there, .count = COUNT, .recipe = argument);
	int rc = 0, step = 0;
	while (!rc && step < 2) {
		gradient(grad, rank, ++step, &(struct shape){ 0 });
		to_device(ops, grad_there, grad);
		fail_later(step == 2 && rank == CULPRIT ? ENQUEUED : 1u << 30, 719);
		rc = sluice_push(model, grad_there);
		fail_later(1u << 30, 0);
		if (!rc)
			rc = sluice_pull(model, there);
	}
	/* the others may learn of it before they have finished the first step */
	CHECK(rank != CULPRIT || step == 2);
	CHECK(rc == (rank == CULPRIT ? SLUICE_EGPU : SLUICE_EPEER));
	CHECK(error_says("the push of rank 1 (node n1) at step 2 failed on its GPU",
			 "cudaErrorLaunchFailure (unspecified launch failure)"));
	sluice_model_close(&model);
	ops->release(&params_memory);
	ops->release(&grad_memory);
}

TEST(push__gpu_of_one_rank_fails__all_learn_whose_and_why)
{
	if (device_is_real())
		skip();
	run_in_job(3, push_failing_on_one, "up=topk(0.02) down=all memory=residual");
}
