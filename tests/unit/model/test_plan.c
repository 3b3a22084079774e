/* SPDX-License-Identifier: BSD-3-Clause
 * The table of faster paths: each step takes a path or has a written reason why not, these
 * decisions are those that the paths themselves need, and a run does what the table says. */
#include "compress/choose.h"
#include "recipe/methods.h"
#include "worker/lane.h"
#include "worker/state.h"
#include "ranks.h"
#include "thinned.h"
#include "cases.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Recipes in addition to the named methods: one for each axis that no method uses. */
static const char *const recipes[] = {
	"up=all down=all",
	"up=all down=all memory=residual",
	"up=all,bf16 down=all memory=none",
	"up=all down=all,bf16 memory=none",
	"up=all,uniform(4) down=all memory=residual reset=3",
	"up=all,round(0.1) down=all memory=residual",
	"up=topk(0.1) down=topk(0.1)",
	"up=topk(0.1) down=all memory=none",
	"up=topk(0.1) down=all memory=lowpass(0.5)",
	"up=topk(0.1) down=all memory=residual(decay=0.9)",
	"up=all down=all,bf16 memory=residual(decay=0.9)",
	"up=all down=all update=sign",
	"up=all down=all signal=drift",
	"up=topk(0.1) down=all signal=drift when=every(3) keep=1",
	"up=topk(0.1) down=all reset=2",
	"up=topk(0.1) down=all clip=1",
	"up=topk(0.1) down=all clip=median",
	"up=all down=all clip=median",
	"up=topk(0.1) down=all reduce=senders",
	"up=topk(0.1) down=all transform=dct(8)",
	"up=all down=all transform=dct(64)",
	"up=all down=all transform=dct(5) signal=drift",
	"up=all down=all reduce=senders",
	"up=topk(0.1) down=all nonfinite=skip",
	"up=topk(0.1) down=all nonfinite=zero",
	"up=topk(0.1) down=all signal=momentum(0.9)",
	"up=topk(0.1) down=all signal=gradient,noise(0.1)",
	"up=topk(0.1) down=all signal=igt(0.1) update=ema(0.1)",
	"up=tensor-topk(0.1) down=all",
	"up=block-topk(8,255) down=block-topk(8,64)",
	"up=block-topk(8,256) down=block-topk(8,256)",
	"up=randk(0.1) down=all memory=residual",
	"up=randk(0.1) down=all memory=none",
	"up=random(0.1),grid(4) down=all",
	"up=block(0.1) down=block(0.1) update=average",
	"up=global(0.1) down=all",
	"up=cyclic(0.1)",
	"up=sketch(0.1)",
	"up=all down=all clip=1",
	"up=all down=all nonfinite=zero",
	"up=all down=all nonfinite=skip",
	"up=all down=all nonfinite=skip-all",
	"up=topk(0.1) down=all nonfinite=skip-all",
	"up=all down=all signal=gradient,noise(0.1)",
	"up=all down=all signal=momentum(0.5)",
	"up=all down=all when=every(3)",
	"up=all down=all when=every(1)",
	"up=all down=all update=average when=every(3)",
	"up=all down=all update=average",
	"up=topk(0.1) down=all update=none",
	"up=all signal=innovation when=lazy(10,0.1)",
	"up=all down=all when=async(4)",
	"auto",
	"up=topk(0.1) down=topk(0.1) update=adam(0.9,0.99,1e-8)",
	"up=all down=all update=adamw(0,0.99,1e-8,0.1)",
	"up=topk(0.1),f16 down=all memory=residual warmup=dense(3)",
	"up=topk(0.1) down=topk(0.1) reset=2 warmup=dense(3)",
};
enum { RECIPES = sizeof(recipes) / sizeof(recipes[0]) };

static const char *recipe_number(size_t i)
{
	return i < RECIPES ? recipes[i] : methods[i - RECIPES].recipe;
}

struct asked {
	struct recipe recipe;
	struct schedule schedule;
	struct path_plan plan;
	struct step_rule rule;
	enum value_type pushed;
	int elastic;
};

