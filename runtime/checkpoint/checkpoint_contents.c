/* SPDX-License-Identifier: BSD-3-Clause
 * See checkpoint_contents.h. */
#include "checkpoint/checkpoint_contents.h"
#include "base/bytes.h"
#include "base/error.h"
#include "shard/shard_bits.h"
#include "shard/shard_census.h"
#include "shard/state.h"
#include "worker/guard.h"
#include "model/kept.h"
#include "worker/lazy.h"
#include "worker/state.h"
#include "worker/worker_bits.h"
#include "worker/worker_census.h"
#include <math.h>
#include <stdlib.h>

/* The section of each kept vector in a checkpoint. 0 means that a run with this vector cannot be
 * saved, or that the vector starts again from zero. */
static const enum section_kind section_of[KEPTS] = {
	[KEPT_RESIDUAL] = SECTION_WORKER_RESIDUAL,
	[KEPT_VELOCITY] = SECTION_WORKER_VELOCITY,
	[KEPT_MEMORY] = SECTION_WORKER_MEMORY,
	[KEPT_FILTER] = SECTION_WORKER_FILTER,
	[KEPT_PREVIOUS] = SECTION_WORKER_PREVIOUS,
	[KEPT_REFERENCE] = SECTION_WORKER_REFERENCE,
	[KEPT_SINCE] = SECTION_WORKER_SINCE,
	[KEPT_SHARD_COPY] = SECTION_SHARD_PARAMETERS,
	[KEPT_SHARD_RESIDUAL] = SECTION_SHARD_RESIDUAL,
	[KEPT_SHARD_VELOCITY] = SECTION_SHARD_VELOCITY,
	[KEPT_SHARD_VARIANCE] = SECTION_SHARD_VARIANCE,
	[KEPT_SHARD_RUNNING] = SECTION_SHARD_RUNNING,
};

static void add_vectors(struct contents *c, const sluice_model *model, const struct vectors *v,
			uint32_t id)
{
	for (int k = 0; k < KEPTS; k++) {
		/* With memory=none, the accumulator is only scratch memory. */
		const int scratch = k == KEPT_RESIDUAL && model->recipe.memory.kind == MEMORY_NONE;

		if (v->of[k] && section_of[k] && !scratch)
			c->sections[c->n++] = (struct checkpoint_section){ section_of[k], id,
									   v->count, v->of[k],
									   NULL };
	}
}

static void add_number(struct contents *c, enum section_kind kind, uint32_t id, uint64_t *number)
{
	c->sections[c->n++] = (struct checkpoint_section){ kind, id, 1, NULL, number };
}

void contents_free(struct contents *c)
{
	free(c->sections);
	free(c->numbers);
	free(c->census);
	free(c->guard);
	free(c->bits);
}

static uint64_t *shard_census(const struct contents *c, uint32_t own)
{
	return c->census + CENSUS_WORKER_NUMBERS + own * census_shard_numbers();
}

/* Adds the shares of a global direction. */
static int add_census(const sluice_model *model, struct contents *c)
{
	const size_t of_shard = census_shard_numbers();
	if (!census_room(&model->recipe, 0))
		return 0;
	c->census = calloc(CENSUS_WORKER_NUMBERS + model->n_own * of_shard, sizeof *c->census);
	if (!c->census)
		return fail(SLUICE_ENOMEM, "no memory for the selection shares of a checkpoint");
	if (sluice_is_worker(model->job)) {
		census_save_worker(model->worker->census, c->census);
		c->sections[c->n++] = (struct checkpoint_section){ SECTION_WORKER_CENSUS, 0,
								   CENSUS_WORKER_NUMBERS, NULL,
								   c->census };
	}
	for (uint32_t i = 0; i < model->n_own; i++) {
		census_save_shard(&model->shards[i], shard_census(c, i));
		c->sections[c->n++] = (struct checkpoint_section){ SECTION_SHARD_CENSUS,
								   model->shards[i].id, of_shard,
								   NULL, shard_census(c, i) };
	}
	return 0;
}

