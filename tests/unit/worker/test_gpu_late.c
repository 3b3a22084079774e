/* SPDX-License-Identifier: BSD-3-Clause
 * Errors that a device finds after the push has returned: the next call that waits for it reports
 * them. */
#include "gpu_lag.h"
#include "ranks.h"
#include "cases.h"
#include <string.h>

enum { QUIET = 4, SHORT_MS = 300 };

/* Checks the error of the pull, and of every later call, after the device failed in a push. */
static void expect_ended(struct pair *p, int rc)
{
	CHECK(rc == SLUICE_EGPU);
	for (int again = 0; again < 2; again++) {
		CHECK(error_says("the push of rank 0", "at step 2 failed on its GPU"));
		CHECK(error_says("cudaErrorLaunchFailure (unspecified launch failure)",
				 "start the job again"));
		CHECK(sluice_push(p->gpu, p->grad_there) == SLUICE_EGPU);
	}
	CHECK(late(p) == DEVICE_IDLE);
}

static void step_of_both(struct pair *p, int step)
{
	new_gradient(p, step);
	CHECK_OK(sluice_push(p->host, p->grad));
	CHECK_OK(sluice_push(p->gpu, p->grad_there));
	CHECK_OK(sluice_pull(p->host, p->params));
	CHECK_OK(sluice_pull(p->gpu, p->there));
}

/* In job n, operation n of the second push fails when it runs. */
static int fail_one_by_one(int rank, void *argument)
{
	static struct pair p;
	unsigned failed = 0, quiet = 0;
	for (unsigned n = 0; quiet < QUIET; n++) {
		open_pair(&p, argument, NULL, 0);
		step_of_both(&p, 1);
		new_gradient(&p, 2);
		CHECK_OK(sluice_push(p.host, p.grad));
		emulated.lag(LAGGING);
		CHECK_OK(sluice_push(p.gpu, p.grad_there));
		emulated.fail_running(n, FAILURE);
		emulated.run(ALL);
		emulated.fail_running(0, 0);
		emulated.lag(BESIDE);
		int rc = sluice_pull(p.gpu, p.there);
		failed += rc != 0;
		quiet = rc ? 0 : quiet + 1;
		if (rc) {
			expect_ended(&p, rc);
		} else {
			CHECK_OK(sluice_pull(p.host, p.params));
			expect_same_pair(&p);
		}
		close_pair(&p);
	}
	CHECK(failed >= 6); /* places, results, state, topk, split, report */
	return 0;
}

TEST(pull__device_failed_in_the_push__is_EGPU_and_the_job_is_over)
{
	static struct shape shapes[] = {
		{ .recipe = "up=topk(0.02),f16 down=all memory=residual" },
		{ .recipe = "up=topk(0.02),uniform(4,16) down=all signal=momentum(0.9),mask clip=1 "
			    "memory=residual" },
		{ .recipe = "up=topk(0.02) down=all memory=residual", .skewed = 1 },
		{ .recipe = "up=sketch(0.02,1) down=all memory=residual" },
	};
	for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
		run_ranks(1, fail_one_by_one, &shapes[i]);
}

/* The CUDA calls of a barrier for messages that the host encodes. */
static int fail_listed(int rank, void *argument)
{
	static struct pair p;
	unsigned failed = 0;
	for (unsigned n = 0; n < 8; n++) {
		open_pair(&p, argument, NULL, 0);
		step_of_both(&p, 1);
		new_gradient(&p, 2);
		CHECK_OK(sluice_push(p.host, p.grad));
		emulated.lag(LAGGING);
		CHECK_OK(sluice_push(p.gpu, p.grad_there));
		emulated.run(ALL);
		expect_becomes(&p, DEVICE_LISTED);
		emulated.lag(AT_ONCE);
		emulated.fail_call(n, FAILURE);
		int rc = sluice_barrier(p.job);
		emulated.fail_call(1u << 30, 0);
		failed += rc != 0;
		if (rc) {
			expect_ended(&p, rc);
		} else {
			CHECK_OK(sluice_pull(p.host, p.params));
			CHECK_OK(sluice_pull(p.gpu, p.there));
			expect_same_pair(&p);
			expect_same_stats(p.host, p.gpu, 1);
		}
		close_pair(&p);
	}
	CHECK(failed >= 4); /* two copies, a wait, a copy back */
	return 0;
}

TEST(barrier__cuda_failed_in_what_the_host_encodes__says_so)
{
	static struct shape shape = { .recipe = "up=topk(0.02) down=all memory=residual",
				      .skewed = 1 };
	run_ranks(1, fail_listed, &shape);
}

