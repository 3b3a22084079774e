/* SPDX-License-Identifier: BSD-3-Clause
 * See upload.h. Called by the loop (worker.c) and by methods that make their own messages.
 * */
#include "worker/upload.h"
#include "job/progress_token.h"
#include "model/compressor.h"
#include "model/stopwatch.h"
#include "worker/hooks.h"
#include "worker/lane.h"
#include "worker/state.h"
#include "worker/worker_census.h"

struct message upload_head(const struct worker *w, uint32_t shard)
{
	const struct recipe *recipe = w->rules.recipe;
	const struct selection_kind *kind = &selection_kinds[recipe->up.select];

	return (struct message){ .kind = MESSAGE_PUSH,
				 .values = w->step.rule.values_up,
				 .stream = { RANDOM_ROUND, (uint32_t)w->job->rank, w->step.number,
					     recipe->seed },
				 .first = w->layout->shards[shard].begin,
				 .range = w->step.range,
				 .densest = recipe->coding == CODING_SMALL,
				 .seeded = kind->seeded && !kind->contiguous,
				 .raised = (uint8_t)w->step.raise,
				 .chosen = (uint8_t)w->step.proposed,
				 .phase = (uint16_t)w->step.phase,
				 .parts = 1,
				 .rank = (uint32_t)w->job->rank,
				 .epoch = w->job->membership_epoch,
				 .model = w->model.id,
				 .shard = shard,
				 .seq = lane_next_seq(w->lanes, shard),
				 .step = w->step.number,
				 .have_version = lane_base(w->lanes, shard),
				 .anchor = hooks_mark(w),
				 .span = w->layout->shards[shard].span,
				 .norm = w->step.norm,
				 .lr = w->step.lr };
}

void upload_stage(struct worker *w, const struct message *m, const struct lane_payload *payload)
{
	size_t bytes = message_bytes(m);

	if (w->census)
		bytes += census_note_push(w, m->shard, m->seq,
					  lane_slot(w->lanes, m->shard, m->seq) + bytes);
	lane_stage(w->lanes, m->shard, m, bytes, payload);
}

/* Stages the message. If a value is not finite, records its coordinate instead (step_fail). */
static int stage_encoded(struct worker *w, const struct message *m, size_t bytes)
{
	if (!bytes)
		return step_fail(&w->step, w->layout->shards[m->shard].begin + m->bad);
	upload_stage(w, m, NULL);
	return 0;
}

int upload_encode(struct worker *w, struct message *m, const uint32_t *index, const float *value)
{
	const size_t bytes = message_encode(
		NULL, m, index, value, compressor_entries(w->compressor).value,
		lane_slot(w->lanes, m->shard, m->seq), w->layout->shards[m->shard].slot_bytes);

	if (!bytes && index)
		m->bad = index[m->bad];
	return stage_encoded(w, m, bytes);
}

int upload_pick(struct worker *w, struct message *m, struct pick *p, uint64_t begin)
{
	const struct shard_layout *at = &w->layout->shards[m->shard];
	const size_t picked = p->n;
	const size_t bytes = compressor_emit(w->compressor, m, p, begin,
					     p->index ? at->up_capacity : at->span,
					     lane_slot(w->lanes, m->shard, m->seq), at->slot_bytes);

	w->model.stats->deferred_elements += picked - p->n;
	return stage_encoded(w, m, bytes);
}

void upload_post(struct worker *w, uint32_t shard, int more)
{
	const struct lap lap = stopwatch_begin();

	progress_enter(w->job); /* does not count as a call of the application */
	if (!w->job->failure.code && more)
		lane_send(w->lanes, shard);
	else if (!w->job->failure.code)
		lane_post(w->lanes, shard);
	progress_unlock(w->job);
	stopwatch_end(w->model.stopwatch, TIME_PUSH, &lap);
}

void upload_without(struct worker *w, uint32_t shard, enum message_kind kind)
{
	const struct entries none = compressor_entries(w->compressor);
	struct message m = upload_head(w, shard);

	m.kind = kind;
	m.count = 0;
	if (kind == MESSAGE_ASK || kind == MESSAGE_PARK) {
		m.phase = 0;
		m.values = (struct value_coding){ VALUE_F32, 0, 0, 0 };
		m.seeded = 0;
	}
	upload_encode(w, &m, none.index, none.value);
}

void upload_empty(struct worker *w, enum message_kind kind)
{
	for (uint32_t s = 0; s < w->layout->n_shards; s++)
		upload_without(w, s, kind);
}

int upload_ask(struct worker *w, void (*begins)(struct worker *w))
{
	const int rc = lanes_await_slots(w->lanes, worker_exchange(w));

	if (rc)
		return rc;
	begins(w);
	step_unpushed(&w->step);
	upload_empty(w, MESSAGE_ASK);
	return 0;
}

int upload_masks(const struct worker *w)
{
	/* Masking does not start before the warm-up ends, because its high density would clear most
	 * of the momentum. */
	return w->rules.recipe->signal.mask && w->step.number > w->rules.schedule->warmup_steps;
}

void upload_settle(struct worker *w, uint32_t shard, const struct pick *emitted)
{
	compressor_settle(w->compressor, emitted, w->layout->shards[shard].begin, upload_masks(w));
}