static uint64_t *shard_doublings(const struct contents *c, uint32_t own)
{
	return c->guard + GUARD_NUMBERS + own;
}

/* Adds the densities that guard=raise has changed, and its observations. */
static int add_guard(const sluice_model *model, struct contents *c)
{
	if (!model->schedule.raises)
		return 0;
	c->guard = calloc(GUARD_NUMBERS + model->n_own, sizeof(*c->guard));
	if (!c->guard)
		return fail(SLUICE_ENOMEM, "no memory for the guard= state of a checkpoint");
	if (sluice_is_worker(model->job)) {
		guard_save(model->worker, c->guard);
		c->sections[c->n++] = (struct checkpoint_section){ SECTION_WORKER_GUARD, 0,
								   GUARD_NUMBERS, NULL, c->guard };
	}
	for (uint32_t i = 0; i < model->n_own; i++) {
		*shard_doublings(c, i) = model->shards[i].chosen;
		add_number(c, SECTION_SHARD_GUARD, model->shards[i].id, shard_doublings(c, i));
	}
	return 0;
}

/* Adds what recipe=auto has learned. */
static int add_bits(const sluice_model *model, struct contents *c)
{
	if (!model->recipe.automatic)
		return 0;
	c->bits = calloc(1 + model->n_own, sizeof(*c->bits));
	if (!c->bits)
		return fail(SLUICE_ENOMEM, "no memory for the choices of a checkpoint");
	if (sluice_is_worker(model->job)) {
		c->bits[0] = bits_save(model->worker);
		add_number(c, SECTION_WORKER_BITS, 0, &c->bits[0]);
	}
	for (uint32_t i = 0; i < model->n_own; i++) {
		c->bits[1 + i] = shard_bits_save(&model->shards[i]);
		add_number(c, SECTION_SHARD_BITS, model->shards[i].id, &c->bits[1 + i]);
	}
	return 0;
}

/* ---- the worker's counters ---- */

enum { REFRESH_BIT = 32 };

static uint64_t counters_of(const sluice_model *model)
{
	return float_bits(model->worker->step.lr) | (uint64_t)lazy_refreshes(model->worker->lazy)
							    << REFRESH_BIT;
}

static const char *judge_counters(const sluice_model *model, uint64_t counters)
{
	const float lr = bits_float((uint32_t)counters);

	if (!(isfinite(lr) && lr >= 0))
		return "the learning rate is negative or not finite";
	if (!(lr > 0) && plan_why_not(PATH_RATE_ZERO, model->plan.traits))
		return "the learning rate is 0, which this recipe cannot have";
	if (counters >> (REFRESH_BIT + 1))
		return "an unknown bit is set";
	if (counters >> REFRESH_BIT && !model->worker->lazy)
		return "a new reference is due, but the recipe has none";
	return NULL;
}

/* ---- checking what was read ---- */

const char *contents_fits(const sluice_model *model, uint32_t shard, uint64_t version,
			  uint64_t step)
{
	const uint64_t least = model_version(model, shard, step);

	return version == least || (model->recipe.quorum.workers && version > least &&
				    version <= STEPS_MOST) ?
		       NULL :
		       "its version is not that of the checkpoint's step";
}

static const char *judge_section(const sluice_model *model, const struct checkpoint_section *s,
				 uint64_t step)
{
	const uint64_t version = step / model->recipe.every.period;

	switch (s->kind) {
	case SECTION_WORKER: return judge_counters(model, s->numbers[0]);
	case SECTION_WORKER_LAZY:
		return lazy_judge(lazy_rule_of(model->worker->lazy), step, s->numbers);
	case SECTION_WORKER_CENSUS:
		return census_judge_worker(model->worker->rules.recipe, s->numbers);
	case SECTION_SHARD_CENSUS:
		return census_judge_shard(&model->recipe.down, version, s->numbers);
	case SECTION_WORKER_GUARD:
		return guard_judge(model->worker->rules.recipe, s->numbers, version);
	case SECTION_SHARD_GUARD:
		return s->numbers[0] <= schedule_raises_most(&model->recipe) ?
			       NULL :
			       "it counts more doublings of the density than this recipe allows";
	case SECTION_SHARD: return contents_fits(model, s->id, s->numbers[0], step);
	case SECTION_WORKER_BITS: return bits_judge(&model->recipe, s->numbers[0]);
	case SECTION_SHARD_BITS: return shard_bits_judge(&model->recipe, s->numbers[0]);
	default: return NULL; /* the reader of the file has checked that vectors are finite */
	}
}

