/* SPDX-License-Identifier: BSD-3-Clause
 * What of CUDA's state is the application's: graphs that it captures while the library works, and
 * the last error. A selection can be captured; what the host takes part in is refused, and nothing
 * spoils a capture. */
#include "base/error.h"
#include "base/bytes.h"
#include "worker/device.h"
#include "worker/state.h"
#include "base/device_kernels.h"
#include "gpu_rank.h"
#include "narrow.h"
#include "ranks.h"
#include "tests/gpu/emulation/counts.h"
#include <math.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { N = 5000, K = 50, LAUNCHES = 3, GLOBAL = 0, NON_BLOCKING = 1, FAILURE = 719 };
enum { AT_ONCE, LAGGING, BESIDE }; /* emulated_lag() */

/* Functions of CUDA's runtime, which comes with the module. */
static struct {
	const struct device_ops *ops;
	const struct device_kernels *kernels;
	int (*stream)(void **, unsigned);
	int (*destroy)(void *);
	int (*begin)(void *, int);
	int (*end)(void *, void **);
	int (*ready)(void **, void *, unsigned long long);
	int (*launch)(void *, void *);
	int (*free_graph)(void *);
	int (*free_ready)(void *);
	int (*last_error)(void);
	void (*fail_later)(unsigned, int);
} cuda;

static void begin_cuda(void)
{
	device_kernels_fn *kernels;
	cuda.ops = device();
	device_look_up(DEVICE_KERNELS_SYMBOL, &kernels);
	cuda.kernels = kernels();
	device_look_up("cudaStreamCreateWithFlags", &cuda.stream);
	device_look_up("cudaStreamDestroy", &cuda.destroy);
	device_look_up("cudaStreamBeginCapture", &cuda.begin);
	device_look_up("cudaStreamEndCapture", &cuda.end);
	device_look_up("cudaGraphInstantiate", &cuda.ready);
	device_look_up("cudaGraphLaunch", &cuda.launch);
	device_look_up("cudaGraphDestroy", &cuda.free_graph);
	device_look_up("cudaGraphExecDestroy", &cuda.free_ready);
	device_look_up("cudaGetLastError", &cuda.last_error);
	device_look_up("emulated_fail", &cuda.fail_later);
}

static void fill(float *x, int step)
{
	for (size_t i = 0; i < N; i++)
		x[i] = noise(3, (uint64_t)step, 0, i);
}

/* A capture that nothing has spoilt; its graph, if it is wanted. */
static void end_capture(void *stream, void **graph)
{
	void *unwanted = NULL;
	CHECK_OK(cuda.end(stream, graph ? graph : &unwanted));
	if (unwanted)
		CHECK_OK(cuda.free_graph(unwanted));
}

/* ---- the table ------------------------------------------------------------- */

static const struct device_shape plain_shape = { .n = N, .k = K };

struct side {
	struct memory residual, velocity;
	struct device_selector *s;
	uint32_t index[N];
	float value[N], vector[N];
	struct device_selected got;
};

static void side_open(struct side *side)
{
	memset(side->vector, 0, sizeof side->vector);
	device_floats(cuda.ops, &side->residual, side->vector, N);
	device_floats(cuda.ops, &side->velocity, side->vector, N);
	CHECK_OK(cuda.kernels->selector_open(&plain_shape, &side->s));
}

static void side_take(struct side *side, void *stream)
{
	CHECK_OK(cuda.kernels->selected(side->s, side->index, side->value, &side->got, stream));
	CHECK_OK(cuda.ops->copy(side->vector, side->residual.address, sizeof side->vector, stream));
	CHECK_OK(cuda.ops->wait(stream));
}

static void side_close(struct side *side)
{
	cuda.kernels->selector_close(&side->s);
	cuda.ops->release(&side->residual);
	cuda.ops->release(&side->velocity);
}

static struct device_selection call_of(const struct side *side, const float *grad)
{
	return (struct device_selection){ .call = { .residual = side->residual.address,
						    .grad = grad,
						    .scale = 1,
						    .k = K,
						    .clip = 3,
						    .velocity = side->velocity.address,
						    .momentum = 0.9f },
					  .clear = 1 };
}

/* Its selector is opened inside of the capture too. */
static int select_in_graph(int rank, void *argument)
{
	static struct side plain, captured;
	static float grad[N];
	struct memory there;
	void *stream, *graph, *ready;
	(void)rank, (void)argument;
	begin_cuda();
	fill(grad, 1);
	const float *g = device_floats(cuda.ops, &there, grad, N);
	CHECK_OK(cuda.stream(&stream, NON_BLOCKING));
	side_open(&plain);
	side_open(&captured);
	cuda.kernels->selector_close(&captured.s);
	CHECK_OK(cuda.begin(stream, GLOBAL));
	CHECK_OK(cuda.kernels->selector_open(&plain_shape, &captured.s));
	const struct device_selection call = call_of(&captured, g), same = call_of(&plain, g);
	CHECK_OK(cuda.kernels->select(captured.s, &call, stream));
	end_capture(stream, &graph);
	CHECK_OK(cuda.ready(&ready, graph, 0));
	for (int i = 0; i < LAUNCHES; i++) {
		CHECK_OK(cuda.launch(ready, stream));
		CHECK_OK(cuda.kernels->select(plain.s, &same, NULL));
		side_take(&captured, stream);
		side_take(&plain, NULL);
		CHECK(plain.got.n == K && captured.got.n == K);
		CHECK(!memcmp(plain.index, captured.index, K * sizeof *plain.index));
		CHECK(!memcmp(plain.value, captured.value, K * sizeof *plain.value));
		CHECK(!memcmp(plain.vector, captured.vector, sizeof plain.vector));
	}
	CHECK_OK(cuda.free_ready(ready));
	CHECK_OK(cuda.free_graph(graph));
	CHECK_OK(cuda.destroy(stream));
	side_close(&plain);
	side_close(&captured);
	cuda.ops->release(&there);
	return 0;
}

