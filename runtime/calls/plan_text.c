/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_plan(): describes in a text what a recipe will do. It needs no job, because it uses what
 * both halves compute from a recipe before they open anything. */
#include "calls/model_open.h"
#include "model/kept.h"
#include "shard/shard.h"
#include "worker/target.h"
#include "worker/worker_setup.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As many ranks as a simulated job may have. */
enum { PLAN_RANKS_MOST = 4096 };

/* ---- a text of unknown length ----------------------------------------------- */

struct text {
	char *at;
	size_t cap, length; /* length is that of the whole text, which may be more than fits */
};

static void say(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct text *t, const char *format, ...)
{
	const size_t room = t->length < t->cap ? t->cap - t->length : 0;
	va_list arguments;

	va_start(arguments, format);
	int n = vsnprintf(room ? t->at + t->length : NULL, room, format, arguments);
	va_end(arguments);
	t->length += n > 0 ? (size_t)n : 0;
}

/* ---- stages ----------------------------------------------------------------- */

static int in_every_step(const struct recipe *r)
{
	(void)r;
	return 1;
}

static int decides_together(const struct recipe *r)
{
	return r->nonfinite == NONFINITE_SKIP_ALL;
}

static int clips(const struct recipe *r)
{
	return r->clip > 0;
}

static int adds_noise(const struct recipe *r)
{
	return r->noise > 0;
}

static int makes_signal(const struct recipe *r)
{
	return r->signal != SIGNAL_GRADIENT;
}

static int is_filtered(const struct recipe *r)
{
	return r->memory == MEMORY_LOWPASS || r->memory == MEMORY_TWOSTEP;
}

static int remembers(const struct recipe *r)
{
	return r->memory != MEMORY_NONE;
}

static int sums_periods(const struct recipe *r)
{
	return r->period > 1;
}

static int decides_lazily(const struct recipe *r)
{
	return r->when == WHEN_LAZY || r->when == WHEN_LAZY_SERVER;
}

static int selects_alone(const struct recipe *r)
{
	return r->up.select != SELECT_ALL && selection_kinds[r->up.select].exchange == EXCHANGE_OWN;
}

static int follows_leader(const struct recipe *r)
{
	return selection_kinds[r->up.select].exchange == EXCHANGE_LEADER;
}

static int sends_sketches(const struct recipe *r)
{
	return selection_kinds[r->up.select].exchange == EXCHANGE_SKETCH;
}

static int answers_any_one(const struct recipe *r)
{
	return r->when == WHEN_ASYNC;
}

static int is_sync(const struct recipe *r)
{
	return r->when != WHEN_ASYNC;
}

static int has_references(const struct recipe *r)
{
	return r->signal == SIGNAL_INNOVATION;
}

static int decays(const struct recipe *r)
{
	return r->decay > 0;
}

static int keeps_unpublished(const struct recipe *r)
{
	return kept_rows[KEPT_SHARD_RESIDUAL].needed(r);
}

static int selects_down(const struct recipe *r)
{
	return r->down.select != SELECT_ALL;
}

/* key is the word of the recipe that asks for the stage. */
struct stage {
	const char *key, *what;
	int (*has)(const struct recipe *recipe);
};

static const struct stage push_stages[] = {
	{ "nonfinite", "look for values that are NaN or infinite", in_every_step },
	{ "nonfinite", "agree with all workers whether any has found one", decides_together },
	{ "clip", "scale the gradient down to this norm", clips },
	{ "signal", "add noise", adds_noise },
	{ "signal", "make the signal of the gradient", makes_signal },
	{ "memory", "filter what was not sent yet", is_filtered },
	{ "memory", "add the signal to what was not sent yet", remembers },
	{ "when", "sum the steps up to the next exchange", sums_periods },
	{ "up", "select coordinates", selects_alone },
	{ "up", "in turn, one worker selects coordinates for all", follows_leader },
	{ "up", "add a sketch of everything up at the shards, which ask for coordinates",
	  sends_sketches },
	{ "when", "leave the values out where little has changed", decides_lazily },
	{ "up", "encode one message for each shard", in_every_step },
	{ "memory", "subtract what the shards decode", remembers },
};
static const struct stage publication_stages[] = {
	{ "when", "take the message of one worker", answers_any_one },
	{ "when", "add the messages of all workers up in rank order", is_sync },
	{ "signal", "add to that what the shards have of each worker", has_references },
	{ "decay", "add this multiple of the parameters", decays },
	{ "update", "make the change of the parameters", in_every_step },
	{ "memory", "add what was not published yet", keeps_unpublished },
	{ "down", "select coordinates", selects_down },
	{ "down", "encode one publication for all workers", is_sync },
	{ "down", "encode one publication for this worker", answers_any_one },
	{ "memory", "keep what was not published", keeps_unpublished },
};

