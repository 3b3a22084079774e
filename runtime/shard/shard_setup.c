/* SPDX-License-Identifier: BSD-3-Clause
 * Memory of the shard half: allocated once at open, none per step. */
#include "shard/shard.h"
#include "base/error.h"
#include <stdlib.h>

struct shard *shard_find(sluice_model *model, uint32_t id)
{
	for (uint32_t i = 0; i < model->n_own; i++)
		if (model->shards[i].id == id)
			return &model->shards[i];
	return NULL;
}

/* Empty rings and log, at `version`; vectors are the caller's to fill. Token held or not yet
 * shared. */
void shard_restart(sluice_model *model, struct shard *shard, uint64_t version)
{
	const struct shard_layout *at = shard->at;
	uint8_t *base = model->log->base;
	shard->version = version;
	shard->published = version * model->schedule.n_downs;
	shard->support_n = 0;
	shard->refresh = 0;
	shard->restarted = 0;
	shard->phase = 0;
	shard->next_rank = 0;
	shard->counted = 0;
	shard->raised = 0;
	shard->chosen = shard->chosen_next = 0;
	model->first_step = version;
	shard->waiting_since_ns = 0;
	shard->log = (struct delta_log){ .ring = base + at->log_offset,
					 .ring_bytes = at->log_bytes };
	shard->snapshot = base + at->snapshot_offset;
	shard->reduction.whole = 1; /* whatever was added */
	reduction_clear(&shard->reduction);
	candidates_forget(&shard->candidates);
	for (int w = 0; w < model->job->workers; w++) {
		struct inbox *inbox = &shard->inboxes[w];
		ring_reader_init(&inbox->ring, at->slot_depth, at->slot_bytes);
		inbox->slots = (const uint8_t *)model->windows[w]->base + at->slots_offset;
		inbox->arrived = 0;
		inbox->uploads = 0;
		inbox->have_version = version;
		inbox->notice_due = 0;
		inbox->newest = (struct announced){ shard->published, 0, 0 };
	}
}

/* Of the list that deltas are selected from, where they are a top-k of a residual; else none. */
static struct candidates_size candidates_of(const struct layout *l, const struct shard_layout *at,
					    const struct recipe *recipe)
{
	const uint32_t of = at->span - at->exempt;
	if (!selection_kinds[recipe->down.select].adds || recipe->memory == MEMORY_NONE ||
	    recipe->when == WHEN_ASYNC ||
	    selection_kinds[recipe->up.select].exchange != EXCHANGE_OWN ||
	    recipe->up.select == SELECT_ALL)
		return (struct candidates_size){ 0 };
	return candidates_size(of, schedule_count(recipe->down.density, of),
			       (uint64_t)l->workers * schedule_count(recipe->up.density, of),
			       at->exempt);
}

static int open_shard(sluice_model *model, struct shard *shard, uint32_t id)
{
	const struct recipe *recipe = &model->recipe;
	const struct shard_layout *at = &model->layout.shards[id];
	shard->id = id;
	shard->at = at;
	shard->spans = calloc(model->layout.n_spans, sizeof *shard->spans);
	shard->support = calloc(at->support_capacity + 1, sizeof *shard->support);
	shard->cells = calloc(at->sketch_cells + 1, sizeof *shard->cells);
	shard->inboxes = calloc((size_t)model->job->workers, sizeof *shard->inboxes);
	if (!shard->spans || !shard->support || !shard->cells || !shard->inboxes)
		return fail(SLUICE_ENOMEM, "no memory for shard %u of %u elements", id, at->span);
	shard->n_spans = layout_shard_spans(&model->layout, at, shard->spans);
	int rc = vectors_open(&shard->kept, recipe, HALF_SHARD, at->span);
	shard->copy = shard->kept.of[KEPT_SHARD_COPY];
	shard->residual = shard->kept.of[KEPT_SHARD_RESIDUAL];
	shard->velocity = shard->kept.of[KEPT_SHARD_VELOCITY];
	shard->running = shard->kept.of[KEPT_SHARD_RUNNING];
	if (!rc)
		rc = reduction_open(&shard->reduction, at->span);
	if (!rc)
		rc = candidates_open(&shard->candidates, candidates_of(&model->layout, at, recipe),
				     shard->spans, shard->n_spans);
	if (!rc && recipe->when == WHEN_ASYNC)
		rc = shard_async_open(model, shard);
	if (rc)
		return rc;
	shard_restart(model, shard, 0);
	return 0;
}

int shards_open(sluice_model *model)
{
	const struct layout *l = &model->layout;
	size_t span = 0, room = 0, bytes = 0;
	for (uint32_t s = 0; s < l->n_shards; s++) {
		if (l->shards[s].owner != model->job->rank)
			continue;
		model->n_own++;
		span = l->shards[s].span > span ? l->shards[s].span : span;
		room = l->shards[s].room > room ? l->shards[s].room : room;
		bytes = l->shards[s].slot_bytes > bytes ? l->shards[s].slot_bytes : bytes;
	}
	if (!model->n_own)
		return 0;
	model->shards = calloc(model->n_own, sizeof *model->shards);
	model->copy = malloc(bytes);
	model->index = malloc(room * sizeof *model->index);
	model->value = malloc(room * sizeof *model->value);
	if (!model->shards || !model->copy || !model->index || !model->value)
		return fail(SLUICE_ENOMEM, "no memory for %u shards", model->n_own);
	int rc = selector_open(span, &model->selector);
	uint32_t own = 0;
	for (uint32_t s = 0; s < l->n_shards && !rc; s++)
		if (l->shards[s].owner == model->job->rank)
			rc = open_shard(model, &model->shards[own++], s);
	return rc ? rc : shard_census_open(model);
}

void shards_close(sluice_model *model)
{
	for (uint32_t i = 0; model->shards && i < model->n_own; i++) {
		struct shard *shard = &model->shards[i];
		if (!shard->at)
			break; /* opening ended before this one */
		free(shard->spans);
		vectors_close(&shard->kept);
		reduction_close(&shard->reduction);
		candidates_close(&shard->candidates);
		free(shard->support);
		free(shard->cells);
		free(shard->inboxes);
		shard_async_close(shard);
	}
	shard_census_close(model);
	free(model->shards);
	free(model->copy);
	free(model->index);
	free(model->value);
	selector_close(&model->selector);
}

/* The vectors and the reduction of each own shard, and scratch for one message. */
uint64_t shards_memory(const struct layout *l, const struct recipe *recipe, int rank)
{
	uint64_t bytes;
	uint32_t n_own = 0;
	struct layout_largest own = layout_largest(l, rank);
	if (!own.span)
		return 0;
	bytes = own.slot_bytes + own.room * (sizeof(uint32_t) + sizeof(float)) +
		selector_bytes(own.span);
	for (uint32_t i = 0; i < l->n_shards; i++) {
		const struct shard_layout *at = &l->shards[i];
		if (at->owner != rank)
			continue;
		n_own++;
		bytes += vectors_bytes(recipe, HALF_SHARD, at->span) + reduction_bytes(at->span) +
			 candidates_bytes(candidates_of(l, at, recipe), l->n_spans) +
			 at->support_capacity * sizeof(uint32_t) + at->sketch_cells * sizeof(float);
	}
	return bytes + shard_census_memory(recipe, n_own);
}