static void select__captured_into_a_graph__each_launch_is_a_selection(void **state)
{
	(void)state;
	run_ranks(1, select_in_graph, NULL);
}

/* By an application whose streams wait for the default one, as they do unless asked otherwise. */
static int allocate_beside(int rank, void *argument)
{
	static float x[N];
	struct memory m, pinned, pinned_pages;
	struct device_compressor *c;
	struct device_span exempt = { 3, 8 };
	const struct device_shape shape = { .n = N,
					    .k = K,
					    .exempt = &exempt,
					    .n_exempt = 1,
					    .parts = 2,
					    .sketch_columns = 100,
					    .landed = N };
	void *stream, *there;
	(void)rank, (void)argument;
	begin_cuda();
	device_floats(cuda.ops, &pinned_pages, x, N);
	CHECK_OK(cuda.stream(&stream, 0));
	CHECK_OK(cuda.begin(stream, GLOBAL));
	CHECK_OK(cuda.ops->alloc(MEMORY_DEVICE, N, &m));
	CHECK_OK(cuda.ops->alloc(MEMORY_HOST, N, &pinned));
	CHECK_OK(cuda.ops->pin(x, sizeof x, &there));
	CHECK_OK(cuda.ops->open(&shape, &c));
	cuda.ops->close(&c);
	cuda.ops->unpin(x);
	cuda.ops->release(&pinned);
	cuda.ops->release(&m);
	end_capture(stream, NULL);
	/* the thread's mode is the one that it was */
	CHECK_OK(cuda.begin(stream, GLOBAL));
	int (*allocate)(void **, size_t);
	void *graph;
	device_look_up("cudaMalloc", &allocate);
	CHECK(allocate(&there, 1) != 0);
	CHECK(cuda.end(stream, &graph) != 0);
	cuda.last_error();
	CHECK_OK(cuda.destroy(stream));
	cuda.ops->release(&pinned_pages);
	return 0;
}

static void open_and_close__beside_a_capture__it_is_not_spoilt(void **state)
{
	(void)state;
	run_ranks(1, allocate_beside, NULL);
}

static int host_takes_part(int rank, void *argument)
{
	static float x[N];
	const uint32_t list[] = { 1, 2 };
	const struct device_shape shape = { .n = N, .k = K, .parts = 1 };
	struct device_part part = { .span = N };
	struct device_selection listed = { .call = { .list = list, .listed = 2, .scale = 1 } };
	struct device_push push = { .payload = DEVICE_LISTS, .parts = &part };
	struct device_compressor *c;
	struct device_selector *s;
	struct memory m;
	void *stream, *free_stream;
	(void)rank, (void)argument;
	begin_cuda();
	listed.call.residual = device_floats(cuda.ops, &m, x, N);
	listed.call.grad = m.address;
	push.select = listed.call;
	CHECK_OK(cuda.kernels->selector_open(&plain_shape, &s));
	CHECK_OK(cuda.ops->open(&shape, &c));
	CHECK_OK(cuda.stream(&stream, 0));
	CHECK_OK(cuda.stream(&free_stream, NON_BLOCKING));
	CHECK_OK(cuda.begin(stream, GLOBAL));
	CHECK(cuda.ops->ready(stream) && strstr(cuda.ops->error(), "being captured into a graph"));
	CHECK(cuda.kernels->select(s, &listed, stream) &&
	      strstr(cuda.ops->error(), "being captured into a graph"));
	CHECK(cuda.ops->push(c, &push, stream) &&
	      strstr(cuda.ops->error(), "being captured into a graph"));
	CHECK(cuda.ops->poll(c, 1, stream) == 0);
	CHECK(cuda.ops->ready(NULL) && strstr(cuda.ops->error(), "the default stream"));
	CHECK_OK(cuda.ops->ready(free_stream));
	CHECK(cuda.last_error() == 0);
	end_capture(stream, NULL);
	CHECK_OK(cuda.ops->ready(stream));
	CHECK_OK(cuda.ops->ready(NULL));
	cuda.ops->close(&c);
	cuda.kernels->selector_close(&s);
	CHECK_OK(cuda.destroy(stream));
	CHECK_OK(cuda.destroy(free_stream));
	cuda.ops->release(&m);
	return 0;
}

static void push__on_a_captured_stream__is_refused_and_does_not_spoil_it(void **state)
{
	(void)state;
	run_ranks(1, host_takes_part, NULL);
}

/* ---- a model --------------------------------------------------------------- */

/* Why a push of the recipe cannot be captured. */
struct refused {
	const char *recipe, *why;
};

