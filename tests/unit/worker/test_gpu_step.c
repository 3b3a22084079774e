/* SPDX-License-Identifier: BSD-3-Clause
 * Two models in one job get the same gradients, one in host memory, the other in GPU memory:
 * parameters, messages and residual stay the same bits, whether the recipe selects on the GPU or on
 * the host. */
#include "gpu_step.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "narrow.h"
#include "ranks.h"
#include "tests/gpu/emulation/counts.h"
#include "worker/compressor_ops.h"
#include "cases.h"
#include <dlfcn.h>
#include <math.h>
#include <string.h>

/* Returns the parts that the device packed, as bits. */
static uint32_t packed(const sluice_model *gpu)
{
	uint32_t n = 0;
	for (uint32_t s = 0; s < gpu->layout.n_shards; s++)
		n += on_device_packed(gpu->worker, s) != 0;
	return n;
}

static void expect_packed(const sluice_model *gpu, const struct shape *shape)
{
	const struct recipe *recipe = &gpu->recipe;
	const struct selection_kind *kind = &selection_kinds[recipe->up.select];
	const int whole = recipe->up.select == SELECT_ALL ||
			  (recipe->up.values.type != VALUE_ROUND && !kind->seeded) ||
			  rulebook_step(&gpu->worker->rules, step_of(gpu).steps + 1, 0).all_up;
	for (uint32_t s = 0; s < gpu->layout.n_shards; s++) /* all ranks are on this machine */
		CHECK(on_device_way(gpu->worker, s) == PAYLOAD_PLACED);
	if (whole && kind->varies) /* some may have more coordinates than their slot holds */
		return;
	CHECK(whole ? packed(gpu) + !!shape->skewed == gpu->layout.n_shards : packed(gpu) == 0);
}

/* Makes codes in place of these values, and sets the values to those of the codes. codes has room
 * for COUNT floats. */
static void narrow_gradient(uint16_t *codes, float *grad, int type)
{
	for (size_t i = 0; i < COUNT; i++) {
		const uint16_t code = isnan(grad[i]) ?
					      narrow_spoilt(type, 1) :
					      narrow_code(float_bits(grad[i]) * 2654435761u, type);
		narrow_put(codes, i, code, type);
		grad[i] = narrow_scaled(code, type);
	}
}

/* Returns the counts of device calls since the last call. On a real GPU nothing is counted. */
static struct emulated_counts count(void)
{
	void *symbol = dlsym(dlopen(device_module_path(), RTLD_NOW | RTLD_NOLOAD),
			     "emulated_count");
	void (*ask)(struct emulated_counts *);
	struct emulated_counts seen = { 0 };
	if (!symbol)
		return seen;
	memcpy(&ask, &symbol, sizeof symbol);
	ask(&seen);
	return seen;
}

static const struct shape *shape_of(const struct side *s)
{
	return s->training->own;
}

static uint16_t spelled[2 * COUNT];

/* With 16 or 8 bits, draws the values of codes. */
static void draw(float *grad, const float *params, const struct side *s)
{
	gradient(grad, s->rank, (int)s->step, shape_of(s));
	if (shape_of(s)->narrow)
		narrow_gradient(spelled, grad, shape_of(s)->narrow);
}

static int home(const struct side *s)
{
	return shape_of(s)->home_at && (int)s->step >= shape_of(s)->home_at;
}

static int measured(const struct side *s)
{
	return shape_of(s)->measured_at && (int)s->step >= shape_of(s)->measured_at;
}

static void measure(struct side *s)
{
	CHECK_OK(sluice_set(s->model, SLUICE_MEASURE, measured(s)));
}

/* Pushes by the call that the recipe requires. */
static void push(struct side *s, const float *grad)
{
	const uint8_t *bytes = (const uint8_t *)grad;

	if ((int)s->step != shape_of(s)->ranges_at) {
		side_push(s, grad);
		return;
	}
	CHECK_OK(sluice_push_range(s->model,
				   bytes + 2000 * value_bytes(s->model->worker->grad.type), 2000,
				   COUNT - 2000));
	CHECK_OK(sluice_push_range(s->model, grad, 0, 2000));
}

static void open_narrow(struct side *s)
{
	s->attr.grad_type = shape_of(s)->narrow;
	there_open(s);
	CHECK_OK(sluice_set(s->model, SLUICE_GRAD_SCALE, narrow_scale(shape_of(s)->narrow)));
}

