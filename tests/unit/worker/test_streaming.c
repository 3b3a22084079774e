/* SPDX-License-Identifier: BSD-3-Clause
 * when=every(H),fragments(P),late(T),mix(M): the parameters are exchanged part by part, each at its
 * own step of a period. Nothing else of the vector is read, sent or written in that step, and
 * nothing of a drift is lost. An exchange is under way during T steps, and when it arrives changes
 * nothing. tests/oracle compares the values with numpy. */
#include "worker/local.h"
#include "drifts.h"
#include "thinned.h"
#include "cases.h"
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { N = 601, PERIOD = 6, PARTS = 3, DISTANCE = PERIOD / PARTS, SHARDS = 2 * PARTS };
#define STREAMS "signal=drift when=every(6),fragments(3) dense=none "
#define SPARSE  "up=topk(0.1) down=topk(0.2) " STREAMS

static void step_alone(float *params, int rank, uint64_t step)
{
	drift_step(params, N, rank, step);
}

static sluice_model *open_model(sluice_job *job, float *params, const char *recipe)
{
	return drift_open(job, params, N, SHARDS, recipe);
}

/* The fragment that is pushed in this step, or -1: one after the other, at equal distances. */
static int pushed_in(uint64_t step, int parts)
{
	const uint64_t distance = (uint64_t)(PERIOD / parts);

	return !step || step % distance ? -1 : (int)((step / distance - 1) % (uint64_t)parts);
}

static int fragment_of(uint64_t step)
{
	return pushed_in(step, PARTS);
}

/* The shards in order, equally many in each fragment. */
static int begin_among(int fragment, int parts)
{
	return N * (fragment * (SHARDS / parts)) / SHARDS;
}

static int begin_of(int fragment)
{
	return begin_among(fragment, PARTS);
}

/* ---- conservation ------------------------------------------------------------ */

static void balance(sluice_job *job, int rank, void *argument)
{
	static struct account a;
	float params[N], common[N], before[N], held[N];
	sluice_model *model = open_model(job, params, argument);
	const int parts = (int)model->recipe.every.fragments;
	const float keep = model->recipe.drift.keep, mix = model->recipe.drift.mix, rest = 1 - mix;
	const uint64_t steps = under_valgrind() ? 3 * PERIOD : 50 * PERIOD;

	memset(&a, 0, sizeof(a));
	memcpy(a.given, params, sizeof(params));
	for (uint64_t step = 1; step <= steps; step++) {
		const float *residual = worker_residual(model->worker);
		const int fragment = pushed_in(step, parts);
		const int pulled = step < model->recipe.every.late ?
					   -1 :
					   pushed_in(step - model->recipe.every.late, parts);

		step_alone(params, rank, step);
		memcpy(held, params, sizeof(held));
		memcpy(before, residual, sizeof(before));
		CHECK_OK(sluice_push(model, params));
		if (fragment >= 0)
			account_enter(&a, model, params, before, begin_among(fragment, parts),
				      begin_among(fragment + 1, parts));
		else
			CHECK(!memcmp(before, residual, sizeof(before)));
		CHECK_OK(sluice_pull(model, params));
		CHECK(!step_of(model).in_sync);
		if (pulled < 0) {
			CHECK(!memcmp(params, held, sizeof(held)));
			continue;
		}
		CHECK_OK(sluice_point(model, params, common));
		check_same(job, common, sizeof(common));
		for (int i = 0; i < N; i++) {
			const float point = keep > 0 ? common[i] - keep * residual[i] : common[i];

			if (i < begin_among(pulled, parts) || i >= begin_among(pulled + 1, parts)) {
				CHECK(float_bits(params[i]) == float_bits(held[i]));
				continue;
			}
			CHECK(params[i] == (mix > 0 ? mix * held[i] + rest * point : point));
			a.given[i] = point;
		}
	}
	sluice_model_close(&model);
}

TEST(train__fragments__no_drift_is_lost_and_the_common_parameters_are_the_same)
{
	run_in_job(3, balance, SPARSE);
	run_in_job(2, balance, SPARSE "memory=residual(decay=0.95) keep=0.6 update=nesterov(0.5)");
	run_in_job(2, balance,
		   "up=all,e3m0 down=all,twomeans rate=0.4 update=nesterov(0.9) " STREAMS);
	run_in_job(2, balance, "up=threshold(0.05) down=all " STREAMS);
	run_in_job(2, balance, "up=randk(0.1) down=randk(0.2) " STREAMS "memory=residual");
	run_in_job(1, balance,
		   "up=gaussiank(0.1) down=all,f16 " STREAMS "memory=residual(decay=0.9)");
}

