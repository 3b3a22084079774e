/* SPDX-License-Identifier: BSD-3-Clause
 * See agreed.h. */
#include "shard/agreed.h"
#include "base/error.h"
#include "compress/sketch.h"
#include "compress/sparse.h"
#include "model/compressor.h"
#include "shard/reduce.h"
#include "shard/state.h"
#include <stdlib.h>
#include <string.h>

struct agreed {
	uint32_t *support, n; /* room for support_capacity coordinates */
	float *cells;         /* the sum of the workers' sketches; NULL without up=sketch */
};

static int agreed_used(const struct shard *shard)
{
	return shard->at->support_capacity != 0;
}

static int agreed_open(struct shard *shard)
{
	const struct shard_layout *at = shard->at;
	struct agreed *a;

	a = shard->agreed = calloc(1, sizeof(*a));
	if (a) {
		a->support = calloc(at->support_capacity, sizeof(*a->support));
		a->cells = at->sketch_cells ? calloc(at->sketch_cells, sizeof(*a->cells)) : NULL;
	}
	if (!a || !a->support || (at->sketch_cells && !a->cells))
		return fail(SLUICE_ENOMEM, "no memory for shard %u of %u elements", shard->id,
			    at->span);
	return 0;
}

static void agreed_close(struct shard *shard)
{
	if (!shard->agreed)
		return;
	free(shard->agreed->support);
	free(shard->agreed->cells);
	free(shard->agreed);
	shard->agreed = NULL;
}

static void agreed_restart(struct shard *shard)
{
	shard->agreed->n = 0;
}

uint32_t agreed_count(const struct shard *shard)
{
	return shard->agreed ? shard->agreed->n : 0;
}

const char *agreed_take_sketch(struct shard *shard, int worker, const struct message *m)
{
	(void)worker;
	if (m->coding != CODING_DENSE)
		return "a sketch has all its cells";
	sparse_add(shard->agreed->cells, NULL, scratch_entries(shard->scratch).value, m->count);
	return NULL;
}

const char *agreed_take_indices(struct shard *shard, int worker, const struct message *m)
{
	const struct entries got = scratch_entries(shard->scratch);
	struct agreed *a = shard->agreed;

	if (worker != schedule_leader(shard->version + 1, shard->job->workers))
		return m->count ? "another worker selects in this step" : NULL;
	for (uint32_t i = 0; i < m->count; i++)
		a->support[i] = m->coding == CODING_DENSE ? i : got.index[i];
	a->n = m->count;
	return NULL;
}

const char *agreed_take_values(struct shard *shard, int worker, const struct message *m)
{
	(void)worker;
	reduction_add(&shard->reduction, shard->agreed->support,
		      scratch_entries(shard->scratch).value, m->count);
	return NULL;
}

/* Lists the coordinates with the largest estimates, and all that are exempt from selection. */
static void find_heavy(struct shard *shard)
{
	const struct shard_layout *at = shard->at;
	const struct sketch_shape shape = layout_sketch_shape(shard->rules.recipe, at, shard->id);
	double density = schedule_density(shard->rules.schedule, &shard->rules.recipe->up,
					  shard->version + 1);
	uint64_t k = schedule_count(density, at->span - at->exempt) *
		     shard->rules.recipe->up.sketch_pool;
	struct agreed *a = shard->agreed;
	size_t n_spans;
	const struct span *spans = compressor_spans(shard->compressor, &n_spans);
	/* No message has been added yet, so the memory of the sum is free for the estimates. */
	float *estimate = reduction_sum(&shard->reduction);

	sketch_estimate(&shape, a->cells, at->span, estimate);
	for (size_t s = 0; s < n_spans; s++)
		for (uint64_t i = spans[s].begin; i < spans[s].end && spans[s].exempt; i++)
			estimate[i] = 1;
	const struct entries heavy = scratch_entries(shard->scratch);
	a->n = (uint32_t)select_topk(scratch_selector(shard->scratch), estimate, spans, n_spans,
				     k < at->span ? k : at->span, heavy.index);
	shard->reduction.whole = 1; /* find_heavy() has written every element */
	reduction_clear(&shard->reduction);
	memcpy(a->support, heavy.index, a->n * sizeof(*a->support));
	memset(a->cells, 0, at->sketch_cells * sizeof(*a->cells));
}

uint32_t agreed_support(struct shard *shard, const uint32_t **index_out)
{
	if (schedule_phase(shard->rules.schedule, shard->phase)->payload == PAYLOAD_SKETCH)
		find_heavy(shard);
	*index_out = shard->agreed->support;
	return shard->agreed->n;
}

/* Returns 1 if publications contain only coordinates of the support. They contain others if the
 * update rule changes coordinates outside the support. */
static int picks(const struct shard *shard)
{
	const struct phase *last = schedule_phase(shard->rules.schedule,
						  shard->rules.schedule->n_phases - 1);

	return shard->rules.schedule->n_downs > 1 &&
	       (last->payload == PAYLOAD_AGREED ||
		selection_kinds[shard->rules.recipe->up.select].exchange == EXCHANGE_SKETCH);
}

static int agreed_pick(struct shard *shard, float *x, struct pick *out)
{
	const struct direction *up = &shard->rules.recipe->up;
	uint32_t *index = scratch_entries(shard->scratch).index;

	if (!picks(shard))
		return 0;
	*out = (struct pick){ .index = shard->agreed->support, .vector = x, .n = shard->agreed->n };
	if (selection_kinds[up->select].exchange == EXCHANGE_SKETCH) {
		const double density = schedule_density(shard->rules.schedule, up,
							shard->version + 1);
		size_t n_spans;
		const struct span *spans = compressor_spans(shard->compressor, &n_spans);

		out->n = select_topk(scratch_selector(shard->scratch), x, spans, n_spans,
				     schedule_count(density, shard->at->span - shard->at->exempt),
				     index);
		out->index = index;
	}
	return 1;
}

const struct shard_hooks agreed_hooks = { .used = agreed_used,
					  .open = agreed_open,
					  .close = agreed_close,
					  .restart = agreed_restart,
					  .pick = agreed_pick };
