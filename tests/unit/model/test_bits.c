/* SPDX-License-Identifier: BSD-3-Clause
 * The codes that recipe=auto chooses: the best of the table for vectors with light and heavy tails,
 * and jobs whose ranks measure different vectors, but follow one choice. */
#include "base/error.h"
#include "cases.h"
#include "compress/choose.h"
#include "compress/message.h"
#include "model/bits.h"
#include "model/model.h"
#include "random.h"
#include "ranks.h"
#include "scratch.h"
#include "shard/state.h"
#include "worker/state.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- one vector ------------------------------------------------------------ */

enum { LONG = 300000 };

/* exponent 0: normal values; otherwise magnitudes with a tail of this exponent */
static void fill(float *x, size_t n, double exponent, uint64_t seed)
{
	struct random r = { seed };

	for (size_t i = 0; i < n; i++) {
		const double sign = random_bits(&r) & 1 ? 1 : -1;

		x[i] = !(exponent > 0) ? random_normal(&r) :
					 (float)(sign * pow(1 - random_unit(&r), -1 / exponent));
	}
}

static int larger_first(const void *a, const void *b)
{
	const float x = *(const float *)a, y = *(const float *)b;

	return x < y ? 1 : -(x > y);
}

struct result {
	size_t bytes;
	double kept;
};

/* Sends the whole vector in this code as a worker would, and returns what a receiver has. */
static struct result send(const float *x, size_t n, double density, struct value_coding values)
{
	const size_t cap = message_bound((uint32_t)n, (uint32_t)n, code_kinds[0].values);
	const size_t k = density < 1 ? density_count(density, n) : n;
	struct message m = {
		.kind = MESSAGE_PUSH, .values = values, .parts = 1, .span = (uint32_t)n
	};
	float *sorted = malloc(n * sizeof(*sorted)), *value = malloc(n * sizeof(*value));
	uint32_t *index = malloc(n * sizeof(*index)), *got = malloc(n * sizeof(*got));
	uint8_t *out = malloc(cap), *copy = malloc(cap);
	struct result result = { 0 };
	const char *why = NULL;

	for (size_t i = 0; i < n; i++)
		sorted[i] = fabsf(x[i]);
	qsort(sorted, n, sizeof(*sorted), larger_first);
	for (uint32_t i = 0; i < n; i++)
		if (fabsf(x[i]) >= sorted[k - 1] && m.count < k) {
			index[m.count] = i;
			value[m.count++] = x[i];
		}
	result.bytes = message_encode(NULL, &m, k < n ? index : NULL, value, value, out, cap);
	assert_int_equal(message_copy(NULL, out, cap, copy, cap, &m, &why), 0);
	assert_int_equal(message_decode(NULL, &m, copy, got, value, &why), 0);
	for (uint32_t i = 0; i < m.count; i++) {
		const double a = (double)x[m.coding == CODING_DENSE ? i : got[i]];

		result.kept += a * a - (a - (double)value[i]) * (a - (double)value[i]);
	}
	free(sorted);
	free(value);
	free(index);
	free(got);
	free(out);
	free(copy);
	return result;
}

static void send_all(const float *x, size_t n, unsigned budget, enum budget_way way,
		     struct result of[AUTO_CODES])
{
	for (enum code c = 0; c < AUTO_CODES; c++)
		of[c] = send(x, n, budget_density(budget, way, c), budget_values(budget, c));
}

/* Returns the most that any code keeps. */
static double most_of(const struct result of[AUTO_CODES])
{
	double most = 0;

	for (enum code c = 0; c < AUTO_CODES; c++)
		if (of[c].bytes <= of[0].bytes && of[c].kept > most)
			most = of[c].kept;
	return most;
}

/* Returns the fewest bytes with which a code keeps about the most. */
static double fewest_of(const struct result of[AUTO_CODES], double slack)
{
	size_t fewest = SIZE_MAX;

	for (enum code c = 0; c < AUTO_CODES; c++)
		if (of[c].kept * slack >= most_of(of) && of[c].kept >= of[0].kept &&
		    of[c].bytes < fewest)
			fewest = of[c].bytes;
	return (double)fewest;
}

static enum code choose(const float *x, size_t n, unsigned budget, enum budget_way way,
			enum code in_use)
{
	struct bits *bits;