int contents_check(const sluice_model *model, const struct contents *c, uint64_t step,
		   const struct checkpoint_file *file)
{
	for (uint32_t i = 0; i < c->n; i++) {
		const char *why = judge_section(model, &c->sections[i], step);
		if (why)
			return checkpoint_file_refuse(file, &c->sections[i], why);
	}
	return 0;
}

void contents_restore_numbers(sluice_model *model, const struct contents *c)
{
	if (sluice_is_worker(model->job)) {
		step_set_rate(&model->worker->step, bits_float((uint32_t)c->numbers[0]));
		if (c->census)
			census_restore_worker(model->worker->census, c->census);
		if (c->guard)
			guard_restore(model->worker, c->guard);
		if (c->bits)
			bits_restore(model->worker, c->bits[0]);
	}
	for (uint32_t i = 0; c->census && i < model->n_own; i++)
		census_restore_shard(&model->shards[i], shard_census(c, i));
	for (uint32_t i = 0; c->guard && i < model->n_own; i++)
		model->shards[i].chosen = (unsigned)*shard_doublings(c, i);
	for (uint32_t i = 0; c->bits && i < model->n_own; i++)
		shard_bits_restore(&model->shards[i], c->bits[1 + i]);
}

void contents_restore_window(sluice_model *model, const struct contents *c)
{
	if (sluice_is_worker(model->job))
		lazy_restore(model->worker, c->numbers + 1 + model->n_own,
			     c->numbers[0] >> REFRESH_BIT != 0);
}

/* ---- the table ---- */

int contents_of(sluice_model *model, float *own, struct contents *c)
{
	struct worker *w = model->worker;
	*c = (struct contents){
		/* memory for every vector, and for the other sections that are added below */
		.sections = calloc(KEPTS + 6 + (KEPTS + 4) * (size_t)model->n_own,
				   sizeof *c->sections),
		.numbers = calloc(1 + (size_t)model->n_own + LAZY_NUMBERS, sizeof *c->numbers)
	};
	if (!c->sections || !c->numbers) {
		contents_free(c);
		return fail(SLUICE_ENOMEM, "no memory for the table of a checkpoint");
	}
	if (sluice_is_worker(model->job)) {
		c->numbers[0] = counters_of(model);
		add_number(c, SECTION_WORKER, 0, &c->numbers[0]);
		add_vectors(c, model, &w->kept, 0);
		if (recipe_drifts(&model->recipe))
			c->sections[c->n++] = (struct checkpoint_section){ SECTION_WORKER_OWN, 0,
									   model->layout.count, own,
									   NULL };
		if (model->recipe.quorum.workers)
			c->sections[c->n++] = (struct checkpoint_section){ SECTION_WORKER_BASE, 0,
									   model->layout.count,
									   w->kept.of[KEPT_BASE],
									   NULL };
		uint64_t *lazy = c->numbers + 1 + model->n_own;
		if (lazy_rule_of(w->lazy)) {
			lazy_save(lazy_rule_of(w->lazy), lazy);
			c->sections[c->n++] = (struct checkpoint_section){ SECTION_WORKER_LAZY, 0,
									   LAZY_NUMBERS, NULL,
									   lazy };
		}
	}
	for (uint32_t i = 0; i < model->n_own; i++) {
		struct shard *s = &model->shards[i];
		c->numbers[1 + i] = s->version;
		add_number(c, SECTION_SHARD, s->id, &c->numbers[1 + i]);
		add_vectors(c, model, &s->kept, s->id);
	}
	int rc = add_census(model, c);
	if (!rc)
		rc = add_guard(model, c);
	if (!rc)
		rc = add_bits(model, c);
	if (rc)
		contents_free(c);
	return rc;
}
