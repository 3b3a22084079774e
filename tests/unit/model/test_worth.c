/* SPDX-License-Identifier: BSD-3-Clause
 * Whether compression is worth its time: the choice and the verdict for given times; and a job with
 * recipe=auto, whose ranks get different times, but all follow the choice of the first. */
#include "base/error.h"
#include "ranks.h"
#include "cases.h"
#include "model/model.h"
#include "model/worth.h"
#include <math.h>
#include <string.h>

/* ---- the arithmetic -------------------------------------------------------- */

static unsigned choice_of(const uint64_t ms[WORTH_CANDIDATES])
{
	struct worth w = { 0 };
	for (uint64_t step = 1; step <= WORTH_TRIAL; step++) {
		unsigned i = worth_candidate(step - 1, 0);
		/* The first step of each candidate is slow, and another one is disturbed. */
		uint64_t extra = step % WORTH_TRIES == 1 ? 7 : step % WORTH_TRIES == 3 ? 900 : 0;
		const struct worth_step s = { .work_ns = ms[i] * 400000,
					      .wire_ns = ms[i] * 600000 + extra * 1000000 };
		worth_note(&w, step, i, &s);
	}
	return worth_choose(&w) - 1;
}

TEST(choose__dense_is_quickest__dense)
{
	assert_int_equal(choice_of((uint64_t[]){ 10, 12, 14, 13 }), 0);
	assert_int_equal(choice_of((uint64_t[]){ 100, 99, 95, 91 }), 0); /* not faster by a tenth */
}

TEST(choose__sparser_is_a_tenth_quicker_each_time__the_last_that_is)
{
	assert_int_equal(choice_of((uint64_t[]){ 100, 50, 20, 5 }), 3);
	assert_int_equal(choice_of((uint64_t[]){ 100, 50, 20, 19 }), 2);
	assert_int_equal(choice_of((uint64_t[]){ 100, 120, 60, 58 }), 2);
	assert_int_equal(choice_of((uint64_t[]){ 100, 90, 82, 82 }), 1);
}

TEST(candidate__trial_over__the_chosen_one_else_the_last)
{
	assert_int_equal(worth_candidate(0, 3), 0); /* no rank chooses before the trial is over */
	assert_int_equal(worth_candidate(WORTH_TRIES, 0), 1);
	assert_int_equal(worth_candidate(WORTH_TRIAL - 1, 1), WORTH_CANDIDATES - 1);
	assert_int_equal(worth_candidate(WORTH_TRIAL, 0), WORTH_CANDIDATES - 1);
	assert_int_equal(worth_candidate(WORTH_TRIAL, 1), 0);
	assert_int_equal(worth_candidate(WORTH_TRIAL + 1000, 3), 2);
}

/* Gives the verdict for a million parameters, 8 MB dense and 0.1 MB sparse. */
static int verdict_of(double work_ms, double gigabytes_per_s, char text[400])
{
	struct worth w = { .wire_ns_per_byte = 1 / gigabytes_per_s, .work_ns_per_byte = 0.1 };
	const struct worth_step s = { .work_ns = (uint64_t)(work_ms * 1e6),
				      .wire_ns = 1000,
				      .bytes = 100000,
				      .dense_bytes = 8000000 };
	for (uint64_t step = 1; step <= WORTH_WATCHED; step++)
		worth_note(&w, step, 0, &s);
	return worth_verdict(&w, 1000000, text, 400);
}

TEST(verdict__dense_would_take_less__said_with_both_sums)
{
	char text[400] = "";
	/* A dense step has 0.8 ms of work. 8 MB at 1 GB/s take 8 ms, and 0.1 MB take 0.1 ms. */
	assert_int_equal(verdict_of(8.6, 1, text), 0);
	assert_int_equal(verdict_of(9.6, 1, text), 0); /* the difference is less than a tenth */
	assert_string_equal(text, "");
	assert_int_equal(verdict_of(9.8, 1, text), 1);
	assert_non_null(strstr(text, "9.800 ms"));
	assert_non_null(strstr(text, "1.00 GB/s"));
	assert_non_null(strstr(text, "0.800 ms and 8.000 ms"));
	assert_int_equal(verdict_of(3, 10, text), 1);
	assert_int_equal(verdict_of(3, 0.1, text), 0);
}

TEST(verdict__nothing_measured_or_nothing_saved__silent)
{
	struct worth w = { .work_ns_per_byte = 0.1 };
	const struct worth_step step = {
		.work_ns = 5000000, .wire_ns = 5, .bytes = 9, .dense_bytes = 10
	};
	const struct worth_step dense = {
		.work_ns = 5000000, .wire_ns = 5, .bytes = 10, .dense_bytes = 10
	};
	char text[400];
	worth_note(&w, 2, 0, &step);
	assert_int_equal(worth_verdict(&w, 1000, text, sizeof text), 0); /* no wire */
	w.wire_ns_per_byte = 1;
	assert_int_equal(worth_verdict(&w, 1000, text, sizeof text), 1);
	w.least[0] = dense;
	assert_int_equal(worth_verdict(&w, 1000, text, sizeof text), 0);
}

