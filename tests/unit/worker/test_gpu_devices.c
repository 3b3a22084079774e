/* SPDX-License-Identifier: BSD-3-Clause
 * A thread that uses several GPUs: each call uses its model's GPU, and leaves the thread's current
 * GPU unchanged. Pinning that CUDA refuses leaves no error for the application. */
#include "base/error.h"
#include "worker/device_push.h"
#include "gpu_rank.h"
#include "narrow.h"
#include "ranks.h"
#include "tests/gpu/emulation/counts.h"
#include "cases.h"
#include <math.h>
#include <string.h>

enum { N = 5000, STEPS = 3, NON_BLOCKING = 1, FAILURE = 719 };

/* Functions of CUDA's runtime, which are loaded with the module. */
static struct {
	const struct device_ops *ops;
	int (*stream)(void **, unsigned);
	int (*destroy)(void *);
	int (*last_error)(void);
	int (*set_device)(int);
	int (*get_device)(int *);
	void (*present)(int);
	void (*count)(struct emulated_counts *);
	void (*fail_later)(unsigned, int);
} cuda;

static void begin_cuda(int gpus)
{
	cuda.ops = device();
	device_look_up("cudaStreamCreateWithFlags", &cuda.stream);
	device_look_up("cudaStreamDestroy", &cuda.destroy);
	device_look_up("cudaGetLastError", &cuda.last_error);
	device_look_up("cudaSetDevice", &cuda.set_device);
	device_look_up("cudaGetDevice", &cuda.get_device);
	device_look_up("emulated_device", &cuda.present);
	device_look_up("emulated_count", &cuda.count);
	device_look_up("emulated_fail", &cuda.fail_later);
	cuda.present(gpus);
}

static void fill(float *x, int step)
{
	for (size_t i = 0; i < N; i++)
		x[i] = noise(3, (uint64_t)step, 0, i);
}

/* A thread on GPU 0 trains a model on each of two GPUs, each in its own stream. No call for one GPU
 * reaches the other, and the thread's current device stays the same. */
static void train_on_two(sluice_job *job, int rank, void *argument)
{
	static float params[2][N], grad[N], got[N];
	sluice_model *host = NULL, *gpu[2] = { NULL, NULL };
	struct memory params_memory[2], grad_memory[2];
	float *there[2], *grad_there[2];
	struct emulated_counts seen;
	void *stream[2];
	int now = -1;
	begin_cuda(2);
	sluice_model_attr attr = ATTR(.count = N, .recipe = argument);
	CHECK_OK(sluice_model_open(job, &attr, params[0], &host));
	for (int g = 0; g < 2; g++) {
		CHECK_OK(cuda.set_device(g));
		CHECK_OK(cuda.stream(&stream[g], NON_BLOCKING));
		there[g] = device_floats(cuda.ops, &params_memory[g], params[0], N);
		grad_there[g] = device_floats(cuda.ops, &grad_memory[g], grad, N);
	}
	CHECK_OK(cuda.set_device(0));
	for (int g = 0; g < 2; g++) {
		attr.stream = stream[g];
		CHECK_OK(sluice_model_open(job, &attr, there[g], &gpu[g]));
	}
	for (int step = 1; step <= STEPS; step++) {
		fill(grad, step);
		CHECK_STEP(host, grad, params[0]);
		for (int g = 0; g < 2; g++) {
			CHECK_OK(cuda.ops->copy(grad_there[g], grad, sizeof grad, stream[g]));
			cuda.count(&seen);
			CHECK_STEP(gpu[g], grad_there[g], there[g]);
			cuda.count(&seen);
			CHECK(!(seen.contexts & ~(1u << g)));
			CHECK(!cuda.get_device(&now) && now == 0);
			CHECK_OK(cuda.ops->copy(got, there[g], sizeof got, stream[g]));
			CHECK_OK(cuda.ops->wait(stream[g]));
			CHECK(!memcmp(got, params[0], sizeof got));
		}
	}
	for (int g = 0; g < 2; g++) {
		CHECK(on_device_selects(gpu[g]->worker) == !strstr(argument, "round"));
		sluice_model_close(&gpu[g]);
		CHECK_OK(cuda.destroy(stream[g]));
		cuda.ops->release(&params_memory[g]);
		cuda.ops->release(&grad_memory[g]);
	}
	sluice_model_close(&host);
}

TEST(push_and_pull__on_two_gpus_of_one_thread__each_on_its_own)
{
	run_in_job(1, train_on_two, "up=topk(0.02) down=topk(0.1) signal=momentum(0.9)");
	run_in_job(1, train_on_two, "up=all down=all");
	run_in_job(1, train_on_two, "up=all,round(0.1) down=all memory=residual");
}

/* The same with vectors in pieces, some of them in host memory, and with 16-bit parameters. This
 * includes opening, and moving an earlier selection back to the host. */
