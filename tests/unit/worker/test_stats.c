/* SPDX-License-Identifier: BSD-3-Clause
 * The counters of a model against the messages themselves: exact, and a rank's own shard is not
 * traffic. */
#include "shard/state.h"
#include "worker/lane.h"
#include "worker/state.h"
#include "ranks.h"
#include "cases.h"
#include <math.h>
#include <string.h>

enum { COUNT = 4000, STEPS = 12 };

struct shape {
	const char *recipe;
	uint32_t shards;
	int servers;
};

struct tally {
	uint64_t pushed, pulled, dense, control, pushed_elements, pulled_elements;
	uint64_t own_pushed, own_pulled, own_dense;
};

static uint32_t elements_of(const uint8_t *bytes, size_t n)
{
	static uint8_t copy[1 << 16];
	struct message m;
	const char *why;
	CHECK_OK(message_copy(NULL, bytes, n, copy, sizeof copy, &m, &why));
	return m.count;
}

static void count_push(const sluice_model *model, struct tally *t)
{
	for (uint32_t s = 0; s < model->layout.n_shards; s++) {
		const struct shard_layout *at = &model->layout.shards[s];
		size_t bytes;
		const uint8_t *sent = lane_sent(model->worker->lanes, s, &bytes);
		t->pushed_elements += elements_of(sent, bytes);
		const int own = home_is_here(model->home, s);
		*(own ? &t->own_pushed : &t->pushed) += bytes;
		*(own ? &t->own_dense : &t->dense) += MESSAGE_HEADER_BYTES + 4ull * at->span;
	}
}

static void count_pull(const sluice_model *model, struct tally *t)
{
	for (uint32_t s = 0; s < model->layout.n_shards; s++) {
		const struct shard_layout *at = &model->layout.shards[s];
		size_t bytes;
		const uint8_t *delta = lane_received(model->worker->lanes, s, &bytes);
		t->pulled_elements += elements_of(delta, bytes);
		const int own = home_is_here(model->home, s);
		*(own ? &t->own_pulled : &t->pulled) += bytes;
		*(own ? &t->own_dense : &t->dense) += MESSAGE_HEADER_BYTES + 4ull * at->span;
	}
	t->control += 32ull * model->n_own * ((unsigned)sluice_workers(model->job) - 1);
}

static double norm_of(const float *x, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += (double)x[i] * (double)x[i];
	return sqrt(sum);
}

