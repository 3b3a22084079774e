/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_plan(): describes in a text what a recipe will do. It needs no job, because it uses the
 * values that both halves compute from a recipe before they open anything. */
#include "base/env.h"
#include "calls/model_open.h"
#include "model/kept.h"
#include "shard/shard_setup.h"
#include "worker/target.h"
#include "worker/worker_setup.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most ranks of a simulated job. */
enum { PLAN_RANKS_MOST = 4096 };

/* ---- a text of unknown length ----------------------------------------------- */

struct text {
	char *at;
	size_t cap, length; /* length is that of the whole text, which may be longer than cap */
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

/* key is the word of the recipe that requests the stage. A step has the stage if it has none of the
 * traits `without`, and one of the traits `with` unless `with` is 0. */
struct stage {
	const char *key, *what;
	uint64_t with, without;
};

#define TRAITS_OF_SIGNALS                                                                          \
	(TRAIT(MOMENTUM) | TRAIT(STORM) | TRAIT(IGT) | TRAIT(INNOVATION) | TRAIT(SVRG))
#define TRAITS_OF_NO_SHARD_RESIDUAL (TRAIT(NO_MEMORY) | TRAIT(ASYNC) | TRAIT(SKETCH))

static const struct stage push_stages[] = {
	{ "nonfinite", "check for NaN and infinity", 0, 0 },
	{ "nonfinite", "agree with all workers whether any found one", TRAIT(SKIP_ALL), 0 },
	{ "signal", "subtract the parameters from those of the last pull", TRAIT(DRIFT), 0 },
	{ "clip", "limit the 2-norm", TRAIT(CLIP), 0 },
	{ "transform", "replace each block by its cosine transform", TRAIT(TRANSFORM), 0 },
	{ "signal", "add noise", TRAIT(NOISE), 0 },
	{ "signal", "make the signal of the gradient", TRAITS_OF_SIGNALS, 0 },
	{ "memory", "filter the values not sent yet", TRAIT(FILTERED), 0 },
	{ "memory", "add the signal to the values not sent yet", 0, TRAIT(NO_MEMORY) },
	{ "when", "sum the steps up to the next exchange", TRAIT(PERIOD), TRAIT(DRIFT) },
	{ "up", "select coordinates", TRAIT(SELECTS_UP), TRAIT(LEADER) | TRAIT(SKETCH) },
	{ "up", "in turn, one worker selects coordinates for all", TRAIT(LEADER), 0 },
	{ "up", "add a sketch of everything up at the shards, which ask for coordinates",
	  TRAIT(SKETCH), 0 },
	{ "when", "leave out values that changed little", TRAIT(LAZY), 0 },
	{ "up", "encode one message for each shard", 0, 0 },
	{ "memory", "subtract what the shards decode", 0, TRAIT(NO_MEMORY) },
};
static const struct stage publication_stages[] = {
	{ "when", "take the message of one worker", TRAIT(ASYNC), 0 },
	{ "clip", "scale each message down to the median norm", TRAIT(MEDIAN), 0 },
	{ "when", "add up the messages of all workers in rank order", 0, TRAIT(ASYNC) },
	{ "reduce", "divide each coordinate by the number of its senders", TRAIT(SENDERS), 0 },
	{ "signal", "add the stored uploads of each worker", TRAIT(INNOVATION), 0 },
	{ "transform", "transform the sum back", TRAIT(TRANSFORM), 0 },
	{ "decay", "add this multiple of the parameters", TRAIT(DECAY), 0 },
	{ "update", "make the change of the parameters", 0, 0 },
	{ "memory", "add the values not published yet", 0, TRAITS_OF_NO_SHARD_RESIDUAL },
	{ "down", "select coordinates", TRAIT(SELECTS_DOWN), 0 },
	{ "down", "encode one publication for all workers", 0, TRAIT(ASYNC) },
	{ "down", "encode one publication for this worker", TRAIT(ASYNC), 0 },
	{ "memory", "keep the values not published", 0, TRAITS_OF_NO_SHARD_RESIDUAL },
};

/* Finds the word KEY=... in a printed recipe. *length may become 0. */
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

static void say_stages(struct text *t, uint64_t traits, const char *printed,
		       const struct stage *stages, size_t n)
{
	int number = 1, length;

	for (size_t i = 0; i < n; i++) {
		if ((stages[i].with && !(stages[i].with & traits)) || stages[i].without & traits)
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
			    phase->close == CLOSE_QUORUM ?
							"the messages of a quorum of the workers" :
							"the messages of all living workers");
		say(t, "\n");
	}
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
			    mebibytes(count * kept_rows[k].element), kept_rows[k].what);
	if (half == HALF_WORKER && target_hooks.memory(l, recipe))
		say(t, "  %-10s %10.3f MiB  %s\n", "parameters",
		    mebibytes(target_hooks.memory(l, recipe)),
		    "in 32 bits, from which the program's are rounded");
}

