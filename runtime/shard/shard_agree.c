/* SPDX-License-Identifier: BSD-3-Clause
 * The shard half where a support is agreed on (worker_agree.c): the leader's indices go out as they
 * came; of sketches, what their sum shows to be heavy. */
#include "shard/shard.h"
#include "compress/sketch.h"
#include <string.h>

const char *agree_take(sluice_model *model, struct shard *shard, const struct message *m)
{
	const struct phase *phase = phase_now(model, shard->phase);
	if (phase->payload == PAYLOAD_SKETCH) {
		if (m->coding != CODING_DENSE)
			return "a sketch has all its cells";
		sparse_add(shard->cells, NULL, model->value, m->count);
	} else if (phase->payload == PAYLOAD_INDICES &&
		   shard->next_rank != schedule_leader(shard->version + 1, model->job->workers)) {
		if (m->count)
			return "another worker selects in this step";
	} else if (phase->payload == PAYLOAD_INDICES) {
		for (uint32_t i = 0; i < m->count; i++)
			shard->support[i] = m->coding == CODING_DENSE ? i : model->index[i];
		shard->support_n = m->count;
	} else {
		reduction_add(&shard->reduction, shard->support, model->value, m->count);
	}
	return NULL;
}

/* The coordinates whose estimates are largest, and all that are exempt from selection. */
static void find_heavy(sluice_model *model, struct shard *shard)
{
	const struct shard_layout *at = shard->at;
	const struct sketch_shape shape = model_sketch_shape(model, at, shard->id);
	double density = schedule_density(&model->schedule, &model->recipe.up, shard->version + 1);
	uint64_t k = schedule_count(density, at->span - at->exempt) * model->recipe.up.sketch_pool;
	float *estimate = reduction_sum(
		&shard->reduction); /* nothing is added yet: a vector to write to */
	sketch_estimate(&shape, shard->cells, at->span, estimate);
	for (size_t s = 0; s < shard->n_spans; s++)
		for (uint64_t i = shard->spans[s].begin;
		     i < shard->spans[s].end && shard->spans[s].exempt; i++)
			estimate[i] = 1;
	shard->support_n = (uint32_t)select_topk(model->selector, estimate, shard->spans,
						 shard->n_spans, k < at->span ? k : at->span,
						 model->index);
	shard->reduction.whole = 1; /* it was written to, all over */
	reduction_clear(&shard->reduction);
	memcpy(shard->support, model->index, shard->support_n * sizeof *shard->support);
	memset(shard->cells, 0, at->sketch_cells * sizeof *shard->cells);
}

void agree_publish(sluice_model *model, struct shard *shard)
{
	const struct shard_layout *at = shard->at;
	if (phase_now(model, shard->phase)->payload == PAYLOAD_SKETCH)
		find_heavy(model, shard);
	struct message m = { .kind = MESSAGE_SUPPORT,
			     .densest = model->recipe.coding == CODING_SMALL,
			     .phase = (uint16_t)(shard->phase + 1),
			     .parts = 1,
			     .rank = (uint32_t)model->job->rank,
			     .epoch = model->job->membership_epoch,
			     .model = model->id,
			     .shard = shard->id,
			     .seq = shard->published + 1,
			     .step = shard->version + 1,
			     .have_version = shard->published,
			     .span = at->span,
			     .count = shard->support_n,
			     .lr = shard->lr };
	uint8_t *entry = delta_log_reserve(&shard->log, at->delta_bytes);
	size_t bytes = message_encode(&m, shard->support, NULL, NULL, entry, at->delta_bytes);
	delta_log_commit(&shard->log, bytes);
	shard->phase += 2;
	shard_announce(model, shard, bytes);
}

uint32_t agree_choose(sluice_model *model, struct shard *shard, const float *x)
{
	uint32_t n = shard->support_n;
	if (selection_kinds[model->recipe.up.select].exchange == EXCHANGE_SKETCH) {
		double density = schedule_density(&model->schedule, &model->recipe.up,
						  shard->version + 1);
		n = (uint32_t)select_topk(
			model->selector, x, shard->spans, shard->n_spans,
			schedule_count(density, shard->at->span - shard->at->exempt), model->index);
	} else {
		memcpy(model->index, shard->support, n * sizeof *shard->support);
	}
	sparse_gather(x, model->index, model->value, n);
	return n;
}
