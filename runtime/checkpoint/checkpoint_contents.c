/* SPDX-License-Identifier: BSD-3-Clause
 * See checkpoint_contents.h. */
#include "checkpoint/checkpoint_contents.h"
#include "base/bytes.h"
#include "base/error.h"
#include "shard/shard.h"
#include "worker/worker.h"
#include <stdlib.h>

static void add_values(struct contents *c, enum section_kind kind, uint32_t id, float *values,
		       uint64_t count)
{
	if (values)
		c->sections[c->n++] = (struct checkpoint_section){ kind, id, count, values, NULL };
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
}

static uint64_t *shard_census(const struct contents *c, uint32_t own)
{
	return c->census + CENSUS_WORKER_NUMBERS + own * census_shard_numbers();
}

/* Shares of a global direction. */
static int add_census(const sluice_model *model, struct contents *c)
{
	const size_t of_shard = census_shard_numbers();
	if (!census_room(&model->recipe, 0))
		return 0;
	c->census = calloc(CENSUS_WORKER_NUMBERS + model->n_own * of_shard, sizeof *c->census);
	if (!c->census)
		return fail(SLUICE_ENOMEM, "no memory for the shares of a checkpoint");
	if (sluice_is_worker(model->job)) {
		census_save_worker(model, c->census);
		c->sections[c->n++] = (struct checkpoint_section){ SECTION_WORKER_CENSUS, 0,
								   CENSUS_WORKER_NUMBERS, NULL,
								   c->census };
	}
	for (uint32_t i = 0; i < model->n_own; i++) {
		census_save_shard(model, i, shard_census(c, i));
		c->sections[c->n++] = (struct checkpoint_section){ SECTION_SHARD_CENSUS,
								   model->shards[i].id, of_shard,
								   NULL, shard_census(c, i) };
	}
	return 0;
}

int contents_restore_census(sluice_model *model, const struct contents *c)
{
	int rc = c->census && sluice_is_worker(model->job) ?
			 census_restore_worker(model, c->census) :
			 0;
	for (uint32_t i = 0; c->census && i < model->n_own && !rc; i++)
		rc = census_restore_shard(model, i, shard_census(c, i));
	return rc;
}

int contents_of(sluice_model *model, struct contents *c)
{
	struct worker *w = model->worker;
	*c = (struct contents){
		.sections = calloc(10 + 6 * (size_t)model->n_own, sizeof *c->sections),
		.numbers = calloc(1 + (size_t)model->n_own + LAZY_NUMBERS, sizeof *c->numbers)
	};
	if (!c->sections || !c->numbers) {
		contents_free(c);
		return fail(SLUICE_ENOMEM, "no memory for the table of a checkpoint");
	}
	if (sluice_is_worker(model->job)) {
		c->numbers[0] = float_bits(model->lr) | (uint64_t)lazy_refreshes(w->lazy) << 32;
		add_number(c, SECTION_WORKER, 0, &c->numbers[0]);
		/* Without memory the accumulator is only scratch. */
		if (model->recipe.memory != MEMORY_NONE)
			add_values(c, SECTION_WORKER_RESIDUAL, 0, w->residual, model->layout.count);
		add_values(c, SECTION_WORKER_VELOCITY, 0, w->velocity, model->layout.count);
		add_values(c, SECTION_WORKER_MEMORY, 0, w->kept.of[KEPT_MEMORY],
			   model->layout.count);
		add_values(c, SECTION_WORKER_FILTER, 0, w->kept.of[KEPT_FILTER],
			   model->layout.count);
		add_values(c, SECTION_WORKER_PREVIOUS, 0, w->kept.of[KEPT_PREVIOUS],
			   model->layout.count);
		add_values(c, SECTION_WORKER_REFERENCE, 0, w->kept.of[KEPT_REFERENCE],
			   model->layout.count);
		add_values(c, SECTION_WORKER_SINCE, 0, w->kept.of[KEPT_SINCE], model->layout.count);
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
		add_values(c, SECTION_SHARD_PARAMETERS, s->id, s->copy, s->at->span);
		add_values(c, SECTION_SHARD_RESIDUAL, s->id, s->residual, s->at->span);
		add_values(c, SECTION_SHARD_VELOCITY, s->id, s->velocity, s->at->span);
		add_values(c, SECTION_SHARD_RUNNING, s->id, s->running, s->at->span);
	}
	int rc = add_census(model, c);
	if (rc)
		contents_free(c);
	return rc;
}