static float point[COUNT];

static void push_here(struct side *s, const float *grad)
{
	CHECK_OK(sluice_point(s->model, s->params, point));
	push(s, grad);
}

/* Checks that no time of a push is counted twice in the sums. */
static void push_timed(struct side *s, const void *grad)
{
	sluice_model_stats before = { .size = sizeof before }, after = { .size = sizeof after };

	CHECK_OK(sluice_stats(s->model, &before));
	const uint64_t began = now_ns();
	push(s, grad);
	CHECK_OK(sluice_stats(s->model, &after)); /* the progress thread may have ended the push */
	const uint64_t spent = now_ns() - began;
	CHECK(after.compress_ns - before.compress_ns + after.push_ns - before.push_ns <= spent);
}

static void push_there(struct side *s, const float *grad)
{
	const struct shape *shape = shape_of(s);
	const void *given = shape->narrow ? (const void *)spelled : grad;
	void *grad_there = there_grad(s, given, sizeof point);

	count();
	CHECK_OK(sluice_point(s->model, s->params, grad_there)); /* grad_there holds the point
								    for a moment */
	CHECK(count().pinned == 0 || s->step == 1);
	expect_on_device(device(), grad_there, point);
	there_grad(s, given, sizeof point);
	push_timed(s, home(s) ? given : grad_there);
	CHECK(on_device_selects(s->model->worker) == (!shape->on_host && !home(s) && !measured(s)));
	if (on_device_selects(s->model->worker)) {
		/* A GPU may still be selecting. */
		CHECK_OK(s->model->worker->ops->await(s->model->worker));
		expect_packed(s->model, shape);
		expect_same_messages(s->other->model, s->model);
	}
}

static void pull_there(struct side *s, float *target)
{
	count();
	there_pull(s, target);
	/* The first step may open a selector. Copies of pageable memory wait for the device. */
	CHECK(count().pageable == 0 || s->step == 1);
}

static void compare_messages(struct side *host, struct side *gpu)
{
	if (on_device_selects(
		    gpu->model->worker)) /* if a support was agreed, others were deferred */
		expect_same_messages(host->model, gpu->model);
	expect_overflow(gpu->model, shape_of(gpu)->skewed);
}

static void train_all(sluice_job *job, int rank, void *argument)
{
	static const struct way here = { .push = push_here },
				there = { COMPARED_THERE, .open = open_narrow, .push = push_there,
					  .pull = pull_there };

	for (const struct shape *shape = argument; shape->recipe; shape++)
		same_bits(job,
			  &(struct training){ .attr = attr_of_shape(shape),
					      .steps = STEPS,
					      .gradient = draw,
					      .before = measure,
					      .after = compare_messages,
					      .own = shape },
			  &here, &there);
}