static int nan_later(int rank, void *argument)
{
	static struct pair p;
	open_pair(&p, argument, NULL, 0);
	gradient(p.grad, 1, 1, p.shape);
	to_device(p.ops, p.grad_there, p.grad);
	emulated.lag(LAGGING);
	CHECK_OK(sluice_push(p.gpu, p.grad_there));
	CHECK_OK(p.ops->zero(p.grad_there, COUNT * sizeof(float), NULL)); /* the error still
									     names it */
	emulated.run(ALL);
	CHECK(sluice_pull(p.gpu, p.there) == SLUICE_ENUMERIC);
	CHECK(error_says("is NaN at index 321 of tensor weight", NULL));
	CHECK(sluice_push(p.gpu, p.grad_there) != 0);
	close_pair(&p);
	return 0;
}

TEST(pull__nan_in_what_was_pushed__is_named)
{
	static struct shape shapes[] = {
		{ .recipe = "up=topk(0.02) down=all memory=residual", .nan_at = 1 },
		{ .recipe = "up=topk(0.02) down=all signal=momentum(0.9) clip=1", .nan_at = 1 },
		{ .recipe = "up=sketch(0.02,1) down=all", .nan_at = 1 },
	};
	for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
		run_ranks(1, nan_later, &shapes[i]);
}

/* If a coordinate, or only a cell, overflows, the push is refused on the rank where it happened,
 * and the shard gets nothing of it. */
static int infinite_sketch(int rank, void *argument)
{
	enum { CULPRIT = 1, BAD = 2 * COUNT / 3, CASES = 4 };
	static struct pair p;
	static float before[COUNT];
	for (int i = 0; i < CASES; i++) {
		const int how = i & 1 ? BESIDE : AT_ONCE, of_cell = i >> 1;
		open_pair(&p, argument, NULL, 0);
		new_gradient(&p, 1);
		CHECK_STEP(p.gpu, p.grad_there, p.there);
		CHECK_OK(p.ops->copy(before, p.there, sizeof before, NULL));
		CHECK_OK(p.ops->wait(NULL));
		int rc = sluice_barrier(
			p.job); /* one rank may have failed before the other has finished */
		CHECK(!rc || rank != CULPRIT);
		CHECK_OK(sluice_set(p.gpu, SLUICE_LR, 10));
		new_gradient(&p, 2);
		for (int at = 0; at < COUNT && rank == CULPRIT; at++)
			p.grad[at] = at == BAD && !of_cell ? -1e38f : of_cell ? 3e37f : 0;
		to_device(p.ops, p.grad_there, p.grad);
		emulated.lag(how);
		if (!rc)
			rc = sluice_push(p.gpu, p.grad_there);
		if (!rc)
			rc = sluice_pull(p.gpu, p.there);
		CHECK(rc == (rank == CULPRIT ? SLUICE_ENUMERIC : SLUICE_EPEER));
		CHECK(error_says("the gradient of rank 1 (node n1) at step 2",
				 of_cell ? "is NaN or infinite: " : "index 3333 of tensor weight"));
		CHECK(error_says("overflowed", "lower the learning rate"));
		expect_on_device(p.ops, p.there, before);
		close_pair(&p);
	}
	return 0;
}

TEST(push__sketch_of_a_sum_that_overflowed__is_ENUMERIC_and_named)
{
	static struct shape shape = {
		.recipe = "up=sketch(0.02,1) down=all memory=residual(inside)"
	};
	run_ranks(2, infinite_sketch, &shape);
}

/* The stage that the device has reached, and the expected message. */
struct hanging {
	struct shape shape;
	unsigned runs;
	const char *stage;
};

static int hang(int rank, void *argument)
{
	const struct hanging *h = argument;
	static struct pair p;
	open_pair(&p, &h->shape, NULL, SHORT_MS * slowness());
	new_gradient(&p, 1);
	emulated.lag(LAGGING);
	CHECK_OK(sluice_push(p.gpu, p.grad_there));
	CHECK(emulated.run(h->runs) == h->runs);
	CHECK(sluice_pull(p.gpu, p.there) == SLUICE_ETIMEDOUT);
	CHECK(error_says("SLUICE_WAIT_TIMEOUT", h->stage));
	sluice_model_close(&p.gpu);
	CHECK(log_saw("is closed after", "although the device has not finished", h->stage, NULL));
	close_pair(&p);
	return 0;
}

