/* SPDX-License-Identifier: BSD-3-Clause
 * Nothing is lost: values that are not sent are in a residual, exactly within a step and up to
 * rounding over hundreds of steps. Also tests the textbook counterexample in which compression both
 * ways does better than one way. */
#include "worker/state.h"
#include "base/bytes.h"
#include "shard/state.h"
#include "sent.h"
#include "thinned.h"
#include "cases.h"
#include "job/progress_token.h"
#include <math.h>
#include <string.h>

/* ---- within a step --------------------------------------------------------- */

enum { COUNT = 1000 };

struct split {
	const char *recipe;
	float most; /* share of a sent value that stays behind */
	float sent[2][COUNT];
};

static void split_exactly(sluice_job *job, int rank, void *argument)
{
	enum { STEPS = 40 };
	struct split *shared = argument;
	float params[COUNT] = { 0 }, grad[COUNT], before[COUNT], epsilon[COUNT], published[COUNT];
	sluice_model *model = NULL;
	const float lr = 0.3f;
	sluice_model_attr attr = {
		.size = sizeof attr, .count = COUNT, .recipe = shared->recipe, .lr = lr, .shards = 1
	};
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	struct shard *shard = rank ? NULL : &model->shards[0];
	for (uint64_t step = 1; step <= STEPS; step++) {
		const float *residual = worker_residual(model->worker);
		for (int i = 0; i < COUNT; i++) {
			float z = noise(5, step, (uint64_t)rank, (uint64_t)i);
			grad[i] = ldexpf(z, (int)(i + step) % 60 - 40);
		}
		memcpy(before, residual, sizeof before);
		if (shard)
			memcpy(epsilon, shard_residual(shard), sizeof epsilon);
		CHECK_OK(sluice_push(model, grad));
		float *sent = shared->sent[rank];
		uint32_t n = last_sent(model, sent);
		CHECK(n > 0);
		for (int i = 0; i < COUNT; i++) {
			float accumulated = model->recipe.memory.decay * before[i] + lr * grad[i];
			CHECK(float_bits(sent[i] + residual[i]) == float_bits(accumulated));
			CHECK(sent[i] == 0 ||
			      fabsf(residual[i]) <= shared->most * fabsf(accumulated));
		}
		CHECK_OK(sluice_pull(model, params));
		CHECK_OK(sluice_barrier(job)); /* both have reported what they sent */
		if (shard) {
			memset(published, 0, sizeof published);
			size_t bytes;
			const uint8_t *delta = lane_received(model->worker->lanes, 0, &bytes);
			decode_into(delta, bytes, 0, 0, published);
			for (int i = 0; i < COUNT; i++) {
				float change = -((0.0f + shared->sent[0][i] + shared->sent[1][i]) *
						 0.5f);
				CHECK(float_bits(published[i] + shard_residual(shard)[i]) ==
				      float_bits(epsilon[i] + change));
			}
		}
		CHECK_OK(sluice_barrier(job));
	}
	sluice_model_close(&model);
}

static void split_with(const char *recipe, float most)
{
	struct split *shared = shared_memory(sizeof *shared);
	shared->recipe = recipe;
	shared->most = most;
	run_in_job(2, split_exactly, shared);
}

TEST(push__f32__sent_plus_residual_is_the_accumulator_to_the_bit)
{
	split_with("up=topk(0.1) down=topk(0.1) dense=none", 0);
	split_with("up=topk(0.1) down=topk(0.97)", 0);
}

TEST(push__f16__rounding_stays_in_the_residual_to_the_bit)
{
	split_with("up=topk(0.1),f16 down=topk(0.1),f16", 0x1p-7f);
}

TEST(push__bf16_dense__rounding_stays_in_the_residual_to_the_bit)
{
	split_with("up=topk(0.98),bf16 down=all,bf16", 0x1p-7f);
	split_with("up=all,bf16 down=all,bf16", 0x1p-7f);
}

