/* SPDX-License-Identifier: BSD-3-Clause
 * See guard.h. growth.c has the criterion. The guard sees a direction only if the host has its
 * values. It does not see selections made on a GPU, or publications that are added from where they
 * lie (dense.c), but then it sees the other direction, unless this holds for both. It reads no
 * whole vector until there is something to report.
 *
 * A raise is decided like all choices (model_rule()). The worker's next push proposes one more
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
	uint64_t pushed, pulled; /* elements pushed and pulled up to the last complete window */
	unsigned doublings; /* number of doublings of the densities in the steps of these windows */
	int saw;            /* 1: growth was seen; the next delta will bring the doubling */
	int over;           /* 1: growth was reported, and the guard does nothing more */
	int saw_way;
	struct growth_verdict verdict;
	double squares[]; /* squared norms of this step's values: [way * n_shards + shard] */
};

static int guards(const struct recipe *recipe)
{
	return recipe->guard != GUARD_NONE && recipe->memory != MEMORY_NONE &&
	       (recipe->up.select != SELECT_ALL || recipe->down.select != SELECT_ALL);
}

static int guard_used(const sluice_model *model)
{
	return guards(&model->recipe);
}

static uint64_t guard_memory(const struct layout *l, const struct recipe *recipe)
{
	return guards(recipe) ? sizeof(struct guard) + WAYS * l->n_shards * sizeof(double) : 0;
}

static int guard_open(sluice_model *model)
{
	model->worker->guard = calloc(1, guard_memory(&model->layout, &model->recipe));
	return model->worker->guard ? 0 : fail(SLUICE_ENOMEM, "no memory for guard=");
}

static void guard_close(sluice_model *model)
{
	free(model->worker->guard);
	model->worker->guard = NULL;
}

static void guard_restart(sluice_model *model)
{
	struct guard *g = model->worker->guard;

	for (int way = 0; way < WAYS; way++) {
		growth_open(&g->way[way], model->layout.count, model->schedule.raises);
		growth_forget(&g->way[way], model->worker->step.number);
	}
	g->pushed = model->stats.pushed_elements;
	g->pulled = model->stats.pulled_elements;
	g->doublings = 0;
	g->saw = g->over = 0;
	g->verdict = (struct growth_verdict){ 0 };
	memset(g->squares, 0, WAYS * model->layout.n_shards * sizeof(g->squares[0]));
}

/* Records the values of one shard's message. */
static void see(const sluice_model *model, int way, uint32_t shard, const uint32_t *index,
		const float *value, uint64_t n)
{
	struct guard *g = model->worker->guard;

	if (!g->over && index)
		g->squares[(uint32_t)way * model->layout.n_shards + shard] += growth_see(
			&g->way[way], model->layout.shards[shard].begin, index, value, n);
}

/* Adds up the step in the order of the shards, because messages arrive in any order. */
static void add_step(const sluice_model *model)
{
	const uint32_t shards = model->layout.n_shards;
	struct guard *g = model->worker->guard;

	for (uint32_t i = 0; i < WAYS * shards; i++) {
		growth_add(&g->way[i / shards], g->squares[i]);
		g->squares[i] = 0;
	}
}

static void guard_emitted(sluice_model *model, const struct shard_layout *at,
			  const struct pick *emitted)
{
	see(model, UP, (uint32_t)(at - model->layout.shards), emitted->index, emitted->value,
	    emitted->n);
}

static int guard_applied(sluice_model *model, uint32_t shard, const uint32_t *index,
			 const struct entries *got, const struct message *m)
{
	see(model, DOWN, shard, index, got->value, m->count);
	return 0;
}

/* Returns the norm of the residual, for a report. Makes a pass over it. */
static double norm_of_residual(const sluice_model *model)
{
	const float *residual = worker_residual(model);

	return sqrt(loss_squares(residual, model->layout.count));
}

/* Writes "the norm of what rank 0 sends in a step was 0.1 at step 8 and is 3 at step 90, and 50 %
 * ..." */
static void describe_growth(const sluice_model *model, char *text, size_t cap)
{
	const struct guard *g = model->worker->guard;
	const struct growth_verdict *v = &g->verdict;
	char waits[64] = "";

	if (g->saw_way == UP && !worker_on_device(model))
		snprintf(waits, sizeof(waits), " (%.3g waits in this rank's residual)",
			 norm_of_residual(model));
	snprintf(text, cap,
		 "the norm of what %s in a step was %.3g at step %llu and is %.3g at step %llu%s, "
		 "and %.0f %% of the coordinates are sent again with the opposite sign",
		 g->saw_way == UP ? "rank 0 sends" : "the shards publish", v->then,
		 (unsigned long long)v->from, v->now, (unsigned long long)v->to, waits,
		 100 * v->share);
}

static const char *what(const sluice_model *model)
{
	return model->worker->guard->verdict.circles ? "overshoots in circles" : "diverges";
}

static void warn(const sluice_model *model)
{
	const struct step_rule *rule = &model->worker->step.rule;
	const double density = rule->up < rule->down ? rule->up : rule->down;
	char growth[360];

	describe_growth(model, growth, sizeof(growth));
	if (density < 1)
		log_line(LOG_WARN, "runtime",
			 "model %u: the training %s: %s: at density %g a coordinate is "
			 "delayed by about %.0f steps, in which the learning rate %g overshoots; "
			 "lower the rate, raise the density, or set warmup= (sluice_recipe(7), "
			 "CHOOSING; guard=raise raises the density, guard=none silences this)",
			 model->id, what(model), growth, density, 1 / density, (double)model->lr);
	else
		log_line(LOG_WARN, "runtime",
			 "model %u: the training %s: %s: guard=raise has raised the "
			 "densities to 1 already, so compression is not the cause; lower the "
			 "learning rate %g",
			 model->id, what(model), growth, (double)model->lr);
}

