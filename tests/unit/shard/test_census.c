/* SPDX-License-Identifier: BSD-3-Clause
 * One threshold for all workers: the valid content of notes, and that jobs of several ranks keep
 * the density, agree, give a larger share to larger gradients, and continue after a restart as
 * without one. */
#include "base/bytes.h"
#include "shard/shard_census.h"
#include "shard/state.h"
#include "model/compressor.h"
#include "worker/state.h"
#include "worker/worker_census.h"
#include "worker/worker_setup.h"
#include "ranks.h"
#include "scratch.h"
#include "thinned.h"
#include "cases.h"
#include <math.h>
#include <string.h>

/* ---- training -------------------------------------------------------------- */

enum { D = 20000, W = 4, SHARDS = 4 };

struct plan {
	const char *recipe;
	int steps, servers;
	int slower_at; /* step at which the learning rate falls to a tenth; 0: none */
	float gradient_scale[W];
	float region_scale[SHARDS];
	int checkpoint_at; /* 0: none */
	char dir[SCRATCH_PATH];
	int restore;
	/* results of rank 0, or of each rank */
	uint64_t digest;
	uint64_t pushed[W], pulled, steps_counted;
	float own_threshold[W]; /* threshold of the last push */
	double by_region[SHARDS];
};

/* Heavy tails. */
static float gradient_of(const struct plan *plan, int rank, uint64_t step, uint64_t i)
{
	float z = noise(21, step, (uint64_t)rank, i);

	return z * z * z * z * z * plan->gradient_scale[rank] * plan->region_scale[i * SHARDS / D];
}

static int train(int rank, void *argument)
{
	static float params[D], grad[D], before[D];
	struct plan *plan = argument;
	const sluice_tensor tensors[] = { { "w", D - 20 }, { "bias", 20 } };
	const sluice_job_attr job_attr = { .size = sizeof job_attr, .servers = plan->servers };
	sluice_job *job = rank_join(&job_attr);
	sluice_model_stats stats = { .size = sizeof stats };
	uint64_t step = 0;

	sluice_model *model = OPEN(job, params, .count = D, .recipe = plan->recipe, .lr = 0.1f,
				   .shards = SHARDS, .tensors = tensors, .n_tensors = 2);
	if (!sluice_is_worker(job)) {
		CHECK_OK(sluice_serve(model));
		sluice_model_close(&model);
		sluice_finalize(&job);
		return 0;
	}
	if (plan->restore)
		CHECK_OK(sluice_restore(model, plan->dir, params, &step));
	while (step < (uint64_t)plan->steps) {
		if (++step == (uint64_t)plan->slower_at)
			CHECK_OK(sluice_set(model, SLUICE_LR, 0.01f));
		for (uint64_t i = 0; i < D; i++)
			grad[i] = gradient_of(plan, rank, step, i);
		memcpy(before, params, sizeof before);
		CHECK_STEP(model, grad, params);
		for (int i = 0; i < D && !rank; i++)
			plan->by_region[(uint64_t)i * SHARDS / D] += params[i] != before[i];
		if (step == (uint64_t)plan->checkpoint_at)
			CHECK_OK(sluice_checkpoint(model, plan->dir));
	}
	CHECK_OK(sluice_stats(model, &stats));
	uint64_t digest = check_same(job, params, sizeof params);
	/* All workers have the same thresholds. The threshold that corresponds to each worker's
	 * push ends near the common one. */
	check_same(job, &model->worker->census->up_level, sizeof(float));
	check_same(job, &model->worker->census->down_level, sizeof(float));
	plan->pushed[rank] = stats.pushed_elements;
	plan->own_threshold[rank] = bits_float(compressor_hint(model->worker->compressor)->last);
	if (!rank) {
		plan->digest = digest;
		plan->pulled = stats.pulled_elements;
		plan->steps_counted = stats.steps;
	}
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

static struct plan *plan_of(const char *recipe, int steps)
{
	struct plan *plan = shared_memory(sizeof *plan);

	*plan = (struct plan){ .recipe = recipe,
			       .steps = steps,
			       .gradient_scale = { 1, 2, 3, 4 },
			       .region_scale = { 1, 1, 1, 1 } };
	return plan;
}

/* Returns the number of steps of a run whose densities are checked. Under valgrind only the first
 * steps are made, which are too few for that check. */
static int long_run(void)
{
	return under_valgrind() ? 30 : 300;
}

static int judged(const struct plan *plan)
{
	return plan->steps >= 300;
}

/* Returns the selected share of coordinates that are not exempt, over the run and all workers,
 * divided by `density`. */
static double up_against_target(const struct plan *plan, int workers, double density)
{
	double sum = 0, steps = (double)plan->steps_counted;

	for (int w = 0; w < workers; w++)
		sum += (double)plan->pushed[w];
	return (sum - 20 * steps * workers) / (steps * workers * density * (D - 20));
}

TEST(train__4_unequal_ranks__density_over_the_run_within_5_percent)
{
	static const struct {
		const char *recipe;
		double density;
	} runs[] = {
		{ "up=global(0.01) down=all", 0.01 },
		{ "up=global(0.002,10) down=all memory=residual(outside)", 0.002 },
		{ "up=global(0.05,50),f16 down=topk(0.1)", 0.05 },
		{ "up=global(0.02,100) down=global(0.05)", 0.02 },
	};

	for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
		struct plan *plan = plan_of(runs[i].recipe, long_run());

		if (thinned(i, 3))
			continue;
		run_ranks(W, train, plan);
		double ratio = up_against_target(plan, W, runs[i].density);
		print_message("%s: sent / target %.4f; by rank %llu %llu %llu %llu\n",
			      runs[i].recipe, ratio, (unsigned long long)plan->pushed[0],
			      (unsigned long long)plan->pushed[1],
			      (unsigned long long)plan->pushed[2],
			      (unsigned long long)plan->pushed[3]);
		assert_true(!judged(plan) || (ratio > 0.95 && ratio < 1.05));
		assert_true(plan->pushed[3] > plan->pushed[0]); /* the worker with more energy
								   sends more */
	}
}

