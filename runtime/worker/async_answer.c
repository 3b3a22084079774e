/* SPDX-License-Identifier: BSD-3-Clause
 * The worker half of asynchronous steps; see shard_async.h. What comes back: an answer is a
 * difference to the anchor, or the next anchor itself. Called by worker.c and step.c. */
#include "worker/worker.h"
#include "compress/message.h"
#include <string.h>

void async_begin(sluice_model *model, const float *params)
{
	if (!model->worker->anchor)
		return;
	memcpy(model->worker->anchor, params, model->layout.count * sizeof *params);
	model->worker->parked = 0;
}

int sluice_anchor_due(const sluice_model *model)
{
	return model && schedule_at_anchor(&model->schedule, model->step + 1);
}

/* The last message was the push before an anchor: its answer is that anchor. */
static int expects_anchor(const sluice_model *model)
{
	return model->worker->in_step == STEP_PUSHED &&
	       schedule_before_anchor(&model->schedule, model->worker->step);
}

void async_expect(const sluice_model *model, struct message_expect *want)
{
	want->kind = expects_anchor(model) ? MESSAGE_SNAPSHOT : MESSAGE_DELTA;
	want->step = MESSAGE_ANY; /* the version, which only the shard knows */
	want->phase = 0;
}

const char *async_judge(const sluice_model *model, const struct message *m)
{
	if (m->coding != CODING_DENSE)
		return "it has not all coordinates";
	if (m->anchor != model->worker->anchors + (unsigned)expects_anchor(model))
		return "it belongs to another anchor";
	return NULL;
}

void async_apply(sluice_model *model, uint32_t shard, const struct message *m)
{
	struct worker *w = model->worker;
	const struct shard_layout *at = &model->layout.shards[shard];
	float *restrict params = w->target + at->begin, *restrict anchor = w->anchor + at->begin;
	const float *restrict value = w->value;
	if (m->kind == MESSAGE_SNAPSHOT || model->recipe.whole)
		memcpy(params, value, at->span * sizeof *params);
	else
		for (uint32_t i = 0; i < at->span; i++)
			params[i] = anchor[i] + value[i];
	if (m->kind == MESSAGE_SNAPSHOT)
		memcpy(anchor, value, at->span * sizeof *anchor);
	w->down[shard].base = m->step;
	model->stats.pulled_elements += m->count;
	model_count_dense(model, at);
}

void async_pulled(sluice_model *model)
{
	model->worker->anchors += (unsigned)expects_anchor(model);
}