/* Reports that all ranks send more from the next step on. */
static void report_raise(const sluice_model *model)
{
	const struct worker *w = model->worker;
	const struct guard *g = w->guard;
	const struct step_rule next = model_rule(model, w->step.number + 1, w->step.chosen);
	/* seen by another rank, or before a restart */
	char growth[360] = "a rank has seen its messages grow";

	if (g->saw && g->verdict.to)
		describe_growth(model, growth, sizeof(growth));
	log_line(LOG_WARN, "runtime",
		 "model %u: the training %s: %s: guard=raise doubles the densities to %g up "
		 "and %g down from step %llu on (doubling %u of at most %u); to send less, lower "
		 "the learning rate %g",
		 model->id, what(model), growth, next.up, next.down, (unsigned long long)next.step,
		 w->step.chosen, schedule_raises_most(&model->recipe), (double)model->lr);
}

/* Called when the delta of this step brings a doubling. */
static void begin_again(sluice_model *model)
{
	struct guard *g = model->worker->guard;

	if (is_first_worker(model->job))
		report_raise(model);
	for (int way = 0; way < WAYS; way++)
		growth_treated(&g->way[way], model->worker->step.number);
	g->pushed = model->stats.pushed_elements;
	g->pulled = model->stats.pulled_elements;
	g->doublings = model->worker->step.chosen;
	g->saw = 0;
	model->stats.guard_raises = g->doublings;
}

static void act(sluice_model *model)
{
	struct worker *w = model->worker;

	w->guard->over = w->step.chosen >= schedule_raises_most(&model->recipe);
	if (!w->guard->over)
		step_propose(&w->step, w->step.chosen + 1);
	else if (is_first_worker(model->job))
		warn(model);
}

static void guard_pulled(sluice_model *model)
{
	struct worker *w = model->worker;
	struct guard *g = w->guard;
	const uint64_t count = model->layout.count;

	add_step(model);
	if (model->schedule.raises && w->step.chosen != g->doublings) {
		begin_again(model);
		return;
	}
	if (g->saw || g->over)
		return;

	const int delay = model->stats.pushed_elements - g->pushed >= count &&
			  model->stats.pulled_elements - g->pulled >= count;

	if (delay) {
		g->pushed = model->stats.pushed_elements;
		g->pulled = model->stats.pulled_elements;
	}
	for (int way = 0; way < WAYS && !g->saw; way++) {
		g->saw = growth_step(&g->way[way], w->step.number, (double)model->lr, delay,
				     &g->verdict);
		g->saw_way = way;
		if (w->step.number <= model->schedule.warmup_steps)
			growth_forget(&g->way[way], w->step.number);
	}
	if (g->saw)
		act(model);
}

/* ---- checkpoints ------------------------------------------------------------- */

enum { AT_CHOICE, AT_PUSHED, AT_PULLED, AT_WAYS };
enum { CHOSEN_BITS = 8 };

void guard_save(const sluice_model *model, uint64_t numbers[GUARD_NUMBERS])
{
	const struct worker *w = model->worker;
	const struct guard *g = w->guard;

	numbers[AT_CHOICE] = w->step.chosen | (uint64_t)w->step.proposed << CHOSEN_BITS;
	numbers[AT_PUSHED] = model->stats.pushed_elements - g->pushed;
	numbers[AT_PULLED] = model->stats.pulled_elements - g->pulled;
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

const char *guard_judge(const sluice_model *model, const uint64_t numbers[GUARD_NUMBERS],
			uint64_t step)
{
	const char *why = NULL;

	if (proposed_in(numbers) > schedule_raises_most(&model->recipe) ||
	    proposed_in(numbers) < chosen_in(numbers) ||
	    proposed_in(numbers) > chosen_in(numbers) + 1)
		return "it counts more doublings of the densities than this recipe allows";
	for (int way = 0; way < WAYS && !why; way++)
		why = growth_judge(numbers + AT_WAYS + way * GROWTH_NUMBERS, step);
	return why;
}

void guard_restore(sluice_model *model, const uint64_t numbers[GUARD_NUMBERS])
{
	struct worker *w = model->worker;
	struct guard *g = w->guard;

	const struct step_rule next = model_rule(model, w->step.number + 1, chosen_in(numbers));

	g->doublings = chosen_in(numbers);
	step_restore(&w->step, g->doublings, (unsigned)proposed_in(numbers), &next);
	g->saw = w->step.proposed > w->step.chosen;
	g->pushed = model->stats.pushed_elements - numbers[AT_PUSHED];
	g->pulled = model->stats.pulled_elements - numbers[AT_PULLED];
	for (int way = 0; way < WAYS; way++)
		growth_restore(&g->way[way], numbers + AT_WAYS + way * GROWTH_NUMBERS);
	model->stats.guard_raises = g->doublings;
}

const struct step_hooks guard_hooks = { .used = guard_used,
					.open = guard_open,
					.close = guard_close,
					.restart = guard_restart,
					.memory = guard_memory,
					.emitted = guard_emitted,
					.applied = guard_applied,
					.pulled = guard_pulled };
