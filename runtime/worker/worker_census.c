/* SPDX-License-Identifier: BSD-3-Clause
 * The worker half of a census (model/census.h). */
#include "worker/worker_census.h"
#include "worker/hooks.h"
#include "worker/state.h"
#include "base/bytes.h"
#include <float.h>
#include <stdlib.h>

static uint64_t census_count(const struct worker *w, double density, uint64_t n)
{
	if (!selection_kinds[w->rules.recipe->up.select].global)
		return 0;
	return constituent_count(&w->census->up, density, n);
}

/* Called before the picked values leave the residual. */
static void census_picked(struct worker *w)
{
	const struct layout *l = w->layout;

	if (!census_exchanges(&w->rules.recipe->up, w->step.number))
		return;

	struct worker_census *c = w->census;
	const struct random_stream stream = census_stream(w->rules.recipe, (uint32_t)w->job->rank,
							  w->step.number);

	/* A worker sends no histogram if it leaves its gradient out. */
	c->message_bytes = w->step.left_out ? 0 :
					      constituent_look(&c->up, worker_residual(w), l->spans,
							       l->n_spans, &stream, c->note);
}

size_t census_note_push(struct worker *w, uint32_t shard, uint64_t seq, uint8_t *out)
{
	const uint64_t step = w->step.number;

	if (!census_push_has_note(w->rules.recipe, shard, step))
		return 0;

	const struct worker_census *c = w->census;
	struct note note = { .level = census_exchanges(&w->rules.recipe->down, step - 1) ?
					      c->down_level :
					      0 };

	if (!shard && census_exchanges(&w->rules.recipe->up, step)) {
		note.histogram = c->note;
		note.histogram_bytes = c->message_bytes;
	}
	return note_write(&note, shard, seq, out);
}

/* Reads the note that follows a delta. */
static int census_note(struct worker *w, uint32_t shard, const uint8_t *from, size_t n,
		       const char **why)
{
	const struct direction *up = &w->rules.recipe->up;
	const uint64_t step = w->step.number;
	struct note note;

	if (!census_delta_has_note(w->rules.recipe, shard, step))
		return 0;

	struct worker_census *c = w->census;

	if (note_read(from, n, shard, step, c->note, &note, why) ||
	    note_add(&note, census_exchanges(&w->rules.recipe->down, step) ? c->shards : NULL, why))
		return SLUICE_EWIRE;
	if (!shard && census_exchanges(up, step)) {
		c->up_level = note.level;
		constituent_answered(&c->up, note.level,
				     schedule_density(w->rules.schedule, up, step));
	}
	return 0;
}

static void census_pulled(struct worker *w)
{
	const struct direction *down = &w->rules.recipe->down;
	const uint64_t step = w->step.number;

	if (!census_exchanges(down, step))
		return;

	struct worker_census *c = w->census;

	c->down_level = histogram_quantile(c->shards,
					   schedule_density(w->rules.schedule, down, step));
	histogram_clear(c->shards);
}

void census_thresholds(const struct worker_census *c, double *up, double *down)
{
	if (c) {
		*up = (double)c->up_level;
		*down = (double)c->down_level;
	}
}

void census_save_worker(const struct worker_census *c, uint64_t *numbers)
{
	numbers[0] = constituent_save(&c->up);
	numbers[1] = (uint64_t)float_bits(c->up_level) << 32 | float_bits(c->down_level);
}

static float up_level_of(const uint64_t *numbers)
{
	return bits_float((uint32_t)(numbers[1] >> 32));
}

static float down_level_of(const uint64_t *numbers)
{
	return bits_float((uint32_t)numbers[1]);
}

const char *census_judge_worker(const struct recipe *recipe, const uint64_t *numbers)
{
	const struct direction *up = &recipe->up, *down = &recipe->down;
	const float up_level = up_level_of(numbers), down_level = down_level_of(numbers);

	if (!(up_level >= 0 && up_level <= FLT_MAX && down_level >= 0 && down_level <= FLT_MAX))
		return "a threshold is negative or not finite";
	if ((up_level > 0 && !selection_kinds[up->select].global) ||
	    (down_level > 0 && !selection_kinds[down->select].global))
		return "it has a threshold for a direction in which the recipe does not select by "
		       "a threshold";
	return constituent_judge(up, numbers[0]);
}

void census_restore_worker(struct worker_census *c, const uint64_t *numbers)
{
	c->up_level = up_level_of(numbers);
	c->down_level = down_level_of(numbers);
	constituent_restore(&c->up, numbers[0]);
}

static uint64_t census_memory(const struct layout *l, const struct recipe *recipe)
{
	(void)l;
	if (!census_room(recipe, 0))
		return 0;
	return sizeof(struct worker_census) + census_room(recipe, 0) + constituent_memory() +
	       (uint64_t)histogram_bytes(CENSUS_MANTISSA_BITS);
}

static int census_used(const struct worker *w)
{
	return census_room(w->rules.recipe, 0) > 0;
}

static int census_open(struct worker *w)
{
	const size_t room = census_room(w->rules.recipe, 0);
	struct worker_census *c = w->census = calloc(1, sizeof(*c));

	if (c)
		c->note = malloc(room);
	if (!c || !c->note)
		return fail(SLUICE_ENOMEM, "no memory for a worker's histograms");

	int rc = constituent_open(&c->up);

	return rc ? rc : histogram_open(CENSUS_MANTISSA_BITS, &c->shards);
}

static void census_close(struct worker *w)
{
	struct worker_census *c = w->census;

	if (!c)
		return;
	free(c->up.histogram);
	free(c->shards);
	free(c->note);
	free(c);
	w->census = NULL;
}

const struct step_hooks census_hooks = { .used = census_used,
					 .open = census_open,
					 .close = census_close,
					 .memory = census_memory,
					 .count = census_count,
					 .picked = census_picked,
					 .note = census_note,
					 .pulled = census_pulled };
