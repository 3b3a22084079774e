/* SPDX-License-Identifier: BSD-3-Clause
 * Gradients that the application adds to the residual itself: the bits of pushing them, for every
 * kind of recipe that allows it; across a checkpoint; what is not finite is named; recipes and
 * places that are refused. */
#include "base/error.h"
#include "four_tensors.h"
#include "worker/state.h"
#include "ranks.h"
#include "scratch.h"
#include "thinned.h"
#include "cases.h"
#include <math.h>
#include <string.h>

enum { STEPS = 8 };

/* As back-propagation would that finds the accumulator where its gradients go. */
static float *accumulate(sluice_model *model, const float *grad)
{
	float *sum = NULL, scale = 0;
	CHECK_OK(sluice_accumulator(model, &sum, &scale));
	for (size_t i = 0; i < COUNT; i++)
		sum[i] += scale * grad[i];
	return sum;
}

/* ---- the same bits --------------------------------------------------------- */

static const char *const recipes[] = {
	"up=topk(0.01) down=topk(0.05)",
	"up=topk(0.01) down=all memory=residual(outside)",
	"up=topk(0.02),f16 down=topk(0.1),bf16 dense=*.bias",
	"up=topk(0.02),uniform(4) down=topk(0.1)",
	"up=topk(0.02),grid(4) down=topk(0.1)",
	"up=topk(0.01) down=topk(0.02) warmup=4",
	"up=topk(0.05) down=topk(0.05) reset=3",
	"up=all,bf16 down=all memory=residual",
	"up=threshold(0.002) down=threshold(0.001)",
	"up=tensor-topk(0.01) down=all",
	"up=gaussiank(0.05) down=topk(0.05)",
	"up=randk(0.05) down=all",
	"up=cyclic(0.02) down=all",
	"up=sketch(0.02) down=all",
	"up=global(0.02) down=global(0.02)",
};
enum { RECIPES = sizeof recipes / sizeof *recipes, WAYS = 4 };

/* 0: gradients; 1: added by the application; 2: the same, pushed in ranges; 3: some ranks this way,
 * some that. */
struct trial {
	int way;
	uint64_t params[RECIPES][2], residual[RECIPES][2];
};

static void push(sluice_model *model, int way, const float *grad, uint64_t step)
{
	const float *sum = way ? accumulate(model, grad) : NULL;
	if (!way) {
		CHECK_OK(sluice_push(model, grad));
	} else if (way == 1) {
		CHECK_OK(sluice_push(model, sum));
	} else {
		uint64_t cut = 1 + 170 * step;
		CHECK_OK(sluice_push_range(model, sum + cut, cut, COUNT - cut));
		CHECK_OK(sluice_push_range(model, sum, 0, cut));
	}
}

static int train(int rank, void *argument)
{
	static const uint32_t shards[] = { 1, 5 };
	struct trial *trial = argument;
	sluice_job *job = rank_join(NULL);
	for (int i = 0; i < RECIPES * 2; i++) {
		float params[COUNT], grad[COUNT];
		sluice_model_attr attr = attributes(recipes[i / 2], shards[i % 2]);
		sluice_model *model = NULL;
		if (thinned((size_t)i + 1, 2))
			continue;
		for (int j = 0; j < COUNT; j++)
			params[j] = noise(2, 0, 0, (uint64_t)j);
		CHECK_OK(sluice_model_open(job, &attr, params, &model));
		for (uint64_t step = 1; step <= STEPS; step++) {
			CHECK_OK(sluice_set(model, SLUICE_LR, 0.05f / (float)step));
			fill_gradient(grad, rank, step, params);
			push(model, trial->way == 3 ? rank % 2 : trial->way, grad, step);
			CHECK_OK(sluice_pull(model, params));
		}
		uint64_t digest = check_same(job, params, sizeof params);
		if (!rank) {
			trial->params[i / 2][i % 2] = digest;
			trial->residual[i / 2][i % 2] = sluice_digest(worker_residual(model),
								      sizeof params);
		}
		sluice_model_close(&model);
	}
	sluice_finalize(&job);
	return 0;
}

