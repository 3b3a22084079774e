/* SPDX-License-Identifier: BSD-3-Clause
 * Pushing in ranges: the set of pushed ranges; the same bits as one push of the whole, for all
 * recipes and any order; early sending if coordinates are selected independently; refusals. */
#include "base/error.h"
#include "four_tensors.h"
#include "model/tiling.h"
#include "worker/lane.h"
#include "worker/state.h"
#include "same_bits.h"
#include "thinned.h"
#include "cases.h"
#include <math.h>
#include <string.h>

/* ---- which coordinates have arrived ------------------------------------------ */

TEST(tiling__ranges_in_any_order__agrees_with_a_map_of_single_coordinates)
{
	enum { N = 64, ROUNDS = 500 };
	for (uint64_t round = 0; round < ROUNDS; round++) {
		struct tiling t = { 0 };
		int there[N] = { 0 };
		if (thinned(round, 10))
			continue;
		for (uint64_t i = 0; i < 60; i++) {
			uint64_t begin = (uint64_t)((noise(1, round, i, 0) + 1) * N / 2) % N;
			uint64_t length = 1 + (uint64_t)((noise(1, round, i, 1) + 1) * 3) % 6;
			uint64_t end = begin + length < N ? begin + length : N, taken = N,
				 first = begin;
			while (first < end && !there[first])
				first++;
			int rc = tiling_add(&t, begin, end, &taken);
			assert_int_equal(rc, first < end ? SLUICE_EINVAL : 0);
			if (rc)
				assert_int_equal(taken, first);
			for (uint64_t j = begin; j < end && !rc; j++)
				there[j] = 1;
			uint64_t gap = 0;
			while (gap < N && there[gap])
				gap++;
			assert_int_equal(tiling_gap(&t), gap);
			for (uint64_t j = begin; j < N; j++) {
				uint64_t covered = begin;
				while (covered <= j && there[covered])
					covered++;
				assert_int_equal(tiling_covers(&t, begin, j + 1), covered > j);
			}
		}
		tiling_clear(&t);
		assert_int_equal(tiling_gap(&t), 0);
		tiling_free(&t);
	}
}

/* ---- the same bits --------------------------------------------------------- */

static const char *const recipes[] = {
	"up=all down=all",
	"up=all,bf16 down=all,f16 memory=residual",
	"up=all down=topk(0.05) nonfinite=zero",
	"up=topk(0.01) down=all",
	"up=topk(0.01) down=topk(0.05)",
	"up=topk(0.02) down=topk(0.1),bf16 signal=momentum(0.9)",
	("up=topk(0.02),f16 signal=momentum(0.9),nomask memory=residual(outside) "
	 "update=nesterov(0.5)"),
	"up=topk(0.01) down=topk(0.02) warmup=4 nonfinite=zero",
	"up=topk(0.1) down=topk(0.1) memory=none",
	"up=threshold(0.02) down=threshold(0.01)",
	"up=threshold(0.05),bf16 down=all signal=momentum(0.5) dense=*.bias",
	"up=threshold(0.0001) down=all memory=none",
	"up=gaussiank(0.05) down=gaussiank(0.1)",
	"up=random(0.05) down=all",
	"up=variance(1.5) down=all",
	"up=randk(0.05) down=randk(0.1)",
	"up=all,uniform(3,64) down=topk(0.1),uniform(2)",
	"up=all,grid(4) down=all,round(0.01)",
	"up=topk(0.05) down=all signal=gradient,noise(0.1) memory=lowpass(0.3)",
	"up=all,uniform(2) down=all memory=twostep(0.4) update=ema(0.2) nonfinite=zero",
	"up=threshold(0.1) down=topk(0.1) signal=igt(0.5) update=ema(0.5) reset=3",
	"up=all,uniform(4) down=all signal=momentum(0.5),noise(0.1) reset=2",
};
enum { RECIPES = sizeof recipes / sizeof *recipes, STEPS = 6 };

/* Cuts the gradient in other ways in each step. */
static void push_in_pieces(struct side *s, const float *grad)
{
	static const uint64_t pieces[] = { 1, 2, 5, 37, COUNT };
	const uint64_t n = pieces[(s->step + (uint64_t)s->rank) % 5];
	const uint64_t stride = n == 37 ? 10 : 1; /* 37 and 10 have no common divisor */

	for (uint64_t i = 0; i < n; i++) {
		const uint64_t j = s->step % 2 ? n - 1 - i * stride % n : i * stride % n;
		const uint64_t begin = COUNT * j / n, end = COUNT * (j + 1) / n;
		float bucket[COUNT];

		memcpy(bucket, grad + begin, (end - begin) * sizeof *bucket);
		CHECK_OK(sluice_push_range(s->model, bucket, begin, end - begin));
		memset(bucket, 0x7f, sizeof bucket); /* the caller may reuse it */
	}
}

