/* SPDX-License-Identifier: BSD-3-Clause
 * Shards on a GPU (device_shards): two models in one job get the same gradients, the shards of one
 * of them are on the GPU. Parameters, deltas and the state of shards keep the same bits, also over
 * checkpoints. Impossible combinations are refused, and failing calls end the job. */
#include "gpu_lag.h"
#include "ranks.h"
#include "scratch.h"
#include "shard/shard_device.h"
#include "shard/state.h"
#include "model/kept.h"
#include "worker/state.h"
#include "cases.h"
#include <float.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

static const sluice_tensor tensors[] = { { "weight", 4100 }, { "bias", 40 }, { "head", 860 } };

static sluice_model_attr attr_of(const char *recipe, int device_shards)
{
	return ATTR(.count = COUNT, .tensors = tensors,
		    .n_tensors = sizeof tensors / sizeof tensors[0], .recipe = recipe,
		    .shards = SHARDS, .device_shards = device_shards);
}

/* Compares the vectors that the shards of both models keep, and the contents of their deltas. */
static void expect_same_shards(sluice_model *host, sluice_model *gpu)
{
	CHECK_OK(shard_devices_fetch(gpu));
	for (uint32_t i = 0; i < host->n_own; i++) {
		const struct shard *a = &host->shards[i], *b = &gpu->shards[i];

		CHECK(a->version == b->version && a->published == b->published);
		for (int k = 0; k < KEPTS; k++) {
			CHECK(!a->kept.of[k] == !b->kept.of[k]);
			CHECK(!a->kept.of[k] || !memcmp(a->kept.of[k], b->kept.of[k],
							a->kept.count * kept_rows[k].element));
		}
	}
}

/* ---- steps ------------------------------------------------------------------- */

struct variant {
	const char *recipe;
	int measured_at; /* SLUICE_MEASURE is on for two steps from this step on */
	int on_gpu;      /* 1: the second model has its parameters on the GPU */
	int beside;      /* 1: the device works asynchronously, so that no result is ready at
			    once */
	int raises;      /* 1: rank 0 proposes twice the densities in each third step */
};

static const struct variant *variant_of(const struct side *s)
{
	return s->training->own;
}

static void draw(float *grad, const float *params, const struct side *s)
{
	gradient(grad, s->rank, (int)s->step, &(struct shape){ 0 });
}

static void open_on_device(struct side *s)
{
	s->attr.device_shards = 1;
	(variant_of(s)->on_gpu ? there_open : side_open)(s);
	if (variant_of(s)->beside)
		emulated.lag(BESIDE);
}

static void measure_and_raise(struct side *s)
{
	const struct variant *v = variant_of(s);
	const int step = (int)s->step;

	CHECK_OK(sluice_set(s->model, SLUICE_MEASURE,
			    v->measured_at && step >= v->measured_at && step < v->measured_at + 2));
	if (v->raises && !s->rank && step % 3 == 0)
		s->model->worker->step.proposed = s->model->worker->step.chosen + 1;
}

static void compare_shards(struct side *host, struct side *gpu)
{
	CHECK_OK(sluice_barrier(host->job));
	expect_same_shards(host->model, gpu->model);
	CHECK_OK(sluice_barrier(host->job));
}

static void train_variant(sluice_job *job, const struct variant *v)
{
	static const struct way of_host = { 0 }, of_gpu = { .open = open_on_device },
				there = { COMPARED_THERE, .open = open_on_device,
					  .pull = there_pull };

	same_bits(job,
		  &(struct training){ .attr = attr_of(v->recipe, 0),
				      .steps = STEPS,
				      .gradient = draw,
				      .before = measure_and_raise,
				      .after = compare_shards,
				      .own = v },
		  &of_host, v->on_gpu ? &there : &of_gpu);
}