static struct asked ask(const char *text, uint64_t step, enum value_type type, int elastic)
{
	struct asked a = { .elastic = elastic };

	assert_int_equal(recipe_parse(text, &a.recipe), 0);
	assert_int_equal(schedule_compile(&a.recipe, 100, 0, &a.schedule), 0);
	schedule_anchors(&a.schedule, &a.recipe, 4);
	a.pushed = a.recipe.update == UPDATE_AVERAGE || a.recipe.signal.kind == SIGNAL_DRIFT ?
			   VALUE_F32 :
			   type;
	plan_make(&a.plan, &a.recipe, a.pushed, elastic);
	a.rule = plan_step(&a.plan, &a.recipe, &a.schedule, step,
			   schedule_density(&a.schedule, &a.recipe.up, step),
			   schedule_density(&a.schedule, &a.recipe.down, step));
	return a;
}

/* ---- the conditions of each path, from its own code ----------------------------- */

static int warms_up(const struct asked *a)
{
	return schedule_warms_up_dense(&a->schedule, a->rule.step);
}

static int sends_all(const struct asked *a, const struct direction *way)
{
	return schedule_sends_all(&a->schedule, a->rule.step) || warms_up(a) ||
	       way->select == SELECT_ALL || (a->recipe.automatic && way->density >= 1);
}

static int is_plain(const struct recipe *r)
{
	return r->signal.kind == SIGNAL_GRADIENT && !(r->signal.noise > 0);
}

static int own_model(const struct recipe *r)
{
	return (r->every.period > 1 && r->update != UPDATE_AVERAGE) ||
	       r->signal.kind == SIGNAL_DRIFT;
}

static int has_residual(const struct recipe *r)
{
	return r->memory.kind == MEMORY_RESIDUAL && !(r->memory.decay < 1);
}

static int pushes_gradients(const struct recipe *r)
{
	return r->update != UPDATE_AVERAGE && r->signal.kind != SIGNAL_DRIFT;
}

static int is_global(const struct recipe *r)
{
	return r->up.select == SELECT_GLOBAL || r->down.select == SELECT_GLOBAL;
}

/* Returns 1 if a shard's change follows from the plain sum of the messages. */
static int sums_plainly(const struct recipe *r)
{
	return !r->clip.median && r->reduce == REDUCE_MEAN && !r->transform;
}

static int may_fold(const struct asked *a)
{
	const struct recipe *r = &a->recipe;

	return selection_kinds[r->up.select].adds && !sends_all(a, &r->up) && is_plain(r) &&
	       !r->transform && !own_model(r) && has_residual(r) &&
	       r->nonfinite != NONFINITE_ZERO && a->pushed == VALUE_F32;
}

static int may_push_dense(const struct asked *a)
{
	const struct recipe *r = &a->recipe;
	const int reset = schedule_sends_all(&a->schedule, a->rule.step);

	return sends_all(a, &r->up) && !warms_up(a) && (reset || r->up.values.type == VALUE_F32) &&
	       a->schedule.n_phases == 2 && a->pushed == VALUE_F32 && is_plain(r) &&
	       !(r->clip.norm > 0) && !r->clip.median && !r->transform &&
	       (r->nonfinite == NONFINITE_ABORT || r->nonfinite == NONFINITE_SKIP_ALL) &&
	       (r->memory.kind == MEMORY_NONE || has_residual(r)) && !own_model(r) &&
	       r->when != WHEN_ASYNC && !is_global(r);
}

static int may_sum_dense(const struct asked *a)
{
	const struct recipe *r = &a->recipe;
	const int reset = schedule_sends_all(&a->schedule, a->rule.step);

	return sends_all(a, &r->up) && sends_all(a, &r->down) && !warms_up(a) && !a->elastic &&
	       a->schedule.n_downs == 1 && r->signal.kind != SIGNAL_INNOVATION && !is_global(r) &&
	       r->when != WHEN_ASYNC && (reset || r->down.values.type == VALUE_F32) &&
	       sums_plainly(r);
}

