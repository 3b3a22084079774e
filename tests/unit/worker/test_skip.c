/* SPDX-License-Identifier: BSD-3-Clause
 * A step that all workers leave out together because one of them has a gradient with NaN or
 * infinity (nonfinite=skip-all): as if no worker had computed it. And recipes that need the whole
 * gradient before anything is added, pushed in ranges: the bits of a push of the whole. */
#include "four_tensors.h"
#include "ranks.h"
#include "thinned.h"
#include "worker/state.h"
#include "cases.h"
#include <math.h>
#include <string.h>

enum { STEPS = 6 };

/* ---- pushes ------------------------------------------------------------------ */

enum way { WHOLE, RANGES, SEGMENTS, WAYS };

static void push(sluice_model *model, const float *grad, enum way way)
{
	static const uint64_t cuts[] = { 0, 1, 700, 1499, COUNT };
	float bucket[COUNT];
	if (way == WHOLE)
		CHECK_OK(sluice_push(model, grad));
	for (int i = 3; i >= 0 && way == RANGES; i--) {
		const uint64_t n = cuts[i + 1] - cuts[i];
		memcpy(bucket, grad + cuts[i], n * sizeof *grad);
		CHECK_OK(sluice_push_range(model, bucket, cuts[i], n));
		memset(bucket, 0x7f, sizeof bucket); /* the caller may reuse it */
	}
	if (way == SEGMENTS) {
		memcpy(bucket, grad, sizeof bucket);
		const sluice_segment pieces[] = { { bucket, 3, SLUICE_F32, 0 },
						  { bucket + 3, COUNT - 3, SLUICE_F32, 0 } };
		CHECK_OK(sluice_push_vector(model, IN_PIECES(pieces, 2)));
	}
}

static void pull(sluice_model *model, float *params, float *mean, int none, int in_ranges)
{
	if (in_ranges) {
		CHECK_OK(
			sluice_pull_begin(model, &(sluice_vector){ .data = none ? mean : params }));
		CHECK_OK(sluice_pull_range(model, 900, COUNT - 900));
		CHECK_OK(sluice_pull_range(model, 0, 900));
	} else {
		CHECK_OK(sluice_pull(model, none ? mean : params));
	}
	for (int i = 0; i < COUNT && none; i++)
		params[i] -= 0.1f * mean[i];
}

/* ---- steps that are skipped --------------------------------------------------- */

static const char *const skipping[] = {
	"up=all down=all nonfinite=skip-all",
	"up=all down=all update=none nonfinite=skip-all",
	"up=topk(0.02) down=topk(0.1) signal=momentum(0.9) update=momentum(0.5) nonfinite=skip-all",
	"up=threshold(0.02) down=all update=nesterov(0.9) clip=0.5 nonfinite=skip-all",
	"up=cyclic(0.1) down=all nonfinite=skip-all",
	"up=topk(0.05) down=all signal=igt(0.5) update=ema(0.5) nonfinite=skip-all",
	"up=randk(0.05) down=all signal=gradient,noise(0.1) nonfinite=skip-all",
	"up=topk(0.1) down=topk(0.2) reset=2 warmup=3 nonfinite=skip-all",
};
enum { SKIPPING = sizeof skipping / sizeof *skipping };