/* All shapes run in the same processes, because opening the GPU takes long. */
TEST(push_and_pull__gpu_memory_gives_the_bits_of_host_memory)
{
	static struct shape shapes[] = {
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual update=sgd" },
		{ .recipe = "up=topk(0.02),f16 down=topk(0.05),f16 memory=residual update=sgd" },
		{ .recipe = "up=topk(0.3),bf16 down=all memory=residual update=sgd" },
		{ .recipe = "up=topk(0.001) down=all memory=residual update=none" },
		{ .recipe =
			  "up=topk(0.02) down=topk(0.05) memory=residual update=sgd nonfinite=skip",
		  .nan_at = 3 },
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual update=sgd",
		  .home_at = 4 },
		{ .recipe =
			  "up=topk(0.02) down=topk(0.05) memory=residual update=sgd nonfinite=zero",
		  .nan_at = 2 },
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual update=sgd clip=1" },
		{ .recipe = "up=topk(0.02) down=all memory=residual(inside) update=sgd clip=1e6" },
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual update=sgd dense=none" },
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual signal=momentum(0.9) "
			    "update=sgd",
		  .home_at = 4 },
		{ .recipe = "up=topk(0.02),f16 down=all signal=momentum(0.9),nomask "
			    "memory=residual(inside) "
			    "update=sgd",
		  .ranges_at = 3 },
		{ .recipe =
			  "up=topk(0.02) down=topk(0.1) signal=momentum(0.9),mask clip=5 warmup=2 "
			  "memory=residual dense=bias" },
		{ .recipe = "up=topk(0.02) down=all signal=momentum(0.5),mask clip=9",
		  .skewed = 1 },
		{ .recipe = "up=topk(0.02) down=all signal=momentum(0.7) clip=3 nonfinite=zero",
		  .nan_at = 3,
		  .narrow = SLUICE_BF16 },
		{ .recipe = "up=topk(0.02),uniform(4,16) down=all signal=momentum(0.9),mask "
			    "dense=none" },
		{ .recipe =
			  "up=gaussiank(0.02) down=all signal=momentum(0.9) nonfinite=skip clip=2",
		  .nan_at = 2 },
		{ .recipe = "up=threshold(3) down=all signal=momentum(0.9) memory=residual "
			    "nonfinite=zero",
		  .nan_at = 2 },
		{ .recipe = "up=randk(0.05) down=all signal=momentum(0.9) memory=residual "
			    "nonfinite=skip",
		  .nan_at = 3 },
		{ .recipe = "up=randk(0.05) down=all memory=residual nonfinite=skip", .nan_at = 3 },
		{ .recipe = "up=random(0.05) down=all signal=momentum(0.5) memory=none clip=2" },
		{ .recipe = "up=variance(1) down=all signal=momentum(0.5),mask memory=none "
			    "nonfinite=zero",
		  .nan_at = 1,
		  .narrow = SLUICE_F16 },
		{ .recipe = "up=topk(0.02) down=all memory=none clip=0.5 update=sgd" },
		{ .recipe = "up=topk(0.1) down=all signal=momentum(0.9) memory=residual "
			    "when=every(3)",
		  .on_host = 1 },
		{ .recipe = "up=topk(0.1) down=all memory=lowpass(0.3) clip=1 signal=momentum(0.9)",
		  .on_host = 1 },
		{ .recipe = "up=threshold(0.5) down=all memory=residual update=sgd" },
		{ .recipe = "up=threshold(0.5),f16 down=topk(0.1) memory=residual update=sgd",
		  .home_at = 4 },
		{ .recipe = "up=gaussiank(0.02) down=all memory=residual update=sgd" },
		{ .recipe = "up=block-topk(12,300),twomeans down=block-topk(8,100) memory=residual",
		  .ranges_at = 3 },
		{ .recipe = "up=block-topk(64,4096) down=all signal=momentum(0.9) nonfinite=skip",
		  .nan_at = 2 },
		{ .recipe = "up=gaussiank(0.05),grid(4) down=gaussiank(0.1) memory=residual "
			    "update=sgd "
			    "dense=none",
		  .ranges_at = 3 },
		{ .recipe =
			  "up=gaussiank(0.02),uniform(4,64) down=all memory=residual update=sgd" },
		{ .recipe = "up=random(0.02) down=all memory=none update=sgd" },
		{ .recipe = "up=random(0.1),uniform(3) down=all memory=none update=none "
			    "nonfinite=skip",
		  .nan_at = 3 },
		{ .recipe = "up=random(0.1),grid(3) down=all memory=none update=sgd",
		  .on_host = 1 },
		{ .recipe = "up=variance(1) down=all memory=none update=sgd" },
		{ .recipe = "up=randk(0.05) down=all memory=residual update=sgd" },
		{ .recipe = "up=randk(0.05),grid(5) down=randk(0.1) memory=residual update=sgd" },
		{ .recipe = "up=randk(0.05) down=all memory=none update=sgd", .on_host = 1 },
		{ .recipe = "up=topk(0.05) down=all memory=none update=sgd" },
		{ .recipe = "up=all down=all update=sgd" },
		{ .recipe = "up=all down=all memory=residual update=momentum(0.9)",
		  .home_at = 4,
		  .ranges_at = 2 },
		{ .recipe = "up=all,f16 down=all memory=residual clip=2", .measured_at = 4 },
		{ .recipe = "up=all,f16 down=all,f16 memory=none nonfinite=skip", .nan_at = 2 },
		{ .recipe = "up=all,bf16 down=all,bf16 memory=residual signal=momentum(0.9)",
		  .ranges_at = 3 },
		{ .recipe =
			  "up=all,bf16 down=topk(0.1) memory=residual nonfinite=zero coding=small",
		  .nan_at = 3,
		  .narrow = SLUICE_BF16 },
		{ .recipe = "up=all,uniform(4,16) down=all,uniform(8) memory=residual(inside)",
		  .home_at = 3 },
		{ .recipe = "up=all,uniform(1,64) down=all memory=residual nonfinite=skip clip=3",
		  .nan_at = 2 },
		{ .recipe =
			  "up=all,grid(5) down=all memory=none signal=momentum(0.5) nonfinite=skip",
		  .nan_at = 3 },
		{ .recipe = "up=all,grid(3) down=all memory=residual update=none",
		  .narrow = SLUICE_F8_E4M3FN },
		{ .recipe = "up=all,round(0.02) down=all memory=residual", .on_host = 1 },
		{ .recipe =
			  "up=all,uniform(2) down=topk(0.1) memory=residual reset=3 nonfinite=skip",
		  .nan_at = 3 },
		{ .recipe = "up=topk(0.02),f16 down=topk(0.1) memory=residual reset=2 clip=2 "
			    "signal=momentum(0.9)" },
		{ .recipe = "up=randk(0.05) down=all memory=residual reset=3" },
		{ .recipe = "up=topk(0.02),round(0.1) down=all memory=residual reset=3" },
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual update=sgd",
		  .ranges_at = 3 },
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual", .measured_at = 3 },
		{ .recipe = "up=topk(0.02),uniform(4,16) down=topk(0.05),uniform(3) "
			    "memory=residual" },
		{ .recipe =
			  "up=topk(0.02) down=all warmup=3 memory=residual update=momentum(0.9)" },
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual", .skewed = 1 },
		{ .recipe = "up=topk(0.02),f16 down=topk(0.05) memory=residual", .skewed = 1 },
		{ .recipe = "up=topk(0.02),bf16 down=all coding=small memory=residual" },
		{ .recipe = "up=topk(0.02),uniform(2,8) down=all coding=small memory=residual" },
		{ .recipe = "up=topk(0.06),twomeans down=topk(0.06),twomeans coding=small" },
		{ .recipe = "up=topk(0.3),twomeans down=all,e3m0 clip=1" },
		{ .recipe = "up=topk(0.3),e3m0 down=all" },
		{ .recipe = "up=all,twomeans down=all" },
		{ .recipe = "up=all,e3m0 down=topk(0.1),twomeans nonfinite=skip" },
		{ .recipe = "up=topk(0.02),uniform(8) down=topk(0.05) memory=residual",
		  .skewed = 1 },
		{ .recipe = "up=topk(0.4),uniform(1,24) down=all memory=residual(inside)",
		  .home_at = 4,
		  .narrow = SLUICE_F16 },
		{ .recipe = "up=topk(0.02),grid(6) down=topk(0.05) memory=residual dense=none",
		  .skewed = 1 },
		{ .recipe = "up=threshold(0.5),grid(1) down=all memory=residual nonfinite=skip",
		  .nan_at = 2 },
		{ .recipe = "up=topk(0.05),grid(8) down=all memory=none" },
		{ .recipe = "up=variance(1),uniform(5,32) down=all memory=none" },
		{ .recipe = "up=topk(0.05),round(0.02) down=all memory=residual" },
		{ .recipe =
			  "up=topk(0.02),bf16 down=topk(0.1) memory=residual(inside) dense=bias" },
		{ .recipe = "up=topk(0.02),f16 down=topk(0.1) memory=residual nonfinite=skip",
		  .nan_at = 1 },
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual", .narrow = SLUICE_F16 },
		{ .recipe = "up=topk(0.02),bf16 down=topk(0.05) memory=residual(inside)",
		  .narrow = SLUICE_BF16,
		  .home_at = 3,
		  .ranges_at = 2 },
		{ .recipe = "up=topk(0.02) down=all memory=residual nonfinite=skip",
		  .narrow = SLUICE_F16,
		  .nan_at = 2 },
		{ .recipe = "up=all down=all signal=storm(0.25) update=ema(0.25)",
		  .narrow = SLUICE_BF16,
		  .on_host = 1 },
		{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual nonfinite=skip",
		  .narrow = SLUICE_F8_E4M3FN,
		  .nan_at = 2 },
		{ .recipe = "up=topk(0.02),bf16 down=topk(0.05) memory=residual(inside) "
			    "nonfinite=zero "
			    "signal=momentum(0.9) clip=3",
		  .narrow = SLUICE_F8_E5M2,
		  .home_at = 4,
		  .ranges_at = 2,
		  .nan_at = 3 },
		{ .recipe = "up=all down=all update=sgd", .narrow = SLUICE_F8_E5M2 },
		{ .recipe = "up=topk(0.02) down=all memory=residual clip=1 nonfinite=zero",
		  .narrow = SLUICE_F16,
		  .nan_at = 3 },
		{ .recipe = "up=topk(0.1),grid(3) down=all,round(0.01)" },
		{ .recipe = "up=topk(0.1) down=all memory=lowpass(0.3)", .on_host = 1 },
		{ .recipe = "up=topk(0.1) down=topk(0.2) memory=twostep(0.3) update=ema(0.1)",
		  .on_host = 1 },
		{ .recipe = "up=all down=all signal=igt(0.25) update=ema(0.25)", .on_host = 1 },
		{ .recipe = "up=all down=all signal=storm(0.25) update=ema(0.25)", .on_host = 1 },
		{ .recipe = "up=topk(0.05) down=topk(0.05) reset=4 signal=gradient,noise(0.5)",
		  .on_host = 1 },
		{ .recipe = "up=topk(0.05) down=topk(0.05) reset=4" },
		{ .recipe = "up=topk(0.05) down=topk(0.05) warmup=dense(3)" },
		{ .recipe = "up=topk(0.05),bf16 down=all memory=none warmup=dense(3)" },
		{ .recipe = "up=sketch(0.05) down=all signal=momentum(0.5) clip=3" },
		{ .recipe = "up=sketch(0.05) down=all memory=residual" },
		{ .recipe = "up=sketch(0.02,3,2,2) down=all memory=residual(inside) dense=bias",
		  .narrow = SLUICE_BF16,
		  .home_at = 5 },
		{ .recipe = "up=sketch(0.3,1,1,1) down=all warmup=3 dense=none update=none",
		  .ranges_at = 3 },
		{ .recipe = "up=sketch(0.01,7) down=all nonfinite=skip",
		  .nan_at = 2,
		  .measured_at = 5 },
		{ .recipe = "up=topk(0.1) down=all when=every(3) memory=residual", .on_host = 1 },
		{ .recipe = "up=all,grid(4) down=all signal=innovation when=lazy(3,5,4)",
		  .on_host = 1 },
		{ .recipe = "up=all down=all update=average memory=none", .on_host = 1 },
		{ .recipe = "up=topk(0.1) down=topk(0.2) signal=drift when=every(2) keep=0.5 "
			    "memory=residual(decay=0.9)",
		  .on_host = 1 },
		{ .recipe = "up=topk(0.1) down=topk(0.2) signal=drift when=every(3),fragments(3) "
			    "keep=0.5",
		  .on_host = 1 },
		{ .recipe = "up=all down=all signal=drift when=every(2),late(1),mix(0.3) "
			    "update=nesterov(0.9) rate=0.4",
		  .on_host = 1 },
		{ .recipe = NULL },
	};
	run_in_job(RANKS, train_all, shapes);
}