static int train_beside(int rank, void *argument)
{
	const struct refused *train = argument;
	static float params[N], grad[N], got[N];
	sluice_job *job = rank_join(NULL);
	sluice_model *host = NULL, *gpu = NULL;
	struct memory params_memory, grad_memory;
	void *stream;
	(void)rank;
	begin_cuda();
	log_capture();
	CHECK_OK(cuda.stream(&stream, 0));
	float *there = device_floats(cuda.ops, &params_memory, params, N);
	float *grad_there = device_floats(cuda.ops, &grad_memory, grad, N);
	sluice_model_attr attr = { .size = sizeof attr, .count = N, .recipe = train->recipe };
	CHECK_OK(sluice_model_open(job, &attr, params, &host));
	attr.stream = stream;
	CHECK_OK(sluice_model_open(job, &attr, there, &gpu));
	for (int step = 1; step <= LAUNCHES; step++) {
		fill(grad, step);
		CHECK_OK(cuda.ops->copy(grad_there, grad, sizeof grad, stream));
		CHECK_OK(cuda.begin(stream, GLOBAL));
		CHECK(sluice_push(gpu, grad_there) == SLUICE_EGPU);
		CHECK(error_says("being captured into a graph", "call outside of the capture"));
		CHECK(step == 1 || error_says(train->why, NULL));
		CHECK(sluice_push_launched(gpu) == SLUICE_EINVAL);
		end_capture(stream, NULL);
		CHECK_OK(sluice_push(host, grad));
		CHECK_OK(sluice_push(gpu, grad_there));
		CHECK_OK(sluice_pull(host, params));
		CHECK_OK(cuda.begin(stream, GLOBAL));
		CHECK(sluice_pull(gpu, there) == SLUICE_EGPU);
		CHECK(error_says("being captured into a graph", NULL));
		end_capture(stream, NULL);
		CHECK_OK(sluice_pull(gpu, there));
		CHECK_OK(cuda.ops->copy(got, there, sizeof got, stream));
		CHECK_OK(cuda.ops->wait(stream));
		CHECK(!memcmp(got, params, sizeof got));
	}
	sluice_model_close(&gpu);
	sluice_model_close(&host);
	CHECK_OK(cuda.destroy(stream));
	cuda.ops->release(&params_memory);
	cuda.ops->release(&grad_memory);
	sluice_finalize(&job);
	return 0;
}

static void push_and_pull__stream_is_captured__refused_and_made_again_outside(void **state)
{
	(void)state;
	static struct refused trains[] = {
		{ "up=topk(0.02) down=topk(0.1) signal=momentum(0.9) warmup=5", "density changes" },
		{ "up=topk(0.02),uniform(4,16) down=all", "random numbers" },
		{ "up=random(0.02) down=all memory=none", "random numbers" },
		{ "up=randk(0.02) down=all", "host takes part" },
		{ "up=all,round(0.1) down=all memory=residual", "no push on this GPU" },
		{ "up=all,uniform(4) down=all memory=residual", "random numbers" },
		{ "up=topk(0.02) down=all memory=residual reset=9", "some steps send everything" },
	};
	for (size_t i = 0; i < sizeof trains / sizeof *trains; i++)
		run_ranks(1, train_beside, &trains[i]);
}

/* ---- a push in a graph ------------------------------------------------------ */

/* Whether the device does its work beside the host, and calls return before that. */
static int beside;

/* A host model pushes the same gradients by sluice_push(). Some steps are plain, also between
 * launches of the graph. */
static int train_by_graph(int rank, void *argument)
{
	enum { STEPS = 8, PLAIN = 5 };
	static float params[N], grad[N], got[N];
	sluice_job *job = rank_join(NULL);
	sluice_model *host = NULL, *gpu = NULL;
	struct memory params_memory, grad_memory;
	void *stream, *graph = NULL, *ready = NULL;
	void (*lag)(int);
	begin_cuda();
	device_look_up("emulated_lag", &lag);
	lag(beside ? BESIDE : AT_ONCE);
	CHECK_OK(cuda.stream(&stream, NON_BLOCKING));
	float *there = device_floats(cuda.ops, &params_memory, params, N);
	float *grad_there = device_floats(cuda.ops, &grad_memory, grad, N);
	sluice_model_attr attr = {
		.size = sizeof attr, .count = N, .recipe = argument, .shards = 3
	};
	CHECK_OK(sluice_model_open(job, &attr, params, &host));
	attr.stream = stream;
	CHECK_OK(sluice_model_open(job, &attr, there, &gpu));
	for (int step = 1; step <= STEPS; step++) {
		for (size_t i = 0; i < N; i++)
			grad[i] = noise(3, (uint64_t)step, (uint64_t)rank, i) * (i % 50 ? 1 : 20);
		CHECK_OK(cuda.ops->copy(grad_there, grad, sizeof grad, stream));
		if (step == 2) { /* nothing is pushed by that */
			CHECK_OK(cuda.begin(stream, GLOBAL));
			CHECK_OK(sluice_push(gpu, grad_there));
			end_capture(stream, &graph);
			CHECK_OK(cuda.ready(&ready, graph, 0));
		}
		CHECK_OK(sluice_push(host, grad));
		if (step == 1 || step == PLAIN) {
			CHECK_OK(sluice_push(gpu, grad_there));
		} else {
			CHECK_OK(cuda.launch(ready, stream));
			CHECK_OK(sluice_push_launched(gpu));
		}
		CHECK_OK(sluice_pull(host, params));
		CHECK_OK(sluice_pull(gpu, there));
		CHECK_OK(cuda.ops->copy(got, there, sizeof got, stream));
		CHECK_OK(cuda.ops->wait(stream));
		CHECK(!memcmp(got, params, sizeof got));
	}
	CHECK_OK(on_device_fetch_residual(gpu));
	CHECK(host->recipe.memory == MEMORY_NONE ||
	      !memcmp(worker_residual(gpu), worker_residual(host), sizeof got));
	CHECK_OK(cuda.free_ready(ready));
	CHECK_OK(cuda.free_graph(graph));
	sluice_model_close(&gpu);
	sluice_model_close(&host);
	CHECK_OK(cuda.destroy(stream));
	cuda.ops->release(&params_memory);
	cuda.ops->release(&grad_memory);
	lag(AT_ONCE);
	sluice_finalize(&job);
	return 0;
}