/* The sizes of the largest messages: from a worker to a shard, and from a shard. */
struct message_room {
	size_t slot, delta;
};

static struct message_room largest_messages(const struct layout *l)
{
	struct message_room most = { 0, 0 };

	for (uint32_t s = 0; s < l->n_shards; s++) {
		const struct shard_layout *at = &l->shards[s];

		most.slot = at->slot_bytes > most.slot ? at->slot_bytes : most.slot;
		most.delta = at->delta_bytes > most.delta ? at->delta_bytes : most.delta;
	}
	return most;
}

static void say_messages(struct text *t, const struct recipe *recipe, const struct layout *l)
{
	const struct message_room most = largest_messages(l);

	say(t, "messages\n");
	if (l->n_fragments > 1)
		say(t, "  one of %u fragments of the parameters is exchanged every %u steps\n",
		    l->n_fragments, recipe_interval(recipe));
	if (recipe->every.late)
		say(t,
		    "  an exchange is applied %u steps after its push, and overlaps with these "
		    "steps\n",
		    recipe->every.late);
	say(t,
	    "  a worker sends one to each of %u shards in each exchange up, of at most %zu bytes\n"
	    "  a shard publishes one in each exchange down, of at most %zu bytes\n",
	    l->n_shards / l->n_fragments, most.slot, most.delta);
}

/* Lists the choices of recipe=auto. */
static void say_choices(struct text *t, const struct recipe *recipe)
{
	char words[WORTH_WORDS_BYTES];

	if (!recipe->automatic)
		return;
	say(t, "choices\n");
	if (!recipe->budget)
		say(t,
		    "  the times of the first %d steps decide between these groups and dense "
		    "steps\n",
		    WORTH_TRIAL);
	say(t, "  in steps 1, 2, 4, 8 and so on, each direction takes the values of its group that "
	       "keep the most of the squared norm\n");
	for (unsigned budget = 1; budget < BUDGETS; budget++) {
		if (recipe->budget && recipe->budget != budget)
			continue;
		for (enum code c = 0; c < AUTO_CODES; c++) {
			worth_words(budget, (const enum code[BUDGET_WAYS]){ c, c }, words,
				    sizeof(words));
			say(t, "  %s %s\n", c ? " " : "-", words);
		}
	}
}

/* Warns that error feedback overshoots if the steps are large compared with the delay. */
static void say_delay(struct text *t, const struct recipe *r)
{
	const double density = r->up.density < r->down.density ? r->up.density : r->down.density;
	const double left = (1 - (double)r->signal.average.momentum) *
			    (1 - (double)r->update_average.momentum);

	if (r->memory.kind == MEMORY_NONE || density >= 1)
		return;
	if (recipe_drifts(r)) {
		say(t,
		    "exchanges\n  a coordinate is sent once in about %.0f exchanges, and a "
		    "training needs several times as many\n",
		    1 / density);
		return;
	}
	say(t, "step size\n  a coordinate is sent once in about %.0f steps", 1 / density);
	if (recipe_variance(r)) {
		say(t, ", which is itself a momentum: keep BETA1 at 0.2 or below, and BETA2 at "
		       "about 0.99\n");
		return;
	}
	if (left < 1)
		say(t, ", and momentum multiplies a step by %.3g", 1 / left);
	say(t, ": the learning rate times the curvature must stay below about %.2g\n",
	    2 * density * left);
	if (r->guard == GUARD_RAISE)
		say(t,
		    "  if it does not, guard=raise doubles the densities up to %u times; messages "
		    "have room for all coordinates\n",
		    schedule_raises_most(r));
}

/* Returns the lowest rank among those whose shards need the most memory. */
static int largest_owner(const struct layout *l, const struct recipe *recipe, uint64_t *most)
{
	int owner = 0;

	*most = 0;
	for (int r = 0; r < l->size; r++) {
		const uint64_t bytes = shards_memory(l, recipe, r);

		owner = bytes > *most ? r : owner;
		*most = bytes > *most ? bytes : *most;
	}
	return owner;
}

/* Returns the bytes of the running averages that the shards keep. The programs need not keep
 * them. */
static uint64_t bytes_spared(const struct layout *l, const struct recipe *recipe)
{
	return l->count * sizeof(float) *
	       (uint64_t)(recipe_velocity(recipe) + recipe_variance(recipe));
}

