/* SPDX-License-Identifier: BSD-3-Clause
 * See guard.h. The criterion is growth.c's. A direction is seen where the host has its values:
 * selections made on a GPU, and publications that are added from where they lie (dense.c), are not,
 * but then the other direction is, unless both are. Nothing reads a whole vector until there is
 * something to say. */
#include "worker/guard.h"
#include "base/log.h"
#include "model/growth.h"
#include "worker/worker.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { UP, DOWN, WAYS };

struct guard {
	struct growth way[WAYS];
	uint64_t pushed, pulled; /* elements, up to the last window */
	int warned;
};

static int guards(const struct recipe *recipe)
{
	return recipe->guard == GUARD_WARN && recipe->memory != MEMORY_NONE &&
	       (recipe->up.select != SELECT_ALL || recipe->down.select != SELECT_ALL);
}

static int guard_open(sluice_model *model)
{
	if (!guards(&model->recipe))
		return 0;
	model->worker->guard = malloc(sizeof(*model->worker->guard));
	return model->worker->guard ? 0 : fail(SLUICE_ENOMEM, "no memory for guard=warn");
}

static void guard_close(sluice_model *model)
{
	free(model->worker->guard);
	model->worker->guard = NULL;
}

static uint64_t guard_memory(const struct layout *l, const struct recipe *recipe)
{
	(void)l;
	return guards(recipe) ? sizeof(struct guard) : 0;
}

static void guard_restart(sluice_model *model)
{
	struct guard *g = model->worker->guard;

	if (!g)
		return;
	for (int way = 0; way < WAYS; way++) {
		growth_open(&g->way[way], model->layout.count);
		growth_forget(&g->way[way], model->worker->step);
	}
	g->pushed = model->stats.pushed_elements;
	g->pulled = model->stats.pulled_elements;
	g->warned = 0;
}

static void guard_emitted(sluice_model *model, const struct shard_layout *at,
			  const struct pick *emitted)
{
	struct guard *g = model->worker->guard;

	if (g && emitted->index)
		growth_see(&g->way[UP], at->begin, emitted->index, emitted->value, emitted->n);
}

static int guard_applied(sluice_model *model, uint32_t shard, const uint32_t *index,
			 const float *value, const struct message *m)
{
	struct guard *g = model->worker->guard;

	if (g && index)
		growth_see(&g->way[DOWN], model->layout.shards[shard].begin, index, value,
			   m->count);
	return 0;
}

/* Once in the life of a model. */
static double norm_of_residual(const sluice_model *model)
{
	const float *residual = worker_residual(model);

	return sqrt(loss_squares(residual, model->layout.count));
}

static void warn(const sluice_model *model, int way, const struct growth_verdict *v)
{
	const struct step_rule *rule = &model->worker->rule;
	const double density = rule->up < rule->down ? rule->up : rule->down;
	char waits[64] = "";

	if (way == UP && !on_device_selects(model))
		snprintf(waits, sizeof(waits), " (%.3g waits in this rank's residual)",
			 norm_of_residual(model));
	log_line(LOG_WARN, "runtime",
		 "model %u: the training diverges: the norm of what %s in a step was %.3g at step "
		 "%llu and is %.3g at step %llu%s, and %.0f %% of the coordinates come back with "
		 "the other sign: at density %g a coordinate is delayed by about %.0f steps, in "
		 "which the learning rate %g overshoots; lower the rate, raise the density, or set "
		 "warmup= (sluice_recipe(7), CHOOSING; guard=none silences this)",
		 model->id, way == UP ? "rank 0 sends" : "the shards publish", v->then,
		 (unsigned long long)v->from, v->now, (unsigned long long)v->to, waits,
		 100 * v->share, density, 1 / density, (double)model->lr);
}

static void guard_pulled(sluice_model *model)
{
	struct guard *g = model->worker->guard;
	const uint64_t count = model->layout.count, step = model->worker->step;

	if (!g || g->warned)
		return;

	const int delay = model->stats.pushed_elements - g->pushed >= count &&
			  model->stats.pulled_elements - g->pulled >= count;

	if (delay) {
		g->pushed = model->stats.pushed_elements;
		g->pulled = model->stats.pulled_elements;
	}
	for (int way = 0; way < WAYS && !g->warned; way++) {
		struct growth_verdict verdict;

		g->warned = growth_step(&g->way[way], step, (double)model->lr, delay, &verdict);
		if (step <= model->schedule.warmup_steps)
			growth_forget(&g->way[way], step);
		if (g->warned && is_first_worker(model->job))
			warn(model, way, &verdict);
	}
}

const struct step_hooks guard_hooks = { .open = guard_open,
					.close = guard_close,
					.restart = guard_restart,
					.memory = guard_memory,
					.emitted = guard_emitted,
					.applied = guard_applied,
					.pulled = guard_pulled };