/* The smallest level may be twice as large as a value. */
TEST(push__e3m0__rounding_stays_in_the_residual_to_the_bit)
{
	split_with("up=topk(0.1),e3m0 down=topk(0.1),e3m0", 1);
	split_with("up=all,e3m0 down=all,e3m0", 1);
}

/* Only what a worker has not sent decays: e = B e + signal - sent. */
TEST(push__residual_that_decays__sent_plus_residual_is_the_decayed_accumulator_to_the_bit)
{
	split_with("up=topk(0.1) down=topk(0.1) memory=residual(decay=0.95) dense=none", 0);
	split_with("up=topk(0.1),f16 down=topk(0.1),f16 memory=residual(inside,decay=0.5)",
		   0x1p-7f);
	split_with("up=all,bf16 down=all,bf16 memory=residual(decay=0.3)", 0x1p-7f);
}

/* Follows momentum correction: velocity and residual of each coordinate, from the values that were
 * sent. */
static void keep_momentum(sluice_job *job, int rank, void *argument)
{
	enum { N = 300, BIAS = 20, WARMUP = 3 };
	const int mask = *(int *)argument;
	const sluice_tensor tensors[] = { { "w", N - BIAS }, { "bias", BIAS } };
	float params[N] = { 0 }, grad[N], velocity[N] = { 0 }, residual[N] = { 0 }, sent[N];
	sluice_model *model = NULL;
	sluice_model_attr attr = {
		.size = sizeof attr,
		.count = N,
		.tensors = tensors,
		.n_tensors = 2,
		.lr = 0.3f,
		.shards = 3,
		.recipe = mask ? "up=topk(0.1) down=all signal=momentum(0.7) warmup=3" :
				 "up=topk(0.1) down=all signal=momentum(0.7),nomask warmup=3"
	};
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	for (uint64_t step = 1; step <= 30; step++) {
		for (int i = 0; i < N; i++)
			grad[i] = noise(10, step, (uint64_t)rank, (uint64_t)i);
		CHECK_OK(sluice_push(model, grad));
		last_sent(model, sent);
		for (int i = 0; i < N; i++) {
			velocity[i] = 0.7f * velocity[i] + 0.3f * grad[i];
			residual[i] = residual[i] + velocity[i] - sent[i];
			if (mask && step > WARMUP && sent[i] != 0 && i < N - BIAS)
				velocity[i] = 0;
			CHECK(float_bits(compressor_velocity(model->worker->compressor)[i]) ==
			      float_bits(velocity[i]));
			CHECK(float_bits(worker_residual(model->worker)[i]) ==
			      float_bits(residual[i]));
			CHECK(i < N - BIAS || residual[i] == 0); /* sent whole */
		}
		CHECK_OK(sluice_pull(model, params));
	}
	sluice_model_close(&model);
}

TEST(push__momentum_signal__is_corrected_and_masked_where_it_was_sent)
{
	int mask[] = { 0, 1 };
	run_in_job(2, keep_momentum, &mask[0]);
	run_in_job(2, keep_momentum, &mask[1]);
}

/* ---- over many steps ------------------------------------------------------- */

enum { D = 200, W = 4 };

struct ledger {
	const char *recipe;
	uint32_t shards;
	float residual[W][D], epsilon[D];
	double moved[W][D], size[W][D]; /* sums of lr * g, and of its magnitude */
};

static void enter(struct ledger *book, int rank, sluice_model *model, const float *grad, float lr)
{
	for (int i = 0; i < D; i++) {
		book->moved[rank][i] += (double)lr * (double)grad[i];
		book->size[rank][i] += fabs((double)lr * (double)grad[i]);
	}
	memcpy(book->residual[rank], worker_residual(model->worker), sizeof book->residual[rank]);
	progress_take(model->job);
	for (uint32_t s = 0; s < model->n_own; s++)
		if (shard_residual(&model->shards[s]))
			memcpy(book->epsilon + model->shards[s].at->begin,
			       shard_residual(&model->shards[s]),
			       model->shards[s].at->span * sizeof(float));
	progress_release(model->job);
}