static const struct variant variants[] = {
	{ .recipe = "up=topk(0.02) down=all memory=residual update=sgd" },
	{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual update=sgd", .on_gpu = 1 },
	{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual(inside) update=sgd" },
	{ .recipe = "up=topk(0.02),f16 down=topk(0.05),f16 memory=residual update=momentum(0.9)" },
	{ .recipe = "up=topk(0.1) down=topk(0.05),bf16 memory=residual update=nesterov(0.9)" },
	{ .recipe = "up=topk(0.02) down=threshold(0.1) memory=residual update=sgd" },
	{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual update=momentum(0.5) decay=0.01",
	  .on_gpu = 1 },
	{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual(inside) update=sgd decay=0.1" },
	{ .recipe = "up=topk(0.3) down=all memory=none update=sgd" },
	{ .recipe = "up=topk(0.02) down=topk(0.05) memory=none update=sgd" },
	{ .recipe = "up=topk(0.02) down=all memory=residual update=none" },
	{ .recipe = "up=topk(0.05) down=topk(0.1) memory=residual update=ema(0.3)" },
	{ .recipe = "up=topk(0.05) down=topk(0.1) memory=residual update=sgd dense=none warmup=3" },
	{ .recipe = "up=topk(0.02) down=topk(0.1),f16 memory=residual update=sgd reset=3" },
	{ .recipe = "up=all down=all update=sgd" },
	{ .recipe = "up=all down=all memory=residual update=momentum(0.9)", .on_gpu = 1 },
	{ .recipe = "up=all,bf16 down=topk(0.05) memory=residual update=sgd" },
	{ .recipe = "up=all down=all,f16 memory=residual update=sgd" },
	{ .recipe = "up=topk(0.02),uniform(4,16) down=topk(0.05) memory=residual update=sgd" },
	{ .recipe = "up=randk(0.05) down=all memory=residual update=sgd" },
	{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual update=sgd when=every(2)" },
	{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual update=momentum(0.9)",
	  .measured_at = 3 },
	{ .recipe = "up=all down=all update=sgd", .measured_at = 2 },
	{ .recipe = "up=topk(0.02) down=topk(0.3) memory=residual update=sgd guard=raise",
	  .on_gpu = 1,
	  .raises = 1 },
	{ .recipe = "up=topk(0.4),f16 down=all memory=residual(outside) guard=raise", .raises = 1 },
	{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual update=adam(0.9,0.99,1e-8)" },
	{ .recipe = "up=topk(0.02) down=topk(0.05) memory=residual update=adamw(0,0.95,1e-6,0.1)",
	  .on_gpu = 1 },
	{ .recipe = "up=all down=all memory=none update=adam(0.2,0.99,1e-8) decay=0.01",
	  .measured_at = 3 },
	/* values in few bits */
	{ .recipe = "adamw", .on_gpu = 1 },
	{ .recipe = "sgdm" },
	{ .recipe = "shard-adamw" },
	{ .recipe = "up=topk(0.1) down=topk(0.3),e3m0 memory=residual update=momentum(0.9)" },
	{ .recipe = "up=topk(0.1) down=topk(0.3),uniform(1,8) memory=residual update=sgd "
		    "decay=0.01" },
	{ .recipe = "up=topk(0.1) down=topk(0.3),uniform(8,64) memory=none update=nesterov(0.5)" },
	{ .recipe = "up=topk(0.1) down=topk(0.05),grid(3) memory=residual(inside) update=sgd",
	  .measured_at = 3 },
	{ .recipe = "up=topk(0.1) down=block-topk(12,256) memory=residual coding=small" },
	{ .recipe = "up=topk(0.1) down=block-topk(20,500),uniform(4) memory=residual guard=raise",
	  .raises = 1 },
	{ .recipe = "up=topk(0.1) down=threshold(0.1),twomeans memory=residual update=sgd" },
	{ .recipe = "up=topk(0.1) down=all,uniform(4) memory=residual update=sgd when=every(2)" },
	{ .recipe = "up=all down=all,twomeans memory=residual update=sgd", .on_gpu = 1 },
	{ .recipe = "up=all,uniform(2,16) down=all,uniform(3) memory=none update=sgd" },
	{ .recipe = "up=all down=all,grid(8) memory=residual update=ema(0.3)" },
	{ .recipe = "up=topk(0.1) down=topk(0.1),e3m0 memory=residual reset=3 guard=raise",
	  .raises = 1 },
	{ .recipe = "up=topk(0.05) down=topk(0.05),f16 update=adam(0.2,0.99,1e-8) "
		    "warmup=dense(3) freeze=3" },
};

TEST_IN_JOB(device_shards__any_recipe__have_the_bits_of_the_host, RANKS)
{
	device();
	for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++)
		train_variant(job, &variants[i]);
}

/* ---- checkpoints --------------------------------------------------------------- */

static const char kept_recipe[] =
	"up=topk(0.02) down=topk(0.05) memory=residual update=adamw(0.9,0.99,1e-8,0.01)";

static void train_from(sluice_model *model, int rank, int first, int last, float *params)
{
	static float grad[COUNT];

	for (int step = first; step <= last; step++) {
		gradient(grad, rank, step, &(struct shape){ 0 });
		CHECK_STEP(model, grad, params);
	}
}

/* A shard on the host continues the checkpoint of a shard on the GPU, and the other way round. */
static void change_places(sluice_job *job, int rank, void *argument)
{
	static float params[COUNT], last[COUNT];
	device();

	for (int life = 0; life < 4; life++) {
		/* Models 0 and 2 save, 1 and 3 restore; 1 and 2 are on the GPU. */
		uint64_t step = 0;

		memset(params, 0, sizeof params);
		sluice_model *model = rank_open(job, params,
						attr_of(kept_recipe, life == 1 || life == 2));
		if (life % 2) {
			CHECK_OK(sluice_restore(model, argument, params, &step));
			CHECK(step == STEPS / 2);
		} else {
			train_from(model, rank, 1, STEPS / 2, params);
			CHECK_OK(sluice_checkpoint(model, argument));
		}
		train_from(model, rank, STEPS / 2 + 1, STEPS, params);
		CHECK(!life || !memcmp(params, last, sizeof params));
		memcpy(last, params, sizeof params);
		sluice_model_close(&model);
	}
}

TEST(checkpoint__of_device_shards__is_that_of_the_host)
{
	char dir[SCRATCH_PATH];

	assert_int_equal(scratch_make(dir), 0);
	run_in_job(2, change_places, dir);
	scratch_remove(dir);
}

/* ---- servers, and workers that are lost ---------------------------------------------- */

enum { WORKERS = 3, SERVER = WORKERS, VICTIM = 1, LOST_AT = 3 };

static void train_or_die(sluice_job *job, sluice_model *model, int rank, float *params)
{
	static float grad[COUNT];

	for (int step = 1; step <= STEPS; step++) {
		gradient(grad, rank, step, &(struct shape){ 0 });
		CHECK_OK(sluice_push(model, grad));
		if (rank == VICTIM && step == LOST_AT)
			_exit(0);
		CHECK_OK(sluice_pull(model, params));
	}
	CHECK(sluice_living(job) == WORKERS - 1);
}

/* The shards belong to a dedicated server, which has no parameters that determine a GPU. */
static int lose_worker(int rank, void *argument)
{
	static float params[COUNT];
	const sluice_job_attr attr_of_job = { .size = sizeof attr_of_job,
					      .servers = 1,
					      .on_failure = SLUICE_CONTINUE };

	uint64_t *digests = argument;

	device();
	log_capture();
	sluice_job *job = rank_join(&attr_of_job);
	sluice_model *model = rank_open(job, rank == SERVER ? NULL : params,
					attr_of(kept_recipe, rank == SERVER));
	if (rank == SERVER) {
		CHECK_OK(sluice_serve(model));
		CHECK(model->shards[0].version == STEPS);
		CHECK(model->shards[0].device);
	} else {
		train_or_die(job, model, rank, params);
		digests[rank] = sluice_digest(params, sizeof params);
	}
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

TEST(device_shards__of_a_server__continue_without_a_lost_worker)
{
	uint64_t *digests = shared_memory(WORKERS * sizeof *digests);

	run_ranks(WORKERS + 1, lose_worker, digests);
	assert_true(digests[0] && digests[0] == digests[2] && !digests[VICTIM]);
}

/* ---- what is refused or fails ----------------------------------------------------- */

/* Opens a model and returns 1 if its shards are on a GPU. */
static int placed(sluice_job *job, const char *recipe, void *params, int with_rules)
{
	sluice_tensor_rule rules[] = { { 1, 0 }, { 1, 0 }, { 0.5f, 0 } };
	sluice_model_attr attr = attr_of(recipe, 0);
	attr.rules = with_rules ? rules : NULL;
	sluice_model *model = rank_open(job, params, attr);
	const int there = model->shards[0].device != NULL;
	sluice_model_close(&model);
	return there;
}

static int place(int rank, void *setting)
{
	static float params[COUNT];
	const struct device_ops *ops = device();
	struct memory memory;
	float *there = device_vector(ops, &memory);
	const int automatic = !strcmp(setting, "auto"), always = !strcmp(setting, "yes");
	const char *host_only = "up=topk(0.1) down=randk(0.1) memory=residual";
	setenv("SLUICE_DEVICE_SHARDS", setting, 1);
	sluice_job *job = rank_join(NULL);
	CHECK(placed(job, kept_recipe, there, 0) == (automatic || always));
	CHECK(placed(job, kept_recipe, params, 0) == always);
	if (!always) {
		CHECK(!placed(job, host_only, there, 0));
		CHECK(!placed(job, kept_recipe, there, 1));
	}
	sluice_finalize(&job);
	ops->release(&memory);
	return 0;
}

TEST(device_shards__by_default__are_where_the_parameters_are)
{
	run_ranks(2, place, "auto");
	run_ranks(2, place, "no");
	run_ranks(2, place, "yes");
}

TEST_IN_JOB(device_shards__what_a_gpu_does_not_make__is_refused, 2)
{
	static const struct {
		const char *recipe, *says;
	} rows[] = {
		{ "up=topk(0.1) down=topk(0.1),round(0.1) memory=residual", "a GPU makes deltas" },
		{ "up=topk(0.1) down=randk(0.1) memory=residual", "a GPU makes deltas" },
		{ "up=topk(0.1) down=block-topk(8,64)", "blocks of at least 256" },
		{ "up=all down=all when=async(3)", "when=async" },
		{ "up=all down=all when=every(2) update=average", "update=average" },
		{ "up=sketch(0.1) down=all memory=residual", "agreed support" },
		{ "up=global(0.1) down=all memory=residual", "histograms" },
	};
	static const sluice_tensor_rule rules[] = { { 1, 0 }, { 1, 0 }, { 0.5f, 0 } };
	static float params[COUNT];
	sluice_model *model = NULL;
	sluice_model_attr attr;

	log_capture();
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		check_of = rows[i].recipe;
		attr = attr_of(rows[i].recipe, 1);
		CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EINVAL);
		CHECK(error_says("device_shards=1 is not possible", rows[i].says));
	}
	attr = attr_of(kept_recipe, 1);
	attr.rules = rules;
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EINVAL);
	CHECK(error_says("device_shards=1 and rules", "leave one of them out"));
}

TEST_IN_RANKS(device_shards__without_the_module__say_so, 2)
{
	static float params[COUNT];
	const sluice_model_attr attr = attr_of(kept_recipe, 0);
	sluice_model *model = NULL;

	setenv("SLUICE_GPU", "off", 1);
	setenv("SLUICE_DEVICE_SHARDS", "yes", 1);
	sluice_job *job = rank_join(NULL);
	log_capture();
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EGPU);
	CHECK(error_says("device_shards=1, but", "SLUICE_GPU"));
	sluice_finalize(&job);
	return 0;
}

/* The sum of two workers' gradients exceeds the range of floats at coordinate 4105. */
static void overflow(sluice_job *job, int rank, void *argument)
{
	static float grad[COUNT], params[COUNT];
	sluice_model_attr attr = attr_of(argument, 1);
	device();

	log_capture();
	attr.lr = 1;
	sluice_model *model = rank_open(job, params, attr);
	memset(grad, 0, sizeof grad);
	grad[4105] = FLT_MAX;
	int rc = try_step(model, grad, params);
	CHECK(rc == SLUICE_ENUMERIC || rc == SLUICE_EPEER); /* on the rank of the shard, and on
							       the other rank */
	CHECK(error_says("is NaN or infinite at index 5 of tensor bias", "its sums overflowed"));
	sluice_model_close(&model);
}

TEST(device_shards__overflowing_sums__are_named)
{
	run_in_job(2, overflow, "up=topk(0.02) down=topk(0.05) memory=residual update=sgd");
	run_in_job(2, overflow, "up=all down=all update=momentum(0.9)");
}

static void (*fail_later)(unsigned, int);

/* Each CUDA call of the owner fails in turn, in step 2. All ranks get an error that names the
 * shard, and none waits. If no call failed, the step succeeds. */
static int fail_each(int rank, void *argument)
{
	enum { CALLS = 60, QUIET = 6 };
	static float grad[COUNT], params[COUNT];
	int ended = 0, quiet = 0;

	device();
	device_look_up("emulated_fail", &fail_later);
	log_capture();
	for (unsigned after = 0; after < CALLS && quiet < QUIET; after++) {
		sluice_job *job = rank_join(NULL);
		int rc = 0;

		memset(params, 0, sizeof params);
		sluice_model *model = rank_open(job, params, attr_of(kept_recipe, 1));
		train_from(model, rank, 1, 1, params);
		gradient(grad, rank, 2, &(struct shape){ 0 });
		/* The shard takes the messages in rank order, so it begins after this push. */
		if (rank == 1)
			CHECK_OK(sluice_push(model, grad));
		fail_later(rank == 1 ? after : 1u << 30, 719);
		CHECK_OK(sluice_barrier(job));
		/* The shard may fail before all of the message is sent. The push then returns
		 * that. */
		if (rank == 0)
			rc = sluice_push(model, grad);
		if (!rc)
			rc = sluice_pull(model, params);
		if (rc == SLUICE_EGPU && error_says("determining the device", NULL))
			rc = sluice_pull(model, params); /* refused before anything was done */
		fail_later(1u << 30, 0);
		CHECK(!rc || rc == SLUICE_EGPU || rc == SLUICE_EPEER);
		CHECK(!rc || error_says("failed on its GPU at step 2", "cudaErrorLaunchFailure"));
		CHECK(!rc || error_says("of rank 1", "start the job again"));
		ended += rc != 0;
		quiet = rc ? 0 : quiet + 1;
		sluice_model_close(&model);
		sluice_finalize(&job);
	}
	CHECK(ended > 8);
	CHECK(quiet == QUIET);
	return 0;
}

TEST(device_shards__a_call_of_cuda_fails__all_ranks_are_told)
{
	if (device_is_real())
		skip();
	run_ranks(2, fail_each, NULL);
}

/* ---- a device that lags ------------------------------------------------------------- */

static void train_beside(sluice_job *job, int rank, void *argument)
{
	begin_emulated();
	train_variant(job, &(struct variant){ argument, .beside = 1 });
	emulated.lag(AT_ONCE);
}

TEST(device_shards__device_works_beside__have_the_bits_of_the_host)
{
	if (device_is_real())
		skip();
	run_in_job(2, train_beside, (void *)(uintptr_t)kept_recipe);
	run_in_job(2, train_beside, "up=all down=all update=sgd");
}

/* A finite delta moves parameter 0 beyond the range of floats. */
static int leave_range(int rank, void *argument)
{
	static float grad[COUNT], params[COUNT] = { 3e38f };
	sluice_model_attr attr = attr_of(argument, 1);

	device();
	sluice_job *job = rank_join(NULL);
	log_capture();
	attr.lr = 1;
	sluice_model *model = rank_open(job, params, attr);
	grad[0] = -1e38f;
	int rc = sluice_push(model, grad); /* the other ranks may be finished before it returns */
	if (!rc)
		rc = sluice_pull(model, params);
	CHECK(rc == (rank ? SLUICE_EPEER : SLUICE_ENUMERIC));
	CHECK(error_says("step 1 computes inf for the parameter of shard 0 at rank 0",
			 "index 0 of tensor weight"));
	CHECK(params[0] == 3e38f);
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

TEST(device_shards__delta_makes_a_parameter_infinite__ends_the_job_before_it_is_added)
{
	run_ranks(2, leave_range, "up=topk(0.01) down=topk(0.01) memory=residual update=sgd");
	run_ranks(2, leave_range, "up=all down=all memory=residual update=sgd");
}

static void hang(sluice_job *job, int rank, void *argument)
{
	enum { SHORT_MS = 300 };
	static float grad[COUNT], params[COUNT];

	begin_emulated();
	log_capture();
	sluice_model *model = rank_open(job, params, attr_of(argument, 1));
	gradient(grad, rank, 1, &(struct shape){ 0 });
	emulated.lag(LAGGING);
	CHECK_OK(sluice_push(model, grad));
	be_impatient(job, SHORT_MS);
	CHECK(sluice_pull(model, params) == SLUICE_ETIMEDOUT);
	CHECK(error_says("SLUICE_WAIT_TIMEOUT",
			 "shard 0 here waits for step 1 of GPU 0: its selection (kernels"));
	sluice_model_close(&model);
	emulated.lag(AT_ONCE);
}

/* ---- messages that the GPU has no room for beside others ------------------------------ */

enum { LONG = 1100000 };

static sluice_model_attr attr_of_long(int device_shards)
{
	return ATTR(.count = LONG, .recipe = "up=all down=all update=sgd", .shards = 1,
		    .device_shards = device_shards);
}

static float *long_vector(int rank)
{
	float *v = calloc(LONG, sizeof *v);

	CHECK(v != NULL);
	for (size_t i = 0; rank >= 0 && i < LONG; i++)
		v[i] = noise(5, 1, (uint64_t)rank, i);
	return v;
}

/* hangs: the device does nothing. Otherwise the second message is added after the first. */
static void push_long(sluice_job *job, int rank, void *argument)
{
	const int *hangs = argument;
	const sluice_model_attr of_host = attr_of_long(0), of_gpu = attr_of_long(1);
	float *grad = long_vector(rank), *params = long_vector(-1), *other = long_vector(-1);
	sluice_model *host = NULL, *gpu = NULL;

	begin_emulated();
	CHECK_OK(sluice_model_open(job, &of_host, params, &host));
	CHECK_OK(sluice_model_open(job, &of_gpu, other, &gpu));
	emulated.lag(*hangs ? LAGGING : BESIDE);
	CHECK_STEP(host, grad, params);
	int rc = sluice_push(gpu, grad); /* if this rank is slow, it learns that rank 0 gave up */
	if (*hangs && rank == 0)
		be_impatient(job, 300);
	if (!rc)
		rc = sluice_pull(gpu, other);
	if (*hangs) {
		CHECK(rc == (rank ? SLUICE_EPEER : SLUICE_ETIMEDOUT));
		CHECK(rank == 1 || error_says("SLUICE_WAIT_TIMEOUT",
					      "shard 0 here waits for step 1 of its GPU, which"));
	} else {
		CHECK_OK(rc);
		CHECK(!memcmp(params, other, LONG * sizeof *params));
	}
	sluice_model_close(&gpu);
	sluice_model_close(&host);
	emulated.lag(AT_ONCE);
	free(grad);
	free(params);
	free(other);
}

TEST(push__gpu_of_the_shard_has_no_room__waits_with_a_limit)
{
	int hangs = 0;

	if (device_is_real())
		skip();
	run_in_job(2, push_long, &hangs);
	hangs = 1;
	run_in_job(2, push_long, &hangs);
}

TEST(pull__device_of_a_shard_hangs__shard_and_gpu_are_named)
{
	if (device_is_real())
		skip();
	run_in_job(1, hang, (void *)(uintptr_t)kept_recipe);
}
