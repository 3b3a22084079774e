/* SPDX-License-Identifier: BSD-3-Clause
 * signal=drift: a program steps by itself and the library exchanges how far its parameters moved.
 * Nothing of a drift is lost, the common parameters have the same bits everywhere, and nothing
 * happens between exchanges. tests/oracle compares the values with numpy. */
#include "worker/local.h"
#include "drifts.h"
#include "thinned.h"
#include "cases.h"
#include <math.h>
#include <string.h>

enum { N = 600, PERIOD = 3, LAST = N - 1 };
#define SPARSE "up=topk(0.1) down=topk(0.2) signal=drift when=every(3) dense=none "

static void step_alone(float *params, int rank, uint64_t step)
{
	drift_step(params, N, rank, step);
}

static sluice_model *open_model(sluice_job *job, float *params, const char *recipe)
{
	return drift_open(job, params, N, 2, recipe);
}

/* ---- conservation ------------------------------------------------------------ */

static void balance(sluice_job *job, int rank, void *argument)
{
	static struct account a;
	float params[N], common[N], before[N];
	sluice_model *model = open_model(job, params, argument);
	const float keep = model->recipe.drift.keep;
	const uint64_t steps = under_valgrind() ? 5 * PERIOD : 100 * PERIOD;

	memset(&a, 0, sizeof(a));
	memcpy(a.given, params, sizeof(params));
	for (uint64_t step = 1; step <= steps; step++) {
		const float *residual = worker_residual(model->worker);

		step_alone(params, rank, step);
		memcpy(before, residual, sizeof(before));
		CHECK_OK(sluice_push(model, params));
		if (step % PERIOD == 0)
			account_enter(&a, model, params, before, 0, N);
		else
			CHECK(!memcmp(before, residual, sizeof(before)));
		CHECK_OK(sluice_pull(model, params));
		if (step % PERIOD)
			continue;
		memcpy(a.given, params, sizeof(params));
		CHECK_OK(sluice_point(model, params, common));
		check_same(job, common, sizeof(common));
		CHECK(step_of(model).in_sync == !(keep > 0));
		for (int i = 0; i < N; i++)
			CHECK(params[i] == (keep > 0 ? common[i] - keep * residual[i] : common[i]));
	}
	sluice_model_close(&model);
}

TEST(train__100_exchanges__no_drift_is_lost_and_the_common_parameters_are_the_same)
{
	run_in_job(3, balance, SPARSE);
	run_in_job(3, balance, SPARSE "keep=1");
	run_in_job(2, balance, SPARSE "memory=residual(decay=0.95) keep=0.6 update=nesterov(0.5)");
	run_in_job(
		2, balance,
		"up=topk(0.1),f16 down=all signal=drift when=every(3) memory=residual(decay=0.5) "
		"dense=none rate=0.7");
	run_in_job(1, balance, SPARSE "memory=residual(decay=0.9)");
}

TEST(train__100_exchanges_with_other_selectors__no_drift_is_lost)
{
	static const char *const ways[] = { "up=threshold(0.05) down=all",
					    "up=randk(0.1) down=randk(0.2)",
					    "up=global(0.1,2) down=global(0.2,2)",
					    "up=gaussiank(0.1) down=all,f16" };
	char recipe[200];

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		snprintf(recipe, sizeof(recipe),
			 "%s signal=drift when=every(3) memory=residual(decay=0.9) keep=0.3 "
			 "dense=none",
			 ways[i]);
		run_in_job(2, balance, recipe);
	}
}

/* sparta: at random coordinates, the same ones everywhere, each worker gets the mean of all. It
 * keeps its own parameters elsewhere, up to the rounding of their difference from the common ones.
 */