TEST(train__late_and_mixed__no_drift_is_lost_and_the_common_parameters_are_the_same)
{
	run_in_job(2, balance,
		   "up=topk(0.1) down=topk(0.2) signal=drift when=every(6),fragments(2),late(2) "
		   "dense=none");
	run_in_job(3, balance,
		   "up=topk(0.1) down=all signal=drift when=every(6),fragments(2),late(1),mix(0.5) "
		   "dense=none memory=residual(decay=0.9) keep=0.3");
	run_in_job(2, balance,
		   "up=all,e3m0 down=all,e3m0 signal=drift when=every(6),late(5),mix(0.25) "
		   "memory=residual update=nesterov(0.9) rate=0.4");
	run_in_job(1, balance, "up=topk(0.1) down=all signal=drift when=every(6),mix(0.5)");
}

/* ---- an exchange under way ------------------------------------------------------- */

/* Rank 1 pushes only after rank 0 has made all steps before the one in which the exchange is
 * applied. If any of them waited for the exchange, both would wait for ever. */
static void overlap(sluice_job *job, int rank, void *argument)
{
	enum { LATE = 2, HALF = PERIOD / 2, LAST = 4 * PERIOD };
	_Atomic uint64_t *done = argument;
	float params[N], held[N];
	sluice_model *model = open_model(job, params,
					 "up=all down=all signal=drift memory=none "
					 "when=every(6),fragments(2),late(2)");

	for (uint64_t step = 1; step <= LAST; step++) {
		const uint64_t since = step % HALF;

		step_alone(params, rank, step);
		while (rank && !since && atomic_load(done) < step + LATE - 1 &&
		       atomic_load(done) < LAST)
			usleep(100);
		memcpy(held, params, sizeof(held));
		CHECK_STEP(model, params, params);
		CHECK(!memcmp(params, held, sizeof(held)) == (since != LATE || step < HALF));
		if (!rank)
			atomic_store(done, step);
	}
	sluice_model_close(&model);
}

TEST(pull__before_an_exchange_is_due__does_not_wait_for_it)
{
	_Atomic uint64_t *done = shared_memory(sizeof(*done)); /* steps of rank 0 */

	run_in_job(2, overlap, done);
	munmap(done, sizeof(*done));
}

/* With the same calls, waits at any place change no bit: the program and the publications race in
 * every way that these delays bring about. */
static void dawdle(sluice_job *job, int rank, void *argument)
{
	static const char recipe[] = "up=topk(0.2) down=all,e3m0 keep=0.5 dense=none "
				     "signal=drift when=every(6),fragments(2),late(2),mix(0.5)";
	float params[N], common[N], first[N], first_common[N];

	for (int way = 0; way < 6; way++) {
		sluice_model *model = open_model(job, params, recipe);

		for (uint64_t step = 1; step <= 3 * PERIOD; step++) {
			step_alone(params, rank, step);
			if (way == 1 && rank)
				usleep(500);
			if (way == 2)
				usleep((unsigned)(rank ? step % 3 : step % 4) * 400);
			CHECK_OK(sluice_push(model, params));
			if (way == 3 && step % 2 == (uint64_t)rank)
				usleep(700);
			CHECK_OK(sluice_pull(model, params));
			if (way == 4)
				CHECK_OK(sluice_point(model, params, common));
			if (way == 5 && step % 2)
				CHECK_OK(sluice_barrier(job));
		}
		CHECK_OK(sluice_point(model, params, common));
		check_same(job, common, sizeof(common));
		if (!way) {
			memcpy(first, params, sizeof(first));
			memcpy(first_common, common, sizeof(first_common));
		}
		CHECK(!memcmp(first, params, sizeof(first)));
		CHECK(!memcmp(first_common, common, sizeof(first_common)));
		sluice_model_close(&model);
	}
}

TEST(train__late_in_any_timing__gives_the_same_bits)
{
	run_in_job(2, dawdle, NULL);
}

/* All parameters are equal where the exchange has been applied, without mix= and keep=. The flags
 * of the exchange come with it. */
