/* SPDX-License-Identifier: BSD-3-Clause
 * The state of a model as bytes: a run that is interrupted and resumed ends with the same bits, and
 * bytes that are damaged, cut, of another rank, save or model are refused on all ranks. */
#include "four_tensors.h"
#include "ranks.h"
#include "thinned.h"
#include "cases.h"
#include <string.h>

enum { RANKS = 3, STATE_MOST = 64 << 10, HALF = 3, STEPS = 6 };

static const char *const recipes[] = {
	"up=topk(0.02) down=topk(0.1) update=momentum(0.9)",
	"up=topk(0.02) down=all signal=momentum(0.9) update=none",
	"up=all down=all update=nesterov(0.5) memory=none",
	"up=topk(0.02) down=topk(0.1) update=momentum(0.9) warmup=dense(4)",
	"up=topk(0.02) down=topk(0.1) update=adamw(0.9,0.99,1e-8,0.1) warmup=dense(4) freeze=4",
	"up=topk(0.02) down=all update=adam(0,0.9,1e-8)",
	"demo",
	"up=topk(0.02) down=topk(0.1) transform=dct(16) clip=median reduce=senders",
	/* HALF is in the middle of a period. */
	"up=topk(0.02) down=topk(0.1) signal=drift when=every(2) update=nesterov(0.5)",
};
enum { RECIPES = sizeof recipes / sizeof *recipes };

/* Those with even numbers are never left out, because load_wrong() needs the states of 0 and 2. */
static int next_recipe(int r)
{
	return r + 1 + thinned((size_t)r + 1, 2);
}

struct saved {
	int part; /* 1: saved by SLUICE_STATE_PART, while other ranks continue */
	size_t bytes[RECIPES][RANKS];
	uint8_t state[RECIPES][RANKS][STATE_MOST];
	float params[RECIPES][COUNT]; /* with update=none: the parameters, which the program
					 keeps */
	uint64_t whole[RECIPES], resumed[RECIPES];
};

static void step(sluice_model *model, int rank, int step, float *params, int none)
{
	float grad[COUNT], mean[COUNT];
	fill_gradient(grad, rank, (uint64_t)step, params);
	if (strstr(sluice_recipe_text(model), "signal=drift")) {
		for (int i = 0; i < COUNT; i++)
			params[i] -= 0.1f * grad[i];
		CHECK_STEP(model, params, params);
		return;
	}
	CHECK_OK(sluice_set(model, SLUICE_LR, 0.05f / (float)step));
	CHECK_STEP(model, grad, none ? mean : params);
	for (int i = 0; i < COUNT && none; i++)
		params[i] -= 0.1f * mean[i];
}

static void train_whole(sluice_job *job, int rank, void *argument)
{
	struct saved *saved = argument;
	for (int r = 0; r < RECIPES; r = next_recipe(r)) {
		const int none = strstr(recipes[r], "update=none") != NULL;
		float params[COUNT] = { 0 };
		sluice_model *model = rank_open(job, params, attributes(recipes[r], 4));
		for (int s = 1; s <= STEPS; s++) {
			step(model, rank, s, params, none);
			if (s != HALF)
				continue;
			CHECK_OK(sluice_state_size(model, &saved->bytes[r][rank]));
			CHECK(saved->bytes[r][rank] < STATE_MOST);
			/* When rank 0, which is the first in each sum, and rank 1 save, the other
			 * ranks' pushes of the next step have already arrived. */
			if (saved->part && rank < RANKS - 1)
				sleep_ms(rank ? 20 : 40);
			CHECK_OK(sluice_state_save(model, saved->state[r][rank],
						   saved->bytes[r][rank],
						   saved->part ? SLUICE_STATE_PART : 0));
			memcpy(saved->params[r], params, sizeof params);
		}
		const uint64_t digest = check_same(job, params, sizeof params);
		if (!rank)
			saved->whole[r] = digest;
		sluice_model_close(&model);
	}
}

static void train_rest(sluice_job *job, int rank, void *argument)
{
	struct saved *saved = argument;
	for (int r = 0; r < RECIPES; r = next_recipe(r)) {
		const int none = strstr(recipes[r], "update=none") != NULL;
		float params[COUNT] = { 0 };
		uint64_t done = 0;
		size_t bytes = 0;
		sluice_model *model = rank_open(job, params, attributes(recipes[r], 4));
		CHECK_OK(sluice_state_size(model, &bytes));
		CHECK(bytes == saved->bytes[r][rank]);
		CHECK_OK(sluice_state_load(model, saved->state[r][rank], bytes, params, &done));
		CHECK(done == HALF && step_of(model).steps == HALF);
		if (none)
			memcpy(params, saved->params[r], sizeof params);
		for (int s = HALF + 1; s <= STEPS; s++)
			step(model, rank, s, params, none);
		const uint64_t digest = check_same(job, params, sizeof params);
		if (!rank)
			saved->resumed[r] = digest;
		sluice_model_close(&model);
	}
}