static void say_memory(struct text *t, const struct layout *l, const struct recipe *recipe)
{
	uint64_t most;
	const int owner = largest_owner(l, recipe, &most);

	say(t,
	    "memory\n"
	    "  the vectors and messages of a worker  %10.3f MiB\n"
	    "  those of the largest owner of shards  %10.3f MiB\n"
	    "  this owner's rank, with its windows   %10.3f MiB\n",
	    mebibytes(worker_memory(l, recipe)), mebibytes(most),
	    mebibytes(model_memory(l, recipe, owner)));
	if (bytes_spared(l, recipe))
		say(t,
		    "  spared at each worker, whose program needs no optimizer: %.3f MiB of "
		    "running averages, of which the largest shard keeps %.3f MiB\n",
		    mebibytes(bytes_spared(l, recipe)),
		    mebibytes(bytes_spared(l, recipe) / l->count * layout_largest(l, -1).span));
	if (l->size > l->workers)
		say(t, "  a worker's rank, with its windows     %10.3f MiB\n",
		    mebibytes(model_memory(l, recipe, 0)));
}

/* ---- paths ------------------------------------------------------------------ */

/* Writes a line for each column of the table from `from` up to `end`. */
static void say_columns(struct text *t, enum path from, enum path end, uint64_t traits)
{
	static const char *const what[PATHS] = {
		[PATH_FOLD] = "the selection adds the gradient in its own pass",
		[PATH_DENSE_PUSH] =
			"the gradient is written directly into send memory, in one pass",
		[PATH_DENSE_SUM] = "a shard adds all messages up in one pass",
		[PATH_DENSE_PULL] = "a whole publication is added from its owner's memory",
		[PATH_DEVICE] = "a gradient in GPU memory is compressed there",
		[PATH_ACCUMULATOR] = "sluice_accumulator() is allowed",
		[PATH_RANGES] = "sluice_push_range() is allowed",
		[PATH_RATE_ZERO] = "a step may have the learning rate 0",
		[PATH_PULL_RANGES] =
			"sluice_pull_begin() lets the first range come before the rest",
		[PATH_IN_PLACE] = "pieces, and parameters in GPU memory, change in place",
		[PATH_UNEVEN] = "workers may run out of gradients, and call sluice_idle_step()",
		[PATH_RULES] = "each tensor may have its own learning rate and decay",
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
	say(t, "faster paths%s\n", steps);
	say_columns(t, 0, PATH_ATTRIBUTES, rule->traits);
}

/* Returns the rule of a usual step: one after the warm-up that is neither a reset nor an anchor. */
static struct step_rule usual_step(const struct path_plan *plan, const struct recipe *recipe,
				   const struct schedule *schedule, double up, double down)
{
	uint64_t step = 2 + (schedule->warmup_dense ? schedule->warmup_steps : 0);
	const uint64_t last = step + 6;

	while (schedule_sends_all(schedule, step) && step < last)
		step++;
	return plan_step(plan, recipe, schedule, step, up, down);
}

/* Returns the rule of a usual step, which with auto is a sparse step. */
static struct step_rule usual_rule(const struct path_plan *plan, const struct recipe *recipe,
				   const struct schedule *schedule)
{
	const unsigned budget = recipe->budget ? recipe->budget : 1;

	return recipe->automatic ?
		       usual_step(plan, recipe, schedule,
				  budget_density(budget, BUDGET_UP, CODE_F32),
				  budget_density(budget, BUDGET_DOWN, CODE_F32)) :
		       usual_step(plan, recipe, schedule, recipe->up.density, recipe->down.density);
}

/* Describes the paths of a usual step, and of the recipe's other kinds of steps. */
static void say_all_paths(struct text *t, const struct recipe *recipe, const struct path_plan *plan,
			  const struct schedule *schedule)
{
	const uint64_t period = schedule->anchor_period > recipe->reset ? schedule->anchor_period :
									  recipe->reset;
	struct step_rule rule;

	if (recipe->automatic && !recipe->budget) {
		rule = usual_step(plan, recipe, schedule, 1, 1);
		say_paths(t, " of a dense step", &rule);
	}
	rule = usual_rule(plan, recipe, schedule);
	say_paths(t,
		  recipe->automatic ? " of a sparse step" :
		  period            ? " of most steps" :
				      "",
		  &rule);
	if (recipe->warmup.dense) {
		rule = plan_step(plan, recipe, schedule, 1, recipe->up.density,
				 recipe->down.density);
		say_paths(t, " of a step of the warm-up", &rule);
	}
	if (recipe->automatic || !period)
		return;
	rule = plan_step(plan, recipe, schedule, recipe->reset ? recipe->reset : 1,
			 recipe->up.density, recipe->down.density);
	say_paths(t, " of a step that sends everything", &rule);
}

/* ---- the call --------------------------------------------------------------- */

/* All facts about a model that are known before it is opened. */
struct planned {
	const sluice_model_attr *attr;
	struct recipe recipe;
	struct schedule schedule;
	struct layout layout;
	struct path_plan plan;
	char printed[RECIPE_TEXT_BYTES];
};

static void say_text(struct text *t, const struct planned *m)
{
	const struct step_rule usual = usual_rule(&m->plan, &m->recipe, &m->schedule);
	const struct layout *l = &m->layout;
	const int servers = l->size - l->workers;

	say(t, "recipe %s\n", m->printed);
	say(t, "%llu parameters on %d worker%s and %d server%s\n", (unsigned long long)l->count,
	    l->workers, l->workers == 1 ? "" : "s", servers, servers == 1 ? "" : "s");
	say(t, "stages of a push\n");
	say_stages(t, usual.traits, m->printed, push_stages,
		   sizeof(push_stages) / sizeof(push_stages[0]));
	say(t, "stages of a publication\n");
	say_stages(t, usual.traits, m->printed, publication_stages,
		   sizeof(publication_stages) / sizeof(publication_stages[0]));
	if (m->attr->rules)
		say(t, "  the update has a learning rate and decay for each of %zu tensors\n",
		    m->attr->n_tensors);
	say_phases(t, &m->schedule);
	say_vectors(t, &m->recipe, l, HALF_WORKER);
	say_vectors(t, &m->recipe, l, HALF_SHARD);
	say_messages(t, &m->recipe, l);
	say_choices(t, &m->recipe);
	say_delay(t, &m->recipe);
	say_memory(t, l, &m->recipe);
	say_all_paths(t, &m->recipe, &m->plan, &m->schedule);
	say(t, "attributes\n");
	say_columns(t, PATH_ATTRIBUTES, PATHS, m->plan.traits);
}

/* Programs read these lines, so their keys must not change (sluice_plan(3)). */
static void say_keys(struct text *t, const struct planned *m)
{
	const uint64_t traits = usual_rule(&m->plan, &m->recipe, &m->schedule).traits;
	const struct layout *l = &m->layout;
	const struct message_room most = largest_messages(l);
	uint64_t shards;
	const int owner = largest_owner(l, &m->recipe, &shards);

	say(t, "recipe=%s\n", m->printed);
	say(t, "count=%llu\nworkers=%d\nservers=%d\nshards=%u\n", (unsigned long long)l->count,
	    l->workers, l->size - l->workers, l->n_shards);
	say(t, "push_bytes=%zu\npublication_bytes=%zu\n", most.slot, most.delta);
	say(t, "worker_bytes=%llu\nshard_bytes=%llu\nrank_bytes=%llu\n",
	    (unsigned long long)worker_memory(l, &m->recipe), (unsigned long long)shards,
	    (unsigned long long)model_memory(l, &m->recipe, owner));
	say(t, "spared_bytes=%llu\n", (unsigned long long)bytes_spared(l, &m->recipe));
	for (enum path p = 0; p < PATHS; p++) {
		const char *const name = plan_path_names[p];

		for (size_t i = 0; name[i]; i++)
			say(t, "%c", name[i] == ' ' || name[i] == '=' ? '_' : name[i]);
		say(t, "=%s\n",
		    plan_why_not(p, traits)                                ? "no" :
		    p == PATH_RANGES && traits & TRAITS_OF_WHOLE_GRADIENTS ? "copied" :
									     "yes");
	}
}

int sluice_plan(const sluice_model_attr *given, int workers, int servers, int form, char *text,
		size_t cap)
{
	sluice_model_attr attributes, *attr = &attributes;
	struct planned m = { .attr = attr };
	struct text t = { text, cap, 0 };

	if (cap && !text)
		return fail(SLUICE_EINVAL, "sluice_plan: text is NULL, but cap is %zu", cap);
	if (form != SLUICE_PLAN_TEXT && form != SLUICE_PLAN_KEYS)
		return fail(SLUICE_EINVAL,
			    "sluice_plan: form=%d, must be SLUICE_PLAN_TEXT or SLUICE_PLAN_KEYS",
			    form);
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
								  env_text("SLUICE_RECIPE");
	const struct model_of made = { .text = recipe_text,
				       .function = "sluice_plan",
				       .size = workers + servers,
				       .workers = workers };

	rc = model_shape(attr, &made, &m.recipe, &m.schedule, &m.layout);
	if (rc)
		return rc;
	plan_make(&m.plan, &m.recipe,
		  recipe_pushes_params(&m.recipe) ? VALUE_F32 : (enum value_type)attr->grad_type,
		  0);
	m.plan.traits |= attr->rules ? TRAIT(RULES) : 0;
	recipe_print(&m.recipe, m.printed);
	(form == SLUICE_PLAN_KEYS ? say_keys : say_text)(&t, &m);
	layout_free(&m.layout);
	return (int)t.length;
}
