/* SPDX-License-Identifier: BSD-3-Clause
 * Arguments that a caller can get wrong without the compiler noticing: vectors that are not aligned
 * to their elements, sizes of structs that no header has, and impossible counts. All are refused at
 * once, by name, and the job continues. */
#include "ranks.h"
#include "sluice.h"
#include "sluice_estimate.h"
#include "sluice_region.h"
#include "sluice_select.h"
#include "cases.h"
#include <string.h>

enum { COUNT = 64 };

/* An address that is one byte beyond one aligned for every type. */
static _Alignas(16) char memory[COUNT * sizeof(double) + 16];
#define CROOKED ((void *)(memory + 1))

static int refused(int rc, const char *function, const char *what)
{
	return rc == SLUICE_EINVAL && error_says(function, what);
}

/* ---- vectors ----------------------------------------------------------------- */

static sluice_model *open_model(sluice_job *job, const char *recipe, int grad_type, int param_type,
				void *params)
{
	sluice_model *model = OPEN(job, params, .count = COUNT, .recipe = recipe,
				   .grad_type = grad_type, .param_type = param_type);
	return model;
}

static void refuse_of_a_step(sluice_job *job)
{
	static float params[COUNT], grad[COUNT];
	sluice_model *model = open_model(job, "up=all down=all", 0, 0, params);
	size_t bytes;

	CHECK(refused(sluice_push(model, CROOKED), "sluice_push: grad", "not aligned"));
	CHECK(refused(sluice_push_range(model, CROOKED, 0, 1), "sluice_push_range: grad",
		      "not aligned"));
	CHECK(refused(sluice_point(model, CROOKED, grad), "sluice_point: params", "not aligned"));
	CHECK(refused(sluice_point(model, params, CROOKED), "sluice_point: point", "not aligned"));
	CHECK_OK(sluice_push(model, grad));
	CHECK(refused(sluice_pull(model, CROOKED), "sluice_pull: params", "not aligned"));
	CHECK(refused(sluice_pull_begin(model, &(sluice_vector){ .data = CROOKED }),
		      "sluice_pull_begin: params", "not aligned"));
	CHECK_OK(sluice_pull(model, params));
	CHECK_OK(sluice_state_size(model, &bytes));
	sluice_model_close(&model);

	model = open_model(job, "up=all down=all update=none", SLUICE_BF16, SLUICE_F16, params);
	CHECK(refused(sluice_push(model, CROOKED), "sluice_push: grad", "2 bytes"));
	CHECK_OK(sluice_push(model, memory + 2));
	CHECK(refused(sluice_pull(model, CROOKED), "sluice_pull: mean", "2 bytes"));
	CHECK_OK(sluice_pull(model, memory + 2));
	sluice_model_close(&model);
	memset(memory, 0, sizeof memory);

	model = open_model(job, "up=all down=all", SLUICE_F8_E5M2, 0, params);
	CHECK_OK(sluice_push(model, CROOKED)); /* bytes are always aligned */
	CHECK_OK(sluice_pull(model, params));
	sluice_model_close(&model);

	model = open_model(job, "up=all down=all update=average", 0, 0, params);
	CHECK(refused(sluice_push(model, CROOKED), "sluice_push: grad", "not aligned"));
	sluice_model_close(&model);

	model = open_model(job, "up=all down=all signal=storm(0.1) update=ema(0.1)", 0, 0, params);
	CHECK(refused(sluice_push_pair(model, CROOKED, grad), "sluice_push_pair: grad",
		      "not aligned"));
	CHECK(refused(sluice_push_pair(model, grad, CROOKED), "sluice_push_pair: before",
		      "not aligned"));
	sluice_model_close(&model);
}

TEST_IN_JOB(step__vector_that_is_not_aligned__is_refused_by_name, 1)
{
	const sluice_model_attr attr = ATTR(.count = COUNT);
	sluice_model *model = NULL;

	log_capture();
	CHECK(refused(sluice_model_open(job, &attr, CROOKED, &model), "sluice_model_open: params",
		      "not aligned"));
	CHECK(refused(sluice_sum(job, CROOKED, 1), "sluice_sum: values", "8 bytes"));
	refuse_of_a_step(job);
}

