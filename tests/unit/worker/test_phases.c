/* SPDX-License-Identifier: BSD-3-Clause
 * Steps with an agreed support: the traffic does not grow with the workers, the leader rotates, a
 * sketch finds heavy coordinates, and sketches can be added. */
#include "base/bytes.h"
#include "compress/choose.h"
#include "compress/sketch.h"
#include "model/model.h"
#include "ranks.h"
#include "cases.h"
#include <math.h>
#include <string.h>

/* ---- the sketch itself ----------------------------------------------------- */

enum { N = 7850, K = 80 };
static float x[N], y[N], both[N], estimate[N];
static float cells_x[5 * 2000], cells_y[5 * 2000], cells_both[5 * 2000];

/* Returns how many of the K heaviest of v_j = j^-0.8, in random order with random signs, are among
 * the 4 K heaviest estimates. */
static double recovered(uint32_t columns, uint64_t seed)
{
	const struct sketch_shape shape = { 5, columns, seed };
	static uint32_t place[N], found[4 * K];
	const struct span whole = { 0, N, 0 };
	struct selector *selector;
	int hits = 0;

	for (uint32_t j = 0; j < N; j++)
		place[j] = j;
	for (uint32_t j = N - 1; j > 0; j--) {
		uint32_t other = (uint32_t)((noise(seed, 1, 0, j) + 1) / 2 * (float)j),
			 t = place[j];

		place[j] = place[other];
		place[other] = t;
	}
	for (uint32_t j = 0; j < N; j++)
		x[place[j]] = (noise(seed, 2, 0, j) < 0 ? -1 : 1) * powf((float)(j + 1), -0.8f);
	memset(cells_x, 0, sizeof cells_x);
	sketch_add(&shape, x, N, cells_x);
	sketch_estimate(&shape, cells_x, N, estimate);
	assert_int_equal(selector_open(N, &selector), 0);
	assert_int_equal(select_topk(selector, estimate, &whole, 1, 4 * K, found), 4 * K);
	selector_close(&selector);
	for (int i = 0; i < 4 * K; i++)
		for (int j = 0; j < K; j++)
			hits += found[i] == place[j];
	return (double)hits / K;
}

TEST(sketch__planted_zipf__recovers_more_with_more_columns)
{
	double few = 0, some = 0, many = 0;

	for (uint64_t seed = 1; seed <= 5; seed++) {
		few += recovered(160, seed) / 5;
		some += recovered(400, seed) / 5;
		many += recovered(800, seed) / 5;
	}
	print_message("recovered of the true top-80: %.2f (160 columns) %.2f (400) %.2f (800)\n",
		      few, some, many);
	assert_true(few >= 0.45 && some >= 0.85 && many >= 0.97);
}

TEST(sketch__whole_numbers__sum_of_sketches_is_sketch_of_sum_to_the_bit)
{
	const struct sketch_shape shape = { 3, 700, 9 };

	memset(cells_x, 0, sizeof cells_x);
	memset(cells_y, 0, sizeof cells_y);
	memset(cells_both, 0, sizeof cells_both);
	for (int j = 0; j < N; j++) {
		x[j] = floorf(1000 * noise(1, 0, 0, (uint64_t)j));
		y[j] = floorf(1000 * noise(2, 0, 0, (uint64_t)j));
		both[j] = x[j] + y[j];
	}
	sketch_add(&shape, x, N, cells_x);
	sketch_add(&shape, y, N, cells_y);
	sketch_add(&shape, both, N, cells_both);
	for (uint32_t i = 0; i < shape.rows * shape.columns; i++)
		assert_true(cells_x[i] + cells_y[i] == cells_both[i]);
	sketch_estimate(&shape, cells_both, N, estimate);
	assert_true(estimate[0] == estimate[0]);
}

