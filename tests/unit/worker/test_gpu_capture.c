/* SPDX-License-Identifier: BSD-3-Clause
 * An application that captures its streams into graphs while the library works: calls on a captured
 * stream are refused, and no call spoils a capture. */
#include "base/error.h"
#include "base/bytes.h"
#include "worker/device_push.h"
#include "base/device_kernels.h"
#include "gpu_rank.h"
#include "ranks.h"
#include "cases.h"
#include <string.h>

enum { N = 5000, K = 50, STEPS = 3, GLOBAL = 0, NON_BLOCKING = 1 };

/* Functions of CUDA's runtime, which are loaded with the module. */
static struct {
	const struct device_ops *ops;
	const struct device_kernels *kernels;
	int (*stream)(void **, unsigned);
	int (*destroy)(void *);
	int (*begin)(void *, int);
	int (*end)(void *, void **);
	int (*free_graph)(void *);
	int (*last_error)(void);
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
	device_look_up("cudaGraphDestroy", &cuda.free_graph);
	device_look_up("cudaGetLastError", &cuda.last_error);
}

static void fill(float *x, int step)
{
	for (size_t i = 0; i < N; i++)
		x[i] = noise(3, (uint64_t)step, 0, i);
}

/* Ends the capture, which must still be valid. */
static void end_capture(void *stream)
{
	void *graph;
	CHECK_OK(cuda.end(stream, &graph));
	CHECK_OK(cuda.free_graph(graph));
}

/* ---- the table ------------------------------------------------------------- */

static const struct device_shape plain_shape = { .n = N, .k = K };

/* The application's streams wait for the default stream, as they do by default. */
TEST_IN_RANKS(open_and_close__beside_a_capture__it_is_not_spoilt, 1)
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
	end_capture(stream);
	/* the thread's mode is unchanged */
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

TEST_IN_RANKS(push__on_a_captured_stream__is_refused_and_does_not_spoil_it, 1)
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
	end_capture(stream);
	CHECK_OK(cuda.ops->ready(stream));
	CHECK_OK(cuda.ops->ready(NULL));
	cuda.ops->close(&c);
	cuda.kernels->selector_close(&s);
	CHECK_OK(cuda.destroy(stream));
	CHECK_OK(cuda.destroy(free_stream));
	cuda.ops->release(&m);
	return 0;
}

/* ---- a model --------------------------------------------------------------- */

static void train_beside(sluice_job *job, int rank, void *argument)
{
	static float params[N], grad[N], got[N];
	sluice_model *host = NULL, *gpu = NULL;
	struct memory params_memory, grad_memory;
	void *stream;
	begin_cuda();
	log_capture();
	CHECK_OK(cuda.stream(&stream, 0));
	float *there = device_floats(cuda.ops, &params_memory, params, N);
	float *grad_there = device_floats(cuda.ops, &grad_memory, grad, N);
	sluice_model_attr attr = ATTR(.count = N, .recipe = argument);
	CHECK_OK(sluice_model_open(job, &attr, params, &host));
	attr.stream = stream;
	CHECK_OK(sluice_model_open(job, &attr, there, &gpu));
	for (int step = 1; step <= STEPS; step++) {
		fill(grad, step);
		CHECK_OK(cuda.ops->copy(grad_there, grad, sizeof grad, stream));
		CHECK_OK(cuda.begin(stream, GLOBAL));
		CHECK(sluice_push(gpu, grad_there) == SLUICE_EGPU);
		CHECK(error_says("being captured into a graph", "call outside of the capture"));
		end_capture(stream);
		CHECK_OK(sluice_push(host, grad));
		CHECK_OK(sluice_push(gpu, grad_there));
		CHECK_OK(sluice_pull(host, params));
		CHECK_OK(cuda.begin(stream, GLOBAL));
		CHECK(sluice_pull(gpu, there) == SLUICE_EGPU);
		CHECK(error_says("being captured into a graph", NULL));
		end_capture(stream);
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
}

TEST(push_and_pull__stream_is_captured__refused_and_made_again_outside)
{
	static char recipes[][80] = {
		"up=topk(0.02) down=topk(0.1) signal=momentum(0.9) warmup=5",
		"up=topk(0.02),uniform(4,16) down=all",
		"up=random(0.02) down=all memory=none",
		"up=randk(0.02) down=all",
		"up=all,round(0.1) down=all memory=residual",
		"up=all,uniform(4) down=all memory=residual",
		"up=topk(0.02) down=all memory=residual reset=9",
	};
	for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
		run_in_job(1, train_beside, recipes[i]);
}

/* A call that is refused has pushed no gradient, so sluice_idle_step() finds that no worker has
 * one. */
TEST_IN_JOB(push__refused__brings_no_gradient, 1)
{
	static float params[N], grad[N];
	struct memory params_memory, grad_memory;
	void *stream;
	int more = 7;
	begin_cuda();
	log_capture();
	CHECK_OK(cuda.stream(&stream, NON_BLOCKING));
	fill(grad, 1);
	float *there = device_floats(cuda.ops, &params_memory, params, N);
	float *grad_there = device_floats(cuda.ops, &grad_memory, grad, N);
	sluice_model *gpu = OPEN(job, there, .count = N, .recipe = "up=topk(0.02) down=all",
				 .stream = stream, .uneven = 1);
	CHECK_OK(sluice_idle_step(gpu, there, &more));
	CHECK(!more);
	CHECK_OK(cuda.begin(stream, GLOBAL));
	CHECK(sluice_push(gpu, grad_there) == SLUICE_EGPU);
	end_capture(stream);
	CHECK_OK(sluice_idle_step(gpu, there, &more));
	CHECK(!more && step_of(gpu).steps == 2);
	CHECK_STEP(gpu, grad_there, there);
	sluice_model_close(&gpu);
	CHECK_OK(cuda.destroy(stream));
	cuda.ops->release(&params_memory);
	cuda.ops->release(&grad_memory);
}

int main(void)
{
	if (device_is_real()) {
		printf("skipped: needs the runtime that can be made to fail\n");
		return 77;
	}
	return run_cases(NULL, NULL);
}
