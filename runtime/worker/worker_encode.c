/* SPDX-License-Identifier: BSD-3-Clause
 * One message to one shard: what it says of itself, its place in a slot, and what leaves the
 * accumulator with it. Called by worker.c and worker_agree.c. */
#include "worker/worker.h"

/* The rest stays in the residual. relative[] and value[] shrink to n = up_capacity, still
 * ascending. */
uint32_t worker_fit(sluice_model *model, const struct shard_layout *at, uint32_t n)
{
	struct worker *w = model->worker;
	struct span all = { 0, n, 0 };
	size_t kept = select_topk(w->selector, w->value, &all, 1, at->up_capacity, w->fitting);
	for (size_t i = 0; i < kept; i++) {
		w->relative[i] = w->relative[w->fitting[i]];
		w->value[i] = w->value[w->fitting[i]];
	}
	model->stats.deferred_elements += n - kept;
	return (uint32_t)kept;
}

/* Momentum factor masking: what was selected starts anew. Not for what is never late: tensors that
 * are sent whole every step, and not while the warm-up's high density would clear most of the
 * momentum. */
static void mask_momentum(sluice_model *model, uint64_t begin, const uint32_t *index, uint32_t n)
{
	const struct span *span = model->layout.spans;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t j = begin + index[i];
		while (span->end <= j)
			span++;
		if (!span->exempt)
			model->worker->velocity[j] = 0.0f;
	}
}

void worker_settle(sluice_model *model, const struct shard_layout *at, const uint32_t *index,
		   uint32_t n)
{
	struct worker *w = model->worker;
	measure_sent(model, at->begin, index, n);
	lazy_settle(model, at, index, n);
	if (model->recipe.memory != MEMORY_NONE && !w->taken)
		sparse_subtract(w->residual + at->begin, index, w->value, n);
	if (w->velocity && model->recipe.mask && index && w->step > model->schedule.warmup_steps)
		mask_momentum(model, at->begin, index, n);
}

struct message worker_message(const sluice_model *model, uint32_t shard)
{
	const struct worker *w = model->worker;
	const struct recipe *recipe = &model->recipe;
	return (struct message){
		.kind = MESSAGE_PUSH,
		.values = recipe->up.values,
		.stream = { RANDOM_ROUND, (uint32_t)model->job->rank, w->step, recipe->seed },
		.first = model->layout.shards[shard].begin,
		.range = w->range,
		.densest = recipe->coding == CODING_SMALL,
		.seeded = selection_kinds[recipe->up.select].seeded &&
			  !selection_kinds[recipe->up.select].contiguous,
		.raised = (uint8_t)w->raise,
		.chosen = (uint8_t)(w->chosen ? w->chosen : model->worth.proposed),
		.phase = (uint16_t)w->phase,
		.parts = 1,
		.rank = (uint32_t)model->job->rank,
		.epoch = model->job->membership_epoch,
		.model = model->id,
		.shard = shard,
		.seq = lane_next_seq(model, shard),
		.step = w->step,
		.have_version = w->async ? async_base(w->async, shard) : lane_have(model, shard),
		.anchor = w->lazy ? lazy_mark(w->lazy) : async_anchors(w->async),
		.span = model->layout.shards[shard].span,
		.lr = model->lr
	};
}

void worker_staged(sluice_model *model, uint32_t shard, const struct message *m,
		   const struct lane_payload *payload)
{
	size_t bytes = message_bytes(m);
	bytes += census_note_push(model, shard, m->seq, lane_slot(model, shard, m->seq) + bytes);
	lane_stage(model, shard, m, bytes, payload);
}

int worker_stage(sluice_model *model, uint32_t shard, struct message *m, const uint32_t *index,
		 const float *value)
{
	const struct shard_layout *at = &model->layout.shards[shard];
	if (!message_encode(m, index, value, model->worker->value, lane_slot(model, shard, m->seq),
			    at->slot_bytes)) {
		model->worker->overflowed = at->begin + (index ? index[m->bad] : m->bad);
		return SLUICE_ENUMERIC;
	}
	worker_staged(model, shard, m, NULL);
	return 0;
}

int worker_encode_as(sluice_model *model, struct message m, const uint32_t *selected, uint32_t n)
{
	struct worker *w = model->worker;
	const struct shard_layout *at = &model->layout.shards[m.shard];
	const float *vector = w->residual + at->begin;
	const uint32_t *index = NULL;
	const float *value = vector;
	const int reset = w->rule.reset, taken = w->taken;

	if (!reset && (selected || w->skip)) {
		for (uint32_t i = 0; i < n; i++)
			w->relative[i] = selected[i] - (uint32_t)at->begin;
		index = w->relative;
		if (w->valued && n <= at->up_capacity) {
			value = w->selected + (selected - w->index);
		} else {
			worker_put_back(model, selected, n);
			sparse_gather(vector, w->relative, w->value, n);
			if (n > at->up_capacity)
				n = worker_fit(model, at, n);
			value = w->value;
		}
	}
	m.count = n;
	if (reset)
		m.values = (struct value_coding){ VALUE_F32, 0, 0, 0 };
	int rc = worker_stage(model, m.shard, &m, index, value);
	if (rc)
		return rc;
	worker_settle(model, at, index, n);
	w->taken = taken;
	model->stats.pushed_elements += n;
	return 0;
}

int worker_encode(sluice_model *model, uint32_t shard, const uint32_t *selected, uint32_t n)
{
	return worker_encode_as(model, worker_message(model, shard), selected, n);
}
