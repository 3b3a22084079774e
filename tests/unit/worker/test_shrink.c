/* SPDX-License-Identifier: BSD-3-Clause
 * Averages of coordinates whose gradient stays zero become zero (base/shrink.h), and never
 * denormal. Those of the other coordinates are not affected. */
#include "base/shrink.h"
#include "four_tensors.h"
#include "model/compressor.h"
#include "model/kept.h"
#include "ranks.h"
#include "shard/state.h"
#include "worker/state.h"
#include "cases.h"

/* LIVING: coordinates that have a gradient in each step. Half of a value of 1 is left after each of
 * STEPS steps, so without the rule denormal values would occur from step 127 on. */
enum { LIVING = 10, STEPS = 150 };

static const char *const recipes[] = {
	"up=all down=all memory=none signal=momentum(0.5)",
	"up=topk(0.01) down=topk(0.01) signal=momentum(0.5)",
	"up=topk(0.01) down=topk(0.01) memory=residual(decay=0.5)",
	"up=randk(0.5) down=all memory=lowpass(0.9)",
	"up=all down=all memory=twostep(0.5) update=ema(0.5)",
	"up=all down=all update=ema(0.5)",
	"up=all down=all update=momentum(0.5)",
	"up=all down=all update=nesterov(0.5)",
	"up=all down=all update=adam(0.5,0.3,1e-8)",
	"up=all down=all update=adamw(0.5,0.3,1e-8,0.1)",
};

/* Checks one vector of averages. all_dead: every coordinate without a gradient must have become
 * zero. */
static void look_over(const float *average, uint64_t first, uint64_t n, int all_dead)
{
	for (uint64_t i = 0; average && i < n; i++) {
		CHECK(average[i] == 0 || fabsf(average[i]) >= FLT_MIN);
		CHECK(!all_dead || first + i < LIVING || average[i] == 0);
	}
}

static void look_at(const sluice_model *model, int decays, int all_dead)
{
	const struct worker *w = model->worker;
	const enum memory_kind memory = w->rules.recipe->memory.kind;

	look_over(compressor_velocity(w->compressor), 0, COUNT, all_dead);
	look_over(w->kept.of[KEPT_FILTER], 0, COUNT, all_dead);
	look_over(memory == MEMORY_LOWPASS ? w->kept.of[KEPT_MEMORY] : NULL, 0, COUNT, all_dead);
	look_over(decays ? worker_residual(w) : NULL, 0, COUNT, all_dead);
	for (uint32_t i = 0; i < model->n_own; i++) {
		const struct shard *s = &model->shards[i];

		look_over(s->averages.velocity, s->at->begin, s->at->span, all_dead);
		look_over(s->averages.variance, s->at->begin, s->at->span, all_dead);
	}
}

TEST_IN_JOB(averages__gradient_stays_zero__become_zero_and_never_denormal, 1)
{
	for (size_t r = 0; r < sizeof(recipes) / sizeof(*recipes); r++) {
		const int decays = strstr(recipes[r], "decay=0.5") != NULL;
		float params[COUNT] = { 0 }, grad[COUNT];

		check_of = recipes[r];
		sluice_model *model = rank_open(job, params, attributes(recipes[r], 3));
		CHECK_OK(sluice_set(model, SLUICE_LR, 0.01f));
		for (uint64_t step = 1; step <= STEPS; step++) {
			for (int i = 0; i < COUNT; i++)
				grad[i] = step == 1 || i < LIVING ? noise(3, 0, step, (uint64_t)i) :
								    0;
			CHECK_OK(sluice_push(model, grad));
			CHECK_OK(sluice_pull(model, params));
			look_at(model, decays, step == STEPS);
		}
		sluice_model_close(&model);
	}
}

TEST(shrunk__not_too_small__stays)
{
	const float stays[] = {
		1, -1, AVERAGE_LEAST, -AVERAGE_LEAST, FLT_MAX, INFINITY, -INFINITY
	};

	for (size_t i = 0; i < sizeof(stays) / sizeof(*stays); i++)
		assert_true(shrunk(stays[i]) == stays[i]);
	assert_true(isnan(shrunk(NAN)) && isnan(shrunk_square(NAN)));
	assert_true(shrunk(-0x1.fffffep-101f) == 0 && shrunk(0x1p-149f) == 0);
	assert_true(shrunk_square(FLT_MIN) == FLT_MIN && shrunk_square(FLT_MIN / 2) == 0);
}