/* Gradients differ by a factor of 4 between ranks. With equal shares their thresholds would differ,
 * too. */
TEST(train__4_unequal_ranks__their_thresholds_become_one)
{
	struct plan *plan = plan_of("up=global(0.02,10) down=all", long_run());
	float least = INFINITY, most = 0;

	run_ranks(W, train, plan);
	for (int w = 0; w < W; w++) {
		least = fminf(least, plan->own_threshold[w]);
		most = fmaxf(most, plan->own_threshold[w]);
	}
	print_message("thresholds between %g and %g\n", (double)least, (double)most);
	assert_true(least > 0 && (!judged(plan) || most < 1.15f * least));
}

TEST(train__learning_rate_falls_to_a_tenth__density_stays_within_5_percent)
{
	static const char *const recipes[] = {
		"up=global(0.01,50) down=all",
		"up=global(0.01,50) down=all memory=residual(outside)"
	};
	for (int i = 0; i < 2; i++) {
		struct plan *plan = plan_of(recipes[i], long_run());

		if (thinned((size_t)i + 1, 2))
			continue;
		plan->slower_at = plan->steps / 2 + 10;
		run_ranks(W, train, plan);
		double ratio = up_against_target(plan, W, 0.01);
		print_message("%s: sent / target %.4f\n", recipes[i], ratio);
		assert_true(!judged(plan) || (ratio > 0.95 && ratio < 1.05));
	}
}