TEST_IN_JOB(push_and_pull__pieces_on_another_gpu__on_that_one, 1)
{
	enum { HERE = 1000, THERE = N - HERE };
	static float params[N], grad[N], got[N], mine[2][HERE];
	static uint16_t codes[2][N];
	sluice_model *host = NULL, *whole = NULL, *narrow = NULL;
	struct memory memory, grad_memory, code_memory;
	struct emulated_counts seen;
	void *stream;
	int now = -1;
	begin_cuda(2);
	CHECK_OK(cuda.set_device(1));
	CHECK_OK(cuda.stream(&stream, NON_BLOCKING));
	float *there = device_floats(cuda.ops, &memory, params, THERE);
	float *grad_there = device_floats(cuda.ops, &grad_memory, grad, N);
	CHECK_OK(cuda.ops->alloc(MEMORY_DEVICE, sizeof codes[0], &code_memory));
	CHECK_OK(cuda.ops->zero(code_memory.address, sizeof codes[0], NULL));
	CHECK_OK(cuda.set_device(0));
	sluice_segment pieces[] = { { mine[0], HERE, SLUICE_F32, 0 },
				    { there, THERE, SLUICE_F32, 0 } };
	sluice_segment grads[] = { { grad_there, THERE, SLUICE_F32, 0 },
				   { mine[1], HERE, SLUICE_F32, 0 } };
	sluice_model_attr attr = ATTR(.count = N, .recipe = "up=topk(0.02) down=topk(0.1)",
				      .uneven = 1);
	CHECK_OK(sluice_model_open(job, &attr, params, &host));
	attr.stream = stream;
	cuda.count(&seen);
	attr.segments = pieces;
	attr.n_segments = 2;
	CHECK_OK(sluice_model_open(job, &attr, NULL, &whole));
	attr.segments = NULL;
	attr.n_segments = 0;
	attr.param_type = SLUICE_BF16;
	CHECK_OK(sluice_model_open(job, &attr, code_memory.address, &narrow));
	for (int step = 1; step <= 2 * STEPS; step++) {
		int more = 0;
		fill(grad, step);
		memcpy(mine[1], grad + THERE, sizeof mine[1]);
		CHECK_OK(cuda.ops->copy(grad_there, grad, sizeof grad, stream));
		if (step == STEPS) {
			CHECK_OK(sluice_idle_step(host, params, &more));
			CHECK_OK(sluice_idle_step(whole, NULL, &more));
			CHECK_OK(sluice_idle_step(narrow, code_memory.address, &more));
		} else {
			CHECK_STEP(host, grad, params);
			CHECK_OK(step % 2 ? sluice_push(whole, grad_there) :
					    sluice_push_vector(whole, IN_PIECES(grads, 2)));
			CHECK_OK(step % 2 ? sluice_pull(whole, NULL) :
					    sluice_pull_vector(whole, IN_PIECES(pieces, 2)));
			CHECK_STEP(narrow, step % 2 ? grad : grad_there, code_memory.address);
		}
		CHECK(!cuda.get_device(&now) && now == 0);
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
	cuda.count(&seen);
	CHECK(!(seen.contexts & 1));
	sluice_model_close(&narrow);
	sluice_model_close(&whole);
	sluice_model_close(&host);
	CHECK_OK(cuda.destroy(stream));
	cuda.ops->release(&memory);
	cuda.ops->release(&grad_memory);
	cuda.ops->release(&code_memory);
}

/* The 32-bit copy of an earlier pull is still freed by the device's own function. */
static int pull_from_wrong_gpu(int rank, void *argument)
{
	static float grad[N];
	sluice_job *job = rank_join(NULL);
	struct memory codes;
	(void)rank;
	begin_cuda(2);
	CHECK_OK(cuda.ops->alloc(MEMORY_DEVICE, N * sizeof(uint16_t), &codes));
	CHECK_OK(cuda.ops->zero(codes.address, N * sizeof(uint16_t), NULL));
	CHECK_OK(cuda.ops->wait(NULL));
	sluice_model *model = OPEN(job, codes.address, .count = N,
				   .recipe = "up=topk(0.02) down=topk(0.1)",
				   .param_type = SLUICE_BF16);
	fill(grad, 1);
	CHECK_STEP(model, grad, codes.address);
	CHECK_OK(sluice_push(model, grad));
	CHECK_OK(sluice_pull_begin(model, &(sluice_vector){ .data = codes.address }));
	CHECK_OK(cuda.set_device(1));
	CHECK(sluice_pull_range(model, 0, N) == SLUICE_EGPU);
	CHECK(strstr(sluice_last_error(), "it is on GPU 0, but the calling thread uses GPU 1"));
	CHECK_OK(cuda.set_device(0));
	if (argument)
		CHECK_OK(sluice_pull_range(model, 0, N));
	sluice_model_close(&model);
	cuda.ops->release(&codes);
	sluice_finalize(&job);
	return 0;
}

TEST(pull__from_a_thread_on_another_gpu__is_refused_and_the_model_closes)
{
	run_ranks(1, pull_from_wrong_gpu, NULL);
	run_ranks(1, pull_from_wrong_gpu, "and pulls again");
}

TEST_IN_RANKS(pin_and_unpin__cuda_says_no__the_application_finds_no_error, 1)
{
	static float x[N];
	void *there;
	begin_cuda(1);
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
		CHECK_OK(cuda.ops->pin(x, sizeof x, &there)); /* nothing of it is pinned any more */
		cuda.ops->unpin(x);
	}
	return 0;
}

int main(void)
{
	if (device_is_real()) {
		printf("skipped: needs the runtime that emulates two GPUs, and can be made to "
		       "fail\n");
		return 77;
	}
	return run_cases(NULL, NULL);
}
