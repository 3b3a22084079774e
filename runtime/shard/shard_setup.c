/* SPDX-License-Identifier: BSD-3-Clause
 * The memory of the shard half. All of it is allocated when the model is opened, and none during a
 * step. */
#include "model/compressor.h"
#include "model/delta_log.h"
#include "model/kept.h"
#include "model/model.h"
#include "shard/gather.h"
#include "shard/inbox.h"
#include "shard/publish.h"
#include "shard/reduce.h"
#include "shard/shard_bits.h"
#include "shard/shard_census.h"
#include "shard/shard_dense.h"
#include "shard/shard_device.h"
#include "shard/shard_setup.h"
#include "shard/state.h"
#include "base/error.h"
#include <stdlib.h>

struct shard *shard_find(sluice_model *model, uint32_t id)
{
	for (uint32_t i = 0; i < model->n_own; i++)
		if (model->shards[i].id == id)
			return &model->shards[i];
	return NULL;
}

void shard_restart(struct shard *shard, uint64_t exchanges, uint64_t version)
{
	const struct shard_layout *at = shard->at;
	shard->version = version;
	shard->published = version * shard->rules.schedule->n_downs;
	shard->phase = 0;
	shard->chosen = 0;
	shard->rules.first_step = exchanges;
	shard->log = (struct delta_log){ .ring = home_log(shard->model.home, shard->id),
					 .ring_bytes = at->log_bytes };
	shard->reduction.whole = 1; /* so that reduction_clear() clears every coordinate */
	reduction_clear(&shard->reduction);
	candidates_forget(compressor_candidates(shard->compressor));
	inboxes_restart(shard);
	gather_restart(shard);
	shard_device_restart(shard);
	shard_hooks_restart(shard);
}

/* Returns the size of the candidate list, which is 0 unless a delta is the top k of a residual. */
static struct candidates_size candidates_of(const struct layout *l, const struct shard_layout *at,
					    const struct recipe *recipe)
{
	const uint32_t of = at->span - at->exempt;
	if (!selection_kinds[recipe->down.select].adds || recipe->memory.kind == MEMORY_NONE ||
	    recipe->when == WHEN_ASYNC ||
	    selection_kinds[recipe->up.select].exchange != EXCHANGE_OWN ||
	    recipe->up.select == SELECT_ALL)
		return (struct candidates_size){ 0 };
	return candidates_size(of, schedule_count(recipe->down.density, of),
			       (uint64_t)l->workers * schedule_count(recipe->up.density, of),
			       at->exempt);
}

static struct reduction_attr reduction_of(const struct layout *l, const struct shard_layout *at,
					  const struct recipe *recipe, struct team *team)
{
	return (struct reduction_attr){ recipe->reduce == REDUCE_SENDERS, l->transform, at->begin,
					team };
}

static int open_shard_compressor(const struct layout *l, struct shard *shard)
{
	const struct recipe *recipe = shard->rules.recipe;

	shard->spans = calloc(l->n_spans + 1, sizeof(*shard->spans));
	if (!shard->spans)
		return fail(SLUICE_ENOMEM, "no memory for %zu spans of shard %u", l->n_spans,
			    shard->id);

	const size_t n_spans = layout_shard_spans(l, shard->at, shard->spans);
	struct span *whole = &shard->spans[n_spans];

	*whole = (struct span){ 0, shard->at->span, 0 };
	return compressor_open(
		&(struct compressor_attr){ .direction = &recipe->down,
					   .down = 1,
					   .number = shard->id | SHARD_NUMBERS,
					   .first_shard = shard->id,
					   .seed = recipe->seed,
					   .spans = shard->spans,
					   .n_spans = n_spans,
					   .shards = whole,
					   .n_shards = 1,
					   .residual = shard->kept.of[KEPT_SHARD_RESIDUAL],
					   .remembers = recipe->memory.kind != MEMORY_NONE,
					   .candidates = candidates_of(l, shard->at, recipe),
					   .scratch = shard->scratch },
		&shard->compressor);
}

/* Sets the members that the shard copies from its job and model. */
static void stand_on(struct shard *shard, sluice_model *model)
{
	shard->job = model->job;
	shard->rules = model_rules(model);
	shard->model = model_parts(model);
}

