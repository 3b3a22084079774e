/* SPDX-License-Identifier: BSD-3-Clause
 * A push whose device lags behind the host: the call returns before anything ran, what the device makes is posted by
 * the progress thread or by the next call, and what it finds is told by the pull. */
#include "gpu_step.h"
#include "base/clock.h"
#include "ranks.h"
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { AT_ONCE, LAGGING, BESIDE, ALL = 1 << 20, FAILURE = 719, QUIET = 4, SHORT_MS = 300 };

/* Of the emulated device. */
static struct {
	void *module;
	void (*lag)(int how);
	unsigned (*run)(unsigned most);
	void (*fail_running)(unsigned after, int error);
	void (*fail_call)(unsigned after, int error);
	int (*stream)(void **, unsigned);
	int (*destroy)(void *);
	int (*begin)(void *, int);
	int (*end)(void *, void **);
	int (*free_graph)(void *);
} emulated;

static void look_up(const char *name, void *function)
{
	void *symbol = dlsym(emulated.module, name);
	CHECK(symbol != NULL);
	memcpy(function, &symbol, sizeof symbol);
}

/* Two models of a recipe, and the gradient of one of them in GPU memory. */
struct pair {
	const struct device_ops *ops;
	sluice_job *job;
	sluice_model *host, *gpu;
	struct memory params_memory, grad_memory;
	float *there, *grad_there;
	float params[COUNT], grad[COUNT];
	const struct shape *shape;
	int rank;
};

static void open_pair(struct pair *p, int rank, const struct shape *shape, void *stream, int wait_ms)
{
	sluice_job_attr waits = { .size = sizeof waits, .wait_timeout_ms = wait_ms };
	sluice_tensor tensors[] = { { "weight", COUNT - 100 }, { "bias", 100 } };
	sluice_model_attr attr = { .size = sizeof attr, .count = COUNT, .recipe = shape->recipe,
				   .shards = shape->skewed ? SHARDS_SKEWED : SHARDS, .stream = stream,
				   .tensors = tensors, .n_tensors = 2 };
	*p = (struct pair){ .ops = device(), .rank = rank, .shape = shape };
	emulated.module = dlopen(device_module_path(), RTLD_NOW);
	CHECK(emulated.module != NULL);
	look_up("emulated_lag", &emulated.lag);
	look_up("emulated_run", &emulated.run);
	look_up("emulated_fail_running", &emulated.fail_running);
	look_up("emulated_fail", &emulated.fail_call);
	look_up("cudaStreamCreateWithFlags", &emulated.stream);
	look_up("cudaStreamDestroy", &emulated.destroy);
	look_up("cudaStreamBeginCapture", &emulated.begin);
	look_up("cudaStreamEndCapture", &emulated.end);
	look_up("cudaGraphDestroy", &emulated.free_graph);
	log_capture();
	p->there = device_vector(p->ops, &p->params_memory);
	p->grad_there = device_vector(p->ops, &p->grad_memory);
	p->job = rank_join(&waits);
	CHECK_OK(sluice_model_open(p->job, &attr, p->params, &p->host));
	CHECK_OK(sluice_model_open(p->job, &attr, p->there, &p->gpu));
}

static void close_pair(struct pair *p)
{
	sluice_model_close(&p->gpu);
	sluice_model_close(&p->host);
	sluice_finalize(&p->job);
	emulated.lag(AT_ONCE);
	p->ops->release(&p->params_memory);
	p->ops->release(&p->grad_memory);
	dlclose(emulated.module);
}

static void new_gradient(struct pair *p, int step)
{
	gradient(p->grad, p->rank, step, p->shape);
	to_device(p->ops, p->grad_there, p->grad);
}

static enum late_push late(const struct pair *p)
{
	return (enum late_push)atomic_load(&p->gpu->worker->device.late);
}

static uint64_t next_seq(struct pair *p)
{
	pthread_mutex_lock(&p->job->token);
	uint64_t seq = p->gpu->worker->up[0].ring.next_seq;
	pthread_mutex_unlock(&p->job->token);
	return seq;
}

/* Until somebody else has done it. */
static void expect_becomes(const struct pair *p, enum late_push state)
{
	const uint64_t until = now_ns() + 20000000000ull;
	while (late(p) != state && now_ns() < until)
		sleep_ms(1);
	CHECK(late(p) == state);
}

