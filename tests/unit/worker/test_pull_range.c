/* SPDX-License-Identifier: BSD-3-Clause
 * Pulling in ranges: the same bits as one pull, for all kinds of recipes and any order; a range
 * that continues before others have arrived; the progress thread that continues while the program
 * computes; and refusals. */
#include "four_tensors.h"
#include "same_bits.h"
#include "thinned.h"
#include "job/progress_token.h"
#include "worker/lane.h"
#include "worker/state.h"
#include "cases.h"
#include <stdatomic.h>
#include <string.h>

static const char *const recipes[] = {
	"up=all down=all",
	"up=all down=all update=none",
	"up=topk(0.01) down=topk(0.05)",
	"up=topk(0.02) down=topk(0.1),bf16 signal=momentum(0.9) update=none",
	"up=threshold(0.02) down=all update=momentum(0.5)",
	"up=all,uniform(3,64) down=topk(0.1),uniform(2)",
	"up=topk(0.05) down=all signal=igt(0.5) update=ema(0.5)",
	"up=cyclic(0.1) down=all",
	"up=sketch(0.05,5,1.6,4) down=all",
	"up=topk(0.1) down=all when=every(2)",
	"up=all down=all update=average when=every(3)",
	"up=all down=all signal=innovation when=lazy(10,0.1)",
};
enum { RECIPES = sizeof recipes / sizeof *recipes, STEPS = 4 };

/* Waits in other ways in each step. Coordinates of a completed range must not change any more. */
static void pull_in_pieces(struct side *s, float *target)
{
	static const uint64_t pieces[] = { 1, 2, 7, 37 };
	const uint64_t n = pieces[(s->step + (uint64_t)s->rank) % 4], stride = n == 37 ? 10 : 1;
	float seen[COUNT];

	CHECK_OK(sluice_pull_begin(s->model, &(sluice_vector){ .data = target }));
	for (uint64_t i = 0; i < n; i++) {
		const uint64_t j = s->step % 2 ? n - 1 - i * stride % n : i * stride % n;
		const uint64_t begin = COUNT * j / n, end = COUNT * (j + 1) / n;

		CHECK_OK(sluice_pull_range(s->model, begin, end - begin));
		memcpy(seen + begin, target + begin, (end - begin) * sizeof *seen);
	}
	CHECK(!memcmp(seen, target, sizeof seen));
}

static void raise_flag(struct side *s)
{
	sluice_raise(s->model, s->rank ? 0 : 1u << s->step);
}

static void check_flag(struct side *one, struct side *other)
{
	CHECK(step_of(other->model).raised == 1u << one->step || strstr(check_of, "every"));
}

TEST_IN_JOB(pull_range__any_cut_and_order__same_bits_as_one_pull, 1, 3)
{
	static const struct way whole = { 0 }, in_pieces = { .pull = pull_in_pieces };

	for (size_t i = 0; i < RECIPES * 2; i++)
		if (!thinned(i + 1, 2))
			same_bits(job,
				  &(struct training){
					  .attr = attributes(recipes[i / 2], i % 2 ? 7 : 1),
					  .steps = STEPS,
					  .before = raise_flag,
					  .after = check_flag },
				  &whole, &in_pieces);
}

/* ---- before others are there ----------------------------------------------- */

enum { SHARD = COUNT / 2 };

/* Returns the last publication of shard 1 that was handled. */
static uint64_t taken(sluice_model *model)
{
	progress_take(model->job);
	const uint64_t have = lane_have(model->worker->lanes, 1);
	progress_release(model->job);
	return have;
}

/* Rank 1 pushes shard 1 only after rank 0 has pulled shard 0. */
static void go_on_early(sluice_job *job, int rank, void *argument)
{
	atomic_int *pulled = argument;
	float params[COUNT] = { 0 }, grad[COUNT];
	sluice_model_attr attr = attributes("up=all down=all update=sgd memory=none", 2);
	attr.lr = 1;
	sluice_model *model = rank_open(job, params, attr);
	for (int step = 1; step <= 3; step++) {
		for (int i = 0; i < COUNT; i++)
			grad[i] = (float)(rank + 1);
		CHECK_OK(sluice_push_range(model, grad, 0, SHARD));
		for (int waited = 0; rank && atomic_load(pulled) < step; waited++) {
			CHECK(waited < 60000);
			sleep_ms(1);
		}
		CHECK_OK(sluice_push_range(model, grad + SHARD, SHARD, SHARD));
		CHECK_OK(sluice_pull_begin(model, &(sluice_vector){ .data = params }));
		CHECK_OK(sluice_pull_range(model, 10, SHARD - 10));
		CHECK(params[10] == -1.5f * (float)step);
		if (!rank)
			atomic_store(pulled, step);
		/* The rest arrives without a call of this rank. */
		for (int waited = 0; taken(model) < (uint64_t)step; waited++) {
			CHECK(waited < 60000);
			sleep_ms(1);
		}
		CHECK(step_of(model).steps == (uint64_t)step - 1);
		CHECK_OK(sluice_pull_range(model, 0, 10));
		CHECK_OK(sluice_pull_range(model, SHARD, SHARD));
		CHECK(params[COUNT - 1] == -1.5f * (float)step && params[0] == params[10]);
		CHECK(step_of(model).steps == (uint64_t)step);
	}
	sluice_model_close(&model);
}