TEST(sketch__signs_and_buckets__are_balanced_and_uncorrelated)
{
	/* Adds one coordinate at a time, whose cells show its buckets and signs. */
	enum { COLUMNS = 16, ROWS = 5, DRAWS = 4000 };
	const struct sketch_shape shape = { ROWS, COLUMNS, 4 };
	static float one[DRAWS], cells[ROWS * COLUMNS];
	int filled[ROWS][COLUMNS] = { { 0 } }, plus[ROWS] = { 0 }, agree = 0;

	for (int j = 0; j < DRAWS; j++) {
		int first = 0;

		memset(cells, 0, sizeof cells);
		memset(one, 0, sizeof one);
		one[j] = 1;
		sketch_add(&shape, one, DRAWS, cells);
		for (int r = 0; r < ROWS; r++)
			for (int c = 0; c < COLUMNS; c++)
				if (cells[r * COLUMNS + c] != 0) {
					filled[r][c]++;
					plus[r] += cells[r * COLUMNS + c] > 0;
					if (r == 0)
						first = cells[c] > 0;
					else if (r == 1)
						agree += first == (cells[COLUMNS + c] > 0);
				}
	}
	for (int r = 0; r < ROWS; r++) {
		assert_in_range(plus[r], DRAWS / 2 - 200, DRAWS / 2 + 200);
		for (int c = 0; c < COLUMNS; c++)
			assert_in_range(filled[r][c], DRAWS / COLUMNS - 80, DRAWS / COLUMNS + 80);
	}
	assert_in_range(agree, DRAWS / 2 - 200, DRAWS / 2 + 200);
}

/* ---- steps ----------------------------------------------------------------- */

enum { COUNT = 4000, STEPS = 6 };

struct figures {
	const char *recipe;
	uint64_t pushed, pulled, pulled_bytes, digest;
	int different;
};

static int step_all(sluice_job *job, void *context)
{
	struct figures *f = context;
	static float params[16][COUNT], grad[COUNT];
	sluice_model_attr attr = ATTR(.count = COUNT, .recipe = f->recipe, .shards = 2, .lr = 0.1f);
	sluice_model *model;
	int rank = sluice_rank(job), rc;
	float *own = params[rank];

	memset(own, 0, COUNT * sizeof *own);
	if ((rc = sluice_model_open(job, &attr, own, &model)))
		return rc;
	for (uint64_t step = 1; step <= STEPS && !rc; step++) {
		for (int i = 0; i < COUNT; i++)
			grad[i] = noise(5, step, (uint64_t)rank, (uint64_t)i);
		if (!(rc = sluice_push(model, grad)))
			rc = sluice_pull(model, own);
		if (!rc)
			rc = sluice_barrier(job);
		f->different |= memcmp(own, params[0], sizeof params[0]) != 0;
	}
	sluice_model_stats stats = { .size = sizeof stats };
	if (!rc && !(rc = sluice_stats(model, &stats)) && rank == sluice_workers(job) - 1) {
		f->pushed = stats.pushed_elements;
		f->pulled = stats.pulled_elements;
		f->pulled_bytes = stats.pulled_bytes;
		f->digest = sluice_digest(own, COUNT * sizeof *own);
	}
	sluice_model_close(&model);
	return rc;
}

static struct figures simulate(const char *recipe, int workers)
{
	struct figures f = { .recipe = recipe };

	assert_int_equal(sluice_simulate(NULL, workers, step_all, &f), 0);
	assert_int_equal(f.different, 0);
	return f;
}

TEST(cyclic__any_number_of_workers__exactly_k_each_way)
{
	for (int workers = 1; workers <= 16; workers *= 2) {
		struct figures f = simulate("up=cyclic(0.01) down=all", workers);

		assert_int_equal(f.pushed, STEPS * 40);
		assert_int_equal(f.pulled, STEPS * 40);
		f = simulate("up=cyclic(0.01,chunks) down=all", workers);
		assert_int_equal(f.pushed, STEPS * 40);
		assert_int_equal(f.pulled, STEPS * 40);
	}
}