/* Finds the word KEY=... in a printed recipe. Its length may be 0. */
static const char *word_of(const char *recipe, const char *key, int *length)
{
	const size_t n = strlen(key);

	for (const char *w = recipe; w; w = strchr(w, ' ')) {
		w += *w == ' ';
		if (strncmp(w, key, n) || w[n] != '=')
			continue;
		*length = (int)strcspn(w, " ");
		return w;
	}
	*length = 0;
	return "";
}

static void say_stages(struct text *t, const struct recipe *recipe, const char *printed,
		       const struct stage *stages, size_t n)
{
	int number = 1, length;

	for (size_t i = 0; i < n; i++) {
		if (!stages[i].has(recipe))
			continue;
		const char *word = word_of(printed, stages[i].key, &length);
		say(t, "  %2d %s%s%.*s\n", number++, stages[i].what, length ? ": " : "", length,
		    word);
	}
}

/* ---- phases, vectors, messages ---------------------------------------------- */

static void say_phases(struct text *t, const struct schedule *schedule)
{
	static const char *const payload[PAYLOADS] = {
		[PAYLOAD_PAIRS] = "positions and values of the sender's selection",
		[PAYLOAD_VALUES] = "values of all coordinates",
		[PAYLOAD_AGREED] = "values of the agreed coordinates",
		[PAYLOAD_INDICES] = "positions of the sender's selection",
		[PAYLOAD_SKETCH] = "a sketch of all coordinates"
	};

	say(t, "exchanges of a step\n");
	for (unsigned p = 0; p < schedule->n_phases; p++) {
		const struct phase *phase = &schedule->phases[p];
		const int up = phase->direction == PHASE_UP;

		say(t, "  %2u %-4s %s", p + 1, up ? "up" : "down", payload[phase->payload]);
		if (up)
			say(t, "; complete with %s",
			    phase->close == CLOSE_ANY ? "the message of any worker" :
							"the messages of all living workers");
		say(t, "\n");
	}
}

static double to_mebibytes(uint64_t bytes)
{
	return (double)bytes / 1048576;
}

static void say_vectors(struct text *t, const struct recipe *recipe, const struct layout *l,
			enum half half)
{
	const uint64_t count = half == HALF_WORKER ? l->count : layout_largest(l, -1).span;

	say(t, "%s\n",
	    half == HALF_WORKER ? "vectors of a worker" : "vectors of the largest shard");
	for (int k = 0; k < KEPTS; k++)
		if (kept_rows[k].half == half && kept_rows[k].needed(recipe))
			say(t, "  %-10s %10.3f MiB  %s\n", kept_rows[k].name,
			    to_mebibytes(count * kept_rows[k].element), kept_rows[k].what);
	if (half == HALF_WORKER && target_hooks.memory(l, recipe))
		say(t, "  %-10s %10.3f MiB  %s\n", "parameters",
		    to_mebibytes(target_hooks.memory(l, recipe)),
		    "in 32 bits, from which the program's are rounded");
}

static void say_messages(struct text *t, const struct layout *l)
{
	size_t slot = 0, delta = 0;

	for (uint32_t s = 0; s < l->n_shards; s++) {
		slot = l->shards[s].slot_bytes > slot ? l->shards[s].slot_bytes : slot;
		delta = l->shards[s].delta_bytes > delta ? l->shards[s].delta_bytes : delta;
	}
	say(t,
	    "messages\n"
	    "  a worker sends one to each of %u shards in each exchange up, of at most %zu bytes\n"
	    "  a shard publishes one in each exchange down, of at most %zu bytes\n",
	    l->n_shards, slot, delta);
}