static int may_pull_dense(const struct asked *a)
{
	const struct recipe *r = &a->recipe;
	const int reset = schedule_sends_all(&a->schedule, a->rule.step);

	return a->schedule.n_downs == 1 && !warms_up(a) && r->when != WHEN_ASYNC &&
	       r->signal.kind != SIGNAL_INNOVATION && !is_global(r) &&
	       (reset || r->down.values.type == VALUE_F32);
}

static int may_select_on_device(const struct asked *a)
{
	const struct recipe *r = &a->recipe;
	const enum selection s = r->up.select;
	const int known = (s == SELECT_ALL && r->up.values.type != VALUE_ROUND) ||
			  s == SELECT_TOPK || s == SELECT_THRESHOLD || s == SELECT_GAUSSIANK ||
			  s == SELECT_RANDOM || s == SELECT_VARIANCE || s == SELECT_SKETCH ||
			  (s == SELECT_BLOCK_TOPK && r->up.block >= 256) ||
			  (s == SELECT_RANDK && r->memory.kind == MEMORY_RESIDUAL);

	return known && (has_residual(r) || r->memory.kind == MEMORY_NONE) &&
	       (r->signal.kind == SIGNAL_GRADIENT || r->signal.kind == SIGNAL_MOMENTUM) &&
	       !(r->signal.noise > 0) && r->update != UPDATE_AVERAGE && !r->automatic &&
	       r->when == WHEN_ALWAYS && r->nonfinite != NONFINITE_SKIP_ALL && !r->clip.median &&
	       !r->transform && !(r->up.values.type == VALUE_GRID && selection_kinds[s].unbiased);
}

static int may_accumulate(const struct asked *a)
{
	const struct recipe *r = &a->recipe;

	return has_residual(r) && is_plain(r) && !(r->clip.norm > 0) && !r->transform &&
	       r->nonfinite == NONFINITE_ABORT && r->update != UPDATE_AVERAGE &&
	       r->every.period == 1;
}

static int may_push_ranges(const struct asked *a)
{
	const struct recipe *r = &a->recipe;

	return r->signal.kind != SIGNAL_STORM && r->signal.kind != SIGNAL_INNOVATION &&
	       r->when == WHEN_ALWAYS && pushes_gradients(r);
}

static int may_be_uneven(const struct asked *a)
{
	const struct recipe *r = &a->recipe;

	return r->when == WHEN_ALWAYS && pushes_gradients(r) && !recipe_pairs(r) &&
	       r->signal.kind != SIGNAL_INNOVATION;
}

static int may_have_rules(const struct asked *a)
{
	const struct recipe *r = &a->recipe;

	return r->update != UPDATE_NONE && pushes_gradients(r) && r->update != UPDATE_ACCELERATED &&
	       r->up.select != SELECT_SKETCH && (r->when == WHEN_ALWAYS || r->when == WHEN_ASYNC);
}

static int may_narrow_params(const struct asked *a)
{
	const struct recipe *r = &a->recipe;

	return pushes_gradients(r) && !recipe_pairs(r) && !recipe_looks_back(r);
}

static int may_be_on_device(const struct asked *a)
{
	const struct recipe *r = &a->recipe;
	const struct selection_kind *up = &selection_kinds[r->up.select],
				    *down = &selection_kinds[r->down.select];

	return (r->down.select == SELECT_ALL || r->down.select == SELECT_TOPK ||
		r->down.select == SELECT_THRESHOLD ||
		(r->down.select == SELECT_BLOCK_TOPK && r->down.block >= 256)) &&
	       r->down.values.type != VALUE_ROUND && r->signal.kind != SIGNAL_INNOVATION &&
	       (r->when == WHEN_ALWAYS || r->when == WHEN_EVERY) && r->update != UPDATE_AVERAGE &&
	       r->update != UPDATE_SIGN && !r->automatic && up->exchange == EXCHANGE_OWN &&
	       !up->global && !down->global && sums_plainly(r);
}