TEST(sketch__any_number_of_workers__pool_up_and_k_down)
{
	uint64_t bytes = 0;

	for (int workers = 4; workers <= 16; workers *= 2) {
		struct figures f = simulate("up=sketch(0.01,5,1.6,4) down=all", workers);

		assert_int_equal(f.pushed, STEPS * 160);
		assert_int_equal(f.pulled, STEPS * 40);
		assert_true(!bytes ||
			    (f.pulled_bytes < bytes + 200 && f.pulled_bytes + 200 > bytes));
		bytes = f.pulled_bytes;
	}
}

/* Only rank 1's gradient has a large value, at coordinate 7. The leader of step 2 selects it, and
 * no earlier leader does. */
static int follow_leader(sluice_job *job, void *context)
{
	float params[100] = { 0 }, grad[100] = { 0 };
	sluice_model_attr attr = ATTR(.count = 100, .recipe = "up=cyclic(0.01) down=all", .lr = 1);
	sluice_model *model;
	int rank = sluice_rank(job), rc = sluice_model_open(job, &attr, params, &model);

	grad[rank == 1 ? 7 : 50 + rank] = rank == 1 ? 100 : 1;
	for (int step = 0; step < 3 && !rc; step++) {
		if (!(rc = sluice_push(model, grad)))
			rc = sluice_pull(model, params);
		if (!rc && !rank)
			((float *)context)[step] = params[7];
	}
	sluice_model_close(&model);
	return rc;
}

TEST(cyclic__leader_goes_round__its_choice_is_everybodys)
{
	float seen[3];

	assert_int_equal(sluice_simulate(NULL, 4, follow_leader, seen), 0);
	assert_true(seen[0] == 0);
	assert_true(seen[1] == -200.0f / 4 && seen[2] == seen[1]);
}

/* ---- the rate of a step ------------------------------------------------------ */

/* Makes steps whose rates are set before each push, or ahead, between the last push and its pull.
 */
static uint64_t train_at_rates(sluice_job *job, const char *recipe, int ahead)
{
	static const float rates[] = { 0.5f, 0.25f, 0.125f };
	enum { RATES = sizeof(rates) / sizeof(*rates), LENGTH = 40 };
	float params[LENGTH] = { 0 }, grad[LENGTH];
	sluice_model *model = OPEN(job, params, .count = LENGTH, .shards = 2, .lr = rates[0],
				   .recipe = recipe);

	for (int step = 0; step < RATES; step++) {
		for (int i = 0; i < LENGTH; i++)
			grad[i] = noise(3, (uint64_t)step, (uint64_t)sluice_rank(job), (uint64_t)i);
		if (!ahead)
			CHECK_OK(sluice_set(model, SLUICE_LR, (double)rates[step]));
		CHECK_OK(sluice_push(model, grad));
		if (ahead && step + 1 < RATES)
			CHECK_OK(sluice_set(model, SLUICE_LR, (double)rates[step + 1]));
		CHECK_OK(sluice_pull(model, params));
	}
	const uint64_t digest = check_same(job, params, sizeof(params));
	sluice_model_close(&model);
	return digest;
}

/* A step with two phases up sends messages after the push, too. */
TEST_IN_JOB(set__rate_between_push_and_pull__is_that_of_the_next_push, 2)
{
	static const char *const recipes[] = {
		"up=cyclic(0.5) down=all memory=residual(outside)",
		"up=cyclic(0.5) down=all memory=residual(inside)",
		"up=sketch(0.2) down=all memory=residual(outside)",
		"up=topk(0.5) down=topk(0.5) memory=residual(outside)",
	};

	for (size_t i = 0; i < sizeof(recipes) / sizeof(*recipes); i++) {
		check_of = recipes[i];
		CHECK(train_at_rates(job, recipes[i], 1) == train_at_rates(job, recipes[i], 0));
	}
}
