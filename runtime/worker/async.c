/* SPDX-License-Identifier: BSD-3-Clause
 * The worker half of asynchronous steps; see shard_async.h. What a worker says beside gradients: it
 * asks for the newest, and parks before collectives. Called by step.c and events.c. */
#include "worker/worker.h"
#include "compress/message.h"
#include <stdio.h>

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
	w->awaited = w->up[0].ring.next_seq;
	w->parked = 0;
	w->phase = 0;
	w->shards_done = 0;
	stage_empty(model, MESSAGE_ASK);
	w->encoded = 1;
	return 0;
}

static int posted(void *context)
{
	return worker_post(context);
}

static void describe(void *context, char *text, size_t cap)
{
	(void)context;
	snprintf(text, cap,
		 "room in the queues of the shards, to say that this rank enters a collective");
}

int async_park(sluice_model *model)
{
	if (!model_async(model) || model->worker->parked)
		return 0;
	model->worker->parked = 1;
	stage_empty(model, MESSAGE_PARK);
	return progress_until(model->job, posted, describe, model);
}