/* Each shard covers a region of the vector. Their gradients differ by a factor of 16. */
TEST(train__down_global_over_unequal_shards__density_holds_and_heavy_shards_get_more)
{
	static const struct {
		const char *recipe;
		double density;
	} runs[] = { { "up=topk(0.05) down=global(0.02)", 0.02 },
		     { "up=global(0.05) down=global(0.01,10)", 0.01 } };

	for (int i = 0; i < 2; i++) {
		struct plan *plan = plan_of(runs[i].recipe, long_run());
		const float scales[SHARDS] = { 1, 4, 8, 16 };

		if (thinned((size_t)i + 1, 2))
			continue;
		memcpy(plan->region_scale, scales, sizeof scales);
		run_ranks(W, train, plan);
		double ratio = ((double)plan->pulled / (double)plan->steps_counted - 20) /
			       (runs[i].density * (D - 20));
		print_message("%s: published / target %.4f; by shard %.0f %.0f %.0f %.0f\n",
			      runs[i].recipe, ratio, plan->by_region[0], plan->by_region[1],
			      plan->by_region[2], plan->by_region[3]);
		assert_true(!judged(plan) || (ratio > 0.95 && ratio < 1.05));
		assert_true(!judged(plan) || plan->by_region[3] > 2 * plan->by_region[0]);
	}
}

TEST(train__dedicated_server_and_warm_up__density_follows_the_warm_up)
{
	struct plan *plan = plan_of("up=global(0.01) down=global(0.02) warmup=50", 50);
	double want = 0;

	plan->servers = 1;
	run_ranks(W, train, plan);
	for (int t = 0; t < 50; t++)
		want += 0.25 * pow(0.01 / 0.25, t / 50.0) / 50;
	double ratio = up_against_target(plan, W - 1, want);
	print_message("in the warm-up: sent / target %.4f\n", ratio);
	assert_true(ratio > 0.9 && ratio < 1.1);
}

/* The vector is so short that the density asks for less than half a coordinate. */
struct short_run {
	const char *recipe;
	size_t count;
	float loss; /* at the end, on rank 0; it begins at 1 */
};

enum { SHORT_MOST = 65, SHORT_STEPS = 400 };

/* Minimises half the mean square of 1 - x, twice. */
static void train_short(sluice_job *job, int rank, void *argument)
{
	float params[SHORT_MOST] = { 0 }, grad[SHORT_MOST];
	struct short_run *run = argument;

	sluice_model *model = OPEN(job, params, .count = run->count, .recipe = run->recipe,
				   .lr = 0.01f);
	for (int step = 0; step < SHORT_STEPS; step++) {
		for (size_t i = 0; i < run->count; i++)
			grad[i] = params[i] - 1;
		CHECK_STEP(model, grad, params);
	}
	check_same(job, params, sizeof(params));
	for (size_t i = 0; i < run->count && !rank; i++)
		run->loss += (params[i] - 1) * (params[i] - 1) / (float)run->count;
	sluice_model_close(&model);
}

TEST(train__density_of_less_than_half_a_coordinate__one_is_sent_and_the_loss_falls)
{
	static const struct {
		struct short_run run;
		int ranks;
	} runs[] = {
		{ { "up=global(0.01) down=all", 31, 0 }, 2 },
		{ { "up=all down=global(0.01)", 31, 0 }, 3 },
		{ { "up=global(0.01) down=global(0.01)", 31, 0 }, 1 },
		{ { "up=global(0.001) down=global(0.001)", SHORT_MOST, 0 }, 2 },
	};

	for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
		struct short_run *run = shared_memory(sizeof(*run));

		*run = runs[i].run;
		run_in_job(runs[i].ranks, train_short, run);
		print_message("%s, %zu parameters, %d ranks: loss %.3f\n", run->recipe, run->count,
			      runs[i].ranks, (double)run->loss);
		assert_true(run->loss < 0.5f);
	}
}

