/* SPDX-License-Identifier: BSD-3-Clause
 * See guard.h. growth.c has the criterion. The guard sees a direction only if the host has its
 * values. It does not see selections made on a GPU, or publications that dense.c adds directly from
 * their owner's memory. It then still sees the other direction, unless this holds for both. It
 * makes no pass over a vector until it has something to report.
 *
 * A raise is decided like all choices (rulebook_step()). The worker's next push proposes one more
 * doubling, the shards adopt the largest proposal, and the delta of the first shard announces it to
 * all workers. So all ranks change the density after the same step, no matter which of them saw the
 * growth. */
#include "worker/guard.h"
#include "base/log.h"
#include "model/growth.h"
#include "model/model.h"
#include "worker/compressor_ops.h"
#include "worker/hooks.h"
#include "worker/state.h"
#include "worker/watch.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UP, DOWN, WAYS };

struct guard {
	struct growth way[WAYS];
	uint64_t pushed, pulled; /* totals of pushed and pulled elements at the end of the last
				    complete window */
	unsigned doublings; /* number of doublings of the densities in the steps of these windows */
	int saw;            /* 1: growth was found, and the next delta will double the densities */
	int over;           /* 1: growth was reported, and the guard has ended its work */
	int saw_way;
	struct growth_verdict verdict;
	double squares[]; /* squared norms of this step's values, at [way * n_shards + shard] */
};

static int guards(const struct recipe *recipe)
{
	return recipe->guard != GUARD_NONE && recipe->memory.kind != MEMORY_NONE &&
	       (recipe->up.select != SELECT_ALL || recipe->down.select != SELECT_ALL);
}

static int guard_used(const struct worker *w)
{
	return guards(w->rules.recipe);
}

static uint64_t guard_memory(const struct layout *l, const struct recipe *recipe)
{
	return guards(recipe) ? sizeof(struct guard) + WAYS * l->n_shards * sizeof(double) : 0;
}

static int guard_open(struct worker *w)
{
	w->guard = calloc(1, guard_memory(w->layout, w->rules.recipe));
	return w->guard ? 0 : fail(SLUICE_ENOMEM, "no memory for guard=");
}

static void guard_close(struct worker *w)
{
	free(w->guard);
	w->guard = NULL;
}

static void guard_restart(struct worker *w)
{
	struct guard *g = w->guard;

	for (int way = 0; way < WAYS; way++) {
		growth_open(&g->way[way], w->layout->count, w->rules.schedule->raises);
		growth_forget(&g->way[way], worker_exchanges(w));
	}
	g->pushed = w->model.stats->pushed_elements;
	g->pulled = w->model.stats->pulled_elements;
	g->doublings = 0;
	g->saw = g->over = 0;
	g->verdict = (struct growth_verdict){ 0 };
	memset(g->squares, 0, WAYS * w->layout->n_shards * sizeof(g->squares[0]));
}

/* Records the values of a message to or from one shard. */
static void see(const struct worker *w, int way, uint32_t shard, const uint32_t *index,
		const float *value, uint64_t n)
{
	struct guard *g = w->guard;

	if (!g->over && index)
		g->squares[(uint32_t)way * w->layout->n_shards + shard] += growth_see(
			&g->way[way], w->layout->shards[shard].begin, index, value, n);
}

/* Adds up the step's norms in the order of the shards, because a sum of doubles depends on the
 * order and messages arrive in any order. */
static void add_step(const struct worker *w)
{
	const uint32_t shards = w->layout->n_shards;
	struct guard *g = w->guard;

	for (uint32_t i = 0; i < WAYS * shards; i++) {
		growth_add(&g->way[i / shards], g->squares[i]);
		g->squares[i] = 0;
	}
}

static void guard_emitted(struct worker *w, const struct shard_layout *at,
			  const struct pick *emitted)
{
	see(w, UP, (uint32_t)(at - w->layout->shards), emitted->index, emitted->value, emitted->n);
}

