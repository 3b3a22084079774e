/* SPDX-License-Identifier: BSD-3-Clause
 * Two models in one job get the same gradients, one in host memory, the other in GPU memory: parameters,
 * messages and residual stay the same bits, whether the recipe selects on the GPU or on the host. */
#include "base/error.h"
#include "base/bytes.h"
#include "worker/worker.h"
#include "narrow.h"
#include "ranks.h"
#include "scratch.h"
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { COUNT = 5000, STEPS = 6, RANKS = 3, CALLS = 120, SHARDS = 3, SHARDS_SKEWED = 10, QUIET = 12 };

struct shape {
	const char *recipe;
	int on_gpu;          /* whether selection is expected there */
	int nan_at;          /* step whose gradient holds a NaN; 0: none */
	int home_at;         /* from this step on the gradient is in host memory; 0: never */
	int ranges_at;       /* in this step it comes in ranges; 0: never */
	int measured_at;     /* from this step on sluice_measure() is on; 0: never */
	int narrow;          /* SLUICE_F16 or BF16: gradients in 16 bits */
	int skewed;          /* the heavy coordinates are one shard's, whose slot they overflow */
};

/* The table, in a rank; the module whose kernels run on the CPU unless SLUICE_GPU names another. */
static const struct device_ops *device(void)
{
	const char *why = "";
	setenv("SLUICE_GPU", EMULATED_MODULE, 0);
	const struct device_ops *ops = device_load(&why);
	if (!ops)
		fprintf(stderr, "%s\n", why);
	CHECK(ops != NULL);
	return ops;
}

static float *device_vector(const struct device_ops *ops, struct memory *m)
{
	CHECK_OK(ops->alloc(COUNT * sizeof(float), m));
	CHECK_OK(ops->zero(m->address, COUNT * sizeof(float), NULL));
	CHECK_OK(ops->wait(NULL));
	return m->address;
}

static void to_device(const struct device_ops *ops, float *there, const float *here)
{
	CHECK_OK(ops->copy(there, here, COUNT * sizeof(float), NULL));
	CHECK_OK(ops->wait(NULL));
}

static void expect_on_device(const struct device_ops *ops, const float *there, const float *here)
{
	static float got[COUNT];
	CHECK_OK(ops->copy(got, there, sizeof got, NULL));
	CHECK_OK(ops->wait(NULL));
	CHECK(!memcmp(got, here, sizeof got));
}

static void gradient(float *grad, int rank, int step, const struct shape *shape)
{
	for (size_t i = 0; i < COUNT; i++)
		grad[i] = noise(7, (uint64_t)step, (uint64_t)rank, i) *
			  (i % 100 && !(shape->skewed && i < COUNT / SHARDS_SKEWED) ? 1.0f : 20.0f);
	if (step == shape->nan_at && rank == 1)
		grad[321] = NAN;
}

/* But for the model's number, and with it the header's checksum. A payload that is not in the staging slot is
 * compared by its length and checksum, and by what the shards made of it. */
static void expect_same_messages(const sluice_model *host, const sluice_model *gpu)
{
	enum { MODEL = 84 };
	for (uint32_t s = 0; s < host->layout.n_shards; s++) {
		const uint64_t seq = host->worker->up[s].ring.next_seq - 1;
		const uint8_t *a = worker_slot(host, s, seq), *b = worker_slot(gpu, s, seq);
		const size_t bytes = host->worker->up[s].bytes;
		CHECK(gpu->worker->up[s].ring.next_seq - 1 == seq && gpu->worker->up[s].bytes == bytes);
		CHECK(!memcmp(a, b, MODEL) && !memcmp(a + MODEL + 4, b + MODEL + 4, 4));
		const struct on_device *d = &gpu->worker->device;
		CHECK(gpu->worker->up[s].apart == (d->sent[s].packed && d->lanes[s].way != PAYLOAD_STAGED));
		if (gpu->worker->up[s].apart)
			continue;
		CHECK(!memcmp(a + MESSAGE_HEADER_BYTES, b + MESSAGE_HEADER_BYTES, bytes - MESSAGE_HEADER_BYTES));
	}
}

/* Which parts the device packed. */
static uint32_t packed(const sluice_model *gpu)
{
	uint32_t n = 0;
	for (uint32_t s = 0; s < gpu->layout.n_shards; s++)
		n += gpu->worker->device.sent[s].packed != 0;
	return n;
}