TEST(restore__with_an_answer_under_way__same_digest_as_without_a_restart)
{
	/* After step 33, shards wait for an answer. */
	const char *recipe = "up=global(0.01,20) down=global(0.03,16)";
	struct plan *whole = plan_of(recipe, 70), *first = plan_of(recipe, 33),
		    *rest = plan_of(recipe, 70);

	whole->slower_at = first->slower_at = rest->slower_at = 50;
	run_ranks(W, train, whole);
	first->checkpoint_at = 33;
	assert_int_equal(scratch_make(first->dir), 0);
	memcpy(rest->dir, first->dir, sizeof rest->dir);
	rest->restore = 1;
	run_ranks(W, train, first);
	run_ranks(W, train, rest);
	scratch_remove(first->dir);
	assert_true(first->digest != whole->digest);
	assert_true(rest->digest == whole->digest);
}

/* ---- notes ----------------------------------------------------------------- */

enum { NOTE_ROOM = 1 << 16, SPAN = 500 };

struct half_model {
	sluice_job job;
	sluice_model model;
	struct shard_layout layout;
	struct span span;
	struct shard shard;
	struct worker worker;
	struct scratch *scratch;
	float residual[SPAN];
};

/* Calls the hooks by which the two halves use their census. */
static int take_push(struct half_model *h, uint64_t seq, const uint8_t *note, size_t n,
		     const char **why)
{
	*why = shard_census_hooks.note(&h->shard, seq, note, n);
	return *why ? SLUICE_EWIRE : 0;
}

static void open_compressors(struct half_model *h, float *shard_residual)
{
	const struct compressor_attr attr = { .residual = h->residual, .scratch = h->scratch },
				     down = { .residual = shard_residual,
					      .spans = &h->span,
					      .n_spans = 1,
					      .scratch = h->scratch };

	compressor_close(&h->worker.compressor);
	compressor_close(&h->shard.compressor);
	assert_int_equal(compressor_open(&attr, &h->worker.compressor), 0);
	assert_int_equal(compressor_open(&down, &h->shard.compressor), 0);
}

/* Makes a model of one shard in its first step, after the selection. */
static struct half_model *half_of(const char *recipe)
{
	struct half_model *h = calloc(1, sizeof *h);

	assert_non_null(h);
	assert_int_equal(recipe_parse(recipe, &h->model.recipe), 0);
	assert_int_equal(schedule_compile(&h->model.recipe, 0, 0, &h->model.schedule), 0);
	h->job.root = &h->job;
	h->model.job = &h->job;
	h->span = (struct span){ 0, SPAN, 0 };
	h->model.layout = (struct layout){ .count = SPAN,
					   .n_shards = 1,
					   .n_fragments = 1,
					   .shards = &h->layout,
					   .spans = &h->span,
					   .n_spans = 1 };
	h->layout.span = SPAN;
	h->model.shards = &h->shard;
	h->model.n_own = 1;
	h->model.worker = &h->worker;
	worker_stand_on(&h->worker, &h->model);
	h->shard.at = &h->layout;
	h->shard.job = &h->job;
	h->shard.rules = model_rules(&h->model);
	h->model.worker->step.number = 1;
	assert_int_equal(scratch_open(0, SPAN, 0, NULL, &h->scratch), 0);
	open_compressors(h, NULL);
	for (uint32_t i = 0; i < SPAN; i++)
		h->residual[i] = noise(23, 0, 0, i);
	if (census_hooks.used(&h->worker))
		assert_int_equal(census_hooks.open(&h->worker), 0);
	assert_int_equal(shard_census_open(&h->shard, 1), 0);
	census_hooks.picked(&h->worker);
	return h;
}

static void half_free(struct half_model *h)
{
	census_hooks.close(&h->worker);
	shard_census_close(&h->shard, 1);
	compressor_close(&h->worker.compressor);
	compressor_close(&h->shard.compressor);
	scratch_close(&h->scratch);
	free(h);
}

TEST(note__of_a_push__is_taken_as_it_was_written)
{
	struct half_model *h = half_of("up=global(0.1) down=all");
	uint8_t note[NOTE_ROOM];
	const char *why;

	size_t n = census_note_push(&h->worker, 0, 7, note);
	assert_true(n <= census_room(&h->model.recipe, 0) && n % 4 == 0);
	assert_int_equal(take_push(h, 7, note, n, &why), 0);
	const struct sluice_histogram *sum = shard_census_workers(&h->shard);
	assert_int_equal(sum->total, SPAN);
	assert_memory_equal(sum->count, h->model.worker->census->up.histogram->count,
			    sum->bins * sizeof *sum->count); /* all counts are below 2^8 */
	half_free(h);
}