TEST_IN_JOB(pull__late__brings_equal_parameters_and_flags_when_it_is_due, 2)
{
	float params[N];
	sluice_model *model = open_model(job, params,
					 "up=all down=all signal=drift when=every(6),late(2)");

	CHECK(step_of(model).in_sync);
	for (uint64_t step = 1; step <= 3 * PERIOD + 2; step++) {
		const int due = step > PERIOD && step % PERIOD == 2;

		step_alone(params, rank, step);
		CHECK_OK(sluice_push(model, params));
		if (rank)
			sluice_raise(model, 1u << step % PERIOD);
		CHECK_OK(sluice_pull(model, params));
		CHECK(step_of(model).in_sync == due);
		if (due) {
			check_same(job, params, sizeof(params));
			/* those that were raised before the push, since the push before */
			CHECK(step_of(model).raised ==
			      (step > 2 * PERIOD ? (1 << PERIOD) - 1u : (1 << PERIOD) - 2u));
		} else {
			CHECK(!step_of(model).raised);
		}
	}
	sluice_model_close(&model);
}

/* The worker that left early has pushed what the others wait for only if its last exchange was
 * theirs. */
TEST_IN_JOB(close__by_a_worker_with_fewer_steps__fails_only_what_needs_its_push, 2)
{
	float params[N], common[N];
	sluice_model *model = open_model(job, params,
					 "up=all down=all signal=drift when=every(6),late(2)");

	log_capture();
	for (uint64_t step = 1; step <= (rank ? PERIOD : 2 * PERIOD - 1); step++)
		CHECK_STEP(model, params, params);
	if (!rank) {
		CHECK_OK(sluice_push(model, params));
		CHECK_OK(sluice_pull(model, params));
		CHECK(sluice_point(model, params, common) == SLUICE_EPEER);
		CHECK(error_says("closed model 0 after 6 steps", "waits for step 12"));
	}
	sluice_model_close(&model);
}

/* A close waits for the exchange under way, because a shard would publish it to closed windows. */
TEST_IN_JOB(close__while_an_exchange_is_under_way__waits_for_it, 2)
{
	float params[N];
	sluice_model *model = open_model(job, params,
					 "up=all down=all signal=drift when=every(6),late(2)");

	log_capture();
	for (uint64_t step = 1; step <= (rank ? PERIOD : 2 * PERIOD); step++)
		CHECK_STEP(model, params, params);
	sluice_model_close(&model);
	if (!rank) {
		CHECK(sluice_barrier(job) == SLUICE_EPEER);
		CHECK(error_says("closed model 0 after 6 steps", "waits for step 12"));
	}
}

/* ---- what is not finite, mixed ---- */

TEST_IN_JOB(pull__own_parameters_that_became_nan_meanwhile__end_the_job_or_are_replaced, 1)
{
	static const char *const recipes[] = {
		"up=all down=all signal=drift when=every(4),late(2),mix(0.5)",
		"up=all down=all signal=drift when=every(4),late(2),mix(0.5) nonfinite=skip"
	};
	float params[N], common[N];

	log_capture();
	for (int way = 1; way >= 0; way--) {
		sluice_model *model = open_model(job, params, recipes[way]);

		for (uint64_t step = 1; step <= 5; step++)
			CHECK_STEP(model, params, params);
		params[3] = NAN;
		CHECK_OK(sluice_push(model, params));
		if (way) {
			CHECK_OK(sluice_pull(model, params));
			CHECK_OK(sluice_point(model, params, common));
			CHECK(params[3] == common[3]);
		} else {
			CHECK(sluice_pull(model, params) == SLUICE_ENUMERIC);
			CHECK(error_says("pushed at step 6 are NaN at index 3", "nonfinite=skip"));
		}
		sluice_model_close(&model);
	}
}

/* ---- bytes --------------------------------------------------------------------- */

/* Each exchange sends and pulls its fragment alone: its share of the values, in messages to its two
 * shards. */