static int guard_applied(struct worker *w, uint32_t shard, const uint32_t *index,
			 const struct entries *got, const struct message *m)
{
	see(w, DOWN, shard, index, got->value, m->count);
	return 0;
}

/* Returns the norm of the residual, for a report. This reads the whole residual. */
static double norm_of_residual(const struct worker *w)
{
	const float *residual = worker_residual(w);

	return sqrt(loss_squares(residual, w->layout->count));
}

/* Writes for example "the norm of this rank's messages was 0.1 at step 8 and is 3 at step 90, and
 * 50 % ..." */
static void describe_growth(const struct worker *w, char *text, size_t cap)
{
	const struct guard *g = w->guard;
	const struct growth_verdict *v = &g->verdict;
	char waits[64] = "";

	if (g->saw_way == UP && !worker_on_device(w))
		snprintf(waits, sizeof(waits), " (the norm of this rank's residual is %.3g)",
			 norm_of_residual(w));
	snprintf(text, cap,
		 "the norm of %s was %.3g at step %llu and is %.3g at step %llu%s, and "
		 "%.0f %% of the coordinates are sent again with the opposite sign",
		 g->saw_way == UP ? "this rank's messages" : "the published deltas", v->then,
		 (unsigned long long)v->from * recipe_interval(w->rules.recipe), v->now,
		 (unsigned long long)v->to * recipe_interval(w->rules.recipe), waits,
		 100 * v->share);
}

static const char *what(const struct guard *g)
{
	return g->verdict.circles ? "overshoots in circles" : "diverges";
}

static void warn(const struct worker *w)
{
	const struct step_rule *rule = &w->step.rule;
	const double density = rule->up < rule->down ? rule->up : rule->down;
	char growth[360];

	describe_growth(w, growth, sizeof(growth));
	if (density < 1)
		log_line(LOG_WARN, "runtime",
			 "model %u: the training %s. Evidence: %s. At density %g a coordinate is "
			 "sent about every %.0f steps, and the learning rate %g is too high for "
			 "this delay. Lower the rate, raise the density, or set warmup= "
			 "(sluice_recipe(7), CHOOSING). guard=raise raises the density "
			 "automatically, and guard=none silences this warning",
			 w->model.id, what(w->guard), growth, density, 1 / density,
			 (double)w->step.lr);
	else
		log_line(LOG_WARN, "runtime",
			 "model %u: the training %s. Evidence: %s. guard=raise has raised the "
			 "densities to 1 already, so compression is not the cause. Lower the "
			 "learning rate %g",
			 w->model.id, what(w->guard), growth, (double)w->step.lr);
}

/* Reports that all ranks send more values from the next step on. */
static void report_raise(const struct worker *w)
{
	const struct guard *g = w->guard;
	const struct step_rule next = rulebook_step(&w->rules, w->step.number + 1, w->step.chosen);
	/* The text if another rank found the growth, or if it was found before a restart. */
	char growth[360] = "a rank has seen its messages grow";

	if (g->saw && g->verdict.to)
		describe_growth(w, growth, sizeof(growth));
	log_line(LOG_WARN, "runtime",
		 "model %u: the training %s. Evidence: %s. guard=raise doubles the densities to "
		 "%g up and %g down from step %llu on (doubling %u of at most %u). To send less, "
		 "lower the learning rate %g",
		 w->model.id, what(w->guard), growth, next.up, next.down,
		 (unsigned long long)next.step, w->step.chosen,
		 schedule_raises_most(w->rules.recipe), (double)w->step.lr);
}

/* Called when this step's delta brings the decision to double the densities, which holds for all
 * workers. */
static void apply_raise(struct worker *w)
{
	struct guard *g = w->guard;

	if (is_first_worker(w->job))
		report_raise(w);
	for (int way = 0; way < WAYS; way++)
		growth_treated(&g->way[way], w->step.number);
	g->pushed = w->model.stats->pushed_elements;
	g->pulled = w->model.stats->pulled_elements;
	g->doublings = w->step.chosen;
	g->saw = 0;
	w->model.stats->guard_raises = g->doublings;
}