/* The program was compiled before the stream was added. */
static void open_without_stream(sluice_job *job, int rank, void *argument)
{
	static float params[COUNT];
	sluice_model *model = NULL;
	sluice_model_attr attr = { .size = offsetof(sluice_model_attr, stream),
				   .count = COUNT,
				   .stream = argument };
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	CHECK(model->worker->stream == NULL);
	sluice_model_close(&model);
	attr.size = sizeof attr;
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	CHECK(model->worker->stream == argument);
	sluice_model_close(&model);
	attr.size = offsetof(sluice_model_attr, stream) - 1;
	log_capture();
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EINVAL);
}

TEST(model_open__stream_is_taken_where_the_size_covers_it)
{
	static int anything;
	run_in_job(1, open_without_stream, &anything);
}

/* ---- sums that overflow ---------------------------------------------------- */

static void overflow(sluice_job *job, int rank, void *argument)
{
	static float params[COUNT], before[COUNT], grad[COUNT];
	const struct device_ops *ops = device();
	const struct shape none = { .recipe = argument };
	struct memory there_memory, grad_memory;
	float *there = device_vector(ops, &there_memory),
	      *grad_there = device_vector(ops, &grad_memory);
	log_capture();
	to_device(ops, there, params);
	sluice_model *model = OPEN(job, there, .count = COUNT, .recipe = argument, .shards = SHARDS,
				   .lr = 1);
	gradient(grad, rank, 1, &none);
	to_device(ops, grad_there, grad);
	CHECK_OK(sluice_push(model, grad_there));
	CHECK(on_device_selects(model->worker));
	CHECK_OK(sluice_pull(model, there));
	ops->copy(before, there, sizeof before, NULL);
	CHECK_OK(sluice_barrier(job));
	grad[2 * COUNT / 3] = rank ? 1 : -1e38f; /* finite until it is multiplied by the step
						    size */
	to_device(ops, grad_there, grad);
	CHECK_OK(sluice_set(model, SLUICE_LR, 10));
	int rc = sluice_push(model, grad_there);
	rc = rc ? rc : sluice_pull(model, there);
	CHECK(rc == (rank ? SLUICE_EPEER : SLUICE_ENUMERIC));
	CHECK(error_says("the gradient of rank 0 (node n1) at step 2", "overflowed"));
	expect_on_device(ops, there, before);
	sluice_model_close(&model);
	ops->release(&there_memory);
	ops->release(&grad_memory);
}

