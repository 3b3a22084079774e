/* SPDX-License-Identifier: BSD-3-Clause
 * Whether an innovation is uploaded (when=lazy): all messages of a push are encoded, and none is
 * posted. Called by worker.c. */
#include "worker/worker.h"
#include <string.h>

/* The message becomes one without coordinates, which says that there is nothing new. */
static void withdraw(sluice_model *model)
{
	struct worker *w = model->worker;
	w->uploading = 0;
	for (uint32_t s = 0; s < model->layout.n_shards; s++) {
		struct message m = worker_message(model, s);
		m.count = 0;
		worker_stage(model, s, &m, w->relative, w->value);
	}
}

/* What the shards will add, this worker adds: its own messages, decoded as theirs. */
static void follow(sluice_model *model)
{
	struct worker *w = model->worker;
	for (uint32_t s = 0; s < model->layout.n_shards; s++) {
		const struct shard_layout *at = &model->layout.shards[s];
		uint8_t *slot = w->up[s].staging +
				ring_offset(at->slot_depth, at->slot_bytes, w->up[s].ring.next_seq);
		struct message m;
		const char *why;
		if (message_copy(slot, at->slot_bytes, slot, at->slot_bytes, &m, &why) ||
		    message_decode(&m, slot, w->relative, w->value, &why))
			continue; /* cannot be: this worker wrote it */
		sparse_add(w->reference + at->begin, m.coding == CODING_DENSE ? NULL : w->relative,
			   w->value, m.count);
	}
}

/* 1: this push is left out. */
static int leaves_out(sluice_model *model)
{
	struct worker *w = model->worker;
	if (w->skip)
		return 1;
	return model->recipe.when == WHEN_LAZY &&
	       lazy_skips(&w->lazy, model->lr, w->innovation, w->innovation_error);
}

static void decide(sluice_model *model, uint64_t elements)
{
	struct worker *w = model->worker;
	int unseen = model->recipe.when == WHEN_LAZY_SERVER;
	if (leaves_out(model)) {
		if (!unseen)
			withdraw(model);
		lazy_skipped(&w->lazy);
		model->stats.skipped_pushes++;
		model->stats.pushed_elements = elements;
		return;
	}
	if (!unseen)
		follow(model);
	else
		memset(w->since, 0, model->layout.count * sizeof *w->since);
	lazy_uploaded(&w->lazy, w->innovation_error);
}

void innovation_decide(sluice_model *model, uint64_t elements)
{
	struct worker *w = model->worker;
	if (!w->reference)
		return;
	if (w->lazy.window)
		decide(model, elements);
	w->uploads = w->refresh ? 1 : w->uploads + (uint32_t)w->uploading;
	w->refresh = 0;
}