static int zeroes(const struct side *s)
{
	return strstr(s->attr.recipe, "nonfinite=zero") != NULL;
}

static void gradient(float *grad, const float *params, const struct side *s)
{
	side_gradient(grad, params, s);
	if (zeroes(s))
		grad[100 * s->step] = s->step % 2 ? NAN : INFINITY;
}

static void count_zeroed(struct side *one, struct side *other)
{
	sluice_model_stats stats = { .size = sizeof stats };

	CHECK_OK(sluice_stats(one->model, &stats));
	CHECK(stats.nonfinite_elements == (zeroes(one) ? one->step : 0));
}

TEST_IN_JOB(push_range__any_cut_and_order__same_bits_as_one_push, 1, 3)
{
	static const struct way whole = { 0 }, in_pieces = { .push = push_in_pieces };

	for (size_t i = 0; i < RECIPES * 2; i++)
		if (!thinned(i + 1, 2))
			same_bits(job,
				  &(struct training){
					  .attr = attributes(recipes[i / 2], i % 2 ? 7 : 1),
					  .steps = STEPS,
					  .gradient = gradient,
					  .after = count_zeroed },
				  &whole, &in_pieces);
}

/* ---- early sending --------------------------------------------------------- */

static int posted(const sluice_model *model)
{
	int n = 0;
	for (uint32_t s = 0; s < model->layout.n_shards; s++)
		n += lane_next_seq(model->worker->lanes, s) > step_of(model).steps + 1;
	return n;
}

