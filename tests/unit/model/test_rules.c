/* SPDX-License-Identifier: BSD-3-Clause
 * A learning rate and weight decay for each tensor: against a scalar reference, against the same
 * training without rules, across checkpoints, and refusals. */
#include "four_tensors.h"
#include "ranks.h"
#include "thinned.h"
#include "model/update.h"
#include "cases.h"
#include <math.h>
#include <string.h>

enum { STEPS = 5, TENSORS = 4 };

static const sluice_tensor_rule mixed[TENSORS] = {
	{ 1, 0 }, { 0.5f, 0.01f }, { 0, 0 }, { 3, 0.2f }
};

static int tensor_of(int i)
{
	return i < 1000 ? 0 : i < 1020 ? 1 : i < 1420 ? 2 : 3;
}

/* ---- a scalar reference -------------------------------------------------------- */

/* The rule of one coordinate for one worker, if everything is sent. */
static void reference(const char *recipe, const sluice_tensor_rule *rule, float lr, float grad,
		      float *velocity, float *variance, uint64_t t, float *param)
{
	const float inside = strstr(recipe, "inside") ? lr : 1, outside = lr / inside;
	const float step = rule->lr * outside, decay = rule->decay * inside;
	float sum = inside * grad;
	if (rule->decay > 0)
		sum += decay * *param;
	if (strstr(recipe, "momentum") || strstr(recipe, "nesterov")) {
		*velocity = 0.5f * *velocity + sum;
		sum = strstr(recipe, "nesterov") ? sum + 0.5f * *velocity : *velocity;
	}
	if (strstr(recipe, "adam")) {
		const struct adam_words words = { 0.5f, 0.75f, 1e-4f, 0, 0 };
		const struct update now = update_of_step(
			&(struct update){ .kind = UPDATE_ADAM, .adam = words }, t, 0);

		sum = grad + (strstr(recipe, "adamw") ? 0 : rule->decay * *param);
		*variance = 0.75f * *variance + 0.25f * (sum * sum);
		*velocity = 0.5f * *velocity + 0.5f * sum;
		sum = now.unbias1 * *velocity / (sqrtf(*variance) * now.unbias2 + 1e-4f) +
		      (strstr(recipe, "adamw") ? rule->decay * *param : 0);
	}
	*param += -step * sum;
}

static const char *const dense[] = {
	"up=all down=all memory=none",
	"up=all down=all memory=residual(inside) decay=0.3",
	"up=all down=all memory=none update=momentum(0.5)",
	"up=all down=all memory=residual(outside) update=nesterov(0.5) decay=0.1",
	"up=all down=all memory=none update=adam(0.5,0.75,1e-4) decay=0.1",
	"up=all down=all memory=residual update=adamw(0.5,0.75,1e-4,0.3)",
};

TEST_IN_JOB(update__with_rules__is_that_of_a_scalar_reference, 1)
{
	for (unsigned c = 0; c < 2 * sizeof dense / sizeof *dense; c++) {
		float params[COUNT], want[COUNT], velocity[COUNT] = { 0 }, variance[COUNT] = { 0 },
						  grad[COUNT];
		sluice_model_attr attr = attributes(dense[c / 2], c % 2 ? 7 : 1);
		attr.rules = mixed;
		check_of = dense[c / 2];
		for (int i = 0; i < COUNT; i++)
			want[i] = params[i] = noise(3, 0, 0, (uint64_t)i);
		sluice_model *model = rank_open(job, params, attr);
		for (uint64_t step = 1; step <= STEPS; step++) {
			const float lr = 0.05f / (float)step;
			fill_gradient(grad, 0, step, params);
			CHECK_OK(sluice_set(model, SLUICE_LR, lr));
			CHECK_STEP(model, grad, params);
			for (int i = 0; i < COUNT; i++)
				reference(dense[c / 2], &mixed[tensor_of(i)], lr, grad[i],
					  &velocity[i], &variance[i], step, &want[i]);
			for (int i = 0; i < COUNT; i++)
				CHECK(fabsf(params[i] - want[i]) <= 2e-6f * (1 + fabsf(want[i])));
			CHECK(params[1020] == noise(3, 0, 0, 1020)); /* frozen */
		}
		sluice_model_close(&model);
	}
	check_of = NULL;
}

/* ---- the same without rules ---------------------------------------------------- */