/* Error feedback overshoots where a step is large compared with its delay. */
static void say_delay(struct text *t, const struct recipe *r)
{
	const double density = r->up.density < r->down.density ? r->up.density : r->down.density;
	const double left = (1 - (double)r->signal_momentum) * (1 - (double)r->update_momentum);

	if (r->memory == MEMORY_NONE || density >= 1)
		return;
	say(t, "step size\n  a coordinate is sent once in about %.0f steps", 1 / density);
	if (left < 1)
		say(t, ", and momentum multiplies a step by %.3g", 1 / left);
	say(t, ": the learning rate times the curvature must stay below about %.2g\n",
	    2 * density * left);
	if (r->guard == GUARD_RAISE)
		say(t,
		    "  guard=raise doubles the densities up to %u times where it does not; dense "
		    "messages have room\n",
		    schedule_raises_most(r));
}

static void say_memory(struct text *t, const struct layout *l, const struct recipe *recipe)
{
	uint64_t most = 0;
	int owner = 0;

	for (int r = 0; r < l->size; r++) {
		const uint64_t bytes = shards_memory(l, recipe, r);

		owner = bytes > most ? r : owner;
		most = bytes > most ? bytes : most;
	}
	say(t,
	    "memory\n"
	    "  the vectors and messages of a worker  %10.3f MiB\n"
	    "  those of the largest owner of shards  %10.3f MiB\n"
	    "  this owner's rank, with its windows   %10.3f MiB\n",
	    to_mebibytes(worker_memory(l, recipe)), to_mebibytes(most),
	    to_mebibytes(model_memory(l, recipe, owner)));
	if (l->size > l->workers)
		say(t, "  a worker's rank, with its windows     %10.3f MiB\n",
		    to_mebibytes(model_memory(l, recipe, 0)));
}

/* ---- paths ------------------------------------------------------------------ */

/* A line for each column of the table from one on and up to another. */
static void say_columns(struct text *t, enum path from, enum path end, uint64_t traits)
{
	static const char *const what[PATHS] = {
		[PATH_FOLD] = "the selection adds the gradient in its own pass",
		[PATH_DENSE_PUSH] = "the gradient is written where it is sent from, in one pass",
		[PATH_DENSE_SUM] = "a shard adds all messages up in one pass",
		[PATH_DENSE_PULL] = "what is published whole is added from where it lies",
		[PATH_DEVICE] = "a gradient in GPU memory is compressed there",
		[PATH_ACCUMULATOR] = "sluice_accumulator() is allowed",
		[PATH_RANGES] = "sluice_push_range() is allowed",
		[PATH_RATE_ZERO] = "a step may have the learning rate 0",
		[PATH_PULL_RANGES] =
			"sluice_pull_begin() lets the first range come before the rest",
		[PATH_IN_PLACE] = "pieces, and parameters in GPU memory, change where they are",
		[PATH_UNEVEN] = "workers may run out of gradients, and call sluice_join()",
		[PATH_RULES] = "tensors may have a learning rate and decay of their own",
		[PATH_PARAM_TYPE] = "the program's parameters may have 16 bits",
		[PATH_DEVICE_SHARDS] = "shards may sum, update and publish on a GPU",
		[PATH_CONTINUE] = "a job may have on_failure=continue",
	};
	const int copied = (traits & TRAITS_OF_WHOLE_GRADIENTS) != 0;

	for (enum path p = from; p < end; p++) {
		const char *why = plan_why_not(p, traits);

		say(t, "  %-13s %-3s %s%s\n", plan_path_names[p], why ? "no:" : "yes",
		    why ? why : what[p],
		    !why && copied && p == PATH_RANGES ?
			    ": the first range takes memory for a copy of the whole gradient" :
			    "");
	}
}

static void say_paths(struct text *t, const char *steps, const struct step_rule *rule)
{
	say(t, "quicker paths%s\n", steps);
	say_columns(t, 0, PATH_ATTRIBUTES, rule->traits);
}

/* Describes the paths of a usual step after the warm-up, and of other kinds of step that the recipe
 * has. */