TEST_IN_JOB(push_range__shard_complete__its_message_goes_at_once_where_it_can, 2)
{
	enum { SHARDS = 3 }; /* 500 coordinates each */
	static const struct {
		const char *recipe;
		int early;
	} cases[] = {
		{ "up=all down=all", 1 },
		{ "up=threshold(0.01) down=all", 1 },
		{ "up=topk(0.01) down=all", 0 },
		{ "up=gaussiank(0.01) down=all", 0 },
		{ "up=all,uniform(4) down=all", 1 },
		{ "up=all,grid(4) down=all", 0 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		float params[COUNT] = { 0 }, grad[COUNT];
		int early = cases[i].early;
		sluice_model *model = rank_open(job, params, attributes(cases[i].recipe, SHARDS));
		fill_gradient(grad, 0, 1, params);
		CHECK_OK(sluice_push_range(model, grad + 999, 999, 501));
		CHECK(posted(model) == early); /* shard 2 */
		CHECK_OK(sluice_push_range(model, grad, 0, 499));
		CHECK(posted(model) == early);
		CHECK_OK(sluice_push_range(model, grad + 499, 499, 2));
		CHECK(posted(model) == 2 * early); /* and shard 0 */
		CHECK_OK(sluice_push_range(model, grad + 501, 501, 498));
		CHECK(posted(model) == SHARDS);
		CHECK_OK(sluice_pull(model, params));
		check_same(job, params, sizeof params);
		sluice_model_close(&model);
	}
}

/* ---- refusals -------------------------------------------------------------- */

TEST_IN_JOB(push_range__overlap_gap_outside_or_out_of_order__refused_by_name_nothing_changes, 1, 2)
{
	float params[COUNT] = { 0 }, grad[COUNT], residual[COUNT];
	sluice_model *model = rank_open(job, params,
					attributes("up=topk(0.01) down=topk(0.05)", 2));
	fill_gradient(grad, rank, 1, params);
	log_capture();
	CHECK(sluice_push_range(model, grad, COUNT - 5, 6) == SLUICE_EINVAL &&
	      error_says("outside", NULL));
	CHECK(sluice_push_range(model, grad, UINT64_MAX, 2) == SLUICE_EINVAL);
	CHECK(sluice_push_range(model, grad, 2, UINT64_MAX) == SLUICE_EINVAL);
	CHECK(sluice_push_range(model, grad, 7, 0) == SLUICE_EINVAL && error_says("empty", NULL));
	CHECK(sluice_push_range(model, NULL, 0, 5) == SLUICE_EINVAL);
	CHECK(sluice_push_range(NULL, grad, 0, 5) == SLUICE_EINVAL);
	CHECK_OK(sluice_set(model, SLUICE_LR, 0.05f)); /* the step has not begun */
	CHECK_OK(sluice_push_range(model, grad + 100, 100, 200));
	memcpy(residual, worker_residual(model->worker), sizeof residual);
	CHECK(sluice_push_range(model, grad + 50, 50, 51) == SLUICE_EINVAL &&
	      error_says("coordinate 100", "[50, 101)"));
	CHECK(sluice_push_range(model, grad + 299, 299, 9) == SLUICE_EINVAL &&
	      error_says("coordinate 299", NULL));
	CHECK(sluice_push_range(model, grad + 0, 0, COUNT) == SLUICE_EINVAL);
	CHECK(sluice_push(model, grad) == SLUICE_EINVAL &&
	      error_says("do not cover coordinate 0", NULL));
	CHECK(sluice_pull(model, params) == SLUICE_EINVAL &&
	      error_says("sluice_pull:", "do not cover coordinate 0"));
	CHECK(sluice_set(model, SLUICE_LR, 0.5f) == SLUICE_EINVAL &&
	      error_says("a single rate", NULL));
	CHECK(step_of(model).steps == 0);
	CHECK(!memcmp(residual, worker_residual(model->worker),
		      sizeof residual)); /* nothing changed */
	CHECK_OK(sluice_push_range(model, grad, 0, 100));
	CHECK(sluice_pull(model, params) == SLUICE_EINVAL &&
	      error_says("do not cover coordinate 300", NULL));
	CHECK_OK(sluice_push_range(model, grad + 300, 300, COUNT - 300));
	CHECK(sluice_push_range(model, grad, 0, 100) == SLUICE_EINVAL &&
	      error_says("not pulled yet", NULL));
	CHECK(sluice_push(model, grad) == SLUICE_EINVAL);
	CHECK_OK(sluice_pull(model, params));
	CHECK(sluice_pull(model, params) == SLUICE_EINVAL &&
	      error_says("nothing was pushed", NULL));
	CHECK_OK(sluice_push(model, grad)); /* the next step may use either way */
	CHECK_OK(sluice_pull(model, params));
	check_same(job, params, sizeof params);
	sluice_set_log(NULL, NULL);
	sluice_model_close(&model);
}

TEST_IN_JOB(push_range__recipe_needs_the_whole_gradient__refused_by_name, 2)
{
	static const struct {
		const char *recipe, *key;
	} cases[] = {
		{ "up=topk(0.01) signal=innovation", "signal=innovation" },
		{ "up=all down=all when=every(2)", "when=" },
		{ "signal=storm(0.5) update=ema(0.5)", "signal=storm" },
	};
	for (int i = 0; i < 3; i++) {
		float params[COUNT] = { 0 }, grad[COUNT];
		sluice_model *model = rank_open(job, params, attributes(cases[i].recipe, 2));
		fill_gradient(grad, 0, 1, params);
		log_capture();
		CHECK(sluice_push_range(model, grad, 0, COUNT) == SLUICE_EINVAL &&
		      error_says(cases[i].key, "sluice_push"));
		sluice_set_log(NULL, NULL);
		if (i == 2)
			CHECK_OK(sluice_push_pair(model, grad, grad));
		else
			CHECK_STEP(model, grad, params);
		sluice_model_close(&model);
	}
}

/* Rank 1 has a NaN in its second range. The job ends on all ranks, which learn where the NaN
 * was. */
TEST_IN_JOB(push_range__nan_in_a_later_range__ends_the_job_naming_tensor_and_index, 2)
{
	float params[COUNT] = { 0 }, grad[COUNT];
	sluice_model *model = rank_open(job, params, attributes("up=threshold(0.01) down=all", 2));
	fill_gradient(grad, rank, 1, params);
	if (rank)
		grad[1007] = NAN;
	log_capture();
	int rc = sluice_push_range(model, grad, 0, 1003);
	CHECK(!rank || !rc);
	if (!rc)
		rc = sluice_push_range(model, grad + 1003, 1003, COUNT - 1003);
	if (rank) {
		CHECK(rc == SLUICE_ENUMERIC && error_says("index 7 of tensor b1.bias", "rank 1"));
		CHECK(sluice_push_range(model, grad, 0, 1) != 0);
	} else {
		CHECK((rc ? rc : sluice_pull(model, params)) == SLUICE_EPEER &&
		      error_says("index 7 of tensor b1.bias", "rank 1"));
	}
	sluice_model_close(&model);
}