/* Model b gets, between the gradients of model a, bad gradients on some rank. */
TEST_IN_JOB(push__spoilt_on_one_rank__is_skipped_on_all_and_changes_nothing, 1, 3)
{
	const int ranks = sluice_size(job);
	for (unsigned c = 0; c < SKIPPING * WAYS; c++) {
		float params[2][COUNT] = { { 0 } }, grad[COUNT], mean[COUNT], spoilt[COUNT];
		const int none = strstr(skipping[c / WAYS], "update=none") != NULL;
		sluice_model *a = NULL, *b = NULL;
		sluice_model_attr attr = attributes(skipping[c / WAYS], 3);
		if (thinned(c, 4))
			continue;
		check_of = skipping[c / WAYS];
		CHECK_OK(sluice_model_open(job, &attr, params[0], &a));
		CHECK_OK(sluice_model_open(job, &attr, params[1], &b));
		for (uint64_t step = 1; step <= STEPS; step++) {
			fill_gradient(grad, rank, step, params[0]);
			for (uint64_t bad = 0; bad < step % 3; bad++) {
				memcpy(spoilt, grad, sizeof spoilt);
				if (rank == (int)(step + bad) % ranks)
					spoilt[bad ? 0 : COUNT - 1] = bad ? NAN : -INFINITY;
				push(b, spoilt, c % WAYS);
				CHECK(step_of(b).skipped);
				sluice_raise(b, 2); /* sent with the next exchange */
				memset(mean, 0x7f, sizeof mean);
				pull(b, params[1], mean, none, (int)(step + bad) % 2);
				CHECK(!none || (mean[0] == 0 && mean[COUNT - 1] == 0));
				CHECK(step_of(b).steps == step - 1 && !step_of(b).raised);
				CHECK(!memcmp(params[0], params[1], sizeof params[0]));
			}
			push(a, grad, WHOLE);
			push(b, grad, c % WAYS);
			CHECK(!step_of(b).skipped);
			pull(a, params[0], mean, none, 0);
			pull(b, params[1], mean, none, step % 2);
			CHECK(!memcmp(params[0], params[1], sizeof params[0]));
			CHECK(step_of(b).raised == (step % 3 ? 2 : 0) && step_of(b).steps == step);
		}
		CHECK(a->recipe.memory.kind == MEMORY_NONE ||
		      !memcmp(worker_residual(a->worker), worker_residual(b->worker), sizeof grad));
		sluice_model_stats stats = { .size = sizeof stats };
		CHECK_OK(sluice_stats(b, &stats));
		CHECK(stats.steps == STEPS);
		check_same(job, params[1], none ? 0 : sizeof params[1]);
		sluice_model_close(&b);
		sluice_model_close(&a);
	}
	check_of = NULL;
}

/* With clip=, the sum of squares is the check, also of infinity alone. */
TEST_IN_JOB(push__clipped_and_not_finite__is_left_out_or_named, 1)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY };
	float params[COUNT] = { 0 }, before[COUNT], grad[COUNT];
	sluice_model_stats stats;
	sluice_model *model = rank_open(
		job, params, attributes("up=topk(0.1) down=all clip=1 nonfinite=skip", 2));

	(void)rank;
	for (uint64_t step = 1; step <= 3; step++) {
		fill_gradient(grad, 0, step, params);
		CHECK_STEP(model, grad, params); /* some values wait in the residual */
		memset(grad, 0, sizeof grad);
		memcpy(before, params, sizeof before);
		grad[COUNT - 1] = bad[step - 1];
		CHECK_STEP(model, grad, params);
		CHECK(!memcmp(before, params, sizeof before));
		stats.size = sizeof stats;
		CHECK_OK(sluice_stats(model, &stats));
		CHECK(stats.nonfinite_elements == step);
	}
	sluice_model_close(&model);
	model = rank_open(job, params, attributes("up=topk(0.1) down=all clip=1", 2));
	log_capture();
	CHECK(sluice_push(model, grad) == SLUICE_ENUMERIC);
	CHECK(error_says("is infinite at", NULL));
	sluice_model_close(&model);
}

/* A worker that has no gradients left takes part in the decision. */
TEST_IN_JOB(join__of_a_skipped_step__there_is_more, 2)
{
	float params[COUNT] = { 0 }, before[COUNT], grad[COUNT];
	sluice_model_attr attr = attributes("up=topk(0.1) down=all nonfinite=skip-all", 2);
	int more = 0;
	attr.uneven = 1;
	sluice_model *model = rank_open(job, params, attr);
	for (int step = 1; step <= 3; step++) {
		memcpy(before, params, sizeof before);
		fill_gradient(grad, rank, (uint64_t)step, params);
		if (step == 2)
			grad[77] = NAN;
		if (rank) {
			CHECK_OK(sluice_idle_step(model, params, &more));
			CHECK(more); /* also after a skipped step */
		} else {
			CHECK_STEP(model, grad, params);
		}
		CHECK(step_of(model).skipped == (step == 2));
		CHECK(!memcmp(before, params, sizeof before) == (step == 2));
	}
	CHECK_OK(sluice_idle_step(model, params, &more));
	CHECK(!more && step_of(model).steps == 3);
	check_same(job, params, sizeof params);
	sluice_model_close(&model);
}

