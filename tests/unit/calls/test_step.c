/* SPDX-License-Identifier: BSD-3-Clause
 * Whole steps through the library: all workers hold the same bits after every pull, whatever the
 * recipe, the number of shards and whoever owns them; and dense recipes give plain SGD to the
 * bit. */
#include "base/bytes.h"
#include "shard/state.h"
#include "four_tensors.h"
#include "thinned.h"
#include "cases.h"
#include "job/progress_token.h"
#include "model/model.h"
#include <string.h>

static const char *const recipes[] = {
	"up=all down=all",
	"up=topk(0.01) down=all",
	"up=topk(0.01) down=topk(0.05)",
	"up=all down=topk(0.05)",
	"up=topk(0.05),f16 down=topk(0.1),f16",
	"up=all,bf16 down=all,f16",
	"up=topk(0.02) down=topk(0.1),bf16 signal=momentum(0.9)",
	"up=topk(0.02) signal=momentum(0.9),nomask memory=residual(outside) update=nesterov(0.5)",
	"up=all down=all update=momentum(0.9) decay=0.01",
	"up=topk(0.01) down=topk(0.05) update=nesterov(0.9) decay=0.001 clip=1",
	"up=topk(0.01) down=topk(0.02) warmup=4 memory=residual(outside)",
	"up=topk(0.01) down=topk(0.02) dense=*.bias,w2",
	"up=topk(k=29) down=topk(k=70) dense=*.bias warmup=2",
	"up=topk(0.97) down=topk(0.98),f16 dense=none",
	"up=topk(0.1) down=topk(0.1) memory=none",
	"up=tensor-topk(0.02) down=tensor-topk(0.03) dense=*.bias",
	"up=block-topk(2,90) down=block-topk(3,70),f16 dense=*.bias warmup=2",
	"up=block-topk(64,4096) down=all signal=momentum(0.9)",
	"up=cyclic(0.02) down=all,f16 signal=momentum(0.9)",
	"up=cyclic(0.05,chunks) down=all update=momentum(0.9)",
	"up=sketch(0.02,3,2,4) down=all signal=momentum(0.5) memory=residual(outside)",
};
enum { RECIPES = sizeof recipes / sizeof *recipes, STEPS = 5 };

static const uint32_t shard_counts[] = { 1, 2, 4, 7 };
enum { SHARDINGS = sizeof shard_counts / sizeof *shard_counts };

struct runs {
	int servers;
	uint64_t digests[RECIPES][SHARDINGS];
};

/* Checks that the copies from which this rank's shards publish equal the parameters of the
 * workers. */
static void check_copies(sluice_model *model, const float *params)
{
	progress_take(model->job);
	for (uint32_t i = 0; i < model->n_own; i++) {
		const struct shard *shard = &model->shards[i];
		CHECK(!memcmp(shard->copy, params + shard->at->begin,
			      shard->at->span * sizeof *params));
	}
	progress_release(model->job);
}

/* Under valgrind each recipe runs with only the fewest and the most shards. */
static int sharding_left_out(int s)
{
	return thinned((size_t)s, SHARDINGS - 1);
}