/* A tenth of 500 is above the threshold. A single worker's share is all of it. */
TEST(shares__one_worker_one_shard__stay_equal_parts)
{
	struct half_model *h = half_of("up=global(0.1) down=global(0.1)");
	uint8_t note[NOTE_ROOM];
	const char *why;

	open_compressors(h, h->residual);
	size_t n = census_note_push(&h->worker, 0, 7, note);
	assert_int_equal(take_push(h, 7, note, n, &why), 0);
	n = census_note_delta(&h->shard, note);
	assert_int_equal(census_hooks.note(&h->worker, 0, note, n, &why), 0);
	census_hooks.pulled(&h->worker);
	float level = h->model.worker->census->up_level;
	uint32_t above = 0;
	for (uint32_t i = 0; i < SPAN; i++)
		above += fabsf(h->residual[i]) >= level;
	assert_true(above >= 45 && above <= 55);
	assert_true(h->model.worker->census->down_level == level); /* both have the same vector */
	h->model.worker->step.number = 2;
	h->shard.version = 1;
	n = census_note_push(&h->worker, 0, 8, note);
	assert_int_equal(take_push(h, 8, note, n, &why), 0);
	assert_int_equal(census_hooks.count(&h->worker, 0.1, SPAN), 50);
	assert_int_equal(shard_census_hooks.count(&h->shard, 0.1, SPAN), 50);
	half_free(h);
}

TEST(note__any_bit_flipped_cut_or_of_another_message__refused)
{
	struct half_model *h = half_of("up=global(0.1) down=all");
	uint8_t note[NOTE_ROOM], wrong[NOTE_ROOM] = { 0 };
	const char *why = NULL;

	size_t n = census_note_push(&h->worker, 0, 7, note);
	for (size_t cut = 0; cut < n; cut++)
		assert_int_equal(take_push(h, 7, note, cut, &why), SLUICE_EWIRE);
	for (size_t bit = 0; bit < 8 * n; bit++) {
		memcpy(wrong, note, n);
		wrong[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(take_push(h, 7, wrong, sizeof wrong, &why), SLUICE_EWIRE);
		assert_non_null(why);
	}
	assert_int_equal(take_push(h, 8, note, n, &why), SLUICE_EWIRE);
	put_le32(note + 16, 1);
	put_le32(note + 20, crc32c(crc32c(0, note, 20), note + 24, n - 24));
	assert_int_equal(take_push(h, 7, note, n, &why), SLUICE_EWIRE);
	assert_int_equal(shard_census_workers(&h->shard)->total, 0);
	half_free(h);
}

/* Contents that a peer could send with a valid checksum. */
TEST(note__impossible_content_with_a_good_checksum__refused)
{
	static const struct {
		size_t offset;
		uint32_t value;
	} lies[] = { { 24, 0x7fc00000 }, { 24, 0x7f800000 }, { 24, 0xbf800000 }, { 28, 0 },
		     { 28, 1u << 20 },   { 28, UINT32_MAX }, { 32, 0xffffffff } };
	uint8_t note[NOTE_ROOM];

	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		struct half_model *h = half_of("up=global(0.1) down=all");
		const char *why = NULL;
		size_t n = census_note_push(&h->worker, 0, 7, note);

		put_le32(note + lies[i].offset, lies[i].value);
		put_le32(note + 20, crc32c(crc32c(0, note, 20), note + 24, n - 24));
		assert_int_equal(take_push(h, 7, note, n, &why), SLUICE_EWIRE);
		assert_non_null(why);
		assert_int_equal(shard_census_workers(&h->shard)->total, 0);
		half_free(h);
	}
}