	assert_int_equal(bits_open(n, &bits), 0);
	const enum code code = bits_choose(bits, &(struct bits_vector){ .x = x, .count = n },
					   budget, way, 0, in_use);

	bits_close(&bits);
	return code;
}

/* The code keeps the most, or about as much in the fewest bytes, or in about as few. */
static void expect_best(const float *x, size_t n, unsigned budget, enum budget_way way)
{
	struct result of[AUTO_CODES];
	enum code code;

	send_all(x, n, budget, way, of);
	for (enum code in_use = 0; in_use < AUTO_CODES; in_use++) {
		code = choose(x, n, budget, way, in_use);
		assert_true(of[code].kept * 1.051 >= most_of(of));
		assert_true((double)of[code].bytes <=
			    (code == in_use ? 1.051 : 1) * fewest_of(of, 1.049));
		/* It never sends more than f32, and never keeps less. */
		assert_true(of[code].bytes <= of[CODE_F32].bytes);
		assert_true(of[code].kept >= of[CODE_F32].kept);
	}
}

TEST(choose__normal_values__the_best_of_the_table)
{
	float *x = malloc(100000 * sizeof(*x));

	fill(x, 100000, 0, 1);
	for (unsigned budget = 1; budget < BUDGETS; budget++)
		for (enum budget_way way = 0; way < BUDGET_WAYS; way++)
			expect_best(x, 100000, budget, way);
	/* Two bits for four times as many values are better than 32. */
	assert_int_equal(choose(x, 100000, 2, BUDGET_UP, CODE_F32), CODE_TWOMEANS);
	assert_int_equal(choose(x, 100000, 2, BUDGET_UP, CODE_E3M0), CODE_TWOMEANS);
	free(x);
}

TEST(choose__heavy_tails__the_best_of_the_table)
{
	float *x = malloc(100000 * sizeof(*x));

	for (int i = 0; i < 3; i++) {
		fill(x, 100000, (double[]){ 0.5, 1.2, 2 }[i], 2);
		for (unsigned budget = 1; budget < BUDGETS; budget++)
			expect_best(x, 100000, budget, BUDGET_UP);
		expect_best(x, 100000, 2, BUDGET_DOWN);
		if (i < 2) /* two magnitudes would lose the largest values */
			assert_true(choose(x, 100000, 2, BUDGET_UP, CODE_F32) != CODE_TWOMEANS);
	}
	free(x);
}

TEST(choose__vector_longer_than_a_sample__as_for_all_of_it)
{
	struct result of[AUTO_CODES];
	float *x = malloc(LONG * sizeof(*x));

	for (int i = 0; i < 2; i++) {
		/* Parts of different scale, as tensors have. */
		fill(x, LONG, (double[]){ 0, 1.2 }[i], 3);
		for (size_t j = LONG / 3; j < LONG / 2; j++)
			x[j] *= 0.1f;
		send_all(x, LONG, 2, BUDGET_UP, of);
		assert_true(of[choose(x, LONG, 2, BUDGET_UP, CODE_F32)].kept * 1.06 >= most_of(of));
	}
	free(x);
}

TEST(choose__nothing_to_measure__the_code_in_use)
{
	float x[100] = { 0 };

	assert_int_equal(choose(x, 100, 2, BUDGET_UP, CODE_E3M0), CODE_E3M0);
	x[70] = NAN;
	assert_int_equal(choose(x, 100, 2, BUDGET_UP, CODE_TWOMEANS), CODE_TWOMEANS);
	x[70] = INFINITY;
	assert_int_equal(choose(x, 100, 2, BUDGET_UP, CODE_F16), CODE_F16);
	/* One value fits in f32, and no code keeps more. */
	x[70] = 1;
	assert_int_equal(choose(x, 1, 2, BUDGET_UP, CODE_F32), CODE_F32);
	assert_int_equal(choose(x, 100, 2, BUDGET_UP, CODE_F32), CODE_F32);
}

TEST(choose__residual_and_addend__as_for_their_sum)
{
	enum { N = 20000 };
	float *x = malloc(3 * N * sizeof(*x)), *grad = x + N, *sum = grad + N;
	struct bits *bits;

	assert_int_equal(bits_open(N, &bits), 0);
	for (int i = 0; i < 2; i++) {
		fill(x, N, 0, 4);
		fill(grad, N, 0.6, 5);
		const float scale = i ? 0.5f : 1e-6f;

		for (int j = 0; j < N; j++)
			sum[j] = x[j] + scale * grad[j];
		const enum code code = choose(sum, N, 2, BUDGET_UP, CODE_F32);

		assert_int_equal(code == CODE_TWOMEANS, !i);
		assert_int_equal(bits_choose(bits, &(struct bits_vector){ x, grad, scale, N }, 2,
					     BUDGET_UP, 0, CODE_F32),
				 code);
	}
	bits_close(&bits);
	free(x);
}

