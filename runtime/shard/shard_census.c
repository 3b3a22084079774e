/* SPDX-License-Identifier: BSD-3-Clause
 * The shard half of a census (model/census.h), for all shards of a rank. */
#include "shard/shard_census.h"
#include "base/error.h"
#include "shard/gather.h"
#include "shard/publish.h"
#include "shard/state.h"
#include <stdlib.h>
#include <string.h>

struct shard_census {
	struct constituent down;
	/* These are shared by all shards of the rank. */
	/* up=global, at shard 0: sum of the workers' histograms of this step */
	struct sluice_histogram *workers;
	uint8_t *note; /* a copy of the note, which its sender cannot change */
};

static int shard_census_used(const struct shard *shard)
{
	return census_room(shard->rules.recipe, 0) != 0;
}

static uint64_t count_of_share(const struct shard *shard, double density, uint64_t n)
{
	if (!selection_kinds[shard->rules.recipe->down.select].global)
		return 0;
	return constituent_count(&shard->census->down, density, n);
}

/* Reads the note that follows a push, and adds its histogram to the sum. */
static const char *census_note_taken(struct shard *shard, uint64_t seq, const uint8_t *from,
				     size_t room)
{
	const struct direction *down = &shard->rules.recipe->down;
	const uint64_t step = shard->version + 1;
	const char *why;
	struct note note;

	if (!census_push_has_note(shard->rules.recipe, shard->id, step))
		return NULL;
	const int sums = !shard->id && census_exchanges(&shard->rules.recipe->up, step);

	if (note_read(from, room, shard->id, seq, shard->census->note, &note, &why) ||
	    note_add(&note, sums ? shard->census->workers : NULL, &why))
		return why;
	if (!gather_counted(shard) && census_exchanges(down, step - 1))
		constituent_answered(&shard->census->down, note.level,
				     schedule_density(shard->rules.schedule, down, step - 1));
	return NULL;
}

size_t census_note_delta(struct shard *shard, uint8_t *out)
{
	const struct direction *up = &shard->rules.recipe->up, *down = &shard->rules.recipe->down;
	const uint64_t version = shard->version + 1;
	struct note note = { .histogram = out + NOTE_HEADER_BYTES };

	if (!census_delta_has_note(shard->rules.recipe, shard->id, version))
		return 0;
	if (!shard->id && census_exchanges(up, version)) {
		note.level = histogram_quantile(
			shard->census->workers,
			schedule_density(shard->rules.schedule, up, version));
		histogram_clear(shard->census->workers);
	}
	if (census_exchanges(down, version)) {
		size_t n_spans;
		const struct span *spans = compressor_spans(shard->compressor, &n_spans);
		const struct random_stream stream = census_stream(
			shard->rules.recipe, shard->id | SHARD_NUMBERS, version);

		note.histogram_bytes = constituent_look(
			&shard->census->down,
			shard_residual(shard) ? shard_residual(shard) : shard->reduction.sum, spans,
			n_spans, &stream, out + NOTE_HEADER_BYTES);
	}
	return note_write(&note, shard->id, version, out);
}

size_t census_shard_numbers(void)
{
	return 1 + histogram_bins(CENSUS_MANTISSA_BITS);
}

void census_save_shard(const struct shard *shard, uint64_t *numbers)
{
	const struct constituent *c = &shard->census->down;

	numbers[0] = constituent_save(c);
	memcpy(numbers + 1, c->histogram->count, c->histogram->bins * sizeof(*numbers));
}

const char *census_judge_shard(const struct direction *down, uint64_t version,
			       const uint64_t *numbers)
{
	const int asked = census_exchanges(down, version);

	for (size_t i = 1; i < census_shard_numbers(); i++) {
		if (numbers[i] > UINT32_MAX)
			return "its histogram counts more than a shard has";
		if (numbers[i] && !asked)
			return "it holds a histogram, although none waits for an answer";
	}
	return constituent_judge(down, numbers[0]);
}

void census_restore_shard(struct shard *shard, const uint64_t *numbers)
{
	struct constituent *c = &shard->census->down;

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
	return census_room(recipe, 0) + histogram_bytes(CENSUS_MANTISSA_BITS) +
	       n_own * (sizeof(struct shard_census) + histogram_bytes(CENSUS_MANTISSA_BITS));
}

int shard_census_open(struct shard *shards, uint32_t n)
{
	const size_t room = n ? census_room(shards->rules.recipe, 0) : 0;
	struct shard_census *c;

	if (!room)
		return 0;
	c = calloc(n, sizeof(*c));
	if (!c)
		return fail(SLUICE_ENOMEM, "no memory for the census of %u shards", n);
	c->note = malloc(room);
	int rc = c->note ? histogram_open(CENSUS_MANTISSA_BITS, &c->workers) :
			   fail(SLUICE_ENOMEM, "no memory for the census of %u shards", n);

	for (uint32_t i = 0; i < n; i++) {
		c[i].note = c->note;
		c[i].workers = c->workers;
		shards[i].census = &c[i];
		if (!rc)
			rc = constituent_open(&c[i].down);
	}
	return rc;
}

void shard_census_close(struct shard *shards, uint32_t n)
{
	struct shard_census *c = n ? shards->census : NULL;

	if (!c)
		return;
	for (uint32_t i = 0; i < n; i++) {
		free(c[i].down.histogram);
		shards[i].census = NULL;
	}
	free(c->workers);
	free(c->note);
	free(c);
}

const struct sluice_histogram *shard_census_workers(const struct shard *shard)
{
	return shard->census->workers;
}

const struct shard_hooks shard_census_hooks = { .used = shard_census_used,
						.note = census_note_taken,
						.count = count_of_share,
						.delta_note = census_note_delta };