static void push__captured_into_a_graph__each_launch_is_a_push(void **state)
{
	static char recipes[][96] = {
		"up=topk(0.02) down=topk(0.1)",
		"up=topk(0.02),f16 down=all signal=momentum(0.9) clip=9 nonfinite=skip",
		"up=gaussiank(0.02),grid(4) down=all",
		"up=threshold(9),bf16 down=topk(0.1)",
		"up=topk(0.1) down=all memory=none",
		"up=all down=all",
		"up=all,f16 down=all memory=residual signal=momentum(0.9) clip=9 nonfinite=skip",
		"up=all,grid(4) down=topk(0.1) memory=residual",
	};
	(void)state;
	for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
		run_ranks(2, train_by_graph, recipes[i]);
	beside = 1;
	run_ranks(2, train_by_graph, recipes[0]);
	beside = 0;
}

/* After a change of the learning rate: whether the push is captured again, and then launched. */
struct change {
	int anew, launched;
};

static int change_rate(int rank, void *argument)
{
	static float params[N], grad[N];
	sluice_job *job = rank_join(NULL);
	sluice_model *gpu = NULL;
	struct memory params_memory, grad_memory;
	void *stream, *graph = NULL, *ready[2] = { NULL, NULL };
	const struct change *change = argument;
	(void)rank;
	begin_cuda();
	log_capture();
	CHECK_OK(cuda.stream(&stream, NON_BLOCKING));
	float *there = device_floats(cuda.ops, &params_memory, params, N);
	float *grad_there = device_floats(cuda.ops, &grad_memory, grad, N);
	sluice_model_attr attr = { .size = sizeof attr,
				   .count = N,
				   .recipe = "up=topk(0.02) down=all memory=residual(inside)",
				   .stream = stream };
	CHECK_OK(sluice_model_open(job, &attr, there, &gpu));
	CHECK_OK(sluice_push(gpu, grad_there));
	CHECK_OK(sluice_pull(gpu, there));
	for (int i = 0; i < 2; i++) {
		if (!i || change->anew) {
			CHECK_OK(cuda.begin(stream, GLOBAL));
			CHECK_OK(sluice_push(gpu, grad_there));
			end_capture(stream, &graph);
			CHECK_OK(cuda.ready(&ready[i], graph, 0));
			CHECK_OK(cuda.free_graph(graph));
		}
		CHECK_OK(cuda.launch(ready[i && change->launched], stream));
		int rc = sluice_push_launched(gpu);
		rc = rc ? rc : sluice_pull(gpu, there); /* where the device is slow */
		CHECK(rc == (i && !change->launched ? SLUICE_EINVAL : 0));
		CHECK(!rc ||
		      error_says("after sluice_set_lr() the push has to be captured again", NULL));
		CHECK_OK(sluice_set_lr(gpu, 0.5f));
	}
	for (int i = 0; i < 2; i++)
		if (ready[i])
			CHECK_OK(cuda.free_ready(ready[i]));
	sluice_model_close(&gpu);
	CHECK_OK(cuda.destroy(stream));
	cuda.ops->release(&params_memory);
	cuda.ops->release(&grad_memory);
	sluice_finalize(&job);
	return 0;
}

/* A graph from before the change is refused also where a later one is there. */
static void push__learning_rate_changed__it_has_to_be_captured_again(void **state)
{
	static struct change changes[] = { { 0, 0 }, { 1, 0 }, { 1, 1 } };
	(void)state;
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
		run_ranks(1, change_rate, &changes[i]);
}