TEST(load__of_a_saved_state__goes_on_with_the_same_bits)
{
	struct saved *saved = shared_memory(sizeof *saved);
	run_in_job(RANKS, train_whole, saved);
	run_in_job(RANKS, train_rest, saved);
	for (int r = 0; r < RECIPES; r = next_recipe(r))
		assert_true(saved->whole[r] && saved->whole[r] == saved->resumed[r]);
}

static void load_mixed(sluice_job *job, int rank, void *argument)
{
	struct saved *saved = argument;
	float params[COUNT] = { 0 };
	log_capture();
	sluice_model *model = rank_open(job, params, attributes(recipes[0], 4));
	CHECK(sluice_state_load(model, saved->state[0][rank], saved->bytes[0][rank], params,
				NULL) == SLUICE_EWIRE);
	CHECK(error_says("belongs to another checkpoint", NULL));
	sluice_model_close(&model);
}

/* Saving a part waits for no other rank, none of which calls. */
TEST_IN_JOB(part__of_one_rank__waits_for_nobody, 2)
{
	static uint8_t bytes[STATE_MOST];
	const char *const refused[] = { "up=topk(0.1) down=all signal=innovation",
					"up=global(0.1) down=all" };
	float params[COUNT] = { 0 }, grad[COUNT] = { 0 };
	size_t n = 0;
	sluice_model *model = NULL;
	sluice_model_attr attr = attributes(recipes[0], 2);
	log_capture();
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	CHECK_OK(sluice_state_size(model, &n));
	if (!rank) {
		CHECK_OK(sluice_state_save(model, bytes, n, SLUICE_STATE_PART));
		CHECK(sluice_state_save(model, bytes, n - 1, SLUICE_STATE_PART) == SLUICE_EINVAL);
		CHECK(error_says("sluice_state_save: bytes=", NULL));
		CHECK(sluice_state_save(model, NULL, n, SLUICE_STATE_PART) == SLUICE_EINVAL);
		CHECK(sluice_state_save(model, bytes, n, 2) == SLUICE_EINVAL);
		CHECK(error_says("sluice_state_save: there is no flag 0x2", NULL));
		CHECK(sluice_state_save(model, bytes, n, SLUICE_STATE_PART | 0x40) ==
		      SLUICE_EINVAL);
		CHECK(error_says("sluice_state_save: there is no flag 0x40", NULL));
		CHECK_OK(sluice_push(model, grad));
		CHECK(sluice_state_save(model, bytes, n, SLUICE_STATE_PART) == SLUICE_EINVAL);
		CHECK(error_says("sluice_state_save: the last push was not pulled yet", NULL));
	} else {
		CHECK_OK(sluice_push(model, grad));
	}
	CHECK_OK(sluice_pull(model, params));
	sluice_model_close(&model);
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		attr = attributes(refused[i], 2);
		CHECK_OK(sluice_model_open(job, &attr, params, &model));
		CHECK_OK(sluice_state_size(model, &n));
		CHECK(sluice_state_save(model, bytes, n, SLUICE_STATE_PART) == SLUICE_ENOSUPP);
		CHECK(error_says("leave the flag out on all workers", NULL));
		sluice_model_close(&model);
	}
}

TEST(load__of_parts__goes_on_with_the_same_bits)
{
	struct saved *saved = shared_memory(sizeof *saved);
	saved->part = 1;
	run_in_job(RANKS, train_whole, saved);
	run_in_job(RANKS, train_rest, saved);
	for (int r = 0; r < RECIPES; r = next_recipe(r))
		assert_true(saved->whole[r] && saved->whole[r] == saved->resumed[r]);
	/* Parts of another run do not belong to this save. */
	struct saved *other = shared_memory(sizeof *other);
	other->part = 1;
	run_in_job(RANKS, train_whole, other);
	memcpy(saved->state[0][1], other->state[0][1], sizeof saved->state[0][1]);
	run_in_job(RANKS, load_mixed, saved);
}

/* ---- refusals -------------------------------------------------------------- */

/* Rank 1 loads other bytes than it saved. The model stays fresh, so that the next attempt is
 * possible, and the last one is the good state. */