static int may_stand_still(const struct asked *a)
{
	const struct recipe *r = &a->recipe;

	return (r->signal.kind == SIGNAL_GRADIENT || r->signal.kind == SIGNAL_MOMENTUM) &&
	       (r->when == WHEN_ALWAYS || r->when == WHEN_EVERY) &&
	       r->update != UPDATE_ACCELERATED && r->up.select != SELECT_SKETCH;
}

static int may_pull_by_shard(const struct asked *a)
{
	const struct recipe *r = &a->recipe;

	return a->schedule.n_phases == 2 && r->when != WHEN_ASYNC && !own_model(r) &&
	       r->every.period <= 1;
}

static int may_change_in_place(const struct asked *a)
{
	const struct recipe *r = &a->recipe;

	return r->when != WHEN_ASYNC && !own_model(r) && !recipe_looks_back(r);
}

static int may_lose_a_worker(const struct asked *a)
{
	const struct recipe *r = &a->recipe;

	return r->when != WHEN_ASYNC && r->signal.kind != SIGNAL_INNOVATION &&
	       selection_kinds[r->up.select].exchange != EXCHANGE_LEADER;
}

static int (*const may[PATHS])(const struct asked *a) = {
	[PATH_FOLD] = may_fold,
	[PATH_DENSE_PUSH] = may_push_dense,
	[PATH_DENSE_SUM] = may_sum_dense,
	[PATH_DENSE_PULL] = may_pull_dense,
	[PATH_DEVICE] = may_select_on_device,
	[PATH_ACCUMULATOR] = may_accumulate,
	[PATH_RANGES] = may_push_ranges,
	[PATH_UNEVEN] = may_be_uneven,
	[PATH_RULES] = may_have_rules,
	[PATH_PARAM_TYPE] = may_narrow_params,
	[PATH_DEVICE_SHARDS] = may_be_on_device,
	[PATH_RATE_ZERO] = may_stand_still,
	[PATH_PULL_RANGES] = may_pull_by_shard,
	[PATH_IN_PLACE] = may_change_in_place,
	[PATH_CONTINUE] = may_lose_a_worker,
};

TEST(plan__any_recipe_and_path__is_taken_or_has_its_reason)
{
	static const enum value_type types[] = { VALUE_F32, VALUE_BF16 };
	unsigned taken[PATHS] = { 0 }, refused[PATHS] = { 0 };

	/* Steps 1 to 6 include a reset, an anchor and a warm-up. */
	for (size_t i = 0; i < (RECIPES + n_methods) * 6 * 4; i++) {
		if (thinned(i, 5)) /* all steps and types remain */
			continue;
		const char *text = recipe_number(i / 24);
		const uint64_t step = 1 + i / 4 % 6;
		const struct asked a = ask(text, step, types[i % 2], i / 2 % 2);

		for (int p = 0; p < PATHS; p++) {
			const char *why = plan_why_not(p, a.rule.traits);

			if (!why != !!may[p](&a))
				fail_msg("\"%s\", step %llu, %s: %s", text,
					 (unsigned long long)step, plan_path_names[p],
					 why ? why : "taken");
			assert_int_equal(plan_takes(&a.plan, p, a.rule.traits), !why);
			assert_true(!why || strlen(why) > 10);
			*(why ? &refused[p] : &taken[p]) += 1;
		}
	}
	for (int p = 0; p < PATHS; p++)
		assert_true(taken[p] && refused[p]);
}