TEST_IN_JOB(step__of_a_fragment__sends_and_pulls_nothing_for_the_others, 2)
{
	enum { HEADERS = 2 * 256 };
	float params[N];
	sluice_model *model = open_model(job, params, "up=all down=all memory=none " STREAMS);
	sluice_model_stats was = { .size = sizeof(was) }, now = { .size = sizeof(now) };

	for (uint64_t step = 1; step <= 2 * PERIOD; step++) {
		const int fragment = fragment_of(step);
		const uint64_t part = fragment < 0 ? 0 :
						     (uint64_t)(begin_of(fragment + 1) -
								begin_of(fragment));

		step_alone(params, rank, step);
		CHECK_OK(sluice_stats(model, &was));
		CHECK_STEP(model, params, params);
		CHECK_OK(sluice_stats(model, &now));
		const uint64_t pushed = now.pushed_bytes + now.own_pushed_bytes - was.pushed_bytes -
					was.own_pushed_bytes;
		const uint64_t pulled = now.pulled_bytes + now.own_pulled_bytes - was.pulled_bytes -
					was.own_pulled_bytes;

		CHECK(now.pushed_elements - was.pushed_elements == part);
		CHECK(now.pulled_elements - was.pulled_elements == part);
		CHECK(pushed >= part * sizeof(float) && pulled >= part * sizeof(float));
		CHECK(pushed <= part * sizeof(float) + (part ? HEADERS : 0));
		CHECK(pulled <= part * sizeof(float) + (part ? HEADERS : 0));
		/* half of the fragment is at this rank itself */
		CHECK(now.own_pushed_bytes - was.own_pushed_bytes <= pushed / 2 + HEADERS);
		CHECK(now.pushed_bytes - was.pushed_bytes <= pushed / 2 + HEADERS);
	}
	sluice_model_close(&model);
}

/* clip= limits the norm of what is exchanged. */
TEST_IN_JOB(push__fragment_beyond_clip__is_as_long_as_clip, 1)
{
	float params[N];
	sluice_model *model = open_model(job, params, "up=all down=all clip=0.25 " STREAMS);

	drift_is_clipped(model, params, DISTANCE, begin_of(1));
}

/* The error that SLUICE_MEASURE reports is that of the exchanged fragment alone. */
TEST_IN_JOB(measure__of_a_fragment__compares_what_is_left_of_it, 1)
{
	float params[N], sent[N];
	sluice_model *model = open_model(job, params, SPARSE);
	sluice_model_stats stats = { .size = sizeof(stats) };

	CHECK_OK(sluice_set(model, SLUICE_MEASURE, 1));
	for (uint64_t step = 1; step <= 2 * PERIOD; step++) {
		const int fragment = fragment_of(step);
		double all = 0, left = 0;

		step_alone(params, rank, step);
		CHECK_OK(sluice_push(model, params));
		if (fragment >= 0)
			last_sent(model, sent);
		for (int i = 0; i < N && fragment >= 0; i++) {
			const float residual = worker_residual(model->worker)[i];

			if (i < begin_of(fragment) || i >= begin_of(fragment + 1))
				continue;
			all += (double)(sent[i] + residual) * (double)(sent[i] + residual);
			left += (double)residual * (double)residual;
		}
		CHECK_OK(sluice_pull(model, params));
		CHECK_OK(sluice_stats(model, &stats));
		if (fragment >= 0)
			CHECK(fabs(stats.compression_error - left / all) < 1e-6);
	}
	sluice_model_close(&model);
}

/* ---- what is not finite ------------------------------------------------------ */

/* NaN in any fragment would come back to all of them through the gradients, so the worker gets all
 * common parameters. */
TEST_IN_JOB(push__parameters_that_are_not_finite_and_skip__continue_from_all_common_ones, 2)
{
	float params[N], common[N], before[N];
	sluice_model *model = open_model(job, params, SPARSE "nonfinite=skip keep=0.5");

	for (uint64_t step = 1; step <= 4 * PERIOD; step++) {
		const int bad = rank && step == PERIOD + DISTANCE;
		const float *residual = worker_residual(model->worker);

		step_alone(params, rank, step);
		memcpy(before, residual, sizeof(before));
		if (bad)
			params[N - 1] = NAN; /* the exchange is that of the first fragment */
		CHECK_STEP(model, params, params);
		if (!bad)
			continue;
		CHECK_OK(sluice_point(model, params, common));
		CHECK(!memcmp(before, residual, sizeof(before)));
		for (int i = 0; i < N; i++)
			CHECK(params[i] == common[i] - 0.5f * residual[i]);
	}
	for (int i = 0; i < N; i++)
		CHECK(isfinite(params[i]));
	sluice_model_close(&model);
}