static void same_bits(int ranks)
{
	struct trial *trials[WAYS];
	for (int way = 0; way < WAYS; way++) {
		trials[way] = shared_memory(sizeof **trials);
		trials[way]->way = way;
		run_ranks(ranks, train, trials[way]);
	}
	for (int way = 1; way < WAYS; way++)
		for (int i = 0; i < RECIPES * 2; i++)
			if (trials[0]->params[i / 2][i % 2] != trials[way]->params[i / 2][i % 2] ||
			    trials[0]->residual[i / 2][i % 2] !=
				    trials[way]->residual[i / 2][i % 2])
				fail_msg("%d ranks, \"%s\", way %d: another digest", ranks,
					 recipes[i / 2], way);
}

TEST(push__of_the_accumulator__same_bits_as_of_the_gradient)
{
	same_bits(1);
	same_bits(3);
}

/* ---- checkpoint ------------------------------------------------------------ */

static uint64_t four_steps(sluice_job *job, sluice_model *model, uint64_t first, float *params)
{
	float grad[COUNT];
	for (uint64_t step = first; step < first + 4; step++) {
		fill_gradient(grad, sluice_rank(job), step, params);
		CHECK_OK(sluice_push(model, accumulate(model, grad)));
		CHECK_OK(sluice_pull(model, params));
	}
	return check_same(job, params, COUNT * sizeof *params);
}