/* ---- jobs ------------------------------------------------------------------- */

enum { COUNT = 60000, SHARDS = 3, LAST = 40 };

static sluice_model *open_auto(sluice_job *job, const char *recipe, float *params)
{
	memset(params, 0, COUNT * sizeof(*params));
	return OPEN(job, params, .count = COUNT, .recipe = recipe, .lr = 0.1f, .shards = SHARDS);
}

/* Makes a step. The gradients of rank 0 are normal, and those of other ranks have heavy tails. */
static void step(sluice_model *model, int rank, uint64_t number, float *params)
{
	static float grad[COUNT];

	fill(grad, COUNT, rank ? 0.6 : 0, 100 * number + (uint64_t)rank);
	CHECK_OK(sluice_push(model, grad));
	CHECK_OK(sluice_pull(model, params));
}

static void follow_rank_0(sluice_job *job, int rank, void *argument)
{
	static float params[COUNT];
	sluice_model_stats stats = { .size = offsetof(sluice_model_stats, residual_norm) }, now;

	log_capture();
	sluice_model *model = open_auto(job, "auto(0.01)", params);
	for (uint64_t number = 1; number <= LAST; number++) {
		CHECK_OK(sluice_stats(model, &stats));
		step(model, rank, number, params);
		now.size = sizeof(now);
		CHECK_OK(sluice_stats(model, &now));
		const double density = number == 1 ? 0.01 : 0.042;

		CHECK(now.density_up == density);
		CHECK(now.bits_up == (number == 1 ? 32 : 2));
		CHECK(now.pushed_elements - stats.pushed_elements == density_count(density, COUNT));
		check_same(job, &now.bits_down, sizeof(now.bits_down));
		check_same(job, &now.density_down, sizeof(now.density_down));
		check_same(job, &model->worker->step.chosen, sizeof(unsigned));
		check_same(job, params, sizeof(params));
	}
	/* The deltas are the sum of heavy tails, and all shards follow the first. */
	CHECK(choice_unpack(model->worker->step.chosen).code[BUDGET_DOWN] != CODE_TWOMEANS);
	for (uint32_t i = 0; i < model->n_own; i++)
		CHECK(model->shards[i].chosen == model->worker->step.chosen);
	CHECK(log_saw("recipe auto sends up=topk(0.042),twomeans", "from step 2 on", NULL, NULL) ==
	      (rank == 0));
	sluice_model_close(&model);
}

TEST(job__auto_with_a_budget__all_ranks_use_the_code_of_the_first)
{
	setenv("SLUICE_LOG", "info", 1);
	run_in_job(3, follow_rank_0, NULL);
	unsetenv("SLUICE_LOG");
}

struct saved {
	char dir[SCRATCH_PATH];
	uint64_t whole;
};

static const int saves[] = { 1, 2, 4, 5, 17 };

static void folder_of(const struct saved *saved, int at, char *folder, size_t cap)
{
	snprintf(folder, cap, "%s/%d", saved->dir, at);
}

static void train_whole(sluice_job *job, int rank, void *argument)
{
	struct saved *saved = argument;
	static float params[COUNT];
	char folder[SCRATCH_PATH + 16];
	size_t save = 0;

	sluice_model *model = open_auto(job, "auto(0.01)", params);
	for (int number = 1; number <= LAST; number++) {
		step(model, rank, (uint64_t)number, params);
		if (save == sizeof(saves) / sizeof(saves[0]) || saves[save] != number)
			continue;
		folder_of(saved, number, folder, sizeof(folder));
		CHECK_OK(sluice_checkpoint(model, folder));
		save++;
	}
	const uint64_t digest = check_same(job, params, sizeof(params));

	if (!rank)
		saved->whole = digest;
	sluice_model_close(&model);
}