static void load_wrong(sluice_job *job, int rank, void *argument)
{
	struct saved *saved = argument;
	float params[COUNT] = { 0 };
	static uint8_t copy[STATE_MOST], other[STATE_MOST];
	const size_t n = saved->bytes[0][rank];
	sluice_model *model = NULL;
	sluice_model_attr attr = attributes(recipes[0], 4);
	uint64_t done = 99;
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	log_capture();
	for (size_t at = 0, i = 0; at < saved->bytes[0][1]; at += 1 + at / 7, i++) {
		if (thinned(i + 1, 3))
			continue;
		memcpy(copy, saved->state[0][rank], n);
		if (rank == 1)
			copy[at] ^= 0x10;
		int rc = sluice_state_load(model, copy, n, params, &done);
		CHECK(rc == SLUICE_EWIRE || rc == SLUICE_EINVAL);
		CHECK(rank == 1 ? *sluice_last_error() : error_says("rank 1 (node n1)", NULL));
		rc = sluice_state_load(model, copy, rank == 1 ? at : n, params, &done);
		CHECK(rc == SLUICE_EWIRE);
		CHECK(rank == 1 || error_says("rank 1 (node n1)", NULL));
	}
	CHECK(sluice_state_load(model, saved->state[0][rank], n + (rank == 1), params, &done) ==
	      SLUICE_EWIRE);
	/* The state of another rank. */
	const int from = rank ? 3 - rank : 0;
	CHECK(sluice_state_load(model, saved->state[0][from], saved->bytes[0][from], params,
				&done) == SLUICE_EWIRE);
	CHECK(error_says("belongs to another rank", NULL));
	/* The state of another model. */
	CHECK(sluice_state_load(model, saved->state[2][rank], saved->bytes[2][rank], params,
				&done) == SLUICE_EINVAL);
	CHECK(error_says("with \"up=all,f32\" in the recipe", NULL));
	CHECK(sluice_state_load(model, NULL, n, params, &done) == SLUICE_EINVAL);
	CHECK(sluice_state_load(model, saved->state[0][rank], n, NULL, &done) == SLUICE_EINVAL);
	CHECK(done == 99 && step_of(model).steps == 0);
	CHECK_OK(sluice_state_load(model, saved->state[0][rank], n, params, NULL));
	/* The state of another save at the same step. */
	CHECK_OK(sluice_state_save(model, other, n, 0));
	sluice_model_close(&model);
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	CHECK(sluice_state_load(model, rank ? saved->state[0][rank] : other, n, params, &done) ==
	      SLUICE_EWIRE);
	CHECK(error_says("belongs to another checkpoint", NULL));
	sluice_model_close(&model);
}

TEST(load__of_other_bytes__is_refused_on_all_ranks)
{
	struct saved *saved = shared_memory(sizeof *saved);
	run_in_job(RANKS, train_whole, saved);
	run_in_job(RANKS, load_wrong, saved);
}

TEST_IN_JOB(calls__that_are_wrong__are_refused, 2)
{
	static uint8_t bytes[STATE_MOST];
	float params[COUNT] = { 0 }, grad[COUNT] = { 0 };
	size_t n = 0;
	log_capture();
	sluice_model *model = rank_open(job, params, attributes(recipes[0], 2));
	CHECK(sluice_state_size(NULL, &n) == SLUICE_EINVAL);
	CHECK(sluice_state_size(model, NULL) == SLUICE_EINVAL);
	CHECK_OK(sluice_state_size(model, &n));
	CHECK(sluice_state_save(model, bytes, n - (rank == 1), 0) == SLUICE_EINVAL);
	CHECK(error_says("sluice_state_size", "bytes="));
	CHECK(sluice_state_save(model, rank ? bytes : NULL, n, 0) == SLUICE_EINVAL);
	CHECK_OK(sluice_push(model, grad));
	CHECK(sluice_state_save(model, bytes, n, 0) == SLUICE_EINVAL);
	CHECK(error_says("the last push was not pulled yet", NULL));
	CHECK_OK(sluice_pull(model, params));
	CHECK_OK(sluice_state_save(model, bytes, n, 0));
	CHECK(sluice_state_load(model, bytes, n, params, NULL) == SLUICE_EINVAL);
	CHECK(error_says("right after sluice_model_open", NULL));
	sluice_model_close(&model);
}

TEST_IN_RANKS(state__with_dedicated_servers__is_refused, 3)
{
	float params[COUNT] = { 0 };
	size_t n = 0;
	sluice_job_attr where = { .size = sizeof where, .servers = 1 };
	sluice_job *job = rank_join(&where);
	sluice_model *model = rank_open(job, params, attributes(recipes[0], 2));
	log_capture();
	if (rank == 2)
		CHECK_OK(sluice_serve(model));
	else
		CHECK(sluice_state_size(model, &n) == SLUICE_ENOSUPP &&
		      error_says("dedicated servers", NULL));
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}