static void expect_packed(const sluice_model *gpu, const struct shape *shape)
{
	const struct recipe *recipe = &gpu->recipe;
	const struct selection_kind *kind = &selection_kinds[recipe->up.select];
	const int whole = recipe->up.values.type != VALUE_ROUND && recipe->coding != CODING_SMALL && !kind->seeded;
	for (uint32_t s = 0; s < gpu->layout.n_shards; s++) /* all ranks are on this machine */
		CHECK(gpu->worker->device.lanes[s].way == PAYLOAD_PLACED);
	if (whole && kind->varies) /* some may have more than their slot holds */
		return;
	CHECK(whole ? packed(gpu) + !!shape->skewed == gpu->layout.n_shards : packed(gpu) == 0);
}

/* Codes instead of these values, and what they mean. Room for COUNT floats. */
static void narrow_gradient(uint16_t *codes, float *grad, int type)
{
	for (size_t i = 0; i < COUNT; i++) {
		codes[i] = isnan(grad[i]) ? 0x7fc0 | 0x7e00 : narrow_code(float_bits(grad[i]) * 2654435761u, type);
		grad[i] = narrow_value(codes[i], type);
	}
}

static void expect_same_stats(sluice_model *host, sluice_model *gpu, int overflows)
{
	sluice_model_stats a = { .size = sizeof a }, b = { .size = sizeof b };
	CHECK_OK(sluice_stats(host, &a));
	CHECK_OK(sluice_stats(gpu, &b));
	CHECK(a.pushed_bytes == b.pushed_bytes && a.pulled_bytes == b.pulled_bytes);
	CHECK(a.pushed_elements == b.pushed_elements && a.deferred_elements == b.deferred_elements);
	CHECK(selection_kinds[host->recipe.up.select].varies || !overflows == !b.deferred_elements);
	CHECK(a.nonfinite_elements == b.nonfinite_elements);
	CHECK(float_bits((float)a.residual_norm) == float_bits((float)b.residual_norm));
}

/* By the call that the recipe asks for. params: what sluice_push_params() pushes. */
static int push_one(sluice_model *model, const void *grad, const float *params, int in_ranges)
{
	const struct recipe *recipe = &model->recipe;
	if (recipe->signal == SIGNAL_STORM)
		return sluice_push_pair(model, grad, grad);
	if (recipe->update == UPDATE_AVERAGE)
		return sluice_push_params(model, params);
	if (!in_ranges)
		return sluice_push(model, grad);
	const uint8_t *bytes = grad;
	int rc = sluice_push_range(model, bytes + 2000 * value_bytes(model->grad_type), 2000, COUNT - 2000);
	return rc ? rc : sluice_push_range(model, grad, 0, 2000);
}

static int train_both(int rank, void *argument)
{
	const struct shape *shape = argument;
	static float params[COUNT], grad[COUNT], point[COUNT];
	static uint16_t codes[2 * COUNT];
	const struct device_ops *ops = device();
	struct memory params_memory, grad_memory;
	float *there = device_vector(ops, &params_memory), *grad_there = device_vector(ops, &grad_memory);
	sluice_job *job = rank_join(NULL);
	sluice_model *host = NULL, *gpu = NULL;
	sluice_tensor tensors[] = { { "weight", COUNT - 100 }, { "bias", 100 } };
	sluice_model_attr attr = { .size = sizeof attr, .count = COUNT, .recipe = shape->recipe,
				   .shards = shape->skewed ? SHARDS_SKEWED : SHARDS,
				   .tensors = tensors, .n_tensors = 2 };
	int mean = strstr(shape->recipe, "update=none") != NULL;
	for (size_t i = 0; i < COUNT; i++)
		params[i] = rank ? 0 : noise(1, 0, 0, i);
	to_device(ops, there, params);
	CHECK_OK(sluice_model_open(job, &attr, params, &host));
	attr.grad_type = shape->narrow;
	CHECK_OK(sluice_model_open(job, &attr, there, &gpu));
	expect_on_device(ops, there, params);
	for (int step = 1; step <= STEPS; step++) {
		int home = shape->home_at && step >= shape->home_at;
		gradient(grad, rank, step, shape);
		if (shape->narrow)
			narrow_gradient(codes, grad, shape->narrow);
		int ranges = step == shape->ranges_at, measured = shape->measured_at && step >= shape->measured_at;
		CHECK_OK(sluice_measure(host, measured));
		CHECK_OK(sluice_measure(gpu, measured));
		CHECK_OK(sluice_point(host, params, point));
		CHECK_OK(sluice_point(gpu, there, grad_there)); /* lies there for a moment */
		expect_on_device(ops, grad_there, point);
		to_device(ops, grad_there, shape->narrow ? (const float *)(const void *)codes : grad);
		CHECK_OK(push_one(host, grad, params, ranges));
		CHECK_OK(push_one(gpu, !home ? (const void *)grad_there : shape->narrow ? (const void *)codes : grad,
				  there, ranges));
		CHECK(gpu->worker->device.selects == (shape->on_gpu && !home && !ranges && !measured));
		if (gpu->worker->device.selects) {
			expect_packed(gpu, shape);
			expect_same_messages(host, gpu);
		}
		CHECK_OK(mean ? sluice_pull_mean(host, params) : sluice_pull(host, params));
		CHECK_OK(mean ? sluice_pull_mean(gpu, there) : sluice_pull(gpu, there));
		expect_on_device(ops, there, params);
		if (gpu->worker->device.selects) /* where a support was agreed, there were others */
			expect_same_messages(host, gpu);
		expect_same_stats(host, gpu, shape->skewed);
	}
	sluice_model_close(&gpu);
	sluice_model_close(&host);
	sluice_finalize(&job);
	ops->release(&params_memory);
	ops->release(&grad_memory);
	return 0;
}