static void balance(sluice_job *job, int rank, void *argument)
{
	struct ledger *book = argument;
	float params[D], start[D], grad[D], lr = 0.05f;
	sluice_model *model = NULL;
	sluice_model_attr attr = { .size = sizeof attr,
				   .count = D,
				   .recipe = book->recipe,
				   .lr = lr,
				   .shards = book->shards };
	for (int i = 0; i < D; i++)
		start[i] = params[i] = 0.1f * noise(6, 0, 0, (uint64_t)i);
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	/* Under valgrind only the first steps are made, because each takes fifty times as long. */
	const uint64_t steps = under_valgrind() ? 16 : 500;
	for (uint64_t step = 1; step <= steps; step++) {
		if (step == steps / 2) {
			lr = 0.02f; /* residuals keep the rate at which they arose */
			CHECK_OK(sluice_set(model, SLUICE_LR, lr));
		}
		for (int i = 0; i < D; i++)
			grad[i] = 0.1f * (params[i] - (float)rank) +
				  noise(7, step, (uint64_t)rank, (uint64_t)i);
		CHECK_OK(sluice_push(model, grad));
		CHECK_OK(sluice_pull(model, params));
		if (model->recipe.signal.noise > 0) { /* noise is part of the gradient */
			const struct random_stream own = { RANDOM_NOISE, (uint32_t)rank, step,
							   model->recipe.seed };
			float normal[D];
			random_normal_run(&own, 0, D, normal);
			for (int i = 0; i < D; i++)
				grad[i] += model->recipe.signal.noise * normal[i];
		}
		enter(book, rank, model, grad, lr);
		CHECK_OK(sluice_barrier(job));
		uint64_t reset = model->recipe.reset;
		for (int i = 0; i < D && reset && step % reset == 0; i++) /* applied, not dropped */
			CHECK(book->residual[rank][i] == 0 && book->epsilon[i] == 0);
		for (int i = rank; i < D; i += W) {
			double there = (double)params[i] + (double)book->epsilon[i],
			       want = (double)start[i];
			double size = fabs(want);
			for (int w = 0; w < W; w++) {
				there -= (double)book->residual[w][i] / W;
				want -= book->moved[w][i] / W;
				size += book->size[w][i] / W;
			}
			CHECK(fabs(there - want) <= 1e-6 * size);
		}
		CHECK_OK(sluice_barrier(job));
	}
	sluice_model_close(&model);
}

static void balance_of(const char *recipe, uint32_t shards)
{
	struct ledger *book = shared_memory(sizeof *book);
	book->recipe = recipe;
	book->shards = shards;
	run_in_job(W, balance, book);
}

/* x_t + eps - mean e_i = x_0 - sum of lr * mean g_i, where eps is the change that is not published
 * yet. */
TEST(train__500_noisy_steps_topk_both_ways__mass_is_conserved)
{
	balance_of("up=topk(0.05) down=topk(0.05)", 1);
	balance_of("up=topk(0.05) down=topk(0.05)", 7);
}

TEST(train__500_noisy_steps_narrow_values__mass_is_conserved)
{
	balance_of("up=topk(0.05),f16 down=topk(0.05),bf16", 3);
	balance_of("up=topk(0.05) down=all", 2);
}

TEST(train__500_noisy_steps_other_selectors__mass_is_conserved)
{
	balance_of("up=threshold(0.5) down=threshold(0.1)", 3);
	balance_of("up=gaussiank(0.05) down=gaussiank(0.1),f16", 2);
	balance_of("up=randk(0.05) down=randk(0.1)", 3);
	balance_of("up=global(0.05,10) down=global(0.1,10)", 3);
	balance_of("up=global(0.02,7),f16 down=all", 2);
	balance_of("up=threshold(0.5),f16 down=all", 1);
	balance_of("up=block-topk(3,50) down=block-topk(7,64),f16", 3);
	balance_of("up=block-topk(64,4096),twomeans down=all", 2);
}

