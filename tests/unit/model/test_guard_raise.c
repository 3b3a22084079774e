/* SPDX-License-Identifier: BSD-3-Clause
 * guard=raise: a training that diverges by error feedback converges, because all ranks double their
 * densities after the same step, whichever of them has seen the growth; each doubling is counted
 * and reported once; a resumed training doubles in the same steps and ends with the same bits. */
#include "base/error.h"
#include "ranks.h"
#include "scratch.h"
#include "shard/state.h"
#include "thinned.h"
#include "worker/state.h"
#include "cases.h"
#include <math.h>
#include <string.h>

enum { COUNT = 600, STEPS = 2000, SHARDS = 3 };

static sluice_model *open_model(sluice_job *job, const char *recipe, float lr, float *params)
{
	sluice_model *model = OPEN(job, params, .count = COUNT, .recipe = recipe, .lr = lr,
				   .shards = SHARDS);
	return model;
}

static float goal(uint64_t i)
{
	return noise(1, 0, 0, i);
}

/* Minimises |x - goal|^2 / 2, with a little noise until the middle of the training. */
static void step(sluice_model *model, uint64_t number, float *params)
{
	const uint64_t rank = (uint64_t)sluice_rank(model->job);
	const float noisy = number < STEPS / 2 ? 0.1f : 0;
	static float grad[COUNT];

	for (uint64_t i = 0; i < COUNT; i++)
		grad[i] = params[i] - goal(i) + noisy * noise(2, number, rank, i);
	CHECK_STEP(model, grad, params);
}

static double distance(const float *params)
{
	double squares = 0;

	for (uint64_t i = 0; i < COUNT; i++)
		squares += ((double)params[i] - (double)goal(i)) *
			   ((double)params[i] - (double)goal(i));
	return sqrt(squares / COUNT);
}

static uint64_t raises(sluice_model *model)
{
	sluice_model_stats stats = { .size = sizeof(stats) };

	CHECK_OK(sluice_stats(model, &stats));
	return stats.guard_raises;
}

/* ---- trainings that diverge -------------------------------------------------------- */

struct trial {
	const char *recipe;
	float lr;
	int servers;
	int raises; /* 1: densities are raised */
};