TEST(note__histogram_where_none_was_to_come__refused)
{
	struct half_model *up = half_of("up=global(0.1) down=all"),
			  *down = half_of("up=all down=global(0.1)");
	uint8_t note[NOTE_ROOM];
	const char *why = NULL;

	size_t n = census_note_push(&up->worker, 0, 7, note);
	down->model.worker->step.number = 2; /* in this step pushes have a threshold */
	down->shard.version = 1;
	assert_int_equal(take_push(down, 7, note, n, &why), SLUICE_EWIRE);
	n = census_note_push(&down->worker, 0, 7, note);
	assert_int_equal(take_push(down, 7, note, n, &why), 0);
	half_free(up);
	half_free(down);
}

TEST(note__between_exchanges_or_where_nothing_is_global__is_none)
{
	struct half_model *h = half_of("up=topk(0.1) down=topk(0.1)"),
			  *up = half_of("up=global(0.1,5) down=all");
	uint8_t note[NOTE_ROOM];
	const char *why = NULL;

	assert_null(h->shard.census);
	assert_null(h->model.worker->census);
	census_hooks.picked(&h->worker);
	assert_int_equal(census_room(&h->model.recipe, 0), 0);
	assert_int_equal(census_hooks.memory(&h->model.layout, &h->model.recipe), 0);
	assert_int_equal(shard_census_memory(&h->model.recipe, 3), 0);
	assert_int_equal(census_note_push(&h->worker, 0, 7, note), 0);
	assert_int_equal(take_push(h, 7, note, 0, &why), 0);
	assert_int_equal(census_room(&up->model.recipe, 1), 0);
	assert_int_equal(census_note_push(&up->worker, 1, 7, note), 0);
	for (uint64_t step = 1; step <= 11; step++) {
		up->model.worker->step.number = step;
		up->shard.version = step - 1;
		assert_true((census_note_push(&up->worker, 0, 7, note) > 0) == (step % 5 == 1));
		assert_true((census_note_delta(&up->shard, note) > 0) == (step % 5 == 1));
	}
	half_free(h);
	half_free(up);
}

TEST(restore__numbers_that_none_can_be__refused)
{
	struct half_model *h = half_of("up=global(0.1) down=global(0.1)");
	uint64_t worker[CENSUS_WORKER_NUMBERS], shard[2000], wrong[2000];
	const uint64_t nan_bits = 0x7ff8000000000000u, minus = 0xbff0000000000000u;

	assert_true(census_shard_numbers() <= 2000);
	census_save_worker(h->worker.census, worker);
	census_save_shard(&h->shard, shard);
	assert_null(census_judge_worker(h->worker.rules.recipe, worker));
	assert_null(census_judge_shard(&h->model.recipe.down, 0, shard));
	assert_non_null(
		census_judge_worker(h->worker.rules.recipe, (uint64_t[]){ nan_bits, worker[1] }));
	assert_non_null(
		census_judge_worker(h->worker.rules.recipe, (uint64_t[]){ minus, worker[1] }));
	assert_non_null(
		census_judge_worker(h->worker.rules.recipe, (uint64_t[]){ worker[0], 0x7fc00000 }));
	assert_non_null(census_judge_worker(h->worker.rules.recipe,
					    (uint64_t[]){ worker[0], (uint64_t)0xbf800000 << 32 }));
	memcpy(wrong, shard, sizeof wrong);
	wrong[0] = nan_bits;
	assert_non_null(census_judge_shard(&h->model.recipe.down, 1, wrong));
	wrong[0] = shard[0];
	wrong[5] = 7;
	assert_null(census_judge_shard(&h->model.recipe.down, 1, wrong)); /* after an exchange */
	assert_non_null(census_judge_shard(&h->model.recipe.down, 2, wrong));
	wrong[5] = UINT64_MAX;
	assert_non_null(census_judge_shard(&h->model.recipe.down, 1, wrong));
	half_free(h);
}