TEST(plan__of_the_moment__each_trait_excludes_what_it_names)
{
	static const struct {
		const char *recipe;
		uint64_t trait;
		enum path path;
	} moments[] = {
		{ "up=all down=all", TRAIT(MEASURED), PATH_DENSE_PUSH },
		{ "up=all down=all", TRAIT(MEASURED), PATH_DENSE_SUM },
		{ "up=topk(0.1)", TRAIT(MEASURED), PATH_DEVICE },
		{ "up=topk(0.1)", TRAIT(ACCUMULATES), PATH_DEVICE },
		{ "up=all down=all", TRAIT(DEVICE_SELECTS), PATH_DENSE_PUSH },
		{ "up=all down=all", TRAIT(COUNTED), PATH_DENSE_SUM },
		{ "up=topk(0.1)", TRAIT(DEVICE_SELECTS), PATH_PULL_RANGES },
		{ "up=topk(0.1)", TRAIT(SKIPPED), PATH_PULL_RANGES },
		{ "up=topk(0.1)", TRAIT(WRITTEN_LATE), PATH_PULL_RANGES },
		{ "up=topk(0.1)", TRAIT(RULES), PATH_DEVICE_SHARDS },
	};

	for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
		const struct asked a = ask(moments[i].recipe, 1, VALUE_F32, 0);
		const uint64_t then = a.rule.traits | moments[i].trait;

		assert_true(plan_takes(&a.plan, moments[i].path, a.rule.traits));
		assert_false(plan_takes(&a.plan, moments[i].path, then));
		assert_non_null(plan_why_not(moments[i].path, then));
	}
}

/* ---- a run ------------------------------------------------------------------- */

enum { COUNT = 3000, STEPS = 4 };

struct run {
	const char *recipe;
	unsigned placed; /* bits: steps whose messages are expected in place */
};

static void run_rank(sluice_job *job, int rank, void *argument)
{
	const struct run *run = argument;
	float params[COUNT] = { 0 }, grad[COUNT];

	sluice_model *model = OPEN(job, params, .count = COUNT, .shards = 2, .recipe = run->recipe);
	for (unsigned step = 1; step <= STEPS; step++) {
		for (uint64_t i = 0; i < COUNT; i++)
			grad[i] = noise(1, step, (uint64_t)rank, i);
		CHECK_OK(
			sluice_push(model, model->recipe.update == UPDATE_AVERAGE ? params : grad));
		const int planned = plan_takes(
			&model->plan, PATH_DENSE_PUSH,
			rulebook_step(&model->worker->rules, step, 0).traits);

		CHECK(planned == (int)(run->placed >> step & 1));
		for (uint32_t s = 0; s < 2; s++)
			CHECK((lane_sent_way(model->worker->lanes, s) == LANE_PLACED) == planned);
		CHECK_OK(sluice_pull(model, params));
	}
	sluice_model_close(&model);
}

TEST(plan__of_a_run__places_messages_exactly_where_it_says)
{
	static struct run runs[] = { { "up=all down=all", 0x1e },
				     { "up=all down=all memory=residual", 0x1e },
				     { "up=all down=all update=average", 0x1e },
				     { "up=all down=topk(0.1)", 0x1e },
				     { "up=all,bf16 down=all memory=none", 0 },
				     { "up=all down=all signal=momentum(0.5)", 0 },
				     { "up=all down=all clip=1", 0 },
				     { "up=topk(0.1) down=all", 0 },
				     { "up=topk(0.1) down=all reset=2", 0x14 },
				     { "up=topk(0.1) down=all reset=2 warmup=dense(3)", 0x14 },
				     { "up=all down=global(0.1)", 0 } };

	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
		run_in_job(2, run_rank, &runs[i]);
}

/* ---- the text ---------------------------------------------------------------- */

static int text_of(const char *recipe, int workers, int servers, char *text, size_t cap)
{
	const sluice_model_attr attr = ATTR(.count = COUNT, .recipe = recipe);

	return sluice_plan(&attr, workers, servers, SLUICE_PLAN_TEXT, text, cap);
}

TEST(sluice_plan__any_room__writes_what_fits_and_returns_the_whole_length)
{
	static char whole[8192], part[8192];
	const int length = text_of("up=topk(0.1) down=all", 3, 1, NULL, 0);

	assert_in_range(length, 500, sizeof(whole) - 1);
	assert_int_equal(text_of("up=topk(0.1) down=all", 3, 1, whole, sizeof(whole)), length);
	assert_int_equal(strlen(whole), length);
	for (size_t cap = 1; cap <= (size_t)length + 1; cap += cap < 100 ? 1 : 97) {
		memset(part, '#', sizeof(part));
		assert_int_equal(text_of("up=topk(0.1) down=all", 3, 1, part, cap), length);
		assert_memory_equal(part, whole, cap - 1);
		assert_int_equal(part[cap - 1], 0);
		assert_int_equal(part[cap], '#');
	}
}

