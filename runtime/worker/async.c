/* SPDX-License-Identifier: BSD-3-Clause
 * See async.h. Called by worker.c, step.c and, before a collective, events.c. */
#include "worker/async.h"
#include "worker/worker.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct async {
	float *anchor;
	uint32_t anchors; /* before this one */
	uint64_t awaited;
	int parked;     /* the shards do not count on this worker */
	uint64_t *base; /* [shard]: its version in params; what it has answered is the lane's */
};

int async_open(const sluice_model *model, struct async **out)
{
	if (!model_async(model))
		return 0;
	struct async *a = *out = calloc(1, sizeof(*a));
	if (a) {
		a->anchor = model->worker->kept.of[KEPT_ANCHOR];
		a->base = calloc(model->layout.n_shards, sizeof(*a->base));
	}
	return a && a->base ? 0 :
			      fail(SLUICE_ENOMEM, "no memory for the versions of %u shards",
				   model->layout.n_shards);
}

void async_close(struct async **async)
{
	if (!*async)
		return;
	free((*async)->base);
	free(*async);
	*async = NULL;
}

void async_restart(struct async *async)
{
	if (async)
		async->parked = 1;
}

void async_begin(sluice_model *model, const float *params)
{
	struct async *a = model->worker->async;

	if (!a)
		return;
	memcpy(a->anchor, params, model->layout.count * sizeof(*params));
	a->parked = 0;
}

uint32_t async_anchors(const struct async *async)
{
	return async ? async->anchors : 0;
}

uint64_t async_base(const struct async *async, uint32_t shard)
{
	return async->base[shard];
}

int sluice_anchor_due(const sluice_model *model)
{
	return model && schedule_at_anchor(&model->schedule, model->step + 1);
}

/* ---- answers ---------------------------------------------------------------- */

void async_step_begins(sluice_model *model)
{
	struct async *a = model->worker->async;

	if (!a)
		return;
	a->awaited = lane_next_seq(model, 0);
	a->parked = 0;
}

uint64_t async_awaited(const struct async *async)
{
	return async->awaited;
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
	const struct async *a = model->worker->async;

	if (m->coding != CODING_DENSE)
		return "it has not all coordinates";
	if (m->anchor != a->anchors + (unsigned)expects_anchor(model))
		return "it belongs to another anchor";
	return NULL;
}

void async_apply(sluice_model *model, uint32_t shard, const struct message *m)
{
	struct worker *w = model->worker;
	const struct shard_layout *at = &model->layout.shards[shard];
	float *restrict params = w->target + at->begin;
	float *restrict anchor = w->async->anchor + at->begin;
	const float *restrict value = w->value;

	if (m->kind == MESSAGE_SNAPSHOT || model->recipe.whole)
		memcpy(params, value, at->span * sizeof(*params));
	else
		for (uint32_t i = 0; i < at->span; i++)
			params[i] = anchor[i] + value[i];
	if (m->kind == MESSAGE_SNAPSHOT)
		memcpy(anchor, value, at->span * sizeof(*anchor));
	w->async->base[shard] = m->step;
}

void async_pulled(sluice_model *model)
{
	if (model->worker->async)
		model->worker->async->anchors += (unsigned)expects_anchor(model);
}

/* ---- what a worker says beside gradients ------------------------------------ */

static void stage_empty(sluice_model *model, enum message_kind kind)
{
	struct worker *w = model->worker;

	for (uint32_t s = 0; s < model->layout.n_shards; s++) {
		struct message m = worker_message(model, s);

		m.kind = kind;
		m.phase = 0;
		m.values = (struct value_coding){ VALUE_F32, 0, 0, 0 };
		m.seeded = 0;
		m.count = 0;
		worker_stage(model, s, &m, w->relative, w->value);
	}
}

int async_ask(sluice_model *model)
{
	struct worker *w = model->worker;
	int rc = step_await_slots(model);

	if (rc)
		return rc;
	async_step_begins(model);
	w->phase = 0;
	w->shards_done = 0;
	stage_empty(model, MESSAGE_ASK);
	w->encoded = 1;
	return 0;
}

static int posted(void *context)
{
	return lanes_post(context);
}

static void describe(void *context, char *text, size_t cap)
{
	(void)context;
	snprintf(text, cap,
		 "room in the queues of the shards, to say that this rank enters a collective");
}

int async_park(sluice_model *model)
{
	struct async *a = model->worker->async;

	if (!a || a->parked)
		return 0;
	a->parked = 1;
	stage_empty(model, MESSAGE_PARK);
	return progress_until(model->job, posted, describe, model);
}