TEST(pull_range__of_a_shard_that_is_there__does_not_wait_for_others)
{
	run_in_job(2, go_on_early, shared_memory(sizeof(atomic_int)));
}

/* ---- refusals -------------------------------------------------------------- */

TEST_IN_JOB(calls__out_of_order_or_range__are_refused, 2)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 0 };
	sluice_model *model = rank_open(job, params, attributes("up=topk(0.1) down=all", 3));
	log_capture();
	CHECK(sluice_pull_begin(NULL, &(sluice_vector){ .data = params }) == SLUICE_EINVAL);
	CHECK(sluice_pull_begin(model, &(sluice_vector){ .data = params }) == SLUICE_EINVAL);
	CHECK(error_says("nothing was pushed", NULL));
	CHECK(sluice_pull_range(model, 0, 1) == SLUICE_EINVAL);
	CHECK(error_says("call sluice_pull_begin first", NULL));
	CHECK_OK(sluice_push(model, grad));
	CHECK(sluice_pull_range(model, 0, 1) == SLUICE_EINVAL);
	CHECK(sluice_pull_begin(model, &(sluice_vector){ .data = NULL }) == SLUICE_EINVAL);
	CHECK_OK(sluice_pull_begin(model, &(sluice_vector){ .data = params }));
	CHECK(sluice_pull_range(model, 0, 0) == SLUICE_EINVAL);
	CHECK(sluice_pull_range(model, COUNT, 1) == SLUICE_EINVAL);
	CHECK(sluice_pull_range(model, 1, COUNT) == SLUICE_EINVAL);
	CHECK(error_says("outside of the model's 1500", NULL));
	CHECK_OK(sluice_pull_range(model, 0, 700));
	CHECK(sluice_pull_range(model, 600, 200) == SLUICE_EINVAL);
	CHECK(error_says("coordinate 600 of the range [600, 800)", NULL));
	CHECK(sluice_pull(model, params) == SLUICE_EINVAL);
	CHECK(error_says("coordinate 700 (perhaps others, too) was not waited for", NULL));
	CHECK(sluice_push(model, grad) == SLUICE_EINVAL);
	CHECK(sluice_push_range(model, grad, 0, 1) == SLUICE_EINVAL);
	CHECK(sluice_pull_begin(model, &(sluice_vector){ .data = params }) == SLUICE_EINVAL);
	CHECK(sluice_checkpoint(model, "/nonexistent") == SLUICE_EINVAL);
	CHECK_OK(sluice_pull_range(model, 700, COUNT - 700));
	CHECK(sluice_pull_range(model, 0, 1) == SLUICE_EINVAL);
	CHECK_OK(sluice_push(model, grad));
	CHECK_OK(sluice_pull_begin(model, &(sluice_vector){ .data = params }));
	sluice_model_close(&model); /* in the middle of a pull */
}

/* Rank 1 closes the model after one step, and rank 0 waits for a range of the second step. */
TEST_IN_JOB(pull_range__that_nobody_can_complete__fails_naming_who_closed, 2)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 0 };
	sluice_model *model = rank_open(job, params, attributes("up=topk(0.1) down=all", 2));
	log_capture();
	for (int step = 0; step < 2 - rank; step++) {
		CHECK_OK(sluice_push(model, grad));
		CHECK_OK(sluice_pull_begin(model, &(sluice_vector){ .data = params }));
		int rc = sluice_pull_range(model, 0, COUNT);
		CHECK(rc == (step ? SLUICE_EPEER : 0));
		CHECK(!step || error_says("rank 1 (node n1) closed model 0 after 1 steps", NULL));
	}
	sluice_model_close(&model);
}