/* A graph has the scale of gradients of 8 bits as well. */
static int change_scale(int rank, void *argument)
{
	static float params[N];
	sluice_job *job = rank_join(NULL);
	sluice_model *gpu = NULL;
	struct memory params_memory, grad_memory;
	void *stream, *graph = NULL, *ready = NULL;
	const int type = *(const int *)argument;
	(void)rank;
	begin_cuda();
	log_capture();
	CHECK_OK(cuda.stream(&stream, NON_BLOCKING));
	float *there = device_floats(cuda.ops, &params_memory, params, N);
	float *grad_there = device_floats(cuda.ops, &grad_memory, params, N);
	sluice_model_attr attr = { .size = sizeof attr,
				   .count = N,
				   .recipe = "up=topk(0.02) down=all memory=residual",
				   .grad_type = type,
				   .stream = stream };
	CHECK_OK(sluice_model_open(job, &attr, there, &gpu));
	CHECK_OK(sluice_push(gpu, grad_there));
	CHECK_OK(sluice_pull(gpu, there));
	CHECK_OK(cuda.begin(stream, GLOBAL));
	CHECK_OK(sluice_push(gpu, grad_there));
	end_capture(stream, &graph);
	CHECK_OK(cuda.ready(&ready, graph, 0));
	CHECK_OK(cuda.free_graph(graph));
	CHECK_OK(sluice_set_grad_scale(gpu, 0.5f));
	CHECK_OK(cuda.launch(ready, stream));
	int rc = sluice_push_launched(gpu);
	rc = rc ? rc : sluice_pull(gpu, there); /* where the device is slow */
	CHECK(rc == (type == SLUICE_F8_E5M2 ? SLUICE_EINVAL : 0));
	CHECK(!rc || error_says("by the scale of their codes 1, which is 0.5 now: after "
				"sluice_set_grad_scale() the push has to be captured again",
				NULL));
	CHECK_OK(cuda.free_ready(ready));
	sluice_model_close(&gpu);
	CHECK_OK(cuda.destroy(stream));
	cuda.ops->release(&params_memory);
	cuda.ops->release(&grad_memory);
	sluice_finalize(&job);
	return 0;
}

static void push__scale_of_8_bits_changed__it_has_to_be_captured_again(void **state)
{
	static int types[] = { SLUICE_F8_E5M2, SLUICE_F16 };
	(void)state;
	run_ranks(1, change_scale, &types[0]);
	run_ranks(1, change_scale, &types[1]);
}

/* Twice before one push, or not at all: what was selected is lost, or was never made. */
static int launch_wrongly(int rank, void *argument)
{
	const int launches = *(const int *)argument;
	static float params[N], grad[N];
	sluice_job *job = rank_join(NULL);
	sluice_model *gpu = NULL;
	struct memory params_memory, grad_memory;
	void *stream, *graph = NULL, *ready = NULL;
	(void)rank;
	begin_cuda();
	log_capture();
	CHECK_OK(cuda.stream(&stream, NON_BLOCKING));
	fill(grad, 1);
	float *there = device_floats(cuda.ops, &params_memory, params, N);
	float *grad_there = device_floats(cuda.ops, &grad_memory, grad, N);
	sluice_model_attr attr = { .size = sizeof attr,
				   .count = N,
				   .recipe = "up=topk(0.02) down=all",
				   .stream = stream };
	CHECK_OK(sluice_model_open(job, &attr, there, &gpu));
	CHECK(sluice_push_launched(gpu) == SLUICE_EINVAL);
	CHECK(error_says("sluice_push_launched: no push of this model is in a graph", NULL));
	CHECK_OK(sluice_push(gpu, grad_there));
	CHECK(sluice_push_launched(gpu) == SLUICE_EINVAL);
	CHECK_OK(sluice_pull(gpu, there));
	CHECK_OK(cuda.begin(stream, GLOBAL));
	CHECK_OK(sluice_push(gpu, grad_there));
	end_capture(stream, &graph);
	CHECK_OK(cuda.ready(&ready, graph, 0));
	for (int i = 0; i < launches; i++)
		CHECK_OK(cuda.launch(ready, stream));
	int rc = sluice_push_launched(gpu);
	rc = rc ? rc : sluice_pull(gpu, there);
	CHECK(rc == SLUICE_EGPU);
	CHECK(error_says("launched less or more than once for a push", NULL));
	CHECK_OK(cuda.free_ready(ready));
	CHECK_OK(cuda.free_graph(graph));
	sluice_model_close(&gpu);
	CHECK_OK(cuda.destroy(stream));
	cuda.ops->release(&params_memory);
	cuda.ops->release(&grad_memory);
	sluice_finalize(&job);
	return 0;
}

static void push__graph_not_launched_once__the_job_ends(void **state)
{
	static int launches[] = { 0, 2 };
	(void)state;
	run_ranks(1, launch_wrongly, &launches[0]);
	run_ranks(1, launch_wrongly, &launches[1]);
}

/* The selection leaves the GPU, with a step that has no gradient (rank 1) and with gradients in
 * pieces and in host memory. The graph, launched all the same, harms nothing, and is of use again
 * after one push outside of it. */
