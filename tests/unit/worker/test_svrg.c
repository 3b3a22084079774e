/* SPDX-License-Identifier: BSD-3-Clause
 * Asynchronous steps with anchors: they follow the paper, reach the exact minimum with few bits,
 * and pushes for another anchor are counted and not used. */
#include "compress/message.h"
#include "worker/upload.h"
#include "base/error.h"
#include "async_problem.h"
#include "cases.h"
#include <math.h>
#include <string.h>

/* Computes the rounds of the paper for one worker in full precision, in double. */
static void follow_by_hand(double *x, int anchors, int steps, double lr, int accelerated)
{
	double anchor[COUNT], mean[COUNT], y[COUNT] = { 0 }, sum[COUNT];
	uint64_t taken = 0;

	for (int s = 0; s < anchors; s++) {
		double theta = accelerated ? 2.0 / (s + 4) : 1;

		taken++;
		memcpy(anchor, x, sizeof anchor);
		memset(sum, 0, sizeof sum);
		for (int i = 0; i < COUNT; i++) {
			mean[i] = 0;
			for (uint64_t r = 0; r < ROWS; r++)
				mean[i] += ((double)rows_factor(0, r, (uint64_t)i) * x[i] -
					    (double)rows_offset(0, r, (uint64_t)i)) /
					   ROWS;
			if (accelerated)
				x[i] = theta * y[i] + (1 - theta) * anchor[i];
		}
		for (int t = 0; t < steps; t++, taken++) {
			uint64_t row = taken * 7 % ROWS;

			for (int i = 0; i < COUNT; i++) {
				double u = (double)rows_factor(0, row, (uint64_t)i) *
						   (x[i] - anchor[i]) +
					   mean[i];

				if (accelerated) {
					y[i] -= lr / theta * u;
					x[i] = theta * y[i] + (1 - theta) * anchor[i];
				} else {
					x[i] -= lr * u;
				}
				sum[i] += x[i];
			}
		}
		for (int i = 0; i < COUNT && accelerated; i++)
			x[i] = sum[i] / steps;
	}
}

TEST(svrg__one_worker__follows_the_paper)
{
	static const char *const recipes[] = {
		"up=all down=all signal=svrg(9) when=async(1)",
		"up=all down=all signal=svrg(9) update=accelerated when=async(1)"
	};

	for (int accelerated = 0; accelerated < 2; accelerated++) {
		struct plan plan = async_simulate(recipes[accelerated], 1, 4 * 10, 0.05f);
		double x[COUNT] = { 0 };

		follow_by_hand(x, 4, 9, 0.05, accelerated);
		for (int i = 0; i < COUNT; i++)
			assert_true(fabs(x[i] - (double)plan.x[0][i]) < 1e-5);
	}
}

TEST(svrg__four_workers__same_anchor_everywhere_and_the_minimum)
{
	struct plan plan = async_simulate(
		"up=all,uniform(4) down=all,uniform(4) signal=svrg(80) when=async(6)", 4, 21 * 15,
		0.05f);

	assert_int_equal(plan.different, 0);
	assert_int_equal(plan.counted, 2 * 4 * 20 * 15);
	assert_true(plan.staleness_most <= 6);
	assert_true(plan.distance < 1e-10);
}

TEST(svrg__parameters_quantised_themselves__stay_away_from_the_minimum)
{
	struct plan whole = async_simulate(
		"up=all,uniform(8) down=all,uniform(8) signal=svrg(80) when=async(6,whole)", 4,
		21 * 15, 0.05f);
	struct plan difference = async_simulate(
		"up=all,uniform(4) down=all,uniform(4) signal=svrg(80) when=async(6)", 4, 21 * 15,
		0.05f);
	assert_true(difference.up_bytes < whole.up_bytes);
	assert_true(whole.distance > 100 * difference.distance);
}

TEST(svrg__same_job_twice_simulated__same_bits)
{
	static const char recipe[] = "up=random(0.3),uniform(6) down=all,uniform(6) "
				     "signal=svrg(40) update=accelerated when=async(9)";
	struct plan a = async_simulate(recipe, 5, 36, 0.05f),
		    b = async_simulate(recipe, 5, 36, 0.05f);

	assert_memory_equal(a.x, b.x, sizeof a.x);
}

enum { WRONG_STEP = 4 };

/* Added to the anchor number in this rank's pushes, so that it is wrong. */
static __thread uint32_t too_many;
struct message __real_upload_head(const struct worker *w, uint32_t shard);
struct message __wrap_upload_head(const struct worker *w, uint32_t shard);

struct message __wrap_upload_head(const struct worker *w, uint32_t shard)
{
	struct message m = __real_upload_head(w, shard);

	m.anchor += too_many;
	return m;
}

static int step_with_a_wrong_anchor(sluice_job *job, sluice_model *model, uint64_t at,
				    float *params)
{
	int rc;

	too_many = sluice_rank(job) == 1 && at == WRONG_STEP;
	rc = async_push(model, sluice_rank(job), params);
	too_many = 0;
	return rc ? rc : sluice_pull(model, params);
}

static int wrong_anchor(sluice_job *job, void *context)
{
	return async_run(job, context, step_with_a_wrong_anchor, 1);
}

TEST(svrg__push_of_another_anchor__refused_and_counted_and_the_others_go_on)
{
	struct plan plan = { .recipe = "up=all down=all signal=svrg(60) when=async(4)",
			     .lr = 0.05f,
			     .steps = 21 * 10 };

	assert_int_equal(sluice_simulate(NULL, 3, wrong_anchor, &plan), 0);
	assert_int_equal(plan.refused, 2); /* on each of two shards */
	assert_int_equal(plan.counted, 2 * (3 * 20 * 10 - 1));
	assert_true(plan.distance < 1e-8);
}
