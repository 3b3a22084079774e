/* SPDX-License-Identifier: BSD-3-Clause
 * See upload.h. Called by the loop (worker.c) and by the methods that make messages of their own.
 */
#include "worker/upload.h"
#include "model/compressor.h"
#include "worker/hooks.h"
#include "worker/lane.h"
#include "worker/state.h"
#include "worker/worker_census.h"

struct message upload_head(const sluice_model *model, uint32_t shard)
{
	const struct worker *w = model->worker;
	const struct recipe *recipe = &model->recipe;
	const struct selection_kind *kind = &selection_kinds[recipe->up.select];

	return (struct message){ .kind = MESSAGE_PUSH,
				 .values = recipe->up.values,
				 .stream = { RANDOM_ROUND, (uint32_t)model->job->rank,
					     w->step.number, recipe->seed },
				 .first = model->layout.shards[shard].begin,
				 .range = w->step.range,
				 .densest = recipe->coding == CODING_SMALL,
				 .seeded = kind->seeded && !kind->contiguous,
				 .raised = (uint8_t)w->step.raise,
				 .chosen = (uint8_t)w->step.proposed,
				 .phase = (uint16_t)w->step.phase,
				 .parts = 1,
				 .rank = (uint32_t)model->job->rank,
				 .epoch = model->job->membership_epoch,
				 .model = model->id,
				 .shard = shard,
				 .seq = lane_next_seq(model->worker->lanes, shard),
				 .step = w->step.number,
				 .have_version = lane_base(model->worker->lanes, shard),
				 .anchor = hooks_mark(model),
				 .span = model->layout.shards[shard].span,
				 .lr = model->lr };
}

void upload_stage(sluice_model *model, const struct message *m, const struct lane_payload *payload)
{
	size_t bytes = message_bytes(m);

	if (model->worker->census)
		bytes += census_note_push(model, m->shard, m->seq,
					  lane_slot(model->worker->lanes, m->shard, m->seq) +
						  bytes);
	lane_stage(model->worker->lanes, m->shard, m, bytes, payload);
}

/* Stages the message, or, if a value was not finite, sets worker.overflowed to its coordinate. */
static int stage_encoded(sluice_model *model, const struct message *m, size_t bytes)
{
	if (!bytes)
		return step_fail(&model->worker->step,
				 model->layout.shards[m->shard].begin + m->bad);
	upload_stage(model, m, NULL);
	return 0;
}

int upload_encode(sluice_model *model, struct message *m, const uint32_t *index, const float *value)
{
	const size_t bytes = message_encode(m, index, value,
					    compressor_entries(model->worker->compressor).value,
					    lane_slot(model->worker->lanes, m->shard, m->seq),
					    model->layout.shards[m->shard].slot_bytes);

	if (!bytes && index)
		m->bad = index[m->bad];
	return stage_encoded(model, m, bytes);
}

int upload_pick(sluice_model *model, struct message *m, struct pick *p, uint64_t begin)
{
	const struct shard_layout *at = &model->layout.shards[m->shard];
	const size_t picked = p->n;
	const size_t bytes = compressor_emit(
		model->worker->compressor, m, p, begin, p->index ? at->up_capacity : at->span,
		lane_slot(model->worker->lanes, m->shard, m->seq), at->slot_bytes);

	model->stats.deferred_elements += picked - p->n;
	return stage_encoded(model, m, bytes);
}

void upload_empty(sluice_model *model, enum message_kind kind)
{
	const struct entries none = compressor_entries(model->worker->compressor);

	for (uint32_t s = 0; s < model->layout.n_shards; s++) {
		struct message m = upload_head(model, s);

		m.kind = kind;
		m.count = 0;
		if (kind == MESSAGE_ASK || kind == MESSAGE_PARK) {
			m.phase = 0;
			m.values = (struct value_coding){ VALUE_F32, 0, 0, 0 };
			m.seeded = 0;
		}
		upload_encode(model, &m, none.index, none.value);
	}
}

int upload_masks(const sluice_model *model)
{
	/* Not during the warm-up, whose high density would clear most of the momentum. */
	return model->recipe.mask && model->worker->step.number > model->schedule.warmup_steps;
}

void upload_settle(sluice_model *model, uint32_t shard, const struct pick *emitted)
{
	compressor_settle(model->worker->compressor, emitted, model->layout.shards[shard].begin,
			  upload_masks(model));
}
