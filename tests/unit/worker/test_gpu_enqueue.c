/* SPDX-License-Identifier: BSD-3-Clause
 * A push whose device lags behind the host: the call returns before any work has run, and the
 * progress thread or the next call posts the messages. */
#include "gpu_lag.h"
#include "ranks.h"
#include "cases.h"
#include <dlfcn.h>
#include <string.h>

static int lag_and_post(int rank, void *argument)
{
	static struct pair p;
	open_pair(&p, argument, NULL, 0);
	for (int step = 1; step <= 3; step++) {
		new_gradient(&p, step);
		CHECK_OK(sluice_set(p.host, SLUICE_LR, 0.125f));
		CHECK_OK(sluice_set(p.gpu, SLUICE_LR, 0.125f));
		sluice_raise(p.host, 1u << rank);
		sluice_raise(p.gpu, 1u << rank);
		CHECK_OK(sluice_push(p.host, p.grad));
		const uint64_t seq = next_seq(&p);
		emulated.lag(LAGGING);
		CHECK_OK(sluice_push(p.gpu, p.grad_there));
		/* The application may reuse the gradient in the order of the stream. */
		CHECK_OK(p.ops->zero(p.grad_there, COUNT * sizeof(float), NULL));
		CHECK(sluice_push(p.gpu, p.grad_there) == SLUICE_EINVAL);
		CHECK(sluice_push_range(p.gpu, p.grad_there, 0, COUNT) == SLUICE_EINVAL);
		/* for the next push */
		CHECK_OK(sluice_set(p.host, SLUICE_LR, 0.25f));
		CHECK_OK(sluice_set(p.gpu, SLUICE_LR, 0.25f));
		sluice_raise(p.gpu, 0x80);
		sluice_raise(p.host, 0x80);
		sleep_ms(5);
		CHECK(late(&p) == DEVICE_ENQUEUED && next_seq(&p) == seq);
		CHECK(emulated.run(ALL) > 5);
		expect_becomes(&p, DEVICE_IDLE); /* without a call of the application */
		CHECK(next_seq(&p) == seq + 1);
		expect_same_messages(p.host, p.gpu);
		emulated.lag(AT_ONCE);
		CHECK_OK(sluice_pull(p.host, p.params));
		CHECK_OK(sluice_pull(p.gpu, p.there));
		CHECK(step_of(p.gpu).raised == step_of(p.host).raised && step_of(p.gpu).raised & 1);
		expect_same_pair(&p);
		expect_same_stats(p.host, p.gpu, p.shape->skewed);
	}
	close_pair(&p);
	return 0;
}

TEST(push__device_lags__returns_first_and_the_progress_thread_posts)
{
	static struct shape shapes[] = {
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual" },
		{ .recipe = "up=topk(0.02),uniform(4,16) down=all signal=momentum(0.9),mask "
			    "memory=residual" },
		{ .recipe = "up=sketch(0.02) down=all memory=residual" },
	};
	for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
		run_ranks(2, lag_and_post, &shapes[i]);
}

/* Calls only the pull and CUDA, in turn. */
static int train_beside(int rank, void *argument)
{
	static struct pair p;
	open_pair(&p, argument, NULL, 0);
	emulated.lag(BESIDE);
	for (int step = 1; step <= STEPS; step++) {
		new_gradient(&p, step);
		CHECK_OK(sluice_push(p.host, p.grad));
		CHECK_OK(sluice_push(p.gpu, p.grad_there));
		CHECK_OK(p.ops->zero(p.grad_there, COUNT * sizeof(float), NULL));
		if (step == 2 &&
		    p.host->recipe.memory.kind != MEMORY_NONE) /* it waits for the residual */
			expect_same_stats(p.host, p.gpu, p.shape->skewed);
		CHECK_OK(sluice_pull(p.host, p.params));
		CHECK_OK(sluice_pull(p.gpu, p.there));
		expect_same_pair(&p);
		expect_same_stats(p.host, p.gpu, p.shape->skewed);
		if (step == 4)
			CHECK_OK(sluice_barrier(p.job));
	}
	close_pair(&p);
	return 0;
}