static void expect_same_pair(struct pair *p)
{
	expect_on_device(p->ops, p->there, p->params);
	CHECK_OK(on_device_fetch_residual(p->gpu));
	CHECK(p->host->recipe.memory == MEMORY_NONE ||
	      !memcmp(p->gpu->worker->residual, p->host->worker->residual, sizeof p->params));
	CHECK_OK(on_device_fetch_velocity(p->gpu));
	CHECK(!p->host->worker->velocity ||
	      !memcmp(p->gpu->worker->velocity, p->host->worker->velocity, sizeof p->params));
}

/* ---- who posts ----------------------------------------------------------------------------- */

static int lag_and_post(int rank, void *argument)
{
	static struct pair p;
	open_pair(&p, rank, argument, NULL, 0);
	for (int step = 1; step <= 3; step++) {
		new_gradient(&p, step);
		CHECK_OK(sluice_set_lr(p.host, 0.125f));
		CHECK_OK(sluice_set_lr(p.gpu, 0.125f));
		sluice_raise(p.host, 1u << rank);
		sluice_raise(p.gpu, 1u << rank);
		CHECK_OK(sluice_push(p.host, p.grad));
		const uint64_t seq = next_seq(&p);
		emulated.lag(LAGGING);
		CHECK_OK(sluice_push(p.gpu, p.grad_there));
		/* In the order of the stream the gradient is the application's again. */
		CHECK_OK(p.ops->zero(p.grad_there, COUNT * sizeof(float), NULL));
		CHECK(sluice_push(p.gpu, p.grad_there) == SLUICE_EINVAL);
		CHECK(sluice_push_range(p.gpu, p.grad_there, 0, COUNT) == SLUICE_EINVAL);
		/* of the next push */
		CHECK_OK(sluice_set_lr(p.host, 0.25f));
		CHECK_OK(sluice_set_lr(p.gpu, 0.25f));
		sluice_raise(p.gpu, 0x80);
		sluice_raise(p.host, 0x80);
		sleep_ms(5);
		CHECK(late(&p) == LATE_ENQUEUED && next_seq(&p) == seq);
		CHECK(emulated.run(ALL) > 5);
		expect_becomes(&p, LATE_NOTHING); /* the application does not call */
		CHECK(next_seq(&p) == seq + 1);
		expect_same_messages(p.host, p.gpu);
		emulated.lag(AT_ONCE);
		CHECK_OK(sluice_pull(p.host, p.params));
		CHECK_OK(sluice_pull(p.gpu, p.there));
		CHECK(sluice_raised(p.gpu) == sluice_raised(p.host) && sluice_raised(p.gpu) & 1);
		expect_same_pair(&p);
		expect_same_stats(p.host, p.gpu, p.shape->skewed);
	}
	close_pair(&p);
	return 0;
}