static int leave_and_come_back(int rank, void *argument)
{
	enum { STEPS = 10, JOINED = 3, PIECES = 5, AT_HOST = 8 };
	static float params[N], grad[N], got[N];
	sluice_job *job = rank_join(NULL);
	sluice_model *host = NULL, *gpu = NULL;
	struct memory params_memory, grad_memory;
	void *stream, *graph = NULL, *ready = NULL;
	int more, away = 0;
	begin_cuda();
	log_capture();
	CHECK_OK(cuda.stream(&stream, NON_BLOCKING));
	float *there = device_floats(cuda.ops, &params_memory, params, N);
	float *grad_there = device_floats(cuda.ops, &grad_memory, grad, N);
	sluice_model_attr attr = {
		.size = sizeof attr, .count = N, .recipe = argument, .shards = 3, .uneven = 1
	};
	CHECK_OK(sluice_model_open(job, &attr, params, &host));
	attr.stream = stream;
	CHECK_OK(sluice_model_open(job, &attr, there, &gpu));
	for (int step = 1; step <= STEPS; step++) {
		const sluice_segment two[] = { { grad_there, 1000, SLUICE_F32, 0 },
					       { grad + 1000, N - 1000, SLUICE_F32, 0 } };
		for (size_t i = 0; i < N; i++)
			grad[i] = noise(3, (uint64_t)step, (uint64_t)rank, i) * (i % 50 ? 1 : 20);
		CHECK_OK(cuda.ops->copy(grad_there, grad, sizeof grad, stream));
		if (step == 2) {
			CHECK_OK(cuda.begin(stream, GLOBAL));
			CHECK_OK(sluice_push(gpu, grad_there));
			end_capture(stream, &graph);
			CHECK_OK(cuda.ready(&ready, graph, 0));
		}
		if (away) {
			CHECK(!on_device_selects(gpu));
			CHECK_OK(cuda.launch(ready, stream));
			CHECK(sluice_push_launched(gpu) == SLUICE_EINVAL);
			CHECK(error_says("left the GPU with the last push", NULL));
		}
		if (step == JOINED && rank) {
			CHECK_OK(sluice_join(host, params, &more));
			CHECK_OK(sluice_join(gpu, there, &more));
			CHECK(more);
		} else {
			CHECK_OK(sluice_push(host, grad));
			if (step == PIECES) {
				CHECK_OK(sluice_push_segments(gpu, two, 2));
			} else if (step == AT_HOST) {
				CHECK_OK(sluice_push(gpu, grad));
			} else if (step == 1 || away) {
				CHECK_OK(sluice_push(gpu, grad_there));
			} else {
				CHECK_OK(cuda.launch(ready, stream));
				CHECK_OK(sluice_push_launched(gpu));
			}
			CHECK_OK(sluice_pull(host, params));
			CHECK_OK(sluice_pull(gpu, there));
		}
		away = (step == JOINED && rank) || step == PIECES || step == AT_HOST;
		CHECK_OK(cuda.ops->copy(got, there, sizeof got, stream));
		CHECK_OK(cuda.ops->wait(stream));
		CHECK(!memcmp(got, params, sizeof got));
	}
	CHECK_OK(on_device_fetch_residual(gpu));
	CHECK(!memcmp(worker_residual(gpu), worker_residual(host), sizeof got));
	CHECK_OK(cuda.free_ready(ready));
	CHECK_OK(cuda.free_graph(graph));
	sluice_model_close(&gpu);
	sluice_model_close(&host);
	CHECK_OK(cuda.destroy(stream));
	cuda.ops->release(&params_memory);
	cuda.ops->release(&grad_memory);
	sluice_finalize(&job);
	return 0;
}

static void push__selection_left_the_gpu__the_graph_harms_nothing_and_is_of_use_again(void **state)
{
	(void)state;
	run_ranks(2, leave_and_come_back, "up=topk(0.02) down=topk(0.1)");
	run_ranks(2, leave_and_come_back, "up=topk(0.02),f16 down=all signal=momentum(0.9)");
}

/* A call that is refused brought no gradient: sluice_join() finds that nobody has one. */
static int join_after_refusals(int rank, void *argument)
{
	static float params[N], grad[N];
	sluice_job *job = rank_join(NULL);
	sluice_model *gpu = NULL;
	struct memory params_memory, grad_memory;
	void *stream;
	int more = 7;
	(void)rank, (void)argument;
	begin_cuda();
	log_capture();
	CHECK_OK(cuda.stream(&stream, NON_BLOCKING));
	fill(grad, 1);
	float *there = device_floats(cuda.ops, &params_memory, params, N);
	float *grad_there = device_floats(cuda.ops, &grad_memory, grad, N);
	sluice_model_attr attr = { .size = sizeof attr,
				   .count = N,
				   .recipe = "up=topk(0.02) down=all",
				   .stream = stream,
				   .uneven = 1 };
	CHECK_OK(sluice_model_open(job, &attr, there, &gpu));
	const uint64_t before = gpu->worker->step;
	CHECK(sluice_push_launched(gpu) == SLUICE_EINVAL);
	CHECK(gpu->worker->step == before && !gpu->worker->raise);
	CHECK_OK(sluice_join(gpu, there, &more));
	CHECK(!more);
	CHECK_OK(cuda.begin(stream, GLOBAL));
	CHECK(sluice_push(gpu, grad_there) == SLUICE_EGPU);
	end_capture(stream, NULL);
	CHECK(!gpu->worker->raise);
	CHECK_OK(sluice_join(gpu, there, &more));
	CHECK(!more && sluice_step(gpu) == 2);
	CHECK_OK(sluice_push(gpu, grad_there));
	CHECK_OK(sluice_pull(gpu, there));
	sluice_model_close(&gpu);
	CHECK_OK(cuda.destroy(stream));
	cuda.ops->release(&params_memory);
	cuda.ops->release(&grad_memory);
	sluice_finalize(&job);
	return 0;
}

static void push__refused__brings_no_gradient(void **state)
{
	(void)state;
	run_ranks(1, join_after_refusals, NULL);
}