TEST(pull__device_hangs__gpu_and_stage_are_named)
{
	static struct hanging cases[] = {
		{ .shape = { .recipe = "up=topk(0.02) down=all memory=residual" },
		  .runs = 0,
		  .stage = "step 1: GPU 0: its selection (kernels fold, topk" },
		{ .shape = { .recipe = "up=topk(0.02) down=all memory=residual" },
		  .runs = 4,
		  .stage = "step 1: GPU 0: its messages (kernels pack" },
		{ .shape = { .recipe = "up=all down=all" },
		  .runs = 3,
		  .stage = "step 1: GPU 0: its messages (kernels pack, dense" },
		{ .shape = { .recipe = "up=sketch(0.02,1) down=all" },
		  .runs = 2,
		  .stage = "step 1: GPU 0: its sketches" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		run_ranks(1, hang, &cases[i]);
}

/* The values that shards requested are never made, and the pull waits for them with the token
 * held. */
static int hang_in_pull(int rank, void *argument)
{
	static struct pair p;
	open_pair(&p, argument, NULL, SHORT_MS * slowness());
	new_gradient(&p, 1);
	CHECK_OK(sluice_push(p.gpu, p.grad_there));
	emulated.lag(LAGGING);
	CHECK(sluice_pull(p.gpu, p.there) == SLUICE_ETIMEDOUT);
	CHECK(error_says("SLUICE_WAIT_TIMEOUT", "step 1: GPU 0: its sketches or values (kernels"));
	sluice_model_close(&p.gpu);
	CHECK(log_saw("is closed after", "although the device has not finished",
		      "GPU 0: its sketches or values", NULL));
	close_pair(&p);
	return 0;
}

TEST(pull__device_hangs_at_the_values__gpu_is_named)
{
	static struct shape shape = { .recipe = "up=sketch(0.02,1) down=all" };
	run_ranks(1, hang_in_pull, &shape);
}

static int fail_in_pull(int rank, void *argument)
{
	static struct pair p;
	open_pair(&p, argument, NULL, 0);
	new_gradient(&p, 1);
	CHECK_OK(sluice_push(p.gpu, p.grad_there));
	emulated.lag(BESIDE);
	emulated.fail_running(0, FAILURE);
	CHECK(sluice_pull(p.gpu, p.there) == SLUICE_EGPU);
	CHECK(error_says("sluice_pull", "cudaErrorLaunchFailure (unspecified launch failure)"));
	CHECK(sluice_push(p.gpu, p.grad_there) == SLUICE_EGPU); /* the job has ended */
	close_pair(&p);
	return 0;
}

TEST(pull__device_failed_at_the_values__ends_the_job)
{
	static struct shape shape = { .recipe = "up=sketch(0.02,1) down=all" };
	run_ranks(1, fail_in_pull, &shape);
}

/* The application captures its stream into a graph while the push is under way. */
static int capture_meanwhile(int rank, void *argument)
{
	static struct pair p;
	void *stream, *graph = NULL;
	begin_emulated();
	CHECK_OK(emulated.stream(&stream, 0));
	open_pair(&p, argument, stream, 0);
	new_gradient(&p, 1);
	CHECK_OK(sluice_push(p.host, p.grad));
	emulated.lag(BESIDE);
	CHECK_OK(sluice_push(p.gpu, p.grad_there));
	CHECK_OK(emulated.begin(stream, 0));
	CHECK_OK(sluice_barrier(p.job));
	CHECK(sluice_pull(p.gpu, p.there) == SLUICE_EGPU);
	CHECK(error_says("being captured into a graph", "call outside of the capture"));
	CHECK(sluice_push(p.gpu, p.grad_there) == SLUICE_EINVAL); /* the push is still valid */
	CHECK_OK(emulated.end(stream, &graph));
	CHECK_OK(emulated.free_graph(graph));
	CHECK_OK(sluice_pull(p.host, p.params));
	CHECK_OK(sluice_pull(p.gpu, p.there));
	expect_same_pair(&p);
	close_pair(&p);
	CHECK_OK(emulated.destroy(stream));
	return 0;
}

TEST(pull__stream_is_captured_meanwhile__refused_and_the_capture_goes_on)
{
	static struct shape shapes[] = {
		{ .recipe = "up=topk(0.02) down=all memory=residual" },
		{ .recipe = "up=topk(0.02) down=all memory=residual",
		  .skewed = 1 }, /* the host encodes some messages */
	};
	for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
		run_ranks(1, capture_meanwhile, &shapes[i]);
}

int main(void)
{
	if (device_is_real())
		return 77; /* a real device lags by itself */
	return run_cases(NULL, NULL);
}