TEST(push__sum_on_the_gpu_overflows__ends_the_job_with_every_value_type)
{
	static char recipes[][80] = {
		"up=topk(0.02) down=all memory=residual(inside)",
		"up=topk(0.02),f16 down=all memory=residual(inside)",
		"up=topk(0.02),bf16 down=all memory=residual(inside)",
		"up=topk(0.02),uniform(4,16) down=all memory=residual(inside)",
		"up=topk(0.02),uniform(1,8) down=all memory=residual(inside)",
		"up=topk(0.02),grid(4) down=all memory=residual(inside)",
		"up=topk(0.02),round(0.02) down=all memory=residual(inside)",
		"up=gaussiank(0.02),grid(3) down=all memory=residual(inside)",
		"up=threshold(3),bf16 down=all memory=residual(inside)",
	};
	for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
		run_in_job(2, overflow, recipes[i]);
}

/* ---- codes of 8 bits that are not finite ------------------------------------- */

struct spoilt {
	int type;
	uint8_t code;
	float scale;
	const char *is;
};

static void push_spoilt(sluice_job *job, int rank, void *argument)
{
	static float params[COUNT];
	static uint8_t codes[COUNT];
	const struct spoilt *s = argument;
	const struct device_ops *ops = device();
	struct memory grad_memory;
	float *grad_there = device_vector(ops, &grad_memory);
	log_capture();
	codes[5] = s->code;
	CHECK_OK(ops->copy(grad_there, codes, sizeof codes, NULL));
	CHECK_OK(ops->wait(NULL));
	sluice_model *model = OPEN(job, params, .count = COUNT,
				   .recipe = "up=topk(0.02) down=all memory=residual",
				   .grad_type = s->type);
	CHECK_OK(sluice_set(model, SLUICE_GRAD_SCALE, s->scale));
	int rc = sluice_push(model, grad_there);
	CHECK(rc || on_device_selects(model->worker));
	rc = rc ? rc : sluice_set(model, SLUICE_GRAD_SCALE, 1); /* this worker has its own scale */
	rc = rc ? rc : sluice_pull(model, params);
	CHECK(rc == SLUICE_ENUMERIC && error_says(s->is, NULL));
	sluice_model_close(&model);
	ops->release(&grad_memory);
}

TEST(push__code_of_8_bits_on_a_gpu_is_not_finite__is_named)
{
	static struct spoilt all[] = {
		{ SLUICE_F8_E4M3FN, 0xff, 0.5f, "is NaN at index 5" },
		{ SLUICE_F8_E4M3FN, 0x7e, 1e36f, "is infinite at index 5" },
		{ SLUICE_F8_E5M2, 0x7c, 1e-9f, "is infinite at index 5" },
		{ SLUICE_F8_E5M2, 0x7d, 1, "is NaN at index 5" },
		{ SLUICE_F8_E5M2, 0xfb, 1e34f, "is infinite at index 5" },
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		run_in_job(1, push_spoilt, &all[i]);
}
