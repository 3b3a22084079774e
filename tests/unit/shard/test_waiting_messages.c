/* SPDX-License-Identifier: BSD-3-Clause
 * Jobs whose shards keep few coordinates in lists until all messages are there, beside jobs whose
 * shards add every message to the sum of the whole shard: the same bits, whether a recipe asks for
 * the sum or not. */
#include "ranks.h"
#include "shard/state.h"
#include "thinned.h"
#include "cases.h"
#include "model/model.h"
#include <string.h>

enum { COUNT = 60000, STEPS = 12, RANKS = 3 };

static const char *const recipes[] = {
	"up=topk(0.001) down=topk(0.001)",
	"up=topk(0.004) down=topk(0.001)", /* of two workers it is few, of three too much */
	"up=topk(0.0005),f16 down=topk(0.002),bf16",
	"up=topk(0.001) down=topk(0.001) warmup=6steps", /* first more than lists hold, then not */
	"up=topk(0.001) down=topk(0.001) reset=5",
	"up=topk(0.001) down=topk(0.001) update=momentum(0.9)",
	"up=topk(0.001) down=topk(0.001) memory=none",
	"up=topk(0.001) down=all",
	"up=randk(0.001) down=randk(0.001)",
	"up=threshold(0.9999) down=threshold(0.5)", /* often no coordinate at all */
	"up=variance(1.5) down=topk(0.001)",
};
enum { RECIPES = sizeof recipes / sizeof *recipes };

struct plan {
	const char *const *recipes;
	int n, summed, pieces;
	uint64_t digests[RECIPES][2]; /* by whether all is added to the sum */
};

/* Made once, before the ranks are. */
static float first[COUNT], gradients[RANKS][STEPS][COUNT];

static int draw(void **state)
{
	for (uint64_t i = 0; i < COUNT; i++) {
		first[i] = noise(3, 0, 0, i);
		for (uint64_t rank = 0; rank < RANKS; rank++)
			for (uint64_t step = 0; step < STEPS; step++)
				gradients[rank][step][i] = noise(4, step + 1, rank, i);
	}
	return 0;
}

static void push(sluice_model *model, const float *grad, int pieces)
{
	if (!pieces)
		CHECK_OK(sluice_push(model, grad));
	for (uint64_t i = 0; pieces && i < 5; i++)
		CHECK_OK(sluice_push_range(model, grad + i * (COUNT / 5), i * (COUNT / 5),
					   COUNT / 5));
}

static void train(sluice_job *job, int rank, void *argument)
{
	static float params[COUNT];
	struct plan *plan = argument;
	const int ranks = sluice_size(job);

	log_capture();
	for (int r = 0; r < plan->n; r++) {
		if (thinned((size_t)(r + ranks), 3))
			continue;
		memcpy(params, first, sizeof params);
		sluice_model *model = OPEN(job, params, .count = COUNT, .lr = 0.1f,
					   .recipe = plan->recipes[r], .shards = 2);
		for (uint32_t s = 0; s < model->n_own && plan->summed; s++)
			model->shards[s].reduction.room = 0;
		for (int step = 0; step < STEPS; step++) {
			push(model, gradients[rank][step], plan->pieces);
			CHECK_OK(sluice_pull(model, params));
		}
		uint64_t digest = check_same(job, params, sizeof params);
		if (!rank)
			plan->digests[r][plan->summed] = digest;
		sluice_model_close(&model);
	}
}

static void compare(const char *const *of, int n, int ranks, int pieces)
{
	struct plan *plan = shared_memory(sizeof *plan);

	plan->recipes = of;
	plan->n = n;
	plan->pieces = pieces;
	for (plan->summed = 0; plan->summed < 2; plan->summed++)
		run_in_job(ranks, train, plan);
	for (int r = 0; r < n; r++) {
		if (plan->digests[r][0] != plan->digests[r][1])
			print_error("%s\n", of[r]);
		assert_true(plan->digests[r][0] == plan->digests[r][1]);
	}
}

TEST(train__messages_wait_or_are_added_to_the_sum__same_bits)
{
	compare(recipes, RECIPES, 2, 0);
	compare(recipes, RECIPES, 3, 0);
}

TEST(train__gradients_in_ranges__same_bits)
{
	compare(recipes, RECIPES, 3, 1);
}

/* One worker: the order of pushes, and so the bits, are given. */
TEST(train__async__same_bits)
{
	static const char *const async[] = {
		"up=topk(0.001) down=all,f16 when=async(4)",
		"up=topk(0.001) down=all when=async(4) update=momentum(0.5)",
	};

	compare(async, sizeof async / sizeof *async, 1, 0);
}

int main(void)
{
	return run_cases(draw, NULL);
}