TEST_IN_JOB(train__sparta__averages_random_parameters_and_keeps_the_others, 3)
{
	float params[N], pushed[N];
	double sums[N];
	int averaged = 0, kept = 0;
	sluice_model *model = open_model(job, params, "sparta up=randk(0.1)");

	for (uint64_t step = 1; step <= 50; step++) {
		step_alone(params, rank, step);
		memcpy(pushed, params, sizeof(pushed));
		for (int i = 0; i < N; i++)
			sums[i] = (double)params[i];
		CHECK_OK(sluice_sum(job, sums, N));
		CHECK_STEP(model, params, params);
		for (int i = 0; i < N; i++) {
			const int mean = fabs((double)params[i] - sums[i] / 3) < 1e-5;

			averaged += mean;
			kept += !mean && fabsf(params[i] - pushed[i]) < 1e-5f;
		}
	}
	CHECK(averaged + kept == 50 * N);
	CHECK(averaged >= 50 * N / 10 && averaged < 50 * N / 9);
	sluice_model_close(&model);
}

/* clip= limits the norm of the drift. */
TEST_IN_JOB(push__drift_beyond_clip__is_as_long_as_clip, 1)
{
	float params[N];
	sluice_model *model = open_model(job, params,
					 "up=all down=all signal=drift when=every(2) clip=0.25");

	drift_is_clipped(model, params, 2, N);
}

/* ---- between exchanges ------------------------------------------------------- */

/* Between exchanges nothing is read, written or sent, so parameters may even be NaN there. */
TEST_IN_JOB(push__between_exchanges__only_counts, 2)
{
	float params[N], held[N];
	sluice_model *model = open_model(job, params, SPARSE);
	sluice_model_stats stats = { .size = sizeof(stats) }, now = { .size = sizeof(now) };

	for (uint64_t step = 1; step <= 2 * PERIOD; step++) {
		step_alone(params, rank, step);
		if (step % PERIOD)
			params[LAST] = NAN;
		else
			params[LAST] = (float)step;
		memcpy(held, params, sizeof(held));
		CHECK_OK(sluice_stats(model, &stats));
		CHECK_OK(sluice_push(model, params));
		sluice_raise(model, 1u << step % PERIOD);
		CHECK_OK(sluice_pull(model, params));
		CHECK_OK(sluice_stats(model, &now));
		CHECK(now.steps == step && step_of(model).steps == step);
		CHECK(step_of(model).in_sync == !(step % PERIOD));
		CHECK((now.pushed_elements == stats.pushed_elements) == (step % PERIOD != 0));
		CHECK(!memcmp(params, held, sizeof(held)) == (step % PERIOD != 0));
	}
	/* Flags travel with exchanges: those of the steps 3 to 5. */
	CHECK(step_of(model).raised == (1 | 2 | 4));
	sluice_model_close(&model);
}

/* ---- what is not finite ------------------------------------------------------ */

TEST_IN_JOB(push__parameters_that_are_not_finite__end_the_job_by_name, 2)
{
	float params[N];
	sluice_model *model = open_model(job, params, SPARSE);

	log_capture();
	for (uint64_t step = 1; step < PERIOD; step++)
		CHECK_STEP(model, params, params);
	CHECK_OK(sluice_barrier(job)); /* rank 1 fails next */
	params[7] = rank ? NAN : params[7];
	if (rank) {
		CHECK(sluice_push(model, params) == SLUICE_ENUMERIC);
		CHECK(error_says("the parameters that rank 1 (node n1) pushed at step 3 are NaN",
				 "index 7"));
		CHECK(error_says("its own optimizer diverged", "nonfinite=skip"));
	} else {
		CHECK(try_step(model, params, params) == SLUICE_EPEER);
	}
	sluice_model_close(&model);
}

/* With nonfinite=skip a worker that diverged continues from the common parameters, and loses
 * nothing but its drift. */
TEST_IN_JOB(push__parameters_that_are_not_finite_and_skip__continue_from_the_common_ones, 2)
{
	float params[N], before[N];
	sluice_model *model = open_model(job, params,
					 SPARSE "nonfinite=skip memory=residual(decay=0.5)");

	for (uint64_t step = 1; step <= 4 * PERIOD; step++) {
		const int bad = rank && step == 2 * PERIOD;

		step_alone(params, rank, step);
		memcpy(before, worker_residual(model->worker), sizeof(before));
		if (bad)
			params[7] = INFINITY;
		CHECK_STEP(model, params, params);
		CHECK(!bad || !memcmp(before, worker_residual(model->worker), sizeof(before)));
		for (int i = 0; i < N; i++)
			CHECK(isfinite(params[i]));
		if (step % PERIOD == 0)
			check_same(job, params, sizeof(params));
	}
	sluice_model_stats stats = { .size = sizeof(stats) };
	CHECK_OK(sluice_stats(model, &stats));
	CHECK(stats.nonfinite_elements == (rank ? 1 : 0));
	sluice_model_close(&model);
}

