/* SPDX-License-Identifier: BSD-3-Clause
 * See async.h. */
#include "worker/async.h"
#include "model/kept.h"
#include "model/model.h"
#include "worker/hooks.h"
#include "worker/lane.h"
#include "worker/state.h"
#include "worker/target.h"
#include "worker/upload.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct async {
	float *anchor;
	uint32_t anchors; /* number of anchors before the current one */
	uint64_t awaited;
	int parked; /* 1: shards do not wait for this worker */
};

static int async_used(const struct worker *w)
{
	return w->rules.recipe->when == WHEN_ASYNC;
}

static int async_open(struct worker *w)
{
	struct async *a = w->async = calloc(1, sizeof(*a));
	if (!a)
		return fail(SLUICE_ENOMEM, "no memory for asynchronous steps");
	a->anchor = w->kept.of[KEPT_ANCHOR];
	return 0;
}

static void async_close(struct worker *w)
{
	free(w->async);
	w->async = NULL;
}

/* A new worker is parked, so shards do not wait for it until it begins. */
static void async_restart(struct worker *w)
{
	w->async->parked = 1;
}

static void async_begin(struct worker *w, const float *params)
{
	struct async *a = w->async;

	memcpy(a->anchor, params, w->layout->count * sizeof(*params));
	a->parked = 0;
}

/* ---- answers ---------------------------------------------------------------- */

/* The next message is a push or a request for parameters. Either way, a pull waits for its
 * answer. */
static void async_step_begins(struct worker *w)
{
	struct async *a = w->async;

	a->awaited = lane_next_seq(w->lanes, 0);
	a->parked = 0;
}

static uint32_t async_mark(const struct worker *w)
{
	return w->async->anchors;
}

uint64_t async_awaited(const struct worker *w, uint32_t shard)
{
	(void)shard;
	return w->async->awaited;
}

/* Returns 1 if the last message was the push before an anchor. Its answer is then the anchor. */
static int expects_anchor(const struct worker *w)
{
	return w->step.state == STEP_PUSHED &&
	       schedule_before_anchor(w->rules.schedule, w->step.number);
}

void async_expect(const struct worker *w, uint32_t shard, struct message_expect *want)
{
	(void)shard;
	want->kind = expects_anchor(w) ? MESSAGE_SNAPSHOT : MESSAGE_DELTA;
	want->step = MESSAGE_ANY; /* this field holds the version, which only the shard knows */
	want->phase = 0;
}

const char *async_judge(const struct worker *w, uint32_t shard, const struct message *m)
{
	const struct async *a = w->async;

	(void)shard;
	if (m->coding != CODING_DENSE)
		return "it does not have all coordinates";
	if (m->anchor != a->anchors + (unsigned)expects_anchor(w))
		return "it belongs to another anchor";
	return NULL;
}

int async_apply(struct worker *w, uint32_t shard, const struct message *m,
		const struct entries *got)
{
	const struct shard_layout *at = &w->layout->shards[shard];
	float *restrict params = target_flat(w->into) + at->begin;
	float *restrict anchor = w->async->anchor + at->begin;
	const float *restrict value = got->value;

	if (m->kind == MESSAGE_SNAPSHOT || w->rules.recipe->async.whole)
		memcpy(params, value, at->span * sizeof(*params));
	else
		for (uint32_t i = 0; i < at->span; i++)
			params[i] = anchor[i] + value[i];
	if (m->kind == MESSAGE_SNAPSHOT)
		memcpy(anchor, value, at->span * sizeof(*anchor));
	return 0;
}

uint64_t async_base(const struct message *m)
{
	return m->step;
}

static void async_pulled(struct worker *w)
{
	w->async->anchors += (unsigned)expects_anchor(w);
}

/* ---- messages without a gradient ----------------------------------------------- */

int async_ask(struct worker *w)
{
	return upload_ask(w, async_step_begins);
}

static int posted(void *context)
{
	return lanes_post(context);
}

static void describe_park(void *context, char *text, size_t cap)
{
	(void)context;
	snprintf(text, cap,
		 "room in the queues to the shards, to report that this rank is in a collective "
		 "call");
}

int async_park(struct worker *w)
{
	struct async *a = w->async;

	if (!a || a->parked)
		return 0;
	a->parked = 1;
	upload_empty(w, MESSAGE_PARK);
	return progress_until(w->job, posted, describe_park, w->lanes);
}

const struct step_hooks async_hooks = { .used = async_used,
					.open = async_open,
					.close = async_close,
					.restart = async_restart,
					.begin = async_begin,
					.step_begins = async_step_begins,
					.mark = async_mark,
					.pulled = async_pulled };
