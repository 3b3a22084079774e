/* SPDX-License-Identifier: BSD-3-Clause
 * See agree.h. Called by worker.c. */
#include "worker/agree.h"
#include "compress/sketch.h"
#include "recipe/schedule.h"
#include "worker/worker.h"
#include <stdlib.h>
#include <string.h>

struct agreed {
	uint32_t *room; /* of all supports */
	struct support {
		uint32_t *index, n; /* room for the shard's support_capacity */
	} of[];
};

int agree_open(const sluice_model *model, struct agreed **out)
{
	const struct layout *l = &model->layout;

	if (!l->support_most)
		return 0;
	struct agreed *a = *out = calloc(1, sizeof(*a) + l->n_shards * sizeof(a->of[0]));
	if (a)
		a->room = calloc(l->support_most, sizeof(*a->room));
	if (!a || !a->room)
		return fail(SLUICE_ENOMEM, "no memory for supports of %llu coordinates",
			    (unsigned long long)l->support_most);
	uint32_t *at = a->room;
	for (uint32_t s = 0; s < l->n_shards; s++) {
		a->of[s].index = at;
		at += l->shards[s].support_capacity;
	}
	return 0;
}

void agree_close(struct agreed **agreed)
{
	if (!*agreed)
		return;
	free((*agreed)->room);
	free(*agreed);
	*agreed = NULL;
}

const uint32_t *agree_support(const sluice_model *model, uint32_t shard, uint32_t *n_out)
{
	const struct support *support = &model->worker->agreed->of[shard];

	*n_out = support->n;
	return support->index;
}

static int encode_indices(sluice_model *model)
{
	struct worker *w = model->worker;
	const struct layout *l = &model->layout;
	size_t n = worker_select(model), from = 0;
	for (uint32_t s = 0; s < l->n_shards; s++) {
		const struct shard_layout *at = &l->shards[s];
		size_t to = from;
		while (to < n && w->index[to] < at->begin + at->span)
			to++;
		uint32_t here = (uint32_t)(to - from);
		for (uint32_t i = 0; i < here; i++)
			w->relative[i] = w->index[from + i] - (uint32_t)at->begin;
		if (here > at->up_capacity) {
			sparse_gather(w->residual + at->begin, w->relative, w->value, here);
			here = worker_fit(model, at, here);
		}
		struct message m = worker_message(model, s);
		m.kind = MESSAGE_SUPPORT;
		m.count = here;
		worker_stage(model, s, &m, w->relative, NULL);
		from = to;
	}
	return 0;
}

/* Another one selects; that this worker is ready for what it selects must be known all the same,
 * because a shard keeps the newest publication for its readers, not the one before. */
static int encode_consent(sluice_model *model)
{
	for (uint32_t s = 0; s < model->layout.n_shards; s++) {
		struct message m = worker_message(model, s);
		m.kind = MESSAGE_SUPPORT;
		m.count = 0;
		worker_stage(model, s, &m, model->worker->relative, NULL);
	}
	return 0;
}

/* A cell of that shard's sketch is not finite: it is told by a coordinate, if one is it. */
static int sketch_overflowed(sluice_model *model, const struct shard_layout *at)
{
	struct worker *w = model->worker;
	const size_t i = first_nonfinite(w->residual + at->begin, at->span);
	w->overflowed = i < at->span ? at->begin + i : COORDINATE_UNKNOWN;
	return SLUICE_ENUMERIC;
}

static int encode_sketches(sluice_model *model)
{
	struct worker *w = model->worker;
	int rc = 0;
	if (on_device_selects(model))
		return on_device_emit(model);
	for (uint32_t s = 0; s < model->layout.n_shards && !rc; s++) {
		const struct shard_layout *at = &model->layout.shards[s];
		const struct sketch_shape shape = model_sketch_shape(model, at, s);
		memset(w->value, 0, at->sketch_cells * sizeof *w->value);
		sketch_add(&shape, w->residual + at->begin, at->span, w->value);
		struct message m = worker_message(model, s);
		m.span = at->sketch_cells;
		if (worker_stage(model, s, &m, NULL, w->value))
			rc = sketch_overflowed(model, at);
	}
	return rc;
}

static int encode_values(sluice_model *model)
{
	struct worker *w = model->worker;
	if (on_device_selects(model))
		return on_device_emit(model);
	for (uint32_t s = 0; s < model->layout.n_shards; s++) {
		const struct shard_layout *at = &model->layout.shards[s];
		const struct support *support = &w->agreed->of[s];
		struct message m = worker_message(model, s);
		sparse_gather(w->residual + at->begin, support->index, w->value, support->n);
		m.count = support->n;
		m.agreed = 1;
		int rc = worker_stage(model, s, &m, support->index, w->value);
		if (rc)
			return rc;
		/* What a sketch asked for may not be published: it is settled when that is
		 * known. */
		if (selection_kinds[model->recipe.up.select].exchange == EXCHANGE_LEADER)
			worker_settle(model, at, support->index, support->n);
		model->stats.pushed_elements += support->n;
	}
	return 0;
}

int agree_encode(sluice_model *model)
{
	const struct phase *phase = phase_now(model, model->worker->phase);
	sluice_job *job = model->job;
	lanes_forget(model);
	if (phase->payload == PAYLOAD_INDICES &&
	    job->rank != schedule_leader(model->worker->step, job->workers))
		return encode_consent(model);
	if (phase->payload == PAYLOAD_INDICES)
		return encode_indices(model);
	return phase->payload == PAYLOAD_SKETCH ? encode_sketches(model) : encode_values(model);
}

void agree_apply_support(sluice_model *model, uint32_t shard, const struct message *m)
{
	struct support *support = &model->worker->agreed->of[shard];
	for (uint32_t i = 0; i < m->count; i++)
		support->index[i] = m->coding == CODING_DENSE ? i : model->worker->relative[i];
	support->n = m->count;
}

int agree_clear_published(sluice_model *model, const struct shard_layout *at, const uint32_t *index,
			  const float *value, uint32_t n)
{
	struct worker *w = model->worker;
	if (selection_kinds[model->recipe.up.select].exchange != EXCHANGE_SKETCH)
		return 0;
	if (on_device_selects(model))
		return on_device_clear(model, at, index, n);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t j = at->begin + (index ? index[i] : i);
		if (!index && value[i] == 0)
			continue; /* between the published ones */
		w->residual[j] = 0;
		if (w->velocity && model->recipe.mask)
			w->velocity[j] = 0;
	}
	return 0;
}