static void resume(sluice_job *job, int rank, void *argument)
{
	const struct saved *saved = argument;
	static float params[COUNT];
	char folder[SCRATCH_PATH + 16];

	for (size_t save = 0; save < sizeof(saves) / sizeof(saves[0]); save++) {
		folder_of(saved, saves[save], folder, sizeof(folder));
		sluice_model *model = open_auto(job, "auto(0.01)", params);
		CHECK_OK(sluice_restore(model, folder, params, NULL));
		for (int number = saves[save] + 1; number <= LAST; number++)
			step(model, rank, (uint64_t)number, params);
		CHECK(check_same(job, params, sizeof(params)) == saved->whole);
		sluice_model_close(&model);
	}
}

TEST(job__auto_with_a_budget_resumed__continues_with_the_same_bits)
{
	struct saved *saved = shared_memory(sizeof(*saved));

	assert_int_equal(scratch_make(saved->dir), 0);
	run_in_job(2, train_whole, saved);
	run_in_job(2, resume, saved);
	scratch_remove(saved->dir);
}

static void resume_with_times(sluice_job *job, int rank, void *argument)
{
	struct saved *saved = argument;
	static float params[COUNT];
	sluice_model_stats stats = { .size = sizeof(stats) };

	sluice_model *model = open_auto(job, "auto", params);
	for (uint64_t number = 1; number <= LAST; number++)
		step(model, rank, number, params);
	const struct auto_choice learned = choice_unpack(model->worker->step.chosen);

	CHECK(learned.budget > 0 && learned.code[BUDGET_UP] != CODE_F32);
	CHECK_OK(sluice_checkpoint(model, saved->dir));
	sluice_model_close(&model);
	model = open_auto(job, "auto", params);
	CHECK_OK(sluice_restore(model, saved->dir, params, NULL));
	for (uint64_t number = LAST + 1; number <= LAST + 6; number++) {
		const struct auto_choice now = choice_unpack(model->worker->step.chosen);

		CHECK(!now.budget && !memcmp(now.code, learned.code, sizeof(now.code)));
		step(model, rank, number, params);
		CHECK_OK(sluice_stats(model, &stats));
		const double density = budget_density(1, BUDGET_UP, learned.code[BUDGET_UP]);

		CHECK(stats.density_up == (number <= LAST + 5 ? 1 : density));
	}
	sluice_model_close(&model);
}

TEST(job__auto_resumed__compares_times_again_with_the_codes_it_had)
{
	struct saved *saved = shared_memory(sizeof(*saved));

	assert_int_equal(scratch_make(saved->dir), 0);
	run_in_job(2, resume_with_times, saved);
	scratch_remove(saved->dir);
}

/* ---- special models and steps ---------------------------------------------- */

TEST_IN_JOB(job__auto_with_few_coordinates__trains, 1)
{
	for (uint64_t count = 1; count < 10; count++) {
		float params[10] = { 0 }, grad[10];
		sluice_model *model = OPEN(job, params, .count = count, .lr = 0.1f,
					   .recipe = "auto(0.01)");

		for (uint64_t step = 1; step <= 9; step++) {
			for (uint64_t i = 0; i < count; i++)
				grad[i] = noise(3, 0, step, i);
			CHECK_OK(sluice_push(model, grad));
			CHECK_OK(sluice_pull(model, params));
		}
		sluice_model_close(&model);
	}
}

/* A step that sends the whole residual measures no codes, whether or not it takes the path of a
 * dense push. */
TEST_IN_JOB(job__auto_with_reset__measuring_changes_nothing, 1)
{
	enum { N = 3000 };
	static float params[N], grad[N];

	for (int reset = 1; reset <= 4; reset++) {
		uint64_t digest[2];

		for (int measures = 0; measures < 2; measures++) {
			char recipe[64];

			snprintf(recipe, sizeof recipe, "auto(0.1) reset=%d", reset);
			memset(params, 0, sizeof params);
			sluice_model *model = OPEN(job, params, .count = N, .lr = 0.1f,
						   .recipe = recipe);

			CHECK_OK(sluice_set(model, SLUICE_MEASURE, (float)measures));
			for (uint64_t step = 1; step <= 12; step++) {
				for (uint64_t i = 0; i < N; i++)
					grad[i] = powf(noise(3, 0, step, i), 3);
				CHECK_OK(sluice_push(model, grad));
				CHECK_OK(sluice_pull(model, params));
			}
			sluice_model_close(&model);
			digest[measures] = sluice_digest(params, sizeof params);
		}
		CHECK(digest[0] == digest[1]);
	}
}
