/* SPDX-License-Identifier: BSD-3-Clause
 * The shard half of a census (model/census.h), for all shards of a rank. */
#include "shard/shard_census.h"
#include "base/error.h"
#include "shard/shard.h"
#include <stdlib.h>
#include <string.h>

struct shard_census {
	struct constituent *down;         /* n_own */
	struct sluice_histogram *workers; /* up, at shard 0: sum of the step */
	uint8_t *note;                    /* a private copy */
};

static struct constituent *own_share(const sluice_model *model, const struct shard *shard)
{
	return &shard->census->down[shard - model->shards];
}

static uint64_t census_count(const sluice_model *model, const struct shard *shard, double density,
			     uint64_t n)
{
	if (!selection_kinds[model->recipe.down.select].global)
		return 0;
	return constituent_count(own_share(model, shard), density, n);
}

/* The note behind a push. */
static const char *census_note_taken(sluice_model *model, struct shard *shard, uint64_t seq,
				     const uint8_t *from, size_t room)
{
	const struct direction *down = &model->recipe.down;
	const uint64_t step = shard->version + 1;
	const char *why;
	struct note note;

	if (!census_push_has_note(&model->recipe, shard->id, step))
		return NULL;
	const int sums = !shard->id && census_exchanges(&model->recipe.up, step);

	if (note_read(from, room, shard->id, seq, shard->census->note, &note, &why) ||
	    note_add(&note, sums ? shard->census->workers : NULL, &why))
		return why;
	if (!gather_counted(shard) && census_exchanges(down, step - 1))
		constituent_answered(own_share(model, shard), note.level,
				     schedule_density(&model->schedule, down, step - 1));
	return NULL;
}

size_t census_note_delta(sluice_model *model, struct shard *shard, uint8_t *out)
{
	const struct direction *up = &model->recipe.up, *down = &model->recipe.down;
	const uint64_t version = shard->version + 1;
	struct note note = { .histogram = out + NOTE_HEADER_BYTES };

	if (!census_delta_has_note(&model->recipe, shard->id, version))
		return 0;
	if (!shard->id && census_exchanges(up, version)) {
		note.level = histogram_quantile(shard->census->workers,
						schedule_density(&model->schedule, up, version));
		histogram_clear(shard->census->workers);
	}
	if (census_exchanges(down, version)) {
		const struct random_stream stream = census_stream(
			&model->recipe, shard->id | SHARD_NUMBERS, version);

		note.histogram_bytes = constituent_look(
			own_share(model, shard),
			shard_residual(shard) ? shard_residual(shard) : shard->reduction.sum,
			shard->spans, shard->n_spans, &stream, out + NOTE_HEADER_BYTES);
	}
	return note_write(&note, shard->id, version, out);
}

size_t census_shard_numbers(void)
{
	return 1 + histogram_bins(CENSUS_MANTISSA_BITS);
}

void census_save_shard(const sluice_model *model, uint32_t own, uint64_t *numbers)
{
	const struct constituent *c = &model->shards[own].census->down[own];

	numbers[0] = constituent_save(c);
	memcpy(numbers + 1, c->histogram->count, c->histogram->bins * sizeof(*numbers));
}

const char *census_judge_shard(const sluice_model *model, uint64_t version, const uint64_t *numbers)
{
	const int asked = census_exchanges(&model->recipe.down, version);

	for (size_t i = 1; i < census_shard_numbers(); i++) {
		if (numbers[i] > UINT32_MAX)
			return "its histogram counts more than a shard has";
		if (numbers[i] && !asked)
			return "it holds a histogram, although none waits for an answer";
	}
	return constituent_judge(&model->recipe.down, numbers[0]);
}

void census_restore_shard(sluice_model *model, uint32_t own, const uint64_t *numbers)
{
	struct constituent *c = &model->shards[own].census->down[own];

	memcpy(c->histogram->count, numbers + 1, c->histogram->bins * sizeof(*numbers));
	c->histogram->total = 0;
	for (uint32_t i = 0; i < c->histogram->bins; i++)
		c->histogram->total += numbers[1 + i];
	constituent_restore(c, numbers[0]);
}

uint64_t shard_census_memory(const struct recipe *recipe, uint32_t n_own)
{
	if (!census_room(recipe, 0) || !n_own)
		return 0;
	return sizeof(struct shard_census) + census_room(recipe, 0) + n_own * constituent_memory() +
	       (uint64_t)histogram_bytes(CENSUS_MANTISSA_BITS);
}

int shard_census_open(sluice_model *model)
{
	size_t room = census_room(&model->recipe, 0);

	if (!room || !model->n_own)
		return 0;

	struct shard_census *c = calloc(1, sizeof(*c));

	for (uint32_t i = 0; i < model->n_own; i++)
		model->shards[i].census = c;

	if (c) {
		c->note = malloc(room);
		c->down = calloc(model->n_own, sizeof(*c->down));
	}
	if (!c || !c->note || !c->down)
		return fail(SLUICE_ENOMEM, "no memory for the census of %u shards", model->n_own);

	int rc = histogram_open(CENSUS_MANTISSA_BITS, &c->workers);

	for (uint32_t i = 0; i < model->n_own && !rc; i++)
		rc = constituent_open(&c->down[i]);
	return rc;
}

void shard_census_close(sluice_model *model)
{
	struct shard_census *c = model->n_own && model->shards ? model->shards[0].census : NULL;

	if (!c)
		return;
	for (uint32_t i = 0; c->down && i < model->n_own; i++)
		free(c->down[i].histogram);
	free(c->down);
	free(c->workers);
	free(c->note);
	free(c);
	for (uint32_t i = 0; i < model->n_own; i++)
		model->shards[i].census = NULL;
}

const struct sluice_histogram *shard_census_workers(const struct shard *shard)
{
	return shard->census->workers;
}

const struct shard_hooks shard_census_hooks = { .note = census_note_taken,
						.count = census_count,
						.delta_note = census_note_delta };