TEST(pull__device_lags__waits_and_gives_the_bits_of_host_memory)
{
	static struct shape shapes[] = {
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual update=sgd" },
		{ .recipe = "up=topk(0.02),f16 down=all memory=residual(inside)", .skewed = 1 },
		{ .recipe = "up=topk(0.02) down=all signal=momentum(0.9),mask nonfinite=zero",
		  .nan_at = 3,
		  .skewed = 1 },
		{ .recipe = "up=gaussiank(0.05),grid(4) down=all clip=2 nonfinite=skip dense=bias",
		  .nan_at = 2 },
		{ .recipe = "up=random(0.05) down=all signal=momentum(0.5) memory=none" },
		{ .recipe = "up=randk(0.05) down=all memory=residual" },
		{ .recipe = "up=all down=all" },
		{ .recipe = "up=all,uniform(4) down=all memory=residual clip=2 nonfinite=skip" },
		{ .recipe = "up=topk(0.05),round(0.02) down=all memory=residual" },
		{ .recipe = "up=topk(0.02) down=all coding=small memory=residual" },
		{ .recipe = "up=sketch(0.05) down=all signal=momentum(0.5) clip=3" },
	};
	for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
		run_ranks(RANKS, train_beside, &shapes[i]);
}

/* If ranks take turns in one process, nobody else completes a push, so the push waits. */
static int one_of_three(sluice_job *job, void *context)
{
	struct pair *p = calloc(1, sizeof *p);
	CHECK(p != NULL);
	open_models(p, job, context, NULL);
	for (int step = 1; step <= 3; step++) {
		new_gradient(p, step);
		CHECK_OK(sluice_push(p->host, p->grad));
		CHECK_OK(sluice_push(p->gpu, p->grad_there));
		CHECK(late(p) == DEVICE_IDLE);
		CHECK_OK(sluice_pull(p->host, p->params));
		CHECK_OK(sluice_pull(p->gpu, p->there));
		expect_same_pair(p);
	}
	close_models(p);
	free(p);
	return 0;
}

static int simulate_three(int rank, void *argument)
{
	begin_emulated();
	emulated.lag(BESIDE);
	CHECK_OK(sluice_simulate(NULL, 3, one_of_three, argument));
	emulated.lag(AT_ONCE);
	return 0;
}

TEST(push__simulated_ranks__waits)
{
	static struct shape shapes[] = {
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual" },
		{ .recipe = "up=topk(0.02) down=all memory=residual", .skewed = 1 },
	};
	for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
		run_ranks(1, simulate_three, &shapes[i]);
}

/* The host must encode some messages, which the progress thread does not do. The next call on the
 * job does it. */
static int overflow_and_barrier(int rank, void *argument)
{
	static struct pair p;
	open_pair(&p, argument, NULL, 0);
	for (int step = 1; step <= 3; step++) {
		new_gradient(&p, step);
		CHECK_OK(sluice_push(p.host, p.grad));
		const uint64_t seq = next_seq(&p);
		emulated.lag(LAGGING);
		CHECK_OK(sluice_push(p.gpu, p.grad_there));
		CHECK(late(&p) == DEVICE_ENQUEUED);
		emulated.run(ALL);
		expect_becomes(&p, DEVICE_LISTED);
		CHECK(next_seq(&p) == seq);
		CHECK_OK(sluice_barrier(p.job));
		CHECK(late(&p) == DEVICE_IDLE && next_seq(&p) == seq + 1);
		expect_same_messages(p.host, p.gpu);
		emulated.lag(AT_ONCE);
		CHECK_OK(sluice_pull(p.host, p.params));
		CHECK_OK(sluice_pull(p.gpu, p.there));
		expect_same_pair(&p);
	}
	close_pair(&p);
	return 0;
}

TEST(barrier__host_encodes_what_overflows__posted_before_it_waits)
{
	static struct shape shape = { .recipe = "up=topk(0.02) down=all memory=residual",
				      .skewed = 1 };
	run_ranks(2, overflow_and_barrier, &shape);
}

/* One rank closes the model without pulling, while the other waits for its messages. */
static int close_early(int rank, void *argument)
{
	static struct pair p;
	open_pair(&p, argument, NULL, 0);
	new_gradient(&p, 1);
	emulated.lag(BESIDE);
	CHECK_OK(sluice_push(p.gpu, p.grad_there));
	if (rank)
		CHECK_OK(sluice_pull(p.gpu, p.there));
	close_pair(&p);
	return 0;
}

TEST(close__push_was_not_pulled__its_messages_are_posted_first)
{
	static struct shape shapes[] = {
		{ .recipe = "up=topk(0.02) down=all memory=residual" },
		{ .recipe = "up=topk(0.02) down=all memory=residual", .skewed = 1 },
	};
	for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
		run_ranks(2, close_early, &shapes[i]);
}

int main(void)
{
	if (device_is_real())
		return 77; /* a real device lags by itself */
	return run_cases(NULL, NULL);
}