TEST(train__500_noisy_steps_agreed_supports__mass_is_conserved)
{
	balance_of("up=tensor-topk(0.05) down=tensor-topk(0.05),f16", 3);
	balance_of("up=cyclic(0.05) down=all", 3);
	balance_of("up=cyclic(0.04,chunks),f16 down=all,bf16", 2);
	balance_of("up=sketch(0.05) down=all", 3);
}

TEST(train__500_noisy_steps_values_in_few_bits__mass_is_conserved)
{
	balance_of("up=topk(0.05),uniform(4,16) down=topk(0.05),uniform(3)", 3);
	balance_of("up=all,uniform(1,64) down=all,grid(4)", 2);
	balance_of("up=topk(0.1),grid(3) down=all,round(0.01)", 3);
	balance_of("up=all,round(0.5) down=topk(0.1),uniform(8)", 1);
	balance_of("up=topk(0.06),twomeans down=topk(0.06),twomeans", 3);
	balance_of("up=all,twomeans down=all,e3m0", 2);
	balance_of("up=cyclic(0.05),e3m0 down=all,twomeans", 1);
	balance_of("up=cyclic(0.05),uniform(3,8) down=all,uniform(4)", 3);
}

TEST(train__500_noisy_steps_reset_and_noise__mass_is_conserved_and_resets_leave_none)
{
	balance_of("up=topk(0.05) down=topk(0.05) reset=7 signal=gradient,noise(0.5)", 3);
	balance_of("up=all,uniform(2) down=randk(0.1) reset=50 dense=none", 1);
	balance_of("up=randk(0.05),f16 down=all reset=1 signal=gradient,noise(2) seed=5", 2);
}

/* ---- the counterexample ---------------------------------------------------- */

enum { DIM = 100 };

/* Returns the mean gap F - F* over steps 800 to 1000, for f_i = |x - a_i|^2 / 2 with a = 1, 5,
 * 10. */
static double mean_gap(sluice_job *job, const char *recipe, uint64_t seed)
{
	static const float target[] = { 1, 5, 10 };
	float params[DIM], grad[DIM];
	double gap = 0;
	sluice_model *model = NULL;
	sluice_model_attr attr = {
		.size = sizeof attr, .count = DIM, .recipe = recipe, .lr = 0.01f, .shards = 1
	};
	for (int i = 0; i < DIM; i++) { /* approximately 20 + N(0, 1) */
		float z = 0;
		for (uint64_t j = 0; j < 12; j++)
			z += 0.5f * noise(8, seed, j, (uint64_t)i);
		params[i] = 20 + z;
	}
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	for (int step = 1; step <= 1000; step++) {
		for (int i = 0; i < DIM; i++)
			grad[i] = params[i] - target[sluice_rank(job)];
		CHECK_OK(sluice_push(model, grad));
		CHECK_OK(sluice_pull(model, params));
		for (int i = 0; i < DIM && step > 800; i++) {
			double off = (double)params[i] - 16.0 / 3; /* F - F* = |x - x*|^2 / 2 */
			gap += off * off / 2 / 200;
		}
	}
	sluice_model_close(&model);
	return gap;
}

static void counterexample(sluice_job *job, int rank, void *argument)
{
	uint64_t seeds = slowness() > 1 ? 2 : 10;
	double *gaps = argument;
	for (uint64_t seed = 0; seed < seeds; seed++) {
		double one_way = mean_gap(job, "up=topk(0.01) down=all", seed) / (double)seeds;
		double both = mean_gap(job, "up=topk(0.01) down=topk(0.01)", seed) / (double)seeds;
		if (!rank) {
			gaps[0] += one_way;
			gaps[1] += both;
		}
	}
}

TEST(train__three_disagreeing_workers__bidirectional_topk_gets_closer)
{
	double *gaps = shared_memory(2 * sizeof *gaps);
	run_in_job(3, counterexample, gaps);
	print_message("mean gap over steps 800-1000: one way %.2f, both ways %.2f\n", gaps[0],
		      gaps[1]);
	assert_true(gaps[0] > 1 && gaps[1] > 1); /* neither reaches the optimum */
	assert_true(gaps[1] <= 0.9 * gaps[0]);
}