/* A dedicated server gets no information about a next step. */
TEST_IN_RANKS(step_info__on_a_dedicated_server__is_that_of_no_step, 3)
{
	sluice_job_attr attr = { .size = sizeof attr, .servers = 1 };
	sluice_job *job = rank_join(&attr);
	float params[COUNT] = { 0 };
	sluice_model *model = rank_open(
		job, params, attributes("up=all down=all signal=svrg(4) when=async(3)", 2));
	sluice_model_step step = { .size = sizeof step };
	CHECK_OK(sluice_step_info(model, &step));
	CHECK(step.size == sizeof step && step.steps == 0 && step.raised == 0 && !step.skipped);
	CHECK(step.in_sync == 1 && step.wanted == 1 && step.anchor_due == sluice_is_worker(job));
	if (!sluice_is_worker(job)) {
		CHECK_OK(sluice_serve(model));
		CHECK_OK(sluice_step_info(model, &step));
		CHECK(step.steps == 0 && step.in_sync == 1 && step.wanted == 1 && !step.anchor_due);
	}
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

static int train_all(int rank, void *argument)
{
	struct runs *runs = argument;
	sluice_job_attr attr = { .size = sizeof attr, .servers = runs->servers };
	sluice_job *job = rank_join(&attr);
	for (int i = 0; i < RECIPES * SHARDINGS; i++) {
		float params[COUNT], grad[COUNT];
		uint64_t digest = 0;
		if (sharding_left_out(i % SHARDINGS))
			continue;
		for (int j = 0; j < COUNT; j++) /* only rank 0's parameters count, and -0 must be
						   preserved */
			params[j] = rank ? 77 : j % 17 ? noise(2, 0, 0, (uint64_t)j) : -0.0f;
		sluice_model *model = rank_open(
			job, sluice_is_worker(job) ? params : NULL,
			attributes(recipes[i / SHARDINGS], shard_counts[i % SHARDINGS]));
		if (!sluice_is_worker(job)) {
			CHECK_OK(sluice_serve(model));
			sluice_model_close(&model);
			continue;
		}
		check_same(job, params, sizeof params);
		for (uint64_t step = 1; step <= STEPS; step++) {
			fill_gradient(grad, rank, step, params);
			CHECK_STEP(model, grad, params);
			CHECK(step_of(model).steps == step);
			digest = check_same(job, params, sizeof params);
		}
		check_copies(model, params);
		if (!rank)
			runs->digests[i / SHARDINGS][i % SHARDINGS] = digest;
		sluice_model_close(&model);
	}
	sluice_finalize(&job);
	return 0;
}

static void same_digests_with_and_without_servers(int workers)
{
	struct runs *first = shared_memory(sizeof *first), *again = shared_memory(sizeof *again);
	run_ranks(workers, train_all, first);
	for (int servers = 0; servers <= 2; servers++) {
		if (thinned((size_t)servers + 1, 2))
			continue;
		memset(again, 0, sizeof *again);
		again->servers = servers;
		run_ranks(workers + servers, train_all, again);
		for (int r = 0; r < RECIPES; r++)
			for (int s = 0; s < SHARDINGS; s++)
				if (first->digests[r][s] != again->digests[r][s])
					fail_msg("%d workers, %d servers, %u shards, \"%s\": "
						 "another digest",
						 workers, servers, shard_counts[s], recipes[r]);
	}
	/* If the whole vector is published, the number of shards does not change the result. */
	for (int s = 1; s < SHARDINGS; s++)
		assert_true(sharding_left_out(s) || first->digests[0][s] == first->digests[0][0]);
	assert_true(first->digests[0][0] != first->digests[2][0]);
}

TEST(step__one_worker__same_bits_as_with_servers_and_again)
{
	same_digests_with_and_without_servers(1);
}

TEST(step__two_workers__same_bits_everywhere_and_with_servers)
{
	same_digests_with_and_without_servers(2);
}

TEST(step__four_workers__same_bits_everywhere_and_with_servers)
{
	same_digests_with_and_without_servers(4);
}

TEST_IN_JOB(step__dense__is_plain_sgd_in_rank_order_to_the_bit, 1, 3, 4)
{
	float params[COUNT], want[COUNT], grad[COUNT];
	int workers = sluice_workers(job);
	for (int i = 0; i < COUNT; i++)
		want[i] = params[i] = noise(3, 0, 0, (uint64_t)i);
	sluice_model *model = rank_open(job, params, attributes("up=all down=all", 3));
	for (uint64_t step = 1; step <= 20; step++) {
		float sum[COUNT] = { 0 }, lr = step > 10 ? 0.01f : 0.05f;
		for (int w = 0; w < workers; w++) {
			fill_gradient(grad, w, step, want);
			for (int i = 0; i < COUNT; i++)
				sum[i] += grad[i];
		}
		fill_gradient(grad, rank, step, params);
		CHECK_OK(sluice_set(model, SLUICE_LR, lr));
		CHECK_OK(sluice_push(model, grad));
		memset(grad, 0, sizeof grad); /* the caller may reuse grad */
		CHECK_OK(sluice_pull(model, params));
		for (int i = 0; i < COUNT; i++) {
			want[i] += -lr * (sum[i] * (1.0f / (float)workers));
			CHECK(float_bits(want[i]) == float_bits(params[i]));
		}
	}
	sluice_model_close(&model);
}

/* The last rank pulls late each time. The deltas that it has not read must be kept, although the
 * leader of the next step is ready long before. */
static void read_late(sluice_job *job, int rank, void *argument)
{
	enum { LATE_STEPS = 12 };
	float params[COUNT] = { 0 }, grad[COUNT];
	sluice_model *model = rank_open(job, params, attributes(argument, 2));
	for (uint64_t step = 1; step <= LATE_STEPS; step++) {
		fill_gradient(grad, rank, step, params);
		CHECK_OK(sluice_push(model, grad));
		if (rank == 2)
			sleep_ms(5);
		CHECK_OK(sluice_pull(model, params));
	}
	check_same(job, params, sizeof params);
	sluice_model_close(&model);
}

TEST(step__one_rank_reads_late__no_publication_overtakes_it)
{
	static char cyclic[] = "up=cyclic(0.02) down=all", sketch[] = "up=sketch(0.02) down=all",
		    topk[] = "up=topk(0.02)";
	run_in_job(3, read_late, cyclic);
	run_in_job(3, read_late, sketch);
	run_in_job(3, read_late, topk);
}

TEST_IN_JOB(pull_mean__update_none__is_the_exact_mean, 1, 2, 4)
{
	float params[COUNT], grad[COUNT], mean[COUNT];
	sluice_model *model = NULL;
	sluice_model_attr attr = attributes("up=all down=all update=none", 3);
	int workers = sluice_workers(job);
	for (int i = 0; i < COUNT; i++)
		params[i] = 1;
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	for (int step = 1; step <= 5; step++) {
		for (int i = 0; i < COUNT; i++)
			grad[i] = (float)((i + step) * (rank + 1)); /* the sums are exact */
		CHECK_STEP(model, grad, mean);
		for (int i = 0; i < COUNT; i++)
			CHECK(mean[i] == (float)((i + step) * (workers + 1)) / 2);
	}
	sluice_model_close(&model);
	/* Sparse: zero at coordinates that were not published. */
	attr = attributes("up=topk(0.001) down=all update=none dense=none memory=none", 1);
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	memset(grad, 0, sizeof grad);
	grad[rank] = 4;
	grad[100 + rank] = grad[200 + rank] = 1; /* one of the two is more than the density
						    allows */
	CHECK_STEP(model, grad, mean);
	for (int i = 0; i < COUNT; i++)
		CHECK(mean[i] == (i < workers                   ? 4.0f / (float)workers :
				  i >= 100 && i < 100 + workers ? 1.0f / (float)workers :
								  0));
	log_capture();
	CHECK(sluice_pull(model, mean) == SLUICE_EINVAL);
	for (int i = 0; i < COUNT; i++)
		CHECK(params[i] == 1);
	sluice_model_close(&model);
}

/* Shards of one to three coordinates use every coding, and dense also for a sparse selection. */
TEST_IN_JOB(step__shards_of_a_few_coordinates__same_bits_everywhere, 3)
{
	static const char *const texts[] = {
		"up=topk(0.5) down=topk(0.5)",
		"up=topk(0.7),f16 down=topk(0.7),f16",
		"up=topk(0.97),bf16 down=topk(0.34),f16",
		"up=topk(0.01) down=topk(0.01)",
		"up=topk(0.01),f16 down=topk(0.01),bf16 memory=none",
	};
	for (uint64_t count = 1; count <= 40; count++) {
		float params[40] = { 0 }, grad[40];
		sluice_model_attr attr = ATTR(.count = count, .recipe = texts[count % 5],
					      .shards = (uint32_t)((count + 2) / (1 + count % 3)));
		attr.shards = attr.shards > count ? 1 : attr.shards;
		sluice_model *model = rank_open(job, params, attr);
		for (uint64_t step = 1; step <= 6; step++) {
			for (uint64_t i = 0; i < count; i++)
				grad[i] = noise(4, step, (uint64_t)rank, i);
			CHECK_STEP(model, grad, params);
			check_same(job, params, count * sizeof *params);
		}
		check_copies(model, params);
		sluice_model_close(&model);
	}
}

/* Two models of different shapes make steps in turn; one is closed and opened again. */
TEST_IN_JOB(step__two_models_in_turn__do_not_disturb_each_other, 3)
{
	float a[COUNT] = { 0 }, b[COUNT] = { 0 }, grad[COUNT];
	sluice_model *first = NULL, *second = NULL;
	sluice_model_attr large = attributes(recipes[2], 3);
	sluice_model_attr small = ATTR(.count = 333, .recipe = recipes[0], .shards = 2);
	CHECK_OK(sluice_model_open(job, &large, a, &first));
	for (int round = 0; round < 3; round++) {
		CHECK_OK(sluice_model_open(job, &small, b, &second));
		for (uint64_t step = 1; step <= 10; step++) {
			fill_gradient(grad, rank, step, a);
			CHECK_OK(sluice_push(first, grad));
			fill_gradient(grad, rank, step, b);
			CHECK_OK(sluice_push(second, grad));
			CHECK_OK(sluice_pull(first, a));
			CHECK_OK(sluice_pull(second, b));
			check_same(job, a, sizeof a);
			check_same(job, b, sizeof b);
		}
		CHECK(step_of(first).steps == 10u * ((unsigned)round + 1) &&
		      step_of(second).steps == 10);
		sluice_model_close(&second);
	}
	sluice_model_close(&first);
}

TEST_IN_JOB(raise__on_one_rank__is_seen_by_all_after_that_pull_only, 3)
{
	float params[10] = { 0 }, grad[10] = { 0 };
	sluice_model *model = OPEN(job, params, .count = 10, .shards = 2);
	for (unsigned step = 1; step <= 8; step++) {
		unsigned want = (step % 2 ? 1u : 0u) | (step == 4 ? 0x80u : 0u);
		if (rank == 1 && step % 2)
			sluice_raise(model, 1);
		if (rank == 2 && step == 4)
			sluice_raise(model, 0x180); /* only eight flags are sent */
		CHECK_STEP(model, grad, params);
		CHECK(step_of(model).raised == want);
	}
	sluice_model_close(&model);
}