static int open_shard(const struct layout *l, struct shard *shard, uint32_t id)
{
	const struct shard_layout *at = &l->shards[id];
	shard->id = id;
	shard->at = at;
	const struct reduction_attr sums = reduction_of(l, at, shard->rules.recipe,
							scratch_team(shard->scratch));

	int rc = vectors_open(&shard->kept, shard->rules.recipe, HALF_SHARD, at->span);
	shard->copy = shard->kept.of[KEPT_SHARD_COPY];
	shard->averages = (struct averages){ shard->kept.of[KEPT_SHARD_VELOCITY],
					     shard->kept.of[KEPT_SHARD_VARIANCE] };
	if (!rc)
		rc = reduction_open(&shard->reduction, at->span, &sums);
	if (!rc)
		rc = open_shard_compressor(l, shard);
	if (!rc)
		rc = inboxes_open(shard->job->workers, &shard->inboxes);
	if (!rc)
		rc = shard_hooks_open(shard);
	if (!rc)
		rc = shard_dense_open(shard);
	if (rc)
		return rc;
	shard_restart(shard, 0, 0);
	return 0;
}

int shards_open(sluice_model *model)
{
	const struct layout *l = &model->layout;
	const struct layout_largest largest = layout_largest(l, model->job->rank);
	struct scratch *scratch; /* the shards of a rank share it */
	uint32_t n = 0, own = 0;

	for (uint32_t s = 0; s < l->n_shards; s++)
		n += (uint32_t)holdings_has(l->holdings, s, model->job->rank);
	if (!n)
		return 0;
	model->shards = calloc(n, sizeof *model->shards);
	if (!model->shards)
		return fail(SLUICE_ENOMEM, "no memory for %u shards", n);
	model->n_own = n;
	int rc = scratch_open(largest.slot_bytes, largest.room, largest.span, model_team(model),
			      &scratch);
	for (uint32_t i = 0; i < n; i++) {
		model->shards[i].scratch = scratch;
		stand_on(&model->shards[i], model);
	}
	for (uint32_t s = 0; s < l->n_shards && !rc; s++)
		if (holdings_has(l->holdings, s, model->job->rank))
			rc = open_shard(l, &model->shards[own++], s);
	return rc ? rc : shard_census_open(model->shards, n);
}

void shards_close(sluice_model *model)
{
	if (!model->n_own)
		return;
	shard_census_close(model->shards, model->n_own);
	scratch_close(&model->shards[0].scratch);
	for (uint32_t i = 0; i < model->n_own; i++) {
		struct shard *shard = &model->shards[i];
		if (!shard->at)
			break; /* opening failed before this shard */
		free(shard->spans);
		vectors_close(&shard->kept);
		reduction_close(&shard->reduction);
		compressor_close(&shard->compressor);
		inboxes_close(&shard->inboxes);
		shard_hooks_close(shard);
		shard_dense_close(shard);
	}
	free(model->shards);
}

/* Adds up the vectors and the reduction of each shard of this rank, and scratch for one message. */
uint64_t shards_memory(const struct layout *l, const struct recipe *recipe, int rank)
{
	uint64_t bytes;
	uint32_t n_own = 0;
	struct layout_largest own = layout_largest(l, rank);
	if (!own.span)
		return 0;
	bytes = scratch_bytes(own.slot_bytes, own.room, own.span);
	for (uint32_t i = 0; i < l->n_shards; i++) {
		const struct shard_layout *at = &l->shards[i];
		if (!holdings_has(l->holdings, i, rank))
			continue;
		const struct reduction_attr sums = reduction_of(l, at, recipe, NULL);
		n_own++;
		bytes += vectors_bytes(recipe, HALF_SHARD, at->span) +
			 reduction_bytes(at->span, &sums) +
			 candidates_bytes(candidates_of(l, at, recipe), l->n_spans) +
			 at->support_capacity * sizeof(uint32_t) +
			 at->sketch_cells * sizeof(float) + shard_bits_memory(at->span, recipe, i);
	}
	return bytes + shard_census_memory(recipe, n_own);
}