static const char *const recipes[] = {
	"up=all down=all",
	"up=all down=all decay=0.01 update=momentum(0.9)",
	"up=topk(0.02) down=all",
	"up=topk(0.02) down=topk(0.1) decay=0.01",
	"up=topk(0.02) down=topk(0.05) signal=momentum(0.9) update=nesterov(0.5)",
	"up=threshold(0.02) down=topk(0.1),bf16 update=ema(0.5)",
	"up=cyclic(0.1) down=all",
	"up=topk(0.02) down=topk(0.1) update=adam(0.9,0.99,1e-8) decay=0.01",
	"up=topk(0.02) down=topk(0.1) update=adamw(0.2,0.99,1e-8,0.01)", /* has its own decay */
	"up=all down=all when=async(4)",
	"up=all,uniform(3,64) down=all signal=innovation",
};
enum { RECIPES = sizeof recipes / sizeof *recipes };

/* The rules of model b have the effect of model a without rules. Model c has other rules. */
TEST_IN_JOB(update__with_rules_that_change_nothing__has_the_same_bits, 1, 3)
{
	for (unsigned c = 0; c < RECIPES; c++) {
		float params[3][COUNT] = { { 0 } }, grad[COUNT];
		sluice_tensor_rule same[TENSORS];
		sluice_model *models[3];
		sluice_model_attr attr = attributes(recipes[c], 3);
		/* The order in which pushes arrive is random. */
		if (thinned(c, 3) || (strstr(recipes[c], "async") && sluice_size(job) > 1))
			continue;
		check_of = recipes[c];
		for (int t = 0; t < TENSORS; t++)
			same[t] = (sluice_tensor_rule){ 1, strstr(recipes[c], "0.01") ? 0.01f : 0 };
		for (int m = 0; m < 3; m++) {
			attr.rules = m == 0 ? NULL : m == 1 ? same : mixed;
			CHECK_OK(sluice_model_open(job, &attr, params[m], &models[m]));
		}
		for (uint64_t step = 1; step <= STEPS; step++) {
			fill_gradient(grad, rank, step, params[0]);
			for (int m = 0; m < 3; m++) {
				CHECK_STEP(models[m], grad, params[m]);
			}
			CHECK(!memcmp(params[0], params[1], sizeof grad));
		}
		for (int i = 1020; i < 1420; i++)
			CHECK(params[2][i] == 0); /* frozen */
		CHECK(memcmp(params[0] + 1420, params[2] + 1420, 80 * sizeof(float)));
		check_same(job, params, sizeof params);
		for (int m = 0; m < 3; m++)
			sluice_model_close(&models[m]);
	}
	check_of = NULL;
}

/* Model a has decay= in the recipe, and model b has the same decay in the rules of all tensors.
 * Coordinates without messages must also decay. */
TEST_IN_JOB(update__decay_in_all_rules__is_that_of_the_recipe, 1, 3)
{
	static const char *const without[] = {
		"up=cyclic(0.05) down=all",
		"up=cyclic(0.05) down=all,bf16 memory=residual(outside)",
		"up=topk(0.02) down=all",
		"up=randk(0.02) down=all",
		"up=threshold(0.5) down=all,bf16",
		"up=all down=all",
	};
	for (size_t c = 0; c < sizeof without / sizeof *without; c++) {
		float params[2][COUNT], grad[COUNT];
		const sluice_tensor_rule rules[TENSORS] = {
			{ 1, 0.25f }, { 1, 0.25f }, { 1, 0.25f }, { 1, 0.25f }
		};
		sluice_model *models[2];
		char with[128];
		snprintf(with, sizeof with, "%s decay=0.25", without[c]);
		check_of = with;
		for (int m = 0; m < 2; m++) {
			sluice_model_attr attr = attributes(m ? without[c] : with, 3);
			attr.rules = m ? rules : NULL;
			for (int i = 0; i < COUNT; i++)
				params[m][i] = 2 + noise(3, 0, 0, (uint64_t)i);
			CHECK_OK(sluice_model_open(job, &attr, params[m], &models[m]));
		}
		for (uint64_t step = 1; step <= STEPS; step++) {
			fill_gradient(grad, rank, step, params[0]);
			memset(grad, 0,
			       COUNT / 2 * sizeof *grad); /* no message has these coordinates */
			for (int m = 0; m < 2; m++) {
				CHECK_STEP(models[m], grad, params[m]);
			}
			CHECK(!memcmp(params[0], params[1], sizeof grad));
		}
		check_same(job, params, sizeof params);
		for (int i = 0; i < COUNT / 2; i++)
			CHECK(params[1][i] < 2 + noise(3, 0, 0, (uint64_t)i));
		for (int m = 0; m < 2; m++)
			sluice_model_close(&models[m]);
	}
	check_of = NULL;
}