static void act(struct worker *w)
{
	w->guard->over = w->step.chosen >= schedule_raises_most(w->rules.recipe);
	if (!w->guard->over)
		step_propose(&w->step, w->step.chosen + 1);
	else if (is_first_worker(w->job))
		warn(w);
}

static void guard_pulled(struct worker *w)
{
	struct guard *g = w->guard;
	const uint64_t count = w->layout->count;

	add_step(w);
	if (w->rules.schedule->raises && w->step.chosen != g->doublings) {
		apply_raise(w);
		return;
	}
	if (g->saw || g->over)
		return;

	const int delay = w->model.stats->pushed_elements - g->pushed >= count &&
			  w->model.stats->pulled_elements - g->pulled >= count;

	if (delay) {
		g->pushed = w->model.stats->pushed_elements;
		g->pulled = w->model.stats->pulled_elements;
	}
	for (int way = 0; way < WAYS && !g->saw; way++) {
		g->saw = growth_step(&g->way[way], worker_exchanges(w), (double)w->step.lr, delay,
				     &g->verdict);
		g->saw_way = way;
		if (w->step.number <= w->rules.schedule->warmup_steps)
			growth_forget(&g->way[way], worker_exchanges(w));
	}
	if (g->saw)
		act(w);
}

/* ---- checkpoints ------------------------------------------------------------- */

enum { AT_CHOICE, AT_PUSHED, AT_PULLED, AT_WAYS };
enum { CHOSEN_BITS = 8 };

void guard_save(const struct worker *w, uint64_t numbers[GUARD_NUMBERS])
{
	const struct guard *g = w->guard;

	numbers[AT_CHOICE] = w->step.chosen | (uint64_t)w->step.proposed << CHOSEN_BITS;
	numbers[AT_PUSHED] = w->model.stats->pushed_elements - g->pushed;
	numbers[AT_PULLED] = w->model.stats->pulled_elements - g->pulled;
	for (int way = 0; way < WAYS; way++)
		growth_save(&g->way[way], numbers + AT_WAYS + way * GROWTH_NUMBERS);
}

static unsigned chosen_in(const uint64_t *numbers)
{
	return numbers[AT_CHOICE] & ((1u << CHOSEN_BITS) - 1);
}

static uint64_t proposed_in(const uint64_t *numbers)
{
	return numbers[AT_CHOICE] >> CHOSEN_BITS;
}

const char *guard_judge(const struct recipe *recipe, const uint64_t numbers[GUARD_NUMBERS],
			uint64_t step)
{
	const char *why = NULL;

	if (proposed_in(numbers) > schedule_raises_most(recipe) ||
	    proposed_in(numbers) < chosen_in(numbers) ||
	    proposed_in(numbers) > chosen_in(numbers) + 1)
		return "it counts more doublings of the densities than this recipe allows";
	for (int way = 0; way < WAYS && !why; way++)
		why = growth_judge(numbers + AT_WAYS + way * GROWTH_NUMBERS, step);
	return why;
}

void guard_restore(struct worker *w, const uint64_t numbers[GUARD_NUMBERS])
{
	struct guard *g = w->guard;

	const struct step_rule next = rulebook_step(&w->rules, w->step.number + 1,
						    chosen_in(numbers));

	g->doublings = chosen_in(numbers);
	step_restore(&w->step, g->doublings, (unsigned)proposed_in(numbers), &next);
	g->saw = w->step.proposed > w->step.chosen;
	g->pushed = w->model.stats->pushed_elements - numbers[AT_PUSHED];
	g->pulled = w->model.stats->pulled_elements - numbers[AT_PULLED];
	for (int way = 0; way < WAYS; way++)
		growth_restore(&g->way[way], numbers + AT_WAYS + way * GROWTH_NUMBERS);
	w->model.stats->guard_raises = g->doublings;
}

const struct step_hooks guard_hooks = { .used = guard_used,
					.open = guard_open,
					.close = guard_close,
					.restart = guard_restart,
					.memory = guard_memory,
					.emitted = guard_emitted,
					.applied = guard_applied,
					.pulled = guard_pulled };