TEST_IN_JOB(push__fragment_that_is_not_finite__ends_the_job_by_name, 1)
{
	float params[N];
	sluice_model *model = open_model(job, params, SPARSE);

	log_capture();
	CHECK_STEP(model, params, params);
	params[N - 1] = NAN;
	CHECK_STEP(model, params, params); /* of the first fragment */
	params[N - 1] = 0;
	CHECK_STEP(model, params, params);
	params[begin_of(1) + 7] = INFINITY;
	CHECK(sluice_push(model, params) == SLUICE_ENUMERIC);
	CHECK(error_says("pushed at step 4 are infinite", "index 207"));
	sluice_model_close(&model);
}

/* ---- opening ------------------------------------------------------------------ */

TEST_IN_JOB(open__shards_that_fragments_do_not_divide__are_refused, 2)
{
	float params[N] = { 0 };
	sluice_model *model = NULL;
	const sluice_model_attr four = ATTR(.count = N, .shards = 4, .recipe = SPARSE);
	const sluice_model_attr few = ATTR(.count = 2, .recipe = SPARSE);

	log_capture();
	CHECK(sluice_model_open(job, &four, params, &model) == SLUICE_EINVAL);
	CHECK(error_says("fragments(3), but the model has 601 parameters in 4 shards",
			 "set shards to a multiple of 3"));
	CHECK(sluice_model_open(job, &few, params, &model) == SLUICE_EINVAL);
	CHECK(error_says("fragments(3), but the model has 2 parameters", "at least one"));
	model = OPEN(job, params, .count = N, .recipe = SPARSE);
	CHECK(model->layout.n_shards == PARTS);
	sluice_model_close(&model);
}

/* ---- pieces --------------------------------------------------------------------- */

TEST_IN_JOB(step__of_pieces_or_in_ranges__gives_the_same_bits, 2)
{
	static const char recipe[] = SPARSE "keep=0.5";
	float params[N], apart[N];
	sluice_model *model = open_model(job, params, recipe);

	drift_in_pieces(model, params, open_model(job, apart, recipe), apart, 4 * PERIOD, 4);
}

/* ---- a state in the middle of a period ------------------------------------------ */

enum { END = 3 * PERIOD, STATE_MOST = 1 << 16 };

/* Trains from `params` and saves after `save_at` steps, or loads `state` first. */
static void train(sluice_job *job, float *params, const char *recipe, uint64_t save_at,
		  uint8_t *state, int loads)
{
	const int rank = sluice_rank(job);
	sluice_model *model = open_model(job, params, recipe);
	uint64_t done = 0;
	size_t bytes = 0;

	CHECK_OK(sluice_state_size(model, &bytes));
	CHECK(bytes <= STATE_MOST);
	if (loads)
		CHECK_OK(sluice_state_load(model, state, bytes, params, &done));
	CHECK(done == (loads ? save_at : 0));
	for (uint64_t step = done + 1; step <= END; step++) {
		step_alone(params, rank, step);
		CHECK_STEP(model, params, params);
		if (step == save_at && !loads)
			CHECK_OK(sluice_state_save(model, state, bytes, 0));
	}
	sluice_model_close(&model);
}

static void resume(sluice_job *job, int rank, void *argument)
{
	static uint8_t state[STATE_MOST];
	float through[N], params[N];

	(void)rank;
	for (uint64_t at = 1; at <= 2 * PERIOD; at += under_valgrind() ? 5 : 1) {
		train(job, through, argument, at, state, 0);
		train(job, params, argument, at, state, 1);
		CHECK(!memcmp(params, through, sizeof(params)));
	}
}

TEST(state__at_each_step_of_a_period__goes_on_with_the_same_bits)
{
	run_in_job(2, resume, SPARSE "keep=0.5");
	run_in_job(1, resume,
		   "up=all,e3m0 down=all,e3m0 update=nesterov(0.9) memory=residual " STREAMS);
	run_in_job(2, resume,
		   "up=topk(0.1) down=topk(0.2) keep=0.5 dense=none "
		   "signal=drift when=every(6),fragments(2),late(2),mix(0.5)");
	run_in_job(2, resume,
		   "up=all,e3m0 down=all,e3m0 update=nesterov(0.9) memory=residual rate=0.4 "
		   "signal=drift when=every(6),late(4)");
}