TEST(sluice_plan__each_method__names_its_recipe_and_each_path_with_its_reason)
{
	static char text[8192], line[512];

	for (size_t i = 0; i < RECIPES + n_methods; i++) {
		const char *recipe = recipe_number(i);
		const struct asked a = ask(recipe, 1000, VALUE_F32, 0);

		assert_in_range(text_of(recipe, 4, 1, text, sizeof(text)), 1, sizeof(text) - 1);
		assert_non_null(strstr(text, "vectors of a worker\n  residual "));
		if (a.schedule.anchor_period || a.recipe.reset || a.recipe.automatic ||
		    a.recipe.warmup.dense)
			continue; /* the recipe has several kinds of steps */
		for (int p = 0; p < PATHS; p++) {
			const char *why = plan_why_not(p, a.rule.traits);

			snprintf(line, sizeof(line), "\n  %-13s %-3s %s", plan_path_names[p],
				 why ? "no:" : "yes", why ? why : "");
			if (!strstr(text, line))
				fail_msg("\"%s\": \"%s\" is missing in %s", recipe, line + 1, text);
		}
	}
}

/* The rule is in CHOOSING of sluice_recipe(7). */
TEST(sluice_plan__error_feedback__says_how_large_a_step_may_be)
{
	static const char none[] = "step size";
	static const struct {
		const char *recipe, *says;
	} rules[] = {
		{ "up=topk(0.01) down=topk(0.05)", "100 steps: the learning rate times the "
						   "curvature must stay below about 0.02\n" },
		{ "up=topk(0.1) down=topk(0.05)", "20 steps: the learning rate times the "
						  "curvature must stay below about 0.1\n" },
		{ "up=topk(0.01) down=all signal=momentum(0.9)",
		  "100 steps, and momentum multiplies a step by 10: the learning rate times the "
		  "curvature must stay below about 0.002\n" },
		{ "up=topk(0.01) down=all update=nesterov(0.5)",
		  "multiplies a step by 2: the learning rate times the curvature must stay below "
		  "about 0.01\n" },
		{ "up=topk(0.01) down=all guard=raise", "doubles the densities up to 7 times" },
		{ "up=topk(0.01) down=all update=adam(0.2,0.99,1e-8)",
		  "100 steps, which is itself a momentum: keep BETA1 at 0.2 or below" },
		{ "up=topk(0.01) down=all memory=none", NULL },
		{ "up=all down=all update=momentum(0.9)", NULL },
	};
	static char text[8192];

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		assert_in_range(text_of(rules[i].recipe, 4, 0, text, sizeof(text)), 1,
				sizeof(text) - 1);
		if (!strstr(text, rules[i].says ? rules[i].says : none) != !rules[i].says)
			fail_msg("\"%s\": %s", rules[i].recipe, text);
	}
}