static void push__device_lags__returns_first_and_the_progress_thread_posts(void **state)
{
	static struct shape shapes[] = {
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual" },
		{ .recipe = "up=topk(0.02),uniform(4,16) down=all signal=momentum(0.9),mask memory=residual" },
		{ .recipe = "up=sketch(0.02) down=all memory=residual" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
		run_ranks(2, lag_and_post, &shapes[i]);
}

/* Nothing but the pull and what CUDA does: each in its turn. */
static int train_beside(int rank, void *argument)
{
	static struct pair p;
	open_pair(&p, rank, argument, NULL, 0);
	emulated.lag(BESIDE);
	for (int step = 1; step <= STEPS; step++) {
		new_gradient(&p, step);
		CHECK_OK(sluice_push(p.host, p.grad));
		CHECK_OK(sluice_push(p.gpu, p.grad_there));
		CHECK_OK(p.ops->zero(p.grad_there, COUNT * sizeof(float), NULL));
		if (step == 2 && p.host->recipe.memory != MEMORY_NONE) /* it waits for the residual */
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

static void pull__device_lags__waits_and_gives_the_bits_of_host_memory(void **state)
{
	static struct shape shapes[] = {
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual update=sgd" },
		{ .recipe = "up=topk(0.02),f16 down=all memory=residual(inside)", .skewed = 1 },
		{ .recipe = "up=topk(0.02) down=all signal=momentum(0.9),mask nonfinite=zero", .nan_at = 3, .skewed = 1 },
		{ .recipe = "up=gaussiank(0.05),grid(4) down=all clip=2 nonfinite=skip dense=bias", .nan_at = 2 },
		{ .recipe = "up=random(0.05) down=all signal=momentum(0.5) memory=none" },
		{ .recipe = "up=randk(0.05) down=all memory=residual" },
		{ .recipe = "up=topk(0.05),round(0.02) down=all memory=residual" },
		{ .recipe = "up=topk(0.02) down=all coding=small memory=residual" },
		{ .recipe = "up=sketch(0.05) down=all signal=momentum(0.5) clip=3" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
		run_ranks(RANKS, train_beside, &shapes[i]);
}

/* Some of it is the host's, which is no work of the progress thread: the next call on the job does it. */
static int overflow_and_barrier(int rank, void *argument)
{
	static struct pair p;
	open_pair(&p, rank, argument, NULL, 0);
	for (int step = 1; step <= 3; step++) {
		new_gradient(&p, step);
		CHECK_OK(sluice_push(p.host, p.grad));
		const uint64_t seq = next_seq(&p);
		emulated.lag(LAGGING);
		CHECK_OK(sluice_push(p.gpu, p.grad_there));
		CHECK(late(&p) == LATE_ENQUEUED);
		emulated.run(ALL);
		expect_becomes(&p, LATE_LISTED);
		CHECK(next_seq(&p) == seq);
		CHECK_OK(sluice_barrier(p.job));
		CHECK(late(&p) == LATE_NOTHING && next_seq(&p) == seq + 1);
		expect_same_messages(p.host, p.gpu);
		emulated.lag(AT_ONCE);
		CHECK_OK(sluice_pull(p.host, p.params));
		CHECK_OK(sluice_pull(p.gpu, p.there));
		expect_same_pair(&p);
	}
	close_pair(&p);
	return 0;
}

static void barrier__host_encodes_what_overflows__posted_before_it_waits(void **state)
{
	static struct shape shape = { .recipe = "up=topk(0.02) down=all memory=residual", .skewed = 1 };
	(void)state;
	run_ranks(2, overflow_and_barrier, &shape);
}

/* One rank closes without having pulled; the other waits for its messages. */
static int close_early(int rank, void *argument)
{
	static struct pair p;
	open_pair(&p, rank, argument, NULL, 0);
	new_gradient(&p, 1);
	emulated.lag(BESIDE);
	CHECK_OK(sluice_push(p.gpu, p.grad_there));
	if (rank)
		CHECK_OK(sluice_pull(p.gpu, p.there));
	close_pair(&p);
	return 0;
}

static void close__push_was_not_pulled__its_messages_are_posted_first(void **state)
{
	static struct shape shapes[] = {
		{ .recipe = "up=topk(0.02) down=all memory=residual" },
		{ .recipe = "up=topk(0.02) down=all memory=residual", .skewed = 1 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
		run_ranks(2, close_early, &shapes[i]);
}

/* ---- what goes wrong ----------------------------------------------------------------------- */

/* In step n the n-th operation of the push fails when it runs. */
static int fail_one_by_one(int rank, void *argument)
{
	static struct pair p;
	unsigned failed = 0, quiet = 0;
	open_pair(&p, rank, argument, NULL, 0);
	for (int step = 1; quiet < QUIET; step++) {
		new_gradient(&p, step);
		sluice_raise(p.host, 1);
		sluice_raise(p.gpu, 1);
		CHECK_OK(sluice_push(p.host, p.grad));
		emulated.lag(LAGGING);
		CHECK_OK(sluice_push(p.gpu, p.grad_there));
		emulated.fail_running((unsigned)step - 1, FAILURE);
		emulated.run(ALL);
		emulated.fail_running(0, 0);
		emulated.lag(BESIDE);
		CHECK_OK(sluice_pull(p.host, p.params));
		int rc = sluice_pull(p.gpu, p.there);
		if (rc) {
			CHECK(rc == SLUICE_EGPU);
			CHECK(error_says("cudaErrorLaunchFailure (unspecified launch failure)",
					 "push the same gradient again, from GPU memory"));
			CHECK(sluice_pull(p.gpu, p.there) == SLUICE_EINVAL);
			CHECK_OK(sluice_push(p.gpu, p.grad_there));
			CHECK_OK(sluice_pull(p.gpu, p.there));
		}
		failed += rc != 0;
		quiet = rc ? 0 : quiet + 1;
		CHECK(sluice_raised(p.gpu) == 1);
		expect_same_pair(&p);
		expect_same_stats(p.host, p.gpu, p.shape->skewed);
		emulated.lag(AT_ONCE);
	}
	CHECK(failed >= 6); /* places, results, state, topk, split, report */
	close_pair(&p);
	return 0;
}

static void pull__device_failed__is_EGPU_and_the_push_can_be_made_again(void **state)
{
	static struct shape shapes[] = {
		{ .recipe = "up=topk(0.02),f16 down=all memory=residual" },
		{ .recipe = "up=topk(0.02),uniform(4,16) down=all signal=momentum(0.9),mask clip=1 memory=residual" },
		{ .recipe = "up=topk(0.02) down=all memory=residual", .skewed = 1 },
		{ .recipe = "up=sketch(0.02,1) down=all memory=residual" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
		run_ranks(2, fail_one_by_one, &shapes[i]);
}

/* The calls of CUDA that a pull makes for what the host encodes. */
static int fail_listed(int rank, void *argument)
{
	static struct pair p;
	unsigned failed = 0;
	open_pair(&p, rank, argument, NULL, 0);
	for (int step = 1; step <= 8; step++) {
		new_gradient(&p, step);
		CHECK_OK(sluice_push(p.host, p.grad));
		emulated.lag(LAGGING);
		CHECK_OK(sluice_push(p.gpu, p.grad_there));
		emulated.run(ALL);
		expect_becomes(&p, LATE_LISTED);
		emulated.lag(AT_ONCE);
		CHECK_OK(sluice_pull(p.host, p.params));
		emulated.fail_call((unsigned)step - 1, FAILURE);
		int rc = sluice_barrier(p.job);
		emulated.fail_call(1u << 30, 0);
		CHECK_OK(rc); /* it is for the pull to say */
		failed += late(&p) == LATE_FAILED;
		if (late(&p) == LATE_FAILED) {
			CHECK(sluice_push(p.gpu, p.grad_there) == SLUICE_EINVAL);
			CHECK(sluice_pull(p.gpu, p.there) == SLUICE_EGPU);
			CHECK(error_says("cudaErrorLaunchFailure", "push the same gradient again"));
			CHECK_OK(sluice_push(p.gpu, p.grad_there));
		}
		CHECK_OK(sluice_pull(p.gpu, p.there));
		expect_same_pair(&p);
		expect_same_stats(p.host, p.gpu, 1);
	}
	CHECK(failed >= 4); /* two copies, a wait, a copy back */
	close_pair(&p);
	return 0;
}

static void pull__cuda_failed_in_a_barrier__says_so(void **state)
{
	static struct shape shape = { .recipe = "up=topk(0.02) down=all memory=residual", .skewed = 1 };
	(void)state;
	run_ranks(2, fail_listed, &shape);
}

static int nan_later(int rank, void *argument)
{
	static struct pair p;
	open_pair(&p, rank, argument, NULL, 0);
	gradient(p.grad, 1, 1, p.shape);
	to_device(p.ops, p.grad_there, p.grad);
	emulated.lag(LAGGING);
	CHECK_OK(sluice_push(p.gpu, p.grad_there));
	CHECK_OK(p.ops->zero(p.grad_there, COUNT * sizeof(float), NULL)); /* it is still named */
	emulated.run(ALL);
	CHECK(sluice_pull(p.gpu, p.there) == SLUICE_ENUMERIC);
	CHECK(error_says("is NaN at index 321 of tensor weight", NULL));
	CHECK(sluice_push(p.gpu, p.grad_there) != 0);
	close_pair(&p);
	return 0;
}

static void pull__nan_in_what_was_pushed__is_named(void **state)
{
	static struct shape shapes[] = {
		{ .recipe = "up=topk(0.02) down=all memory=residual", .nan_at = 1 },
		{ .recipe = "up=topk(0.02) down=all signal=momentum(0.9) clip=1", .nan_at = 1 },
		{ .recipe = "up=sketch(0.02,1) down=all", .nan_at = 1 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
		run_ranks(1, nan_later, &shapes[i]);
}

/* How far the device came, and what is said of it. */
struct hanging {
	struct shape shape;
	unsigned runs;
	const char *stage;
};

static int hang(int rank, void *argument)
{
	const struct hanging *h = argument;
	static struct pair p;
	open_pair(&p, rank, &h->shape, NULL, SHORT_MS * slowness());
	new_gradient(&p, 1);
	emulated.lag(LAGGING);
	CHECK_OK(sluice_push(p.gpu, p.grad_there));
	CHECK(emulated.run(h->runs) == h->runs);
	CHECK(sluice_pull(p.gpu, p.there) == SLUICE_ETIMEDOUT);
	CHECK(error_says("SLUICE_WAIT_TIMEOUT", h->stage));
	sluice_model_close(&p.gpu);
	CHECK(log_saw("is closed after", "although the device is not through", h->stage, NULL));
	close_pair(&p);
	return 0;
}

static void pull__device_hangs__gpu_and_stage_are_named(void **state)
{
	static struct hanging cases[] = {
		{ .shape = { .recipe = "up=topk(0.02) down=all memory=residual" }, .runs = 0,
		  .stage = "step 1: GPU 0: its selection (kernels fold, topk" },
		{ .shape = { .recipe = "up=topk(0.02) down=all memory=residual" }, .runs = 7,
		  .stage = "step 1: GPU 0: its messages (kernels pack" },
		{ .shape = { .recipe = "up=sketch(0.02,1) down=all" }, .runs = 2,
		  .stage = "step 1: GPU 0: its sketches" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		run_ranks(1, hang, &cases[i]);
}

/* The application captures its stream into a graph while the push is under way. */
static int capture_meanwhile(int rank, void *argument)
{
	static struct pair p;
	const struct shape *shape = argument;
	void *stream, *graph = NULL;
	device();
	emulated.module = dlopen(device_module_path(), RTLD_NOW);
	look_up("cudaStreamCreateWithFlags", &emulated.stream);
	CHECK_OK(emulated.stream(&stream, 0));
	open_pair(&p, rank, shape, stream, 0);
	new_gradient(&p, 1);
	CHECK_OK(sluice_push(p.host, p.grad));
	emulated.lag(BESIDE);
	CHECK_OK(sluice_push(p.gpu, p.grad_there));
	CHECK_OK(emulated.begin(stream, 0));
	CHECK(sluice_pull(p.gpu, p.there) == SLUICE_EGPU);
	CHECK(error_says("being captured into a graph", "call outside of the capture"));
	CHECK_OK(emulated.end(stream, &graph));
	CHECK_OK(emulated.free_graph(graph));
	CHECK_OK(sluice_pull(p.host, p.params));
	CHECK_OK(sluice_pull(p.gpu, p.there));
	expect_same_pair(&p);
	close_pair(&p);
	CHECK_OK(emulated.destroy(stream));
	return 0;
}

static void pull__stream_is_captured_meanwhile__refused_and_the_capture_goes_on(void **state)
{
	static struct shape shape = { .recipe = "up=topk(0.02) down=all memory=residual" };
	(void)state;
	run_ranks(1, capture_meanwhile, &shape);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(push__device_lags__returns_first_and_the_progress_thread_posts),
		cmocka_unit_test(pull__device_lags__waits_and_gives_the_bits_of_host_memory),
		cmocka_unit_test(barrier__host_encodes_what_overflows__posted_before_it_waits),
		cmocka_unit_test(close__push_was_not_pulled__its_messages_are_posted_first),
		cmocka_unit_test(pull__device_failed__is_EGPU_and_the_push_can_be_made_again),
		cmocka_unit_test(pull__cuda_failed_in_a_barrier__says_so),
		cmocka_unit_test(pull__nan_in_what_was_pushed__is_named),
		cmocka_unit_test(pull__device_hangs__gpu_and_stage_are_named),
		cmocka_unit_test(pull__stream_is_captured_meanwhile__refused_and_the_capture_goes_on),
	};
	if (getenv("SLUICE_GPU") && strcmp(getenv("SLUICE_GPU"), EMULATED_MODULE))
		return 77; /* a real one lags as it likes */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