static int count_everything(int rank, void *argument)
{
	const struct shape *shape = argument;
	static float params[COUNT], grad[COUNT];
	sluice_job_attr where = { .size = sizeof where, .servers = shape->servers };
	sluice_job *job = rank_join(&where);
	sluice_model_stats stats = { .size = sizeof stats };
	struct tally t = { 0 };
	sluice_model *model = OPEN(job, params, .count = COUNT, .recipe = shape->recipe,
				   .shards = shape->shards);
	CHECK_OK(sluice_stats(model, &stats));
	CHECK(stats.steps == 0 && stats.pushed_bytes == 0 && stats.pulled_bytes == 0 &&
	      stats.wait_ns == 0);
	if (!sluice_is_worker(job)) {
		uint64_t to_workers = (uint64_t)sluice_workers(job) * model->n_own;
		CHECK_OK(sluice_serve(model));
		CHECK_OK(sluice_stats(model, &stats));
		CHECK(stats.control_bytes == 32 * STEPS * to_workers);
		CHECK(stats.pushed_bytes == 0 && stats.pulled_bytes == 0 && stats.dense_bytes == 0);
		sluice_model_close(&model);
		sluice_finalize(&job);
		return 0;
	}
	for (uint64_t step = 1; step <= STEPS; step++) {
		for (uint64_t i = 0; i < COUNT; i++)
			grad[i] = noise(9, step, (uint64_t)rank, i) * (i < 40 ? 100 : 1);
		CHECK_OK(sluice_push(model, grad));
		count_push(model, &t);
		CHECK_OK(sluice_pull(model, params));
		count_pull(model, &t);
		CHECK_OK(sluice_barrier(job)); /* all notices of this step were sent */
		CHECK_OK(sluice_stats(model, &stats));
		CHECK(stats.steps == step);
		CHECK(stats.pushed_bytes == t.pushed && stats.pulled_bytes == t.pulled);
		CHECK(stats.dense_bytes == t.dense && stats.control_bytes == t.control);
		CHECK(stats.own_pushed_bytes == t.own_pushed &&
		      stats.own_pulled_bytes == t.own_pulled &&
		      stats.own_dense_bytes == t.own_dense);
		CHECK((t.own_pushed > 0) == (model->n_own > 0));
		CHECK(stats.pushed_elements == t.pushed_elements);
		CHECK(stats.pulled_elements == t.pulled_elements);
		CHECK(stats.density_up ==
		      schedule_density(&model->schedule, &model->recipe.up, step));
		CHECK(stats.density_down ==
		      schedule_density(&model->schedule, &model->recipe.down, step));
		double norm = model->recipe.memory.kind == MEMORY_RESIDUAL ?
				      norm_of(worker_residual(model->worker), COUNT) :
				      0;
		CHECK(fabs(stats.residual_norm - norm) <= 1e-9 * norm);
	}
	if (sluice_size(job) == 1)
		CHECK(stats.pushed_bytes == 0 && stats.pulled_bytes == 0 && stats.dense_bytes == 0);
	else
		CHECK(stats.pushed_bytes + stats.pulled_bytes <= stats.dense_bytes);
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

TEST(stats__every_shape__equal_the_lengths_of_the_messages)
{
	static struct shape shapes[] = {
		{ "up=all down=all", 4, 0 },
		{ "up=topk(0.01) down=all", 3, 0 },
		{ "up=topk(0.01) down=topk(0.05) warmup=5", 1, 0 },
		{ "up=topk(0.05),f16 down=topk(0.05),bf16", 7, 0 },
		{ "up=topk(0.01) down=topk(0.05)", 4, 1 },
	};
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		for (int workers = 1; workers <= 3; workers++)
			run_ranks(workers + shapes[i].servers, count_everything, &shapes[i]);
}

/* With up=all down=all, the moved bytes equal `dense`. */
TEST_IN_JOB(stats__dense_recipe__moves_what_dense_bytes_say, 2)
{
	static float params[COUNT], grad[COUNT];
	sluice_model_stats stats = { .size = sizeof stats };
	sluice_model *model = OPEN(job, params, .count = COUNT, .recipe = "up=all down=all",
				   .shards = 4);
	for (int i = 0; i < COUNT; i++)
		grad[i] = (float)(i + rank + 1);
	CHECK_STEP(model, grad, params);
	CHECK_OK(sluice_stats(model, &stats));
	CHECK(stats.dense_bytes ==
	      2 * 2 * (96 + 4 * 1000)); /* two ranks: half of the shards are remote */
	CHECK(stats.pushed_bytes + stats.pulled_bytes == stats.dense_bytes);
	CHECK(stats.pushed_elements == COUNT && stats.pulled_elements == COUNT);
	CHECK(stats.deferred_elements == 0 && stats.nonfinite_elements == 0);
	sluice_model_close(&model);
}

/* ---- compression error ----------------------------------------------------- */

struct measured {
	const char *recipe;
	int ranges;
};

/* Decodes the last push as its receivers do. */
static void decode_sent(const sluice_model *model, float *sent)
{
	static uint8_t copy[1 << 16];
	static uint32_t index[COUNT];
	static float value[COUNT];
	memset(sent, 0, COUNT * sizeof *sent);
	for (uint32_t s = 0; s < model->layout.n_shards; s++) {
		const struct shard_layout *at = &model->layout.shards[s];
		size_t bytes;
		const uint8_t *message = lane_sent(model->worker->lanes, s, &bytes);
		const char *why;
		struct message m;
		CHECK_OK(message_copy(NULL, message, bytes, copy, sizeof copy, &m, &why));
		CHECK_OK(message_decode(NULL, &m, copy, index, value, &why));
		for (uint32_t i = 0; i < m.count; i++)
			sent[at->begin + (m.coding == CODING_DENSE ? i : index[i])] = value[i];
	}
}

static void measure_error(sluice_job *job, int rank, void *argument)
{
	static float params[COUNT], grad[COUNT], before[COUNT], sent[COUNT];
	const struct measured *how = argument;
	sluice_model_stats stats = { .size = sizeof stats };
	sluice_model *model = OPEN(job, params, .count = COUNT, .recipe = how->recipe, .shards = 3,
				   .lr = 0.5f);
	int keeps = model->recipe.memory.kind == MEMORY_RESIDUAL;
	float rate = keeps ? 0.5f : 1;
	for (uint64_t step = 1; step <= 6; step++) {
		int on = step != 1 && step != 6;
		double error = 0;
		CHECK_OK(sluice_set(model, SLUICE_MEASURE, on));
		for (uint64_t i = 0; i < COUNT; i++) {
			grad[i] = noise(12, step, (uint64_t)rank, i);
			before[i] = (keeps ? worker_residual(model->worker)[i] : 0) +
				    rate * grad[i];
		}
		if (how->ranges) {
			CHECK_OK(sluice_push_range(model, grad + 1000, 1000, COUNT - 1000));
			CHECK_OK(sluice_push_range(model, grad, 0, 1000));
		} else {
			CHECK_OK(sluice_push(model, grad));
		}
		decode_sent(model, sent);
		CHECK_OK(sluice_pull(model, params));
		CHECK_OK(sluice_barrier(job));
		CHECK_OK(sluice_stats(model, &stats));
		for (int i = 0; i < COUNT; i++)
			error += pow((double)before[i] - (double)sent[i], 2);
		error /= pow(norm_of(before, COUNT), 2);
		if (on)
			CHECK(fabs(stats.compression_error - error) <= 1e-6 * error + 1e-12);
		else
			CHECK(isnan(stats.compression_error) &&
			      isnan(stats.compression_error_down));
		CHECK(stats.staleness[0] == step * model->n_own * (unsigned)sluice_workers(job));
		CHECK(stats.staleness[7] == 0 && stats.skipped_pushes == 0);
		double norm = 0;
		for (uint32_t s = 0; s < model->n_own && keeps; s++)
			norm += pow(norm_of(shard_residual(&model->shards[s]),
					    model->shards[s].at->span),
				    2);
		CHECK(fabs(stats.shard_residual_norm - sqrt(norm)) <= 1e-9 * sqrt(norm));
		/* The residuals of shards have what they did not publish. */
		if (on && keeps && model->recipe.down.select != SELECT_ALL) {
			double lost = 0, all = 0;
			for (uint32_t s = 0; s < model->n_own; s++) {
				lost += model->shards[s].loss.lost;
				all += model->shards[s].loss.all;
			}
			CHECK(fabs(lost - norm) <= 1e-5 * norm && all > lost);
			CHECK(fabs(stats.compression_error_down - lost / all) <= 1e-12);
		}
		CHECK_OK(sluice_barrier(job)); /* no rank pushes before all have looked */
	}
	sluice_model_close(&model);
}

TEST(measure__every_memory_and_selector__error_is_that_of_the_decoded_messages)
{
	static struct measured cases[] = {
		{ "up=topk(0.1) down=topk(0.2)", 0 },
		{ "up=topk(0.1),f16 down=topk(0.2),f16", 0 },
		{ "up=all,bf16 down=all,f16", 0 },
		{ "up=random(0.2) down=all memory=none", 0 },
		{ "up=randk(0.2) down=all memory=none", 0 },
		{ "up=all,f16 down=all memory=none", 0 },
		{ "up=global(0.1,2) down=global(0.2,3)", 0 },
		{ "up=topk(0.1) down=topk(0.2)", 1 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		run_in_job(2, measure_error, &cases[i]);
}

static void digest_of_training(sluice_job *job, int rank, void *argument)
{
	static float params[COUNT], grad[COUNT];
	uint64_t *digests = argument;
	for (int on = 0; on < 2; on++) {
		memset(params, 0, sizeof params);
		sluice_model *model = OPEN(job, params, .count = COUNT, .lr = 0.3f,
					   .recipe = "up=topk(0.03) down=topk(0.05)");
		CHECK_OK(sluice_set(model, SLUICE_MEASURE, on));
		for (uint64_t step = 1; step <= 20; step++) {
			for (uint64_t i = 0; i < COUNT; i++)
				grad[i] = noise(13, step, (uint64_t)rank, i);
			CHECK_STEP(model, grad, params);
		}
		digests[on] = check_same(job, params, sizeof params);
		sluice_model_close(&model);
	}
	CHECK(sluice_set(NULL, SLUICE_MEASURE, 1) == SLUICE_EINVAL);
}

TEST(measure__on_or_off__same_digest)
{
	uint64_t *digests = shared_memory(2 * sizeof *digests);
	run_in_job(2, digest_of_training, digests);
	assert_true(digests[0] == digests[1] && digests[0]);
}

TEST_IN_JOB(stats__size_unset_or_short__is_refused_or_respected, 1)
{
	float params[8] = { 0 };
	sluice_model_stats stats;
	log_capture();
	sluice_model *model = OPEN(job, params, .count = 8);
	memset(&stats, 0xa5, sizeof stats);
	stats.size = 0;
	CHECK(sluice_stats(model, &stats) == SLUICE_EINVAL);
	CHECK(sluice_stats(NULL, &stats) == SLUICE_EINVAL);
	CHECK(sluice_stats(model, NULL) == SLUICE_EINVAL);
	/* The program was compiled with a shorter struct, and nothing after its end is written. */
	stats.size = offsetof(sluice_model_stats, pushed_bytes);
	CHECK_OK(sluice_stats(model, &stats));
	CHECK(stats.steps == 0 && stats.size == offsetof(sluice_model_stats, pushed_bytes));
	CHECK(stats.pushed_bytes == 0xa5a5a5a5a5a5a5a5u);
	sluice_model_close(&model);
}