/* ---- several GPUs ------------------------------------------------------------ */

/* A thread on GPU 0 trains a model on each of two GPUs, each in a stream of its own: no call for
 * one of them is for the other, and the thread stays where it was. */
static int train_on_two(int rank, void *argument)
{
	static float params[2][N], grad[N], got[N];
	int (*set_device)(int), (*get_device)(int *);
	void (*present)(int), (*count)(struct emulated_counts *);
	sluice_job *job = rank_join(NULL);
	sluice_model *host = NULL, *gpu[2] = { NULL, NULL };
	struct memory params_memory[2], grad_memory[2];
	float *there[2], *grad_there[2];
	struct emulated_counts seen;
	void *stream[2];
	int now = -1;
	(void)rank;
	begin_cuda();
	device_look_up("emulated_device", &present);
	device_look_up("emulated_count", &count);
	device_look_up("cudaSetDevice", &set_device);
	device_look_up("cudaGetDevice", &get_device);
	present(2);
	sluice_model_attr attr = { .size = sizeof attr, .count = N, .recipe = argument };
	CHECK_OK(sluice_model_open(job, &attr, params[0], &host));
	for (int g = 0; g < 2; g++) {
		CHECK_OK(set_device(g));
		CHECK_OK(cuda.stream(&stream[g], NON_BLOCKING));
		there[g] = device_floats(cuda.ops, &params_memory[g], params[0], N);
		grad_there[g] = device_floats(cuda.ops, &grad_memory[g], grad, N);
	}
	CHECK_OK(set_device(0));
	for (int g = 0; g < 2; g++) {
		attr.stream = stream[g];
		CHECK_OK(sluice_model_open(job, &attr, there[g], &gpu[g]));
	}
	for (int step = 1; step <= LAUNCHES; step++) {
		fill(grad, step);
		CHECK_OK(sluice_push(host, grad));
		CHECK_OK(sluice_pull(host, params[0]));
		for (int g = 0; g < 2; g++) {
			CHECK_OK(cuda.ops->copy(grad_there[g], grad, sizeof grad, stream[g]));
			count(&seen);
			CHECK_OK(sluice_push(gpu[g], grad_there[g]));
			CHECK_OK(sluice_pull(gpu[g], there[g]));
			count(&seen);
			CHECK(!(seen.contexts & ~(1u << g)));
			CHECK(!get_device(&now) && now == 0);
			CHECK_OK(cuda.ops->copy(got, there[g], sizeof got, stream[g]));
			CHECK_OK(cuda.ops->wait(stream[g]));
			CHECK(!memcmp(got, params[0], sizeof got));
		}
	}
	for (int g = 0; g < 2; g++) {
		CHECK(on_device_selects(gpu[g]) == !strstr(argument, "round"));
		sluice_model_close(&gpu[g]);
		CHECK_OK(cuda.destroy(stream[g]));
		cuda.ops->release(&params_memory[g]);
		cuda.ops->release(&grad_memory[g]);
	}
	sluice_model_close(&host);
	sluice_finalize(&job);
	return 0;
}

static void push_and_pull__on_two_gpus_of_one_thread__each_on_its_own(void **state)
{
	(void)state;
	run_ranks(1, train_on_two, "up=topk(0.02) down=topk(0.1) signal=momentum(0.9)");
	run_ranks(1, train_on_two, "up=all down=all");
	run_ranks(1, train_on_two, "up=all,round(0.1) down=all memory=residual");
}

/* The same with vectors in pieces, of which some are in host memory, and parameters of 16 bits:
 * also the open, and the way home of what was selected there before. */