static int converge(int rank, void *argument)
{
	const struct trial *trial = argument;
	sluice_job_attr attr = { .size = sizeof(attr), .servers = trial->servers };
	sluice_job *job = rank_join(&attr);
	static float params[COUNT];
	sluice_model_stats stats = { .size = sizeof(stats) };

	check_of = trial->recipe;
	log_capture();
	sluice_model *model = open_model(job, trial->recipe, trial->lr, params);
	if (!sluice_is_worker(job)) {
		CHECK_OK(sluice_serve(model));
	} else {
		for (uint64_t number = 1; number <= STEPS; number++)
			step(model, number, params);
		check_same(job, params, sizeof(params));
		CHECK(distance(params) < 0.06);
		CHECK_OK(sluice_stats(model, &stats));
		CHECK(!stats.guard_raises == !trial->raises);
		/* All workers have the same number, and rank 0 reports each doubling. */
		check_same(job, &stats.guard_raises, sizeof(stats.guard_raises));
		CHECK(log_saw("the training ", "guard=raise doubles the densities", "learning rate",
			      "(doubling 1 of at most") == (rank == 0 && trial->raises));
	}
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

TEST(raise__training_that_diverges__converges_at_a_higher_density)
{
	static const struct trial trials[] = {
		{ "up=topk(0.01) down=topk(0.05) guard=raise", 0.3f, 0, 1 },
		{ "up=topk(0.01) down=topk(0.05) guard=raise", 0.002f, 0, 0 },
		{ "up=topk(0.02) down=all guard=raise", 0.4f, 1, 1 },
		{ "up=all down=topk(0.02) memory=residual(outside) guard=raise", 0.4f, 0, 1 },
		{ "scalecom guard=raise", 0.3f, 0, 1 },
		{ "up=cyclic(0.02,chunks) down=all guard=raise", 0.4f, 0, 1 },
		{ "up=topk(0.02) down=topk(0.1) signal=momentum(0.5) guard=raise", 0.3f, 0, 1 },
		{ "up=topk(0.02),bf16 down=topk(0.1),uniform(8) guard=raise", 0.4f, 0, 1 },
		{ "up=topk(k=9) down=topk(k=60) coding=small guard=raise", 0.4f, 1, 1 },
		{ "up=tensor-topk(0.02) down=topk(0.1) guard=raise", 0.4f, 0, 1 },
	};

	for (size_t i = 0; i < sizeof(trials) / sizeof(*trials); i++)
		if (!thinned(i, 5))
			run_ranks(2 + (int)(i % 2) + trials[i].servers, converge,
				  (void *)(uintptr_t)&trials[i]);
}

/* ---- the rank that proposes ----------------------------------------------------------- */

enum { PROPOSED_IN = 5 };

/* Rank 1 has detected growth, and the others have not. */
TEST_IN_JOB(raise__proposed_by_one_rank__is_followed_by_all_in_the_next_step, SHARDS)
{
	static float params[COUNT];
	sluice_model_stats stats = { .size = sizeof(stats) };

	log_capture();
	sluice_model *model = open_model(job, "up=topk(0.02) down=topk(0.1) guard=raise", 0.01f,
					 params);
	for (uint64_t number = 1; number <= PROPOSED_IN + 1; number++) {
		if (number == PROPOSED_IN && rank == 1)
			model->worker->step.proposed = 1;
		step(model, number, params);
		CHECK_OK(sluice_stats(model, &stats));
		CHECK(stats.guard_raises == (number >= PROPOSED_IN));
		CHECK(stats.density_up == (number > PROPOSED_IN ? 0.04 : 0.02));
		CHECK(stats.density_down == (number > PROPOSED_IN ? 0.2 : 0.1));
		CHECK(model->n_own == 1 &&
		      model->shards[0].chosen == (unsigned)(number >= PROPOSED_IN));
	}
	CHECK(log_saw("a rank has seen its messages grow", "to 0.04 up and 0.2 down from step 6 on",
		      "(doubling 1 of at most 6)", NULL) == (rank == 0));
	check_same(job, params, sizeof(params));
	sluice_model_close(&model);
}

/* The densities are already 1, so there is only a warning. */
TEST_IN_JOB(raise__training_that_diverges_without_compression_too__says_so, 2)
{
	static float params[COUNT];
	int rc = 0;

	log_capture();
	sluice_model *model = open_model(job, "up=topk(0.5) down=topk(0.5) guard=raise", 3.0f,
					 params);
	for (uint64_t number = 1; number <= 40 && !rc; number++)
		step(model, number, params);
	CHECK(raises(model) == 1);
	CHECK(log_saw("the training ", "densities to 1 already", "learning rate 3", NULL) ==
	      (rank == 0));
	sluice_model_close(&model);
}

/* ---- resumed trainings ------------------------------------------------------------------ */

#define RESUMED "up=topk(0.01) down=topk(0.05) guard=raise"
enum { RANKS = 2, SAVES = 24, LAST = 900 };

struct saved {
	char dir[SCRATCH_PATH];
	uint64_t whole, raises;
	uint64_t at[SAVES]; /* steps of the checkpoints */
};

static void folder_of(const struct saved *saved, int save, char *folder, size_t cap)
{
	snprintf(folder, cap, "%s/%d", saved->dir, save);
}

/* The first doubling is proposed in the push after this step. */
enum { PROPOSES = 400 };

/* Writes a checkpoint every 60 steps, and around the proposal and the first doubling. */
static void train_whole(sluice_job *job, int rank, void *argument)
{
	struct saved *saved = argument;
	static float params[COUNT];
	char folder[SCRATCH_PATH + 16];
	int save = 0;

	log_capture();
	sluice_model *model = open_model(job, RESUMED, 0.4f, params);
	for (uint64_t number = 1; number <= LAST; number++) {
		double proposals;

		step(model, number, params);
		if (number == PROPOSES) {
			proposals = model->worker->step.proposed;
			CHECK_OK(sluice_sum(job, &proposals, 1));
			CHECK(proposals > 0 && !model->worker->step.chosen);
		}
		if (number % 60 && (number < PROPOSES || number > PROPOSES + 2))
			continue;
		folder_of(saved, save, folder, sizeof(folder));
		CHECK_OK(sluice_checkpoint(model, folder));
		if (!rank)
			saved->at[save] = number;
		save++;
	}
	CHECK(raises(model) > 1);
	const uint64_t digest = check_same(job, params, sizeof(params));
	if (!rank) {
		saved->whole = digest;
		saved->raises = raises(model);
	}
	sluice_model_close(&model);
}

static void resume(sluice_job *job, int rank, void *argument)
{
	const struct saved *saved = argument;
	static float params[COUNT];
	char folder[SCRATCH_PATH + 16];

	log_capture();
	for (int save = 0; save < SAVES && saved->at[save]; save++) {
		uint64_t done = 0;

		if (thinned((size_t)save, 5))
			continue;
		folder_of(saved, save, folder, sizeof(folder));
		sluice_model *model = open_model(job, RESUMED, 0.4f, params);
		CHECK_OK(sluice_restore(model, folder, params, &done));
		CHECK(done == saved->at[save]);
		for (uint64_t number = done + 1; number <= LAST; number++)
			step(model, number, params);
		CHECK(check_same(job, params, sizeof(params)) == saved->whole);
		CHECK(raises(model) == saved->raises);
		sluice_model_close(&model);
	}
}

TEST(raise__resumed_at_any_step__doubles_in_the_same_steps)
{
	struct saved *saved = shared_memory(sizeof(*saved));

	assert_int_equal(scratch_make(saved->dir), 0);
	run_in_job(RANKS, train_whole, saved);
	run_in_job(RANKS, resume, saved);
	scratch_remove(saved->dir);
}