/* Makes steps, replaces a parameter of rank 1 by NaN, and returns the state, which the caller
 * frees. */
static uint8_t *state_with_nan(sluice_model *model, int rank, uint64_t steps, float *params,
			       size_t *bytes)
{
	for (uint64_t step = 1; step <= steps; step++) {
		step_alone(params, rank, step);
		CHECK_STEP(model, params, params);
	}
	params[7] = rank ? NAN : params[7];
	CHECK_OK(sluice_state_size(model, bytes));
	uint8_t *state = malloc(*bytes);
	CHECK_OK(sluice_state_save(model, state, *bytes, 0));
	return state;
}

/* A state that is saved before the exchange that leaves such parameters out holds the common ones
 * in their place. The running worker keeps its own. */
TEST_IN_JOB(state_save__of_parameters_that_are_not_finite_and_skip__holds_the_common_ones, 2)
{
	float params[N], common[N];
	uint64_t done = 0;
	size_t bytes = 0;
	sluice_model *model = open_model(job, params, SPARSE "nonfinite=skip");

	uint8_t *state = state_with_nan(model, rank, 2 * PERIOD - 1, params, &bytes);
	CHECK((isfinite(params[7]) != 0) == !rank);
	CHECK_OK(sluice_point(model, params, common));
	sluice_model_close(&model);
	model = open_model(job, params, SPARSE "nonfinite=skip");
	CHECK_OK(sluice_state_load(model, state, bytes, params, &done));
	CHECK(done == 2 * PERIOD - 1 && (!rank || !memcmp(params, common, sizeof(params))));
	free(state);
	sluice_model_close(&model);
}

/* The exchange after it leaves out only the value that is not finite, so the state must hold the
 * others. */
TEST_IN_JOB(state_save__of_a_parameter_that_is_not_finite_and_zero__keeps_the_others, 2)
{
	float params[N], resumed[N];
	uint64_t done = 0;
	size_t bytes = 0;
	sluice_model *model = open_model(job, params, SPARSE "nonfinite=zero");

	uint8_t *state = state_with_nan(model, rank, PERIOD - 1, params, &bytes);
	CHECK_STEP(model, params, params);
	sluice_model_close(&model);
	model = open_model(job, resumed, SPARSE "nonfinite=zero");
	CHECK_OK(sluice_state_load(model, state, bytes, resumed, &done));
	CHECK_STEP(model, resumed, resumed);
	CHECK(done == PERIOD - 1 && !memcmp(params, resumed, sizeof(params)));
	free(state);
	sluice_model_close(&model);
}

TEST_IN_JOB(push__difference_that_overflows__ends_the_job_by_name, 2)
{
	float params[N];
	sluice_model *model = open_model(job, params, "up=topk(0.1) down=all signal=drift");

	log_capture();
	params[7] = 3e38f;
	int rc = try_step(model, params, params);
	params[7] = -3e38f;
	rc = rc ? rc : try_step(model, params, params);
	CHECK(rc == SLUICE_ENUMERIC || rc == SLUICE_EPEER);
	CHECK(error_says("overflow", "index 7"));
	sluice_model_close(&model);
}

/* ---- calls ------------------------------------------------------------------- */