static int train_pieces_on_two(int rank, void *argument)
{
	enum { HERE = 1000, THERE = N - HERE };
	static float params[N], grad[N], got[N], mine[2][HERE];
	static uint16_t codes[2][N];
	int (*set_device)(int), (*get_device)(int *);
	void (*present)(int), (*count)(struct emulated_counts *);
	sluice_job *job = rank_join(NULL);
	sluice_model *host = NULL, *whole = NULL, *narrow = NULL;
	struct memory memory, grad_memory, code_memory;
	struct emulated_counts seen;
	void *stream;
	int now = -1;
	(void)rank, (void)argument;
	begin_cuda();
	device_look_up("emulated_device", &present);
	device_look_up("emulated_count", &count);
	device_look_up("cudaSetDevice", &set_device);
	device_look_up("cudaGetDevice", &get_device);
	present(2);
	CHECK_OK(set_device(1));
	CHECK_OK(cuda.stream(&stream, NON_BLOCKING));
	float *there = device_floats(cuda.ops, &memory, params, THERE);
	float *grad_there = device_floats(cuda.ops, &grad_memory, grad, N);
	CHECK_OK(cuda.ops->alloc(MEMORY_DEVICE, sizeof codes[0], &code_memory));
	CHECK_OK(cuda.ops->zero(code_memory.address, sizeof codes[0], NULL));
	CHECK_OK(set_device(0));
	sluice_segment pieces[] = { { mine[0], HERE, SLUICE_F32, 0 },
				    { there, THERE, SLUICE_F32, 0 } };
	sluice_segment grads[] = { { grad_there, THERE, SLUICE_F32, 0 },
				   { mine[1], HERE, SLUICE_F32, 0 } };
	sluice_model_attr attr = { .size = sizeof attr,
				   .count = N,
				   .recipe = "up=topk(0.02) down=topk(0.1)",
				   .uneven = 1 };
	CHECK_OK(sluice_model_open(job, &attr, params, &host));
	attr.stream = stream;
	count(&seen);
	attr.segments = pieces;
	attr.n_segments = 2;
	CHECK_OK(sluice_model_open(job, &attr, NULL, &whole));
	attr.segments = NULL;
	attr.n_segments = 0;
	attr.param_type = SLUICE_BF16;
	CHECK_OK(sluice_model_open(job, &attr, code_memory.address, &narrow));
	for (int step = 1; step <= 2 * LAUNCHES; step++) {
		int more = 0;
		fill(grad, step);
		memcpy(mine[1], grad + THERE, sizeof mine[1]);
		CHECK_OK(cuda.ops->copy(grad_there, grad, sizeof grad, stream));
		if (step == LAUNCHES) {
			CHECK_OK(sluice_join(host, params, &more));
			CHECK_OK(sluice_join(whole, NULL, &more));
			CHECK_OK(sluice_join(narrow, code_memory.address, &more));
		} else {
			CHECK_OK(sluice_push(host, grad));
			CHECK_OK(sluice_pull(host, params));
			CHECK_OK(step % 2 ? sluice_push(whole, grad_there) :
					    sluice_push_segments(whole, grads, 2));
			CHECK_OK(step % 2 ? sluice_pull(whole, NULL) :
					    sluice_pull_segments(whole, pieces, 2));
			CHECK_OK(sluice_push(narrow, step % 2 ? grad : grad_there));
			CHECK_OK(sluice_pull(narrow, code_memory.address));
		}
		CHECK(!get_device(&now) && now == 0);
		CHECK_OK(cuda.ops->copy(got + HERE, there, THERE * sizeof *got, stream));
		CHECK_OK(cuda.ops->copy(codes[0], code_memory.address, sizeof codes[0], stream));
		CHECK_OK(cuda.ops->wait(stream));
		memcpy(got, mine[0], sizeof mine[0]);
		CHECK(!memcmp(got, params, sizeof got));
		for (int i = 0; i < N; i++) {
			const float had = narrow_value(codes[0][i], SLUICE_BF16);
			CHECK(fabsf(had - params[i]) <= fabsf(params[i]) / 256);
		}
	}
	count(&seen);
	CHECK(!(seen.contexts & 1));
	sluice_model_close(&narrow);
	sluice_model_close(&whole);
	sluice_model_close(&host);
	CHECK_OK(cuda.destroy(stream));
	cuda.ops->release(&memory);
	cuda.ops->release(&grad_memory);
	cuda.ops->release(&code_memory);
	sluice_finalize(&job);
	return 0;
}

static void push_and_pull__pieces_on_another_gpu__on_that_one(void **state)
{
	(void)state;
	run_ranks(1, train_pieces_on_two, NULL);
}

/* ---- the last error -------------------------------------------------------- */

static int pin_and_fail(int rank, void *argument)
{
	static float x[N];
	void *there;
	(void)rank, (void)argument;
	begin_cuda();
	cuda.ops->unpin(x); /* never pinned */
	CHECK(cuda.last_error() == 0);
	for (unsigned after = 0; after < 6; after++) {
		cuda.fail_later(after, FAILURE);
		int rc = cuda.ops->pin(x, sizeof x, &there);
		cuda.fail_later(1u << 30, 0);
		CHECK(cuda.last_error() == 0);
		if (!rc)
			cuda.ops->unpin(x);
		CHECK(cuda.last_error() == 0);
		CHECK_OK(cuda.ops->pin(x, sizeof x, &there)); /* nothing is left of it */
		cuda.ops->unpin(x);
	}
	return 0;
}

static void pin_and_unpin__cuda_says_no__the_application_finds_no_error(void **state)
{
	(void)state;
	run_ranks(1, pin_and_fail, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(select__captured_into_a_graph__each_launch_is_a_selection),
		cmocka_unit_test(open_and_close__beside_a_capture__it_is_not_spoilt),
		cmocka_unit_test(push__on_a_captured_stream__is_refused_and_does_not_spoil_it),
		cmocka_unit_test(push_and_pull__stream_is_captured__refused_and_made_again_outside),
		cmocka_unit_test(push__captured_into_a_graph__each_launch_is_a_push),
		cmocka_unit_test(push__learning_rate_changed__it_has_to_be_captured_again),
		cmocka_unit_test(push__scale_of_8_bits_changed__it_has_to_be_captured_again),
		cmocka_unit_test(push__graph_not_launched_once__the_job_ends),
		cmocka_unit_test(
			push__selection_left_the_gpu__the_graph_harms_nothing_and_is_of_use_again),
		cmocka_unit_test(push__refused__brings_no_gradient),
		cmocka_unit_test(push_and_pull__on_two_gpus_of_one_thread__each_on_its_own),
		cmocka_unit_test(push_and_pull__pieces_on_another_gpu__on_that_one),
		cmocka_unit_test(pin_and_unpin__cuda_says_no__the_application_finds_no_error),
	};
	if (device_is_real()) {
		printf("skipped: needs the runtime that can be made to fail\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