TEST(no_job__vector_that_is_not_aligned__is_refused_by_name)
{
	float good[4] = { 1, 2, 3, 4 };
	uint32_t index[4];
	uint64_t counts[4] = { 1 };
	double p[4];
	size_t n;
	sluice_histogram *histogram = NULL;
	const sluice_selector_attr attr = { .size = sizeof(attr), .n = 4, .k = 1 };
	sluice_selector *s = NULL;

	log_capture();
	assert_int_equal(sluice_selector_open(&attr, &s), 0);
	assert_true(refused(sluice_select(s, CROOKED, NULL, 1, index, NULL, &n), "sluice_select: x",
			    "4 bytes"));
	assert_true(refused(sluice_select(s, good, NULL, 1, CROOKED, NULL, &n),
			    "sluice_select: index", "4 bytes"));
	assert_true(refused(sluice_select(s, good, NULL, 1, index, CROOKED, &n),
			    "sluice_select: value", "4 bytes"));
	assert_true(refused(sluice_select(s, CROOKED, good, 1, index, good, &n), "sluice_select: x",
			    "4 bytes"));
	assert_true(refused(sluice_select(s, good, CROOKED, 1, index, good, &n),
			    "sluice_select: residual", "4 bytes"));
	sluice_selector_close(&s);
	assert_int_equal(sluice_histogram_open(0, &histogram), 0);
	assert_true(refused(sluice_histogram_add(histogram, CROOKED, 4), "sluice_histogram_add: a",
			    "4 bytes"));
	sluice_histogram_close(&histogram);
	assert_true(refused(sluice_counts_encode(CROOKED, 1, 8, 1, good, sizeof good, &n),
			    "sluice_counts_encode: count", "8 bytes"));
	assert_true(refused(sluice_counts_merge(CROOKED, 1, good, 4), "sluice_counts_merge: count",
			    "8 bytes"));
	assert_true(refused(sluice_estimate_samples(CROOKED, 1, 4, p),
			    "sluice_estimate_samples: sample", "4 bytes"));
	assert_true(refused(sluice_estimate_samples((uint32_t[]){ 0 }, 1, 4, CROOKED),
			    "sluice_estimate_samples: p", "8 bytes"));
	assert_true(refused(sluice_estimate_bits(1, (uint8_t[]){ 0 }, 1, 4, CROOKED),
			    "sluice_estimate_bits: p", "8 bytes"));
	assert_true(refused(sluice_intervals_cut((uint32_t[]){ 0 }, 1, 4, 1, CROOKED, &n),
			    "sluice_intervals_cut: end", "4 bytes"));
	assert_true(refused(sluice_intervals_grow(4, 1, CROOKED, 4, &n),
			    "sluice_intervals_grow: end", "4 bytes"));
	assert_true(refused(sluice_estimate_intervals(CROOKED, counts, 1, 4, p),
			    "sluice_estimate_intervals: end", "4 bytes"));
	assert_true(refused(sluice_estimate_intervals((uint32_t[]){ 4 }, CROOKED, 1, 4, p),
			    "sluice_estimate_intervals: count", "8 bytes"));
}

/* ---- sizes ------------------------------------------------------------------- */

TEST_IN_JOB(open__size_that_ends_inside_a_member__is_refused, 1)
{
	static const char says[] = "which no version of sluice.h has";
	static float params[COUNT];
	sluice_model *model = NULL;
	sluice_model_stats stats;
	sluice_job *second = NULL;

	log_capture();
	for (size_t size = 0; size <= sizeof(sluice_model_attr); size++) {
		const sluice_model_attr attr = { .size = size, .count = COUNT };
		const int fits = size >= offsetof(sluice_model_attr, stream) && size % 8 == 0;
		const int rc = sluice_model_open(job, &attr, params, &model);

		CHECK(fits ? !rc :
			     refused(rc, "sluice_model_open: the size of sluice_model_attr", says));
		sluice_model_close(&model);
	}
	model = open_model(job, "up=all down=all", 0, 0, params);
	for (size_t size = 0; size <= sizeof stats; size++) {
		stats.size = size;
		const int rc = sluice_stats(model, &stats);

		CHECK(size >= sizeof(size_t) && size % 8 == 0 ?
			      !rc :
			      refused(rc, "sluice_stats: the size of sluice_model_stats", says));
	}
	sluice_model_close(&model);
	for (size_t size = 0; size < sizeof(sluice_job_attr); size++) {
		const sluice_job_attr attr = { .size = size };

		if (size >= offsetof(sluice_job_attr, on_failure) && size % 8 == 0)
			continue;
		CHECK(refused(sluice_init(&attr, &second),
			      "sluice_init: the size of sluice_job_attr", says));
	}
}

/* ---- counts ------------------------------------------------------------------ */

TEST_IN_JOB(region_wait__count_that_this_rank_cannot_reach__is_refused_at_once, 2)
{
	sluice_region *region = NULL;

	log_capture();
	CHECK_OK(sluice_region_open(job, 64, &region));
	CHECK(refused(sluice_region_wait(region, rank, 1), "sluice_region_wait", "this rank"));
	CHECK_OK(sluice_region_put(region, rank, 0, "a", 1, 1));
	CHECK_OK(sluice_region_put(region, rank, 0, (char *)sluice_region_base(region) + 8, 8,
				   SLUICE_POSTED | SLUICE_NOTIFY));
	CHECK_OK(sluice_region_put(region, rank, 0, "a", 1, 0));
	CHECK_OK(sluice_region_wait(region, rank, 2));
	CHECK(refused(sluice_region_wait(region, rank, 3), "notified itself only 2 times",
		      "count=3"));
	CHECK_OK(sluice_region_wait(region, rank, 2));
	CHECK_OK(sluice_region_put(region, 1 - rank, 0, "a", 1, 1)); /* notifies the peer, not
									this rank */
	CHECK_OK(sluice_region_wait(region, 1 - rank, 1));
	CHECK(refused(sluice_region_wait(region, rank, 3), "notified itself only 2 times",
		      "count=3"));
	CHECK_OK(sluice_barrier(job));
	sluice_region_close(&region);
}