/* ---- a slot that is too small ---------------------------------------------- */

/* The 80 of 8000 coordinates that are selected are all in the fourth of 8 shards, whose slots hold
 * 4 * 10. */
TEST_IN_JOB(push__shard_selected_beyond_its_slot__heaviest_go_rest_waits, 2)
{
	enum { N = 8000, SHARD = 3, SELECTED = 80, CAPACITY = 40 };
	static float params[N], grad[N], sent[N], before[N];
	sluice_model *model = NULL;
	sluice_model_attr attr = { .size = sizeof attr,
				   .count = N,
				   .shards = 8,
				   .lr = 0.5f,
				   .recipe = "up=topk(0.01) down=all" };
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	CHECK(model->layout.shards[SHARD].up_capacity == CAPACITY);
	for (int i = 0; i < 1000; i++)
		grad[SHARD * 1000 + i] = (float)(i % 2 ? -i : i);
	for (int step = 1; step <= 24; step++) { /* in the last step, the last 39 fit */
		sluice_model_stats stats = { .size = sizeof stats };
		memcpy(before, worker_residual(model->worker), sizeof before);
		CHECK_OK(sluice_push(model, grad));
		CHECK_OK(sluice_stats(model, &stats));
		CHECK(last_sent(model, sent) == CAPACITY);
		/* 999 coordinates are not zero, and each step sends 40 of them. */
		int left = 999 - CAPACITY * (step - 1);
		int selected = left < SELECTED ? left : SELECTED;
		CHECK(stats.deferred_elements ==
		      (uint64_t)(CAPACITY * (step - 1) + selected - CAPACITY));
		for (int i = 0; i < N; i++) {
			float accumulated = before[i] + (step == 1 ? 0.5f * grad[i] : 0);
			CHECK(float_bits(sent[i] + worker_residual(model->worker)[i]) ==
			      float_bits(accumulated));
			if (step == 1) /* the heaviest are sent first */
				CHECK((sent[i] != 0) ==
				      (i >= SHARD * 1000 + 960 && i < SHARD * 1000 + 1000));
		}
		CHECK_OK(sluice_pull(model, params));
		memset(grad, 0, sizeof grad);
	}
	sluice_model_close(&model);
}

/* With threshold(1e-30) everything is selected, and a quarter fits. */
TEST_IN_JOB(push__threshold_so_low_that_all_is_selected__heaviest_go_rest_waits, 2)
{
	enum { N = 2000, CAPACITY = 500 };
	static float params[N], grad[N], sent[N], before[N];
	sluice_model *model = NULL;
	sluice_model_attr attr = { .size = sizeof attr,
				   .count = N,
				   .shards = 1,
				   .lr = 0.5f,
				   .recipe = "up=threshold(1e-30) down=all" };
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	for (int step = 1; step <= 6; step++) {
		float least_sent = INFINITY, largest_kept = 0;
		for (int i = 0; i < N; i++)
			grad[i] = noise(11, (uint64_t)step, (uint64_t)rank, (uint64_t)i);
		memcpy(before, worker_residual(model->worker), sizeof before);
		CHECK_OK(sluice_push(model, grad));
		CHECK(last_sent(model, sent) == CAPACITY);
		for (int i = 0; i < N; i++) {
			float accumulated = before[i] + 0.5f * grad[i];
			CHECK(float_bits(sent[i] + worker_residual(model->worker)[i]) ==
			      float_bits(accumulated));
			if (sent[i] != 0)
				least_sent = fminf(least_sent, fabsf(sent[i]));
			else
				largest_kept = fmaxf(largest_kept, fabsf(accumulated));
		}
		CHECK(least_sent >= largest_kept);
		sluice_model_stats stats = { .size = sizeof stats };
		CHECK_OK(sluice_stats(model, &stats));
		CHECK(stats.deferred_elements > 0);
		CHECK_OK(sluice_pull(model, params));
	}
	sluice_model_close(&model);
}
