/* SPDX-License-Identifier: BSD-3-Clause
 * See agree.h. */
#include "worker/agree.h"
#include "compress/sketch.h"
#include "recipe/schedule.h"
#include "compress/sparse.h"
#include "model/compressor.h"
#include "model/model.h"
#include "worker/compressor_ops.h"
#include "worker/hooks.h"
#include "worker/signal.h"
#include "worker/nonfinite.h"
#include "worker/state.h"
#include "worker/upload.h"
#include "worker/worker_measure.h"
#include <stdlib.h>
#include <string.h>

struct agreed {
	uint32_t *room; /* memory for the positions of all supports */
	struct support {
		uint32_t *index, n; /* index has room for the shard's support_capacity */
	} of[];
};

static int agree_used(const struct worker *w)
{
	return w->layout->support_most > 0;
}

static int agree_open(struct worker *w)
{
	const struct layout *l = w->layout;
	struct agreed *a = w->agreed = calloc(1, sizeof(*a) + l->n_shards * sizeof(a->of[0]));
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

static void agree_close(struct worker *w)
{
	struct agreed *a = w->agreed;

	if (!a)
		return;
	free(a->room);
	free(a);
	w->agreed = NULL;
}

static uint64_t agree_memory(const struct layout *l, const struct recipe *recipe)
{
	(void)recipe;
	return l->support_most * sizeof(uint32_t);
}

const uint32_t *agree_support(const struct agreed *agreed, uint32_t shard, uint32_t *n_out)
{
	const struct support *support = &agreed->of[shard];

	*n_out = support->n;
	return support->index;
}

/* One worker selects for all. Each other worker sends a message without coordinates, which means
 * that it is ready. The shard keeps only its newest publication, so it must not publish before all
 * workers have read the previous one. */
int agree_send_indices(struct worker *w, const struct signal *signal)
{
	const struct layout *l = w->layout;
	const double density = w->model.stats->density_up;
	const struct pick_call call = { .step = w->step.number,
					.density = density,
					.k = schedule_count(density, l->count - l->exempt),
					.vector = worker_residual(w) };
	size_t from = 0;

	(void)signal;
	if (w->job->rank != schedule_leader(w->step.number, w->job->workers) || worker_stands(w)) {
		upload_empty(w, MESSAGE_SUPPORT);
		return 0;
	}
	const struct pick all = compressor_pick(w->compressor, &call);
	for (uint32_t s = 0; s < l->n_shards; s++) {
		const struct shard_layout *at = &l->shards[s];
		struct pick pick = pick_part(&all, at->begin + at->span, &from);
		struct message m = upload_head(w, s);

		m.kind = MESSAGE_SUPPORT;
		int rc = upload_pick(w, &m, &pick, at->begin);
		if (rc)
			return rc;
	}
	return 0;
}

/* Reports a cell of this shard's sketch that is not finite, with its coordinate if a single one is
 * the cause. */
static int sketch_overflowed(struct worker *w, const struct shard_layout *at)
{
	const size_t i = first_nonfinite(worker_residual(w) + at->begin, at->span);

	return step_fail(&w->step, i < at->span ? at->begin + i : COORDINATE_UNKNOWN);
}

int agree_send_sketches(struct worker *w, const struct signal *signal)
{
	float *cells = compressor_entries(w->compressor).value;
	int rc = 0;

	(void)signal;
	for (uint32_t s = 0; s < w->layout->n_shards && !rc; s++) {
		const struct shard_layout *at = &w->layout->shards[s];
		const struct sketch_shape shape = layout_sketch_shape(w->rules.recipe, at, s);
		struct message m = upload_head(w, s);

		memset(cells, 0, at->sketch_cells * sizeof(*cells));
		sketch_add(&shape, worker_residual(w) + at->begin, at->span, cells);
		m.span = m.count = at->sketch_cells;
		if (upload_encode(w, &m, NULL, cells))
			rc = sketch_overflowed(w, at);
	}
	return rc;
}

int agree_send_values(struct worker *w, const struct signal *signal)
{
	/* With up=sketch, a shard may publish fewer coordinates than it has requested, so the
	 * residual is settled when the publication arrives (clear_published). */
	const int settles = selection_kinds[w->rules.recipe->up.select].exchange == EXCHANGE_LEADER;
	float *values = compressor_entries(w->compressor).value;

	(void)signal;
	for (uint32_t s = 0; s < w->layout->n_shards; s++) {
		const struct shard_layout *at = &w->layout->shards[s];
		const struct support *support = &w->agreed->of[s];
		const struct pick sent = { .index = support->index,
					   .value = values,
					   .n = support->n };
		struct message m = upload_head(w, s);

		m.agreed = 1;
		m.count = support->n;
		sparse_gather(worker_residual(w) + at->begin, support->index, values, support->n);
		int rc = upload_encode(w, &m, support->index, values);
		if (rc)
			return rc;
		if (settles) {
			measure_hooks.emitted(w, at, &sent);
			upload_settle(w, s, &sent);
		}
		w->model.stats->pushed_elements += support->n;
	}
	return 0;
}

int agree_apply_support(struct worker *w, uint32_t shard, const struct message *m,
			const struct entries *got)
{
	struct support *support = &w->agreed->of[shard];

	for (uint32_t i = 0; i < m->count; i++)
		support->index[i] = m->coding == CODING_DENSE ? i : got->index[i];
	support->n = m->count;
	return 0;
}

/* For up=sketch: clears the residual at the published coordinates, and the momentum if it is
 * masked. */
static int clear_published(struct worker *w, uint32_t shard, const uint32_t *index,
			   const struct entries *got, const struct message *m)
{
	const struct shard_layout *at = &w->layout->shards[shard];
	float *residual = worker_residual(w);
	float *velocity = compressor_velocity(w->compressor);

	if (selection_kinds[w->rules.recipe->up.select].exchange != EXCHANGE_SKETCH)
		return 0;
	if (w->ops->clear)
		return w->ops->clear(w, at, index, got, m->count);
	for (uint32_t i = 0; i < m->count; i++) {
		const uint64_t j = at->begin + (index ? index[i] : i);

		if (!index && got->value[i] == 0)
			continue; /* this coordinate lies between two published ones */
		residual[j] = 0;
		if (velocity && w->rules.recipe->signal.mask)
			velocity[j] = 0;
	}
	return 0;
}

const struct step_hooks agree_hooks = { .used = agree_used,
					.open = agree_open,
					.close = agree_close,
					.memory = agree_memory,
					.applied = clear_published };