/* Checks the lines KEY=VALUE and their order. */
TEST(sluice_plan__keys__are_lines_that_a_program_can_read)
{
	static const char wanted[] =
		"recipe=up=topk(0.1),f32 down=all,f32 signal=gradient memory=residual(inside) "
		"update=sgd warmup=0steps dense=*bias* clip=1 decay=0 nonfinite=abort coding=fast "
		"reset=none seed=0 when=always\n"
		"count=3000\nworkers=3\nservers=1\nshards=1\n";
	static const char paths[] = "\nfold=yes\ndense_push=no\ndense_sum=no\ndense_pull=yes\n"
				    "device=yes\naccumulator=no\nranges=copied\nlr_0=yes\n"
				    "pull_ranges=yes\nin_place=yes\nuneven=yes\nrules=yes\n"
				    "param_type=yes\ndevice_shards=yes\ncontinue=yes\n";
	static const char *const numbers[] = { "\npush_bytes=", "\npublication_bytes=",
					       "\nworker_bytes=", "\nshard_bytes=",
					       "\nrank_bytes=" };
	static const struct {
		const char *recipe, *line, *text;
	} spared[] = {
		{ "up=all down=all update=adamw(0.9,0.99,1e-8,0)", "\nspared_bytes=24000\n",
		  "spared at each worker, whose program needs no optimizer: 0.023 MiB of running "
		  "averages, of which the largest shard keeps 0.023 MiB" },
		{ "up=all down=all update=adam(0,0.99,1e-8)", "\nspared_bytes=12000\n",
		  "0.011 MiB" },
		{ "up=all down=all", "\nspared_bytes=0\n", NULL },
	};
	sluice_model_attr attr = ATTR(.count = COUNT, .recipe = "up=topk(0.1) down=all clip=1");
	static char text[8192];

	assert_in_range(sluice_plan(&attr, 3, 1, SLUICE_PLAN_KEYS, text, sizeof(text)), 1,
			sizeof(text) - 1);
	assert_memory_equal(text, wanted, strlen(wanted));
	assert_string_equal(text + strlen(text) - strlen(paths), paths);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		const char *at = strstr(text, numbers[i]);

		assert_non_null(at);
		assert_true(strtoull(at + strlen(numbers[i]), NULL, 10) > 0);
	}
	attr.recipe = "auto";
	assert_true(sluice_plan(&attr, 3, 1, SLUICE_PLAN_KEYS, text, sizeof(text)) > 0);
	assert_non_null(strstr(text, "\nfold=yes\n")); /* as in a sparse step */
	assert_in_range(text_of("auto", 3, 0, text, sizeof(text)), 1, sizeof(text) - 1);
	assert_non_null(strstr(text, "and dense steps"));
	assert_non_null(strstr(text, "\n    up=all,twomeans down=all,twomeans\n"));
	assert_in_range(text_of("auto(0.01)", 3, 0, text, sizeof(text)), 1, sizeof(text) - 1);
	assert_null(strstr(text, "dense steps"));
	assert_null(strstr(text, "up=all,twomeans"));
	assert_non_null(strstr(text, "\n  - up=topk(0.01) down=topk(0.05)\n"));
	assert_non_null(strstr(text, "\n    up=topk(0.042),twomeans down=topk(0.43),twomeans\n"));
	assert_int_equal(sluice_plan(&attr, 3, 1, 2, text, sizeof(text)), SLUICE_EINVAL);
	assert_true(error_says("sluice_plan", "form=2"));
	for (size_t i = 0; i < sizeof(spared) / sizeof(spared[0]); i++) {
		attr.recipe = spared[i].recipe;
		assert_true(sluice_plan(&attr, 3, 0, SLUICE_PLAN_KEYS, text, sizeof(text)) > 0);
		assert_non_null(strstr(text, spared[i].line));
		assert_in_range(text_of(attr.recipe, 3, 0, text, sizeof(text)), 1,
				sizeof(text) - 1);
		assert_true(!strstr(text, spared[i].text ? spared[i].text : "spared at") ==
			    !spared[i].text);
	}
}

TEST(sluice_plan__what_it_cannot_plan__is_refused_by_name)
{
	char text[8] = "as was";

	assert_int_equal(text_of("up=nothing", 2, 0, text, sizeof(text)), SLUICE_EINVAL);
	assert_true(error_says("up=nothing", NULL));
	assert_int_equal(text_of("up=all", 0, 0, text, sizeof(text)), SLUICE_EINVAL);
	assert_true(error_says("sluice_plan", "workers=0"));
	assert_int_equal(text_of("up=all", 2, -1, text, sizeof(text)), SLUICE_EINVAL);
	assert_int_equal(text_of("up=all", INT_MAX, INT_MAX, text, sizeof(text)), SLUICE_EINVAL);
	assert_int_equal(text_of("up=all", 2, 0, NULL, 1), SLUICE_EINVAL);
	assert_true(error_says("sluice_plan", "text is NULL"));
	assert_int_equal(text_of("up=all down=all when=async(1)", 4, 0, text, sizeof(text)),
			 SLUICE_EINVAL);
	assert_true(error_says("sluice_plan", "async(3) or more"));
	assert_int_equal(sluice_plan(NULL, 2, 0, SLUICE_PLAN_TEXT, text, sizeof(text)),
			 SLUICE_EINVAL);
	assert_true(error_says("sluice_plan", "attr is NULL"));
	assert_string_equal(text, "as was");
}