TEST(verdict__saving_too_small_to_matter__silent)
{
	/* 31 parameters: 3 us of work, where a dense step would need 0.3 us. */
	struct worth w = { .work_ns_per_byte = 0.1, .wire_ns_per_byte = 1 };
	struct worth_step s = { .work_ns = 3000, .wire_ns = 400, .bytes = 200, .dense_bytes = 320 };
	char text[400];
	worth_note(&w, 2, 0, &s);
	assert_int_equal(worth_verdict(&w, 31, text, sizeof text), 0);
	s.work_ns = 150000;
	w.least[0] = s;
	assert_int_equal(worth_verdict(&w, 31, text, sizeof text), 0);
	s.work_ns = 250000;
	w.least[0] = s;
	assert_int_equal(worth_verdict(&w, 31, text, sizeof text), 1);
}

/* ---- a job ----------------------------------------------------------------- */

/* The times that each rank gets in place of the measured ones. */
static uint64_t told_ms[WORTH_CANDIDATES];

void __real_worth_note(struct worth *w, uint64_t steps, unsigned candidate,
		       const struct worth_step *s);
void __wrap_worth_note(struct worth *w, uint64_t steps, unsigned candidate,
		       const struct worth_step *s);
void __wrap_worth_note(struct worth *w, uint64_t steps, unsigned candidate,
		       const struct worth_step *s)
{
	struct worth_step told = *s;
	if (told_ms[0]) {
		told.work_ns = told_ms[candidate] * 500000;
		told.wire_ns = told_ms[candidate] * 500000;
	}
	__real_worth_note(w, steps, candidate, &told);
}

enum { COUNT = 4000, TENSORS = 2 };

struct job_case {
	int servers;
	unsigned wanted; /* candidate */
	uint64_t told[4][WORTH_CANDIDATES];
	const char *words;
};

static const sluice_tensor tensors[TENSORS] = { { "w", 3900 }, { "bias", 100 } };

/* Returns 1 if a code of the budget has this density and these bits. */
static int is_of(unsigned budget, enum budget_way way, double density, uint64_t bits)
{
	int found = 0;
	for (enum code c = 0; c < AUTO_CODES; c++) {
		const struct value_coding values = budget_values(budget, c);
		found |= budget_density(budget, way, c) == density && value_width(&values) == bits;
	}
	return found;
}