/* A state that was saved without rules is loaded with rules, and the other way round. */
TEST_IN_JOB(state__saved_with_or_without_rules__is_loaded_without_or_with_them, 2)
{
	static uint8_t state[64 << 10];
	float params[COUNT] = { 0 }, again[COUNT] = { 0 }, grad[COUNT];
	for (int with = 0; with < 2; with++) {
		sluice_model *a = NULL, *b = NULL;
		sluice_model_attr attr = attributes("up=topk(0.1) down=all update=momentum(0.9)",
						    2);
		size_t bytes = 0, other = 0;
		attr.rules = with ? mixed : NULL;
		CHECK_OK(sluice_model_open(job, &attr, params, &a));
		fill_gradient(grad, rank, 1, params);
		CHECK_STEP(a, grad, params);
		CHECK_OK(sluice_state_size(a, &bytes));
		CHECK(bytes <= sizeof state);
		CHECK_OK(sluice_state_save(a, state, bytes, 0));
		attr.rules = with ? NULL : mixed;
		CHECK_OK(sluice_model_open(job, &attr, again, &b));
		CHECK_OK(sluice_state_size(b, &other));
		CHECK(other == bytes);
		CHECK_OK(sluice_state_load(b, state, bytes, again, NULL));
		CHECK(!memcmp(params, again, sizeof params));
		CHECK_STEP(b, grad, again);
		check_same(job, again, sizeof again);
		sluice_model_close(&b);
		sluice_model_close(&a);
	}
}

/* ---- refusals ---------------------------------------------------------------- */

TEST(plan__wrong_rules__are_refused_by_name)
{
	static const char lazy[] = "up=all down=all signal=innovation when=lazy(10,0.1)";
	static const char *const impossible[] = { "up=all down=all update=none",
						  "up=all down=all update=average",
						  "up=all down=all when=every(2)",
						  "up=sketch(0.05,5,1.6,4) down=all", lazy };
	sluice_tensor_rule rules[TENSORS];
	sluice_model_attr attr = attributes("up=all down=all", 1);
	char text[8192];
	memcpy(rules, mixed, sizeof rules);
	attr.rules = rules;
	assert_true(sluice_plan(&attr, 2, 0, SLUICE_PLAN_TEXT, text, sizeof text) > 0);
	assert_non_null(strstr(text, "learning rate and decay for each of 4 tensors"));
	for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++) {
		attr.recipe = impossible[i];
		assert_int_equal(sluice_plan(&attr, 2, 0, SLUICE_PLAN_TEXT, NULL, 0),
				 SLUICE_EINVAL);
		assert_true(
			error_says("sluice_plan: rules are not possible with this recipe", NULL));
	}
	attr.recipe = "up=all down=all";
	rules[1].lr = -1;
	assert_int_equal(sluice_plan(&attr, 2, 0, SLUICE_PLAN_TEXT, NULL, 0), SLUICE_EINVAL);
	assert_true(error_says("lr=-1", "b1.bias"));
	rules[1] = (sluice_tensor_rule){ 1, NAN };
	assert_int_equal(sluice_plan(&attr, 2, 0, SLUICE_PLAN_TEXT, NULL, 0), SLUICE_EINVAL);
	memset(rules, 0, sizeof rules);
	assert_int_equal(sluice_plan(&attr, 2, 0, SLUICE_PLAN_TEXT, NULL, 0), SLUICE_EINVAL);
	assert_true(error_says("nothing would be trained", NULL));
	attr.n_tensors = 0;
	assert_int_equal(sluice_plan(&attr, 2, 0, SLUICE_PLAN_TEXT, NULL, 0), SLUICE_EINVAL);
	assert_true(error_says("without tensors", NULL));
}

TEST_IN_JOB(open__with_other_rules_on_a_rank__is_refused_on_all, 2)
{
	float params[COUNT] = { 0 };
	sluice_tensor_rule rules[TENSORS];
	sluice_model *model = NULL;
	sluice_model_attr attr = attributes("up=all down=all", 1);
	log_capture();
	memcpy(rules, mixed, sizeof rules);
	rules[3].decay += (float)rank;
	attr.rules = rules;
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EPEER);
	CHECK(error_says("rank 0", "other names, lengths, columns or rules"));
}