/* Four steps, a checkpoint, four more; and these again from the checkpoint. */
static int resume(int rank, void *argument)
{
	const char *dir = argument;
	float params[COUNT] = { 0 }, *sum = NULL, scale = 0;
	uint64_t digest;
	sluice_job *job = rank_join(NULL);
	sluice_model *model = NULL;
	sluice_model_attr attr = attributes("up=topk(0.01) down=topk(0.05)", 2);
	(void)rank;
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	four_steps(job, model, 1, params);
	CHECK_OK(sluice_checkpoint(model, dir));
	digest = four_steps(job, model, 5, params);
	sluice_model_close(&model);
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	CHECK_OK(sluice_accumulator(model, &sum, &scale));
	CHECK_OK(sluice_restore(model, dir, params, NULL));
	CHECK(sluice_digest(sum, sizeof params) !=
	      sluice_digest((float[COUNT]){ 0 }, sizeof params));
	CHECK(four_steps(job, model, 5, params) == digest);
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

TEST(restore__of_an_accumulator__goes_on_with_the_same_bits)
{
	char dir[SCRATCH_PATH];
	assert_int_equal(scratch_make(dir), 0);
	run_ranks(2, resume, dir);
	scratch_remove(dir);
}

/* ---- what is not finite ---------------------------------------------------- */

struct bad {
	const char *recipe;
	float value;
};

static int meet(int rank, void *argument)
{
	const struct bad *bad = argument;
	float params[COUNT] = { 0 }, grad[COUNT], *sum;
	sluice_job *job = rank_join(NULL);
	sluice_model *model = NULL;
	sluice_model_attr attr = attributes(bad->recipe, 2);
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	fill_gradient(grad, rank, 1, params);
	log_capture();
	sum = accumulate(model, grad);
	if (rank) /* the last of b1.bias; and one of w2, behind it */
		sum[1019] = sum[1250] = bad->value;
	int rc = sluice_push(model, sum);
	if (rank) {
		CHECK(rc == SLUICE_ENUMERIC && error_says(isnan(bad->value) ? "NaN" : "infinite",
							  "index 19 of tensor b1.bias"));
		CHECK(memcmp(&sum[1019], &bad->value, sizeof *sum) == 0 &&
		      !(fabsf(sum[1250]) < INFINITY));
	} else {
		CHECK((rc ? rc : sluice_pull(model, params)) == SLUICE_EPEER);
	}
	sluice_set_log(NULL, NULL);
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

TEST(push__accumulator_not_finite__tensor_and_index_named_and_it_is_still_there)
{
	static struct bad cases[] = {
		{ "up=topk(0.01) down=topk(0.05)", NAN },
		{ "up=topk(0.01) down=topk(0.05)", INFINITY },
		{ "up=topk(0.01),f16 down=topk(0.05)", -INFINITY },
		{ "up=threshold(0.01) down=all", NAN },
		{ "up=gaussiank(0.01) down=all", INFINITY },
		{ "up=all down=all memory=residual", NAN },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		run_ranks(2, meet, &cases[i]);
}

/* ---- refusals -------------------------------------------------------------- */

static int refuse_recipes(int rank, void *argument)
{
	static const struct {
		const char *recipe, *key;
	} cases[] = {
		{ "up=topk(0.1) memory=none", "memory=" },
		{ "up=topk(0.1) memory=lowpass(0.3)", "memory=" },
		{ "up=topk(0.1) signal=momentum(0.9)", "signal=" },
		{ "signal=storm(0.5) memory=residual(outside) update=ema(0.5)", "signal=" },
		{ "up=topk(0.1) signal=gradient,noise(0.1)", "noise=" },
		{ "up=topk(0.1) clip=1", "clip=" },
		{ "up=topk(0.1) nonfinite=skip", "nonfinite=" },
		{ "up=topk(0.1) nonfinite=zero", "nonfinite=" },
		{ "up=topk(0.1) when=every(4)", "when=every" },
	};
	sluice_job *job = rank_join(NULL);
	(void)rank;
	(void)argument;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		float params[COUNT] = { 0 }, *sum = params, scale = 7;
		sluice_model *model = NULL;
		sluice_model_attr attr = attributes(cases[i].recipe, 2);
		CHECK_OK(sluice_model_open(job, &attr, params, &model));
		CHECK(sluice_accumulator(model, &sum, &scale) == SLUICE_EINVAL &&
		      error_says("sluice_accumulator: the recipe's", cases[i].key));
		CHECK(sum == params && scale == 7);
		sluice_model_close(&model);
	}
	sluice_finalize(&job);
	return 0;
}

TEST(accumulator__recipe_does_more_than_adding__refused_by_its_key)
{
	run_ranks(1, refuse_recipes, NULL);
}

static int refuse_places(int rank, void *argument)
{
	float params[COUNT] = { 0 }, grad[COUNT], before[COUNT], *sum, scale;
	sluice_job *job = rank_join(NULL);
	sluice_model *model = NULL;
	sluice_model_attr attr = attributes("up=topk(0.01) down=topk(0.05)", 2);
	(void)argument;
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	fill_gradient(grad, rank, 1, params);
	CHECK(sluice_accumulator(NULL, &sum, &scale) == SLUICE_EINVAL);
	CHECK(sluice_accumulator(model, NULL, &scale) == SLUICE_EINVAL &&
	      error_says("accumulator is NULL", NULL));
	CHECK(sluice_accumulator(model, &sum, NULL) == SLUICE_EINVAL &&
	      error_says("scale is NULL", NULL));
	CHECK_OK(sluice_set(model, SLUICE_LR, 0.25f));
	CHECK_OK(sluice_accumulator(model, &sum, &scale));
	CHECK((uintptr_t)sum % 64 == 0 && !memcmp(&scale, &(float){ 0.25f }, sizeof scale));
	for (int i = 0; i < COUNT; i++)
		CHECK(sum[i] <= 0 && sum[i] >= 0);
	accumulate(model, grad);
	memcpy(before, sum, sizeof before);
	CHECK(sluice_push(model, sum + 1) == SLUICE_EINVAL &&
	      error_says("at byte 4,", "coordinate 0 begins at byte 0"));
	CHECK(sluice_push(model, (char *)sum + 2) == SLUICE_EINVAL);
	CHECK(sluice_push_range(model, sum, 10, 20) == SLUICE_EINVAL &&
	      error_says("coordinate 10", "at byte 40"));
	CHECK(sluice_push_range(model, sum + 20, 10, 20) == SLUICE_EINVAL);
	CHECK(!memcmp(before, sum, sizeof before));
	CHECK_OK(sluice_push(model, sum));
	CHECK(sluice_accumulator(model, &sum, &scale) == SLUICE_EINVAL &&
	      error_says("not pulled yet", NULL));
	CHECK_OK(sluice_pull(model, params));
	check_same(job, params, sizeof params);
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

TEST(push__another_place_of_the_accumulator__refused_and_nothing_changes)
{
	run_ranks(1, refuse_places, NULL);
	run_ranks(2, refuse_places, NULL);
}