TEST(recipe__skip_all_where_workers_step_alone__is_refused)
{
	static const char *const wrong[] = { "up=all down=all when=every(2) nonfinite=skip-all",
					     "up=all down=all when=async(4) nonfinite=skip-all",
					     "up=all update=average nonfinite=skip-all" };
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		sluice_model_attr attr = attributes(wrong[i], 1);
		assert_int_equal(sluice_plan(&attr, 2, 0, SLUICE_PLAN_TEXT, NULL, 0),
				 SLUICE_EINVAL);
	}
}

/* ---- ranges that are kept until all have arrived ------------------------------- */

static const char *const keeping[] = {
	"up=topk(0.02) down=all clip=0.5",
	"up=all down=all clip=2 update=momentum(0.9)",
	"up=threshold(0.02) down=topk(0.1) clip=0.25 nonfinite=zero",
	"up=topk(0.02) down=all nonfinite=skip",
	"up=topk(0.02) down=all signal=momentum(0.9) clip=1 nonfinite=skip",
	"up=all,grid(4) down=all clip=1 signal=gradient,noise(0.1)",
};
enum { KEEPING = sizeof keeping / sizeof *keeping };

TEST_IN_JOB(push_range__recipe_that_needs_the_whole_gradient__same_bits_as_one_push, 1, 2)
{
	for (unsigned c = 0; c < KEEPING; c++) {
		float params[2][COUNT] = { { 0 } }, grad[COUNT];
		sluice_model *a = NULL, *b = NULL;
		sluice_model_attr attr = attributes(keeping[c], 3);
		check_of = keeping[c];
		CHECK_OK(sluice_model_open(job, &attr, params[0], &a));
		CHECK_OK(sluice_model_open(job, &attr, params[1], &b));
		for (uint64_t step = 1; step <= STEPS; step++) {
			fill_gradient(grad, rank, step, params[0]);
			if (strstr(keeping[c], "nonfinite") && step % 2)
				grad[rank ? 5 : 1400] = rank ? NAN : INFINITY;
			push(a, grad, WHOLE);
			push(b, grad, rank ? RANGES : (enum way)(step % WAYS));
			CHECK_OK(sluice_pull(a, params[0]));
			CHECK_OK(sluice_pull(b, params[1]));
			CHECK(!memcmp(params[0], params[1], sizeof params[0]));
			CHECK(a->recipe.memory.kind == MEMORY_NONE ||
			      !memcmp(worker_residual(a->worker), worker_residual(b->worker),
				      sizeof grad));
		}
		sluice_model_stats had = { .size = sizeof had }, has = { .size = sizeof has };
		CHECK_OK(sluice_stats(a, &had));
		CHECK_OK(sluice_stats(b, &has));
		CHECK(has.memory_bytes == had.memory_bytes + sizeof grad); /* memory of the copy */
		CHECK(has.nonfinite_elements == had.nonfinite_elements);
		sluice_model_close(&b);
		sluice_model_close(&a);
	}
	check_of = NULL;
}

TEST_IN_JOB(push_range__of_16_bits_that_are_clipped__same_bits_as_one_push, 2)
{
	static uint16_t grad[COUNT];
	float params[2][COUNT] = { { 0 } };
	sluice_model *a = NULL, *b = NULL;
	sluice_model_attr attr = attributes("up=all down=all clip=1", 1);
	attr.grad_type = SLUICE_BF16;
	CHECK_OK(sluice_model_open(job, &attr, params[0], &a));
	CHECK_OK(sluice_model_open(job, &attr, params[1], &b));
	for (int i = 0; i < COUNT; i++)
		grad[i] = (uint16_t)(0x3c00 + 37 * i % 0x300 + 0x8000 * (i % 2) + rank);
	CHECK_OK(sluice_push(a, grad));
	CHECK_OK(sluice_push_range(b, grad + 1, 1, COUNT - 1));
	CHECK_OK(sluice_push_range(b, grad, 0, 1));
	CHECK_OK(sluice_pull(a, params[0]));
	CHECK_OK(sluice_pull(b, params[1]));
	CHECK(!memcmp(params[0], params[1], sizeof params[0]) && params[0][0] != 0);
	sluice_model_close(&b);
	sluice_model_close(&a);
}
