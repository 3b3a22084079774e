/* SPDX-License-Identifier: BSD-3-Clause
 * Gradients that the application itself adds to the residual: the same bits as a push, for every
 * kind of recipe that allows it, also across a checkpoint; values that are not finite are named;
 * and refusals. */
#include "base/error.h"
#include "four_tensors.h"
#include "same_bits.h"
#include "scratch.h"
#include "thinned.h"
#include "cases.h"
#include <math.h>
#include <string.h>

enum { STEPS = 8 };

/* Adds a gradient like a back-propagation that writes its gradients to the accumulator. */
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
	"up=block-topk(2,128) down=block-topk(5,64)",
	"up=gaussiank(0.05) down=topk(0.05)",
	"up=randk(0.05) down=all",
	"up=cyclic(0.02) down=all",
	"up=sketch(0.02) down=all",
	"up=global(0.02) down=global(0.02)",
};
enum { RECIPES = sizeof recipes / sizeof *recipes };

static void push_sum(struct side *s, const float *grad)
{
	CHECK_OK(sluice_push(s->model, accumulate(s->model, grad)));
}

static void push_sum_in_ranges(struct side *s, const float *grad)
{
	const float *sum = accumulate(s->model, grad);
	const uint64_t cut = 1 + 170 * s->step;

	CHECK_OK(sluice_push_range(s->model, sum + cut, cut, COUNT - cut));
	CHECK_OK(sluice_push_range(s->model, sum, 0, cut));
}

static void push_sum_of_some(struct side *s, const float *grad)
{
	(s->rank % 2 ? push_sum_in_ranges : side_push)(s, grad);
}

static void lower_rate(struct side *s)
{
	CHECK_OK(sluice_set(s->model, SLUICE_LR, 0.05f / (float)s->step));
}

TEST_IN_JOB(push__of_the_accumulator__same_bits_as_of_the_gradient, 1, 3)
{
	static const struct way gradient = { 0 }, sums[] = { { .push = push_sum },
							     { .push = push_sum_in_ranges },
							     { .push = push_sum_of_some } };

	for (size_t i = 0; i < RECIPES * 2; i++)
		for (int way = 0; way < 3 && !thinned(i + 1, 2); way++)
			same_bits(job,
				  &(struct training){
					  .attr = attributes(recipes[i / 2], i % 2 ? 5 : 1),
					  .steps = STEPS,
					  .before = lower_rate },
				  &gradient, &sums[way]);
}

/* ---- checkpoint ------------------------------------------------------------ */

static uint64_t four_steps(sluice_job *job, sluice_model *model, uint64_t first, float *params)
{
	float grad[COUNT];
	for (uint64_t step = first; step < first + 4; step++) {
		fill_gradient(grad, sluice_rank(job), step, params);
		CHECK_STEP(model, accumulate(model, grad), params);
	}
	return check_same(job, params, COUNT * sizeof *params);
}

/* Makes four steps, a checkpoint and four more, and then these four again from the checkpoint. */
static void resume(sluice_job *job, int rank, void *argument)
{
	const char *dir = argument;
	float params[COUNT] = { 0 }, *sum = NULL, scale = 0;
	uint64_t digest;
	sluice_model *model = NULL;
	sluice_model_attr attr = attributes("up=topk(0.01) down=topk(0.05)", 2);
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
}

TEST(restore__of_an_accumulator__goes_on_with_the_same_bits)
{
	char dir[SCRATCH_PATH];
	assert_int_equal(scratch_make(dir), 0);
	run_in_job(2, resume, dir);
	scratch_remove(dir);
}

/* ---- values that are not finite --------------------------------------------- */

struct bad {
	const char *recipe;
	float value;
};

static void meet(sluice_job *job, int rank, void *argument)
{
	const struct bad *bad = argument;
	float params[COUNT] = { 0 }, grad[COUNT], *sum;
	sluice_model *model = rank_open(job, params, attributes(bad->recipe, 2));
	fill_gradient(grad, rank, 1, params);
	log_capture();
	sum = accumulate(model, grad);
	if (rank) /* the last of b1.bias, and a later one in w2 */
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
		run_in_job(2, meet, &cases[i]);
}

/* ---- refusals -------------------------------------------------------------- */

TEST_IN_JOB(accumulator__recipe_does_more_than_adding__refused_by_its_key, 1)
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
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		float params[COUNT] = { 0 }, *sum = params, scale = 7;
		sluice_model *model = rank_open(job, params, attributes(cases[i].recipe, 2));
		CHECK(sluice_accumulator(model, &sum, &scale) == SLUICE_EINVAL &&
		      error_says("sluice_accumulator: the recipe's", cases[i].key));
		CHECK(sum == params && scale == 7);
		sluice_model_close(&model);
	}
}

TEST_IN_JOB(push__another_place_of_the_accumulator__refused_and_nothing_changes, 1, 2)
{
	float params[COUNT] = { 0 }, grad[COUNT], before[COUNT], *sum, scale;
	sluice_model *model = rank_open(job, params,
					attributes("up=topk(0.01) down=topk(0.05)", 2));
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
	      error_says("at byte 4 of", "coordinate 0 begins at byte 0"));
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
}