static int choose_together(int rank, void *argument)
{
	const struct job_case *c = argument;
	static float params[COUNT], grad[COUNT];
	sluice_job_attr job_attr = { .size = sizeof job_attr, .servers = c->servers };
	sluice_job *job = rank_join(&job_attr);
	memcpy(told_ms, c->told[rank % 4], sizeof told_ms);
	log_capture();
	sluice_model *model = OPEN(job, params, .count = COUNT, .recipe = c->words, .lr = 0.1f,
				   .tensors = tensors, .n_tensors = TENSORS, .shards = 3);
	if (!sluice_is_worker(job)) {
		CHECK_OK(sluice_serve(model));
		sluice_model_close(&model);
		sluice_finalize(&job);
		return 0;
	}
	for (uint64_t step = 1; step <= WORTH_TRIAL + 10; step++) {
		sluice_model_stats stats = { .size = offsetof(sluice_model_stats, residual_norm) },
				   now;
		CHECK_OK(sluice_stats(model, &stats));
		for (int i = 0; i < COUNT; i++)
			grad[i] = 0.1f * params[i] + noise(21, step, (uint64_t)rank, (uint64_t)i);
		if (step % 2) {
			CHECK_OK(sluice_push(model, grad));
		} else {
			CHECK_OK(sluice_push_range(model, grad + 1000, 1000, COUNT - 1000));
			CHECK_OK(sluice_push_range(model, grad, 0, 1000));
		}
		CHECK_OK(sluice_pull(model, params));
		check_same(job, params, sizeof params);
		now.size = sizeof now;
		CHECK_OK(sluice_stats(model, &now));
		unsigned tried = c->wanted;
		if (step <= WORTH_TRIAL)
			tried = (unsigned)(step - 1) / WORTH_TRIES;
		else if (step == WORTH_TRIAL + 1) /* the proposals have been pushed */
			tried = WORTH_CANDIDATES - 1;
		CHECK(is_of(tried, BUDGET_UP, now.density_up, now.bits_up));
		CHECK(is_of(tried, BUDGET_DOWN, now.density_down, now.bits_down));
		uint64_t pushed = now.pushed_elements - stats.pushed_elements;
		uint64_t pulled = now.pulled_elements - stats.pulled_elements;
		CHECK(pushed ==
		      (now.density_up == 1 ? COUNT : schedule_count(now.density_up, 3900) + 100));
		CHECK(pulled > 100 &&
		      pulled <= schedule_count(budget_largest(tried, BUDGET_DOWN), 3900) + 103);
		if (!tried) /* nothing stays in the residual */
			CHECK(pulled == COUNT && now.residual_norm == 0);
		else
			CHECK(now.residual_norm > 0);
	}
	CHECK(log_saw("recipe auto continues", c->wanted ? "topk" : "dense", NULL, NULL) ==
	      (rank == 0));
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

TEST(job__auto__all_ranks_go_on_as_the_first_one_chose)
{
	/* Each rank alone would make another choice. */
	struct job_case c = {
		.words = "auto",
		.wanted = 2,
		.told = { { 100, 60, 30, 29 }, { 1, 2, 3, 4 }, { 9, 8, 7, 1 }, { 9, 1, 1, 1 } }
	};
	setenv("SLUICE_LOG", "info", 1);
	run_ranks(3, choose_together, &c);
	c.servers = 2;
	run_ranks(5, choose_together, &c);
	c.words = "signal=momentum(0.9) auto update=sgd";
	c.wanted = 0;
	c.told[0][0] = 1;
	run_ranks(4, choose_together, &c);
	unsetenv("SLUICE_LOG");
}

static int verdicts;

static void count_verdicts(int level, const char *line, void *context)
{
	verdicts += strstr(line, "costs more than it saves") != NULL;
}

/* The user gave the recipe: one worker logs once that a dense step would be faster. */
struct hearing {
	const char *recipe;
	uint32_t shards;
	int speaker; /* -1: nobody */
};

static void hear_verdict(sluice_job *job, int rank, void *argument)
{
	const struct hearing *h = argument;
	const char *recipe = h->recipe;
	static float params[COUNT], grad[COUNT];
	sluice_set_log(count_verdicts, NULL);
	sluice_model *model = OPEN(job, params, .count = COUNT, .recipe = recipe, .lr = 0.1f,
				   .shards = h->shards);
	CHECK(model->worth.work_ns_per_byte > 0);
	CHECK((model->worth.wire_ns_per_byte > 0) == (h->shards > 1 || rank > 0));
	for (int i = 0; i < WORTH_CANDIDATES; i++)
		told_ms[i] = 100000; /* no network is so slow */
	for (int i = 0; i < COUNT; i++)
		grad[i] = noise(22, 0, (uint64_t)rank, (uint64_t)i);
	for (int step = 1; step <= 20; step++) {
		CHECK_STEP(model, grad, params);
		int said = rank == h->speaker &&
			   step >= WORTH_WATCHED + (strstr(recipe, "warmup") ? 5 : 0);
		CHECK(verdicts == said);
	}
	sluice_model_close(&model);
}

TEST(job__compression_costs_more_than_it_saves__said_once_by_one_rank)
{
	unsetenv("SLUICE_ADVICE");
	run_in_job(2, hear_verdict, &(struct hearing){ "up=topk(0.01) down=topk(0.05)", 2, 0 });
	run_in_job(3, hear_verdict,
		   &(struct hearing){ "up=topk(0.01) down=topk(0.05) warmup=5", 3, 0 });
	run_in_job(2, hear_verdict, &(struct hearing){ "up=all,grid(4) down=all", 2, 0 });
}

TEST(job__nothing_to_compare_or_nobody_to_advise__silent)
{
	run_in_job(2, hear_verdict, &(struct hearing){ "up=all down=all", 2, -1 });
	run_in_job(
		2, hear_verdict,
		&(struct hearing){ "up=all down=all signal=innovation when=lazy(10,0.1)", 2, -1 });
	run_in_job(2, hear_verdict,
		   &(struct hearing){ "up=all,grid(4) down=all signal=innovation "
				      "when=lazy(10,0.1)",
				      2, -1 });
	run_in_job(
		2, hear_verdict,
		&(struct hearing){ "up=all,uniform(4) down=all memory=none when=every(2)", 2, -1 });
	/* Rank 0 owns the only shard, so it uses no network. */
	run_in_job(3, hear_verdict, &(struct hearing){ "up=topk(0.01) down=topk(0.05)", 1, -1 });
	setenv("SLUICE_ADVICE", "no", 1);
	run_in_job(2, hear_verdict, &(struct hearing){ "up=topk(0.01) down=topk(0.05)", 2, -1 });
	unsetenv("SLUICE_ADVICE");
}