static void push_and_pull__gpu_memory_gives_the_bits_of_host_memory(void **state)
{
	static struct shape shapes[] = {
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual update=sgd", .on_gpu = 1 },
		{ .recipe = "up=topk(0.02),f16 down=topk(0.05),f16 memory=residual update=sgd", .on_gpu = 1 },
		{ .recipe = "up=topk(0.3),bf16 down=all memory=residual update=sgd", .on_gpu = 1 },
		{ .recipe = "up=topk(0.001) down=all memory=residual update=none", .on_gpu = 1 },
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual update=sgd nonfinite=skip", .on_gpu = 1,
		  .nan_at = 3 },
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual update=sgd", .on_gpu = 1, .home_at = 4 },
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual update=sgd nonfinite=zero", .on_gpu = 1,
		  .nan_at = 2 },
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual update=sgd clip=1", .on_gpu = 1 },
		{ .recipe = "up=topk(0.02) down=all memory=residual(inside) update=sgd clip=1e6", .on_gpu = 1 },
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual update=sgd dense=none", .on_gpu = 1 },
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual signal=momentum(0.9) update=sgd", .on_gpu = 1,
		  .home_at = 4 },
		{ .recipe = "up=topk(0.02),f16 down=all signal=momentum(0.9),nomask memory=residual(inside) update=sgd",
		  .on_gpu = 1, .ranges_at = 3 },
		{ .recipe = "up=topk(0.02) down=topk(0.1) signal=momentum(0.9),mask clip=5 warmup=2 memory=residual dense=bias",
		  .on_gpu = 1 },
		{ .recipe = "up=topk(0.02) down=all signal=momentum(0.5),mask clip=9", .on_gpu = 1, .skewed = 1 },
		{ .recipe = "up=topk(0.02) down=all signal=momentum(0.7) clip=3 nonfinite=zero", .on_gpu = 1, .nan_at = 3,
		  .narrow = SLUICE_BF16 },
		{ .recipe = "up=topk(0.02),uniform(4,16) down=all signal=momentum(0.9),mask dense=none", .on_gpu = 1 },
		{ .recipe = "up=gaussiank(0.02) down=all signal=momentum(0.9) nonfinite=skip clip=2", .on_gpu = 1,
		  .nan_at = 2 },
		{ .recipe = "up=threshold(3) down=all signal=momentum(0.9) memory=residual nonfinite=zero", .on_gpu = 1,
		  .nan_at = 2 },
		{ .recipe = "up=randk(0.05) down=all signal=momentum(0.9) memory=residual nonfinite=skip", .on_gpu = 1,
		  .nan_at = 3 },
		{ .recipe = "up=randk(0.05) down=all memory=residual nonfinite=skip", .on_gpu = 1, .nan_at = 3 },
		{ .recipe = "up=random(0.05) down=all signal=momentum(0.5) memory=none clip=2", .on_gpu = 1 },
		{ .recipe = "up=variance(1) down=all signal=momentum(0.5),mask memory=none nonfinite=zero", .on_gpu = 1,
		  .nan_at = 1, .narrow = SLUICE_F16 },
		{ .recipe = "up=topk(0.02) down=all memory=none clip=0.5 update=sgd", .on_gpu = 1 },
		{ .recipe = "up=topk(0.1) down=all signal=momentum(0.9) memory=residual when=every(3)" },
		{ .recipe = "up=topk(0.1) down=all memory=lowpass(0.3) clip=1 signal=momentum(0.9)" },
		{ .recipe = "up=threshold(0.5) down=all memory=residual update=sgd", .on_gpu = 1 },
		{ .recipe = "up=threshold(0.5),f16 down=topk(0.1) memory=residual update=sgd", .on_gpu = 1, .home_at = 4 },
		{ .recipe = "up=gaussiank(0.02) down=all memory=residual update=sgd", .on_gpu = 1 },
		{ .recipe = "up=gaussiank(0.05),grid(4) down=gaussiank(0.1) memory=residual update=sgd dense=none",
		  .on_gpu = 1, .ranges_at = 3 },
		{ .recipe = "up=gaussiank(0.02),uniform(4,64) down=all memory=residual update=sgd", .on_gpu = 1 },
		{ .recipe = "up=random(0.02) down=all memory=none update=sgd", .on_gpu = 1 },
		{ .recipe = "up=random(0.1),uniform(3) down=all memory=none update=none nonfinite=skip", .on_gpu = 1,
		  .nan_at = 3 },
		{ .recipe = "up=random(0.1),grid(3) down=all memory=none update=sgd" },
		{ .recipe = "up=variance(1) down=all memory=none update=sgd", .on_gpu = 1 },
		{ .recipe = "up=randk(0.05) down=all memory=residual update=sgd", .on_gpu = 1 },
		{ .recipe = "up=randk(0.05),grid(5) down=randk(0.1) memory=residual update=sgd", .on_gpu = 1 },
		{ .recipe = "up=randk(0.05) down=all memory=none update=sgd" },
		{ .recipe = "up=topk(0.05) down=all memory=none update=sgd", .on_gpu = 1 },
		{ .recipe = "up=all down=all update=sgd" },
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual update=sgd", .on_gpu = 1, .ranges_at = 3 },
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual", .on_gpu = 1, .measured_at = 3 },
		{ .recipe = "up=topk(0.02),uniform(4,16) down=topk(0.05),uniform(3) memory=residual", .on_gpu = 1 },
		{ .recipe = "up=topk(0.02) down=all warmup=3 memory=residual update=momentum(0.9)", .on_gpu = 1 },
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual", .on_gpu = 1, .skewed = 1 },
		{ .recipe = "up=topk(0.02),f16 down=topk(0.05) memory=residual", .on_gpu = 1, .skewed = 1 },
		{ .recipe = "up=topk(0.02),bf16 down=all coding=small memory=residual", .on_gpu = 1 },
		{ .recipe = "up=topk(0.02),uniform(2,8) down=all coding=small memory=residual", .on_gpu = 1 },
		{ .recipe = "up=topk(0.02),uniform(8) down=topk(0.05) memory=residual", .on_gpu = 1, .skewed = 1 },
		{ .recipe = "up=topk(0.4),uniform(1,24) down=all memory=residual(inside)", .on_gpu = 1, .home_at = 4,
		  .narrow = SLUICE_F16 },
		{ .recipe = "up=topk(0.02),grid(6) down=topk(0.05) memory=residual dense=none", .on_gpu = 1, .skewed = 1 },
		{ .recipe = "up=threshold(0.5),grid(1) down=all memory=residual nonfinite=skip", .on_gpu = 1,
		  .nan_at = 2 },
		{ .recipe = "up=topk(0.05),grid(8) down=all memory=none", .on_gpu = 1 },
		{ .recipe = "up=variance(1),uniform(5,32) down=all memory=none", .on_gpu = 1 },
		{ .recipe = "up=topk(0.05),round(0.02) down=all memory=residual", .on_gpu = 1 },
		{ .recipe = "up=topk(0.02),bf16 down=topk(0.1) memory=residual(inside) dense=bias", .on_gpu = 1 },
		{ .recipe = "up=topk(0.02),f16 down=topk(0.1) memory=residual nonfinite=skip", .on_gpu = 1, .nan_at = 1 },
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual", .on_gpu = 1, .narrow = SLUICE_F16 },
		{ .recipe = "up=topk(0.02),bf16 down=topk(0.05) memory=residual(inside)", .on_gpu = 1,
		  .narrow = SLUICE_BF16, .home_at = 3, .ranges_at = 2 },
		{ .recipe = "up=topk(0.02) down=all memory=residual nonfinite=skip", .on_gpu = 1,
		  .narrow = SLUICE_F16, .nan_at = 2 },
		{ .recipe = "up=all down=all signal=storm(0.25) update=ema(0.25)", .narrow = SLUICE_BF16 },
		{ .recipe = "up=topk(0.02) down=all memory=residual clip=1 nonfinite=zero", .on_gpu = 1,
		  .narrow = SLUICE_F16, .nan_at = 3 },
		{ .recipe = "up=topk(0.1),grid(3) down=all,round(0.01)", .on_gpu = 1 },
		{ .recipe = "up=topk(0.1) down=all memory=lowpass(0.3)" },
		{ .recipe = "up=topk(0.1) down=topk(0.2) memory=twostep(0.3) update=ema(0.1)" },
		{ .recipe = "up=all down=all signal=igt(0.25) update=ema(0.25)" },
		{ .recipe = "up=all down=all signal=storm(0.25) update=ema(0.25)" },
		{ .recipe = "up=topk(0.05) down=topk(0.05) reset=4 signal=gradient,noise(0.5)" },
		{ .recipe = "up=topk(0.05) down=topk(0.05) reset=4" },
		{ .recipe = "up=sketch(0.05) down=all signal=momentum(0.5) clip=3", .on_gpu = 1 },
		{ .recipe = "up=sketch(0.05) down=all memory=residual", .on_gpu = 1 },
		{ .recipe = "up=sketch(0.02,3,2,2) down=all memory=residual(inside) dense=bias", .on_gpu = 1,
		  .narrow = SLUICE_BF16, .home_at = 5 },
		{ .recipe = "up=sketch(0.3,1,1,1) down=all warmup=3 dense=none update=none", .on_gpu = 1, .ranges_at = 3 },
		{ .recipe = "up=sketch(0.01,7) down=all nonfinite=skip", .on_gpu = 1, .nan_at = 2, .measured_at = 5 },
		{ .recipe = "up=topk(0.1) down=all when=every(3) memory=residual" },
		{ .recipe = "up=all,grid(4) down=all signal=innovation when=lazy(3,5,4)" },
		{ .recipe = "up=all down=all update=average memory=none" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
		run_ranks(RANKS, train_both, &shapes[i]);
}