TEST_IN_JOB(calls__that_do_not_fit_a_drift__are_refused, 1)
{
	float params[N], grad[N] = { 0 }, *accumulator, scale;
	sluice_model *model = open_model(job, params, SPARSE), *other = NULL;
	const sluice_segment piece = { .data = grad, .count = N, .type = SLUICE_BF16 };

	log_capture();
	CHECK(sluice_set(model, SLUICE_LR, 0.1) == SLUICE_EINVAL);
	CHECK(error_says("program's own optimizer", "rate= of the recipe"));
	CHECK(sluice_push_pair(model, grad, grad) == SLUICE_EINVAL);
	CHECK(sluice_push_range(model, grad, 0, N) == SLUICE_EINVAL);
	CHECK(error_says("signal=drift pushes parameters", NULL));
	CHECK(sluice_accumulator(model, &accumulator, &scale) == SLUICE_EINVAL);
	for (int step = 1; step < PERIOD; step++)
		CHECK_STEP(model, params, params);
	CHECK(sluice_push_vector(model, IN_PIECES(&piece, 1)) == SLUICE_EINVAL);
	CHECK(error_says("a segment of parameters has 16 or 8 bits", "from floats"));
	CHECK_STEP(model, params, params);
	sluice_model_close(&model);
	const sluice_model_attr uneven = ATTR(.count = N, .recipe = SPARSE, .uneven = 1);
	CHECK(sluice_model_open(job, &uneven, params, &other) == SLUICE_EINVAL);
	CHECK(error_says("uneven=1 is not possible", "signal=drift pushes parameters"));
	const sluice_model_attr narrow = ATTR(.count = N, .recipe = SPARSE,
					      .param_type = SLUICE_BF16);
	CHECK(sluice_model_open(job, &narrow, params, &other) == SLUICE_EINVAL);
}

TEST_IN_JOB(step__of_pieces_or_in_ranges__gives_the_same_bits, 2)
{
	static const char recipe[] = SPARSE "keep=0.5";
	float params[N], apart[N];
	sluice_model *model = open_model(job, params, recipe);

	drift_in_pieces(model, params, open_model(job, apart, recipe), apart, 4 * PERIOD, 2);
}

/* ---- a state in the middle of a period ------------------------------------------ */

static sluice_model *open_pieces(sluice_job *job, float *params, sluice_segment pieces[2])
{
	drift_start(params, N);
	pieces[0] = (sluice_segment){ .data = params, .count = 100 };
	pieces[1] = (sluice_segment){ .data = params + 100, .count = N - 100 };
	return OPEN(job, NULL, .count = N, .shards = 2, .recipe = SPARSE "keep=0.5",
		    .segments = pieces, .n_segments = 2);
}

/* The state holds the pieces themselves, as the program has left them, also before the first pull
 * and after another load. */
TEST_IN_JOB(state__of_pieces_in_the_middle_of_a_period__goes_on_with_the_same_bits, 2)
{
	enum { SAVED_AT = PERIOD + 1, END = 3 * PERIOD, STATE_MOST = 1 << 16 };
	static float through[N], params[N];
	static uint8_t state[STATE_MOST], again[STATE_MOST];
	sluice_segment pieces[2];
	uint64_t done = 0;
	size_t bytes = 0;
	sluice_model *model = open_pieces(job, through, pieces);

	CHECK_OK(sluice_state_size(model, &bytes));
	CHECK(bytes <= STATE_MOST);
	for (uint64_t step = 1; step <= END; step++) {
		step_alone(through, rank, step);
		CHECK_OK(sluice_push_vector(model, IN_PIECES(pieces, 2)));
		CHECK_OK(sluice_pull(model, NULL));
		if (step == SAVED_AT)
			CHECK_OK(sluice_state_save(model, state, bytes, 0));
	}
	sluice_model_close(&model);

	model = open_pieces(job, params, pieces);
	CHECK_OK(sluice_state_load(model, state, bytes, NULL, &done));
	CHECK(done == SAVED_AT);
	CHECK_OK(sluice_state_save(model, again, bytes, 0));
	sluice_model_close(&model);

	model = open_pieces(job, params, pieces);
	memset(params, 0, sizeof(params));
	CHECK_OK(sluice_state_load(model, again, bytes, NULL, &done));
	for (uint64_t step = done + 1; step <= END; step++) {
		step_alone(params, rank, step);
		CHECK_OK(sluice_push_vector(model, IN_PIECES(pieces, 2)));
		CHECK_OK(sluice_pull(model, NULL));
	}
	CHECK(!memcmp(params, through, sizeof(params)));
	sluice_model_close(&model);
}