static void say_all_paths(struct text *t, const struct recipe *recipe, const struct path_plan *plan,
			  const struct schedule *schedule)
{
	const struct direction *up = &recipe->up, *down = &recipe->down;
	const uint64_t period = schedule->anchor_period > recipe->reset ? schedule->anchor_period :
									  recipe->reset;
	uint64_t step = 2;
	struct step_rule rule;

	while (schedule_sends_all(schedule, step) && step < 8)
		step++;
	if (recipe->automatic) {
		rule = plan_step(plan, recipe, schedule, step, worth_candidates[0].up,
				 worth_candidates[0].down);
		say_paths(t, " of a dense step", &rule);
		rule = plan_step(plan, recipe, schedule, step, worth_candidates[1].up,
				 worth_candidates[1].down);
		say_paths(t, " of a sparse step", &rule);
		return;
	}
	rule = plan_step(plan, recipe, schedule, step, up->density, down->density);
	say_paths(t, period ? " of most steps" : "", &rule);
	if (!period)
		return;
	rule = plan_step(plan, recipe, schedule, recipe->reset ? recipe->reset : 1, up->density,
			 down->density);
	say_paths(t, " of a step that sends everything", &rule);
}

/* ---- the call --------------------------------------------------------------- */

static void say_plan(struct text *t, const sluice_model_attr *attr, const struct recipe *recipe,
		     const struct schedule *schedule, const struct layout *l)
{
	const int pushed = recipe->update == UPDATE_AVERAGE ? VALUE_F32 : attr->grad_type;
	const int servers = l->size - l->workers;
	char printed[RECIPE_TEXT_BYTES];
	struct path_plan plan;

	plan_make(&plan, recipe, (enum value_type)pushed, 0);
	recipe_print(recipe, printed);
	say(t, "recipe %s\n", printed);
	say(t, "%llu parameters on %d worker%s and %d server%s\n", (unsigned long long)l->count,
	    l->workers, l->workers == 1 ? "" : "s", servers, servers == 1 ? "" : "s");
	say(t, "stages of a push\n");
	say_stages(t, recipe, printed, push_stages, sizeof(push_stages) / sizeof(push_stages[0]));
	say(t, "stages of a publication\n");
	say_stages(t, recipe, printed, publication_stages,
		   sizeof(publication_stages) / sizeof(publication_stages[0]));
	if (attr->rules)
		say(t, "  the update has a learning rate and decay for each of %zu tensors\n",
		    attr->n_tensors);
	say_phases(t, schedule);
	say_vectors(t, recipe, l, HALF_WORKER);
	say_vectors(t, recipe, l, HALF_SHARD);
	say_messages(t, l);
	say_delay(t, recipe);
	say_memory(t, l, recipe);
	say_all_paths(t, recipe, &plan, schedule);
	say(t, "attributes\n");
	say_columns(t, PATH_ATTRIBUTES, PATHS, plan.traits | (attr->rules ? TRAIT(RULES) : 0));
}

int sluice_plan(const sluice_model_attr *given, int workers, int servers, char *text, size_t cap)
{
	sluice_model_attr attributes, *attr = &attributes;
	struct text t = { text, cap, 0 };
	struct schedule schedule;
	struct recipe recipe;
	struct layout layout;

	if (cap && !text)
		return fail(SLUICE_EINVAL, "sluice_plan: text is NULL, but cap is %zu", cap);
	if (workers < 1 || servers < 0 || workers > PLAN_RANKS_MOST ||
	    servers > PLAN_RANKS_MOST - workers)
		return fail(SLUICE_EINVAL,
			    "sluice_plan: workers=%d, servers=%d: there must be 1 worker or more, "
			    "and %d ranks at most",
			    workers, servers, PLAN_RANKS_MOST);
	int rc = model_take_attributes(given, "sluice_plan", attr);
	if (rc)
		return rc;
	const char *recipe_text = attr->recipe && *attr->recipe ? attr->recipe :
								  getenv("SLUICE_RECIPE");
	const struct model_of made = { .text = recipe_text,
				       .function = "sluice_plan",
				       .size = workers + servers,
				       .workers = workers };
	rc = model_shape(attr, &made, &recipe, &schedule, &layout);
	if (rc)
		return rc;
	say_plan(&t, attr, &recipe, &schedule, &layout);
	layout_free(&layout);
	return (int)t.length;
}