/* A program that was compiled before the stream was added. */
static int open_without_stream(int rank, void *argument)
{
	static float params[COUNT];
	sluice_job *job = rank_join(NULL);
	sluice_model *model = NULL;
	sluice_model_attr attr = { .size = offsetof(sluice_model_attr, stream), .count = COUNT,
				   .stream = argument };
	(void)rank;
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	CHECK(model->worker->device.stream == NULL);
	sluice_model_close(&model);
	attr.size = sizeof attr;
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	CHECK(model->worker->device.stream == argument);
	sluice_model_close(&model);
	attr.size = offsetof(sluice_model_attr, stream) - 1;
	log_capture();
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EINVAL);
	sluice_finalize(&job);
	return 0;
}

static void model_open__stream_is_taken_where_the_size_covers_it(void **state)
{
	static int anything;
	(void)state;
	run_ranks(1, open_without_stream, &anything);
}

/* ---- checkpoint ---------------------------------------------------------------------------- */

static int train_and_resume(int rank, void *argument)
{
	static float grad[COUNT], last[COUNT];
	static const struct shape shape = { .recipe = "up=topk(0.02) down=topk(0.05) signal=momentum(0.9) memory=residual" };
	const struct device_ops *ops = device();
	struct memory params_memory, grad_memory;
	float *there = device_vector(ops, &params_memory), *grad_there = device_vector(ops, &grad_memory);
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

static void *fail_later_open(void)
{
	void *module = dlopen(device_module_path(), RTLD_NOW), *symbol = dlsym(module, "emulated_fail");
	memcpy(&fail_later, &symbol, sizeof symbol);
	return module;
}

/* Parameters that one rank cannot bring to the host: the others do not wait for it. */
static int restore_failing(int rank, void *argument)
{
	enum { CULPRIT = 1, FIND = 2 };
	static float grad[COUNT];
	const struct device_ops *ops = device();
	struct memory params_memory;
	float *there = device_vector(ops, &params_memory);
	void *module = fail_later_open();
	sluice_job *job = rank_join(NULL);
	sluice_model_attr attr = { .size = sizeof attr, .count = COUNT };
	log_capture();
	for (int life = 0; life < 2; life++) {
		sluice_model *model = NULL;
		CHECK_OK(sluice_model_open(job, &attr, there, &model));
		if (life) {
			fail_later(rank == CULPRIT ? FIND : 1u << 30, 719);
			CHECK(sluice_restore(model, argument, there, NULL) == SLUICE_EGPU);
			fail_later(1u << 30, 0);
			CHECK(error_says("cudaErrorLaunchFailure", rank == CULPRIT ? "parameters" : "rank 1"));
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
	dlclose(module);
	ops->release(&params_memory);
	return 0;
}

static void restore__parameters_of_one_rank_cannot_be_copied__all_say_so(void **state)
{
	char dir[SCRATCH_PATH];
	(void)state;
	if (getenv("SLUICE_GPU") && strcmp(getenv("SLUICE_GPU"), EMULATED_MODULE))
		skip();
	assert_int_equal(scratch_make(dir), 0);
	run_ranks(3, restore_failing, dir);
	scratch_remove(dir);
}

/* ---- errors -------------------------------------------------------------------------------- */

static int push_nan(int rank, void *argument)
{
	static float grad[COUNT];
	static const struct shape shape = { .nan_at = 1 };
	const struct device_ops *ops = device();
	struct memory params_memory, grad_memory;
	float *there = device_vector(ops, &params_memory), *grad_there = device_vector(ops, &grad_memory);
	sluice_job *job = rank_join(NULL);
	sluice_model *model = NULL;
	sluice_tensor tensors[] = { { "weight", 300 }, { "bias", COUNT - 300 } };
	sluice_model_attr attr = { .size = sizeof attr, .count = COUNT, .recipe = argument,
				   .tensors = tensors, .n_tensors = 2 };
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
	int skewed, pulls;   /* pulls: it is the pull's calls that fail */
	int alone;           /* one shard: fewer calls */
	int nan;             /* the gradient of `step` holds one */
	unsigned step;
	unsigned least;      /* calls that must be among them */
};

/* Says in which calls a push or pull of `step` failed; all else is as if none had. */
static int push_failing(int rank, void *argument)
{
	const struct failing *f = argument;
	static float grad[COUNT], params[COUNT], zero[COUNT];
	const struct shape shape = { .skewed = f->skewed };
	const struct device_ops *ops = device();
	struct memory params_memory, grad_memory;
	float *there = device_vector(ops, &params_memory), *grad_there = device_vector(ops, &grad_memory);
	void *module = fail_later_open();
	unsigned failed = 0, quiet = 0;
	log_capture();
	for (unsigned after = 0; after < CALLS && quiet < QUIET; after++) {
		sluice_job *job = rank_join(NULL);
		sluice_model *host = NULL, *gpu = NULL;
		sluice_model_attr attr = { .size = sizeof attr, .count = COUNT, .recipe = f->recipe,
					   .shards = f->skewed ? SHARDS_SKEWED : f->alone ? 1 : SHARDS };
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
			here += push_twice(gpu, grad_there, step == f->step && !f->pulls ? after : 1u << 30);
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
				      !memcmp(gpu->worker->residual, host->worker->residual, sizeof params));
				CHECK_OK(on_device_fetch_velocity(gpu));
				CHECK(!host->worker->velocity ||
				      !memcmp(gpu->worker->velocity, host->worker->velocity, sizeof params));
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
	/* Some failures are none: a buffer that cannot be exported, a window that cannot be pinned. But so many
	 * after each other mean that all calls have been through. */
	CHECK(quiet == QUIET);
	CHECK(failed >= f->least);
	dlclose(module);
	ops->release(&params_memory);
	ops->release(&grad_memory);
	return 0;
}

static void push_and_pull__any_cuda_call_failing_is_EGPU_and_the_push_can_be_made_again(void **state)
{
	static struct failing cases[] = {
		{ .recipe = "up=topk(0.02),f16 down=all memory=residual", .step = 1, .least = 25 },
		{ .recipe = "up=topk(0.02),f16 down=all memory=residual", .step = 2, .least = 10 },
		{ .recipe = "up=topk(0.02) down=all memory=residual(inside)", .step = 2, .least = 10, .skewed = 1 },
		{ .recipe = "up=topk(0.02),uniform(4,16) down=all memory=residual", .step = 2, .least = 12 },
		{ .recipe = "up=topk(0.02),grid(4) down=all memory=residual", .step = 1, .least = 28 },
		{ .recipe = "up=topk(0.02),round(0.02) down=all memory=residual", .step = 2, .least = 10 },
		{ .recipe = "up=topk(0.02) down=all memory=residual nonfinite=skip", .step = 2, .least = 10, .nan = 1 },
		{ .recipe = "up=topk(0.02) down=all signal=momentum(0.9) clip=1 nonfinite=zero", .step = 1, .least = 25,
		  .nan = 1 },
		{ .recipe = "up=topk(0.02) down=all signal=momentum(0.9),mask nonfinite=zero", .step = 2, .least = 10,
		  .nan = 1, .skewed = 1 },
		{ .recipe = "up=topk(0.02) down=all signal=momentum(0.9) nonfinite=skip", .step = 2, .least = 10, .nan = 1 },
		{ .recipe = "up=random(0.02) down=all signal=momentum(0.9) clip=1 nonfinite=zero memory=none", .step = 2,
		  .least = 10, .nan = 1 },
		{ .recipe = "up=topk(0.02) down=all memory=residual", .step = 2, .least = 5, .pulls = 1 },
		{ .recipe = "up=sketch(0.02,1) down=all memory=residual", .step = 1, .least = 15, .alone = 1 },
		{ .recipe = "up=sketch(0.02,1) down=all memory=residual(inside)", .step = 2, .least = 8,
		  .alone = 1 },
		{ .recipe = "up=sketch(0.02,1) down=all nonfinite=skip", .step = 2, .least = 8, .nan = 1, .alone = 1 },
		{ .recipe = "up=sketch(0.02,1) down=all memory=residual", .step = 2, .least = 8, .pulls = 1,
		  .alone = 1 },
	};
	(void)state;
	if (getenv("SLUICE_GPU") && strcmp(getenv("SLUICE_GPU"), EMULATED_MODULE))
		skip();
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		run_ranks(1, push_failing, &cases[i]);
}

/* The gradient may be in the residual already: it cannot be added to it on the host too. */
static int push_failing_then_host(int rank, void *argument)
{
	static float grad[COUNT];
	const struct device_ops *ops = device();
	struct memory params_memory, grad_memory;
	float *there = device_vector(ops, &params_memory), *grad_there = device_vector(ops, &grad_memory);
	void *module = fail_later_open();
	sluice_job *job = rank_join(NULL);
	sluice_model *model = NULL;
	sluice_model_attr attr = { .size = sizeof attr, .count = COUNT, .recipe = argument };
	log_capture();
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
	CHECK_OK(sluice_push(model, grad_there));
	CHECK_OK(sluice_pull(model, there));
	sluice_model_close(&model);
	sluice_finalize(&job);
	dlclose(module);
	ops->release(&params_memory);
	ops->release(&grad_memory);
	return 0;
}

static void push__host_gradient_after_a_failure_on_the_gpu_is_refused(void **state)
{
	(void)state;
	if (getenv("SLUICE_GPU") && strcmp(getenv("SLUICE_GPU"), EMULATED_MODULE))
		skip();
	run_ranks(1, push_failing_then_host, "up=topk(0.02) down=all memory=residual");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(push_and_pull__gpu_memory_gives_the_bits_of_host_memory),
		cmocka_unit_test(model_open__stream_is_taken_where_the_size_covers_it),
		cmocka_unit_test(checkpoint__residual_and_momentum_on_the_gpu_are_restored),
		cmocka_unit_test(restore__parameters_of_one_rank_cannot_be_copied__all_say_so),
		cmocka_unit_test(push__nan_in_gpu_memory_is_named),
		cmocka_unit_test(push_and_pull__any_cuda_call_failing_is_EGPU_and_the_push_can_be_made_again),
		cmocka_unit_test(push__host_gradient_after_a_failure_on_the_gpu_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