/* If opening a model is refused, sluice_plan() is refused with the same message. */
TEST(sluice_plan__attributes_that_a_recipe_excludes__are_refused_as_at_open)
{
	static const sluice_tensor tensor = { "all", COUNT };
	static const sluice_tensor_rule rule = { 1, 0.1f };
	static char text[8192];

	enum {
		ATTRIBUTES = PATH_CONTINUE - PATH_ATTRIBUTES
	}; /* without the attribute of the
	      job */

	for (size_t i = 0; i < (RECIPES + n_methods) * ATTRIBUTES; i++) {
		if (thinned(i / ATTRIBUTES, 3))
			continue;
		const enum path path = PATH_ATTRIBUTES + i % ATTRIBUTES;
		const struct asked a = ask(recipe_number(i / ATTRIBUTES), 1000, VALUE_F32, 0);
		const char *why = plan_why_not(path, a.rule.traits);
		const sluice_model_attr attr =
			ATTR(.count = COUNT, .recipe = recipe_number(i / ATTRIBUTES),
			     .tensors = &tensor, .n_tensors = 1, .uneven = path == PATH_UNEVEN,
			     .device_shards = path == PATH_DEVICE_SHARDS,
			     .rules = path == PATH_RULES ? &rule : NULL,
			     .param_type = path == PATH_PARAM_TYPE ? SLUICE_F16 : 0);
		const int length = sluice_plan(&attr, 4, 0, SLUICE_PLAN_TEXT, text, sizeof(text));

		assert_true(why ? length == SLUICE_EINVAL : length > 0);
		assert_true(!why || error_says(why, plan_path_names[path]));
	}
}

/* ---- the manual -------------------------------------------------------------- */

/* Compares the traits that exclude a path with the list below ".It PATH" in sluice_recipe(7), where
 * each is on a line that ends in ';' or '.'. */
static void check_item(const char *page, enum path path)
{
	char item[64], name[96];
	uint64_t found = 0, wanted = 0;

	snprintf(item, sizeof(item), "\n.It %s\n", plan_path_names[path]);
	const char *at = strstr(page, item);
	assert_non_null(at);
	assert_non_null(at = strstr(at, "\nNot with:\n"));
	at += strlen("\nNot with:\n");
	for (int last = 0; !last; at = strchr(at, '\n') + 1) {
		const size_t n = strcspn(at, "\n");
		int t = 0;

		assert_in_range(n, 2, sizeof(name) - 1);
		snprintf(name, sizeof(name), "%.*s", (int)n - 1, at);
		last = at[n - 1] == '.';
		while (t < TRAITS && strcmp(plan_trait_names[t], name))
			t++;
		if (t == TRAITS)
			fail_msg("sluice_recipe(7), %s: no trait is called \"%s\"",
				 plan_path_names[path], name);
		found |= UINT64_C(1) << t;
	}
	for (int t = 0; t < TRAITS; t++)
		wanted |= (uint64_t)(plan_refusals[t][path] != NULL) << t;
	for (int t = 0; t < TRAITS; t++)
		if ((found ^ wanted) >> t & 1)
			fail_msg("\"%s\" excludes %s %s, but not %s", plan_trait_names[t],
				 plan_path_names[path],
				 wanted >> t & 1 ? "in plan.c" : "in sluice_recipe(7)",
				 wanted >> t & 1 ? "in sluice_recipe(7)" : "in plan.c");
}

TEST(sluice_recipe_7__table_of_paths__is_that_of_the_library)
{
	static char page[1 << 18];
	FILE *f = fopen(RECIPE_PAGE, "r");

	assert_non_null(f);
	const size_t n = fread(page, 1, sizeof(page) - 1, f);
	fclose(f);
	assert_in_range(n, 1, sizeof(page) - 2);
	for (int p = 0; p < PATHS; p++)
		check_item(page, p);
}
