/* SPDX-License-Identifier: BSD-3-Clause
 * The worker half: a gradient goes down this file (select, encode, post), a delta comes back up it
 * (notice, READ, validate, add). Non-blocking step functions over the schedule's phases; the calls
 * in step.c wait for them. Knows shards only by their messages. */
#include "worker/worker.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include <float.h>

/* ---- push ------------------------------------------------------------------ */

/* Encoded and posted at once, so that it is on its way while the next one is encoded. */
static int send_to_shard(sluice_model *model, uint32_t shard, const uint32_t *selected, uint32_t n)
{
	int rc = worker_encode(model, shard, selected, n);
	if (rc || model->worker->phase || model->recipe.lazy_window)
		return rc; /* token held, or it may be left out: what is encoded is posted when all
			      is */
	uint64_t start = now_ns();
	progress_enter(model->job); /* not a call of the application: it is not counted */
	if (!model->job->failure.code)
		lane_post(model, shard);
	progress_unlock(model->job);
	model->stats.push_ns += now_ns() - start;
	return 0;
}

int worker_send_shard(sluice_model *model, uint32_t shard)
{
	struct worker *w = model->worker;
	const struct shard_layout *at = &model->layout.shards[shard];
	size_t n = at->span;
	w->valued = w->taken = 0;
	int sparse = w->index && !w->rule.all_up;
	if (sparse) {
		size_t n_spans = layout_shard_spans(&model->layout, at, w->spans);
		for (size_t i = 0; i < n_spans; i++) {
			w->spans[i].begin += at->begin;
			w->spans[i].end += at->begin;
		}
		worker_select_from(model, w->spans, n_spans,
				   &n); /* it adds nothing: it cannot fail */
	}
	return send_to_shard(model, shard, sparse ? w->index : NULL, (uint32_t)n);
}

/* One decision over the whole vector, then one message per shard; "nothing to send" is one too. */
static int send_messages(sluice_model *model)
{
	struct worker *w = model->worker;
	const struct layout *l = &model->layout;
	size_t n = 0, from = 0;
	int sparse = w->index && !w->rule.all_up;
	int left_out = w->skip && !w->rule.reset;
	int rc = sparse && !w->skip && !on_device_selects(model) ?
			 worker_select_from(model, l->spans, l->n_spans, &n) :
			 0;
	if (rc)
		return rc;
	if (model->recipe.up.values.type == VALUE_GRID && !on_device_selects(model)) {
		w->range = largest_magnitude(w->residual, l->count);
		if (!(w->range <= FLT_MAX)) {
			w->overflowed = first_nonfinite(w->residual, l->count);
			return SLUICE_ENUMERIC;
		}
	}
	census_look(model);
	if (on_device_selects(model))
		return on_device_emit(model);
	for (uint32_t s = 0; s < l->n_shards && !rc; s++) {
		uint64_t end = l->shards[s].begin + l->shards[s].span;
		size_t to = from;
		while (to < n && w->index[to] < end)
			to++;
		uint32_t here = sparse || left_out ? (uint32_t)(to - from) : l->shards[s].span;
		rc = send_to_shard(model, s, sparse ? w->index + from : NULL, here);
		from = to;
	}
	return rc;
}

int worker_send(sluice_model *model)
{
	const uint64_t elements = model->stats.pushed_elements;
	model->worker->valued = model->worker->taken = 0;
	lazy_begin(model, model->worker->skip);
	int rc = phase_agrees(phase_now(model, model->worker->phase)) ? agree_encode(model) :
									send_messages(model);
	if (!rc)
		lazy_decide(model, elements);
	model->worker->encoded = 1;
	return rc;
}

/* ---- pull ------------------------------------------------------------------ */

/* The publication that answers the phase under way. */
uint64_t worker_wanted(const sluice_model *model)
{
	if (model_async(model))
		return async_awaited(model->worker->async);
	return schedule_publications(&model->schedule, model->worker->step, model->worker->phase);
}

struct message_expect worker_expect(const sluice_model *model, uint32_t shard)
{
	const struct shard_layout *at = &model->layout.shards[shard];
	const struct phase *phase = phase_now(model, model->worker->phase);
	struct message_expect want = {
		.kind = phase->payload == PAYLOAD_INDICES ? MESSAGE_SUPPORT : MESSAGE_DELTA,
		.rank = (uint64_t)at->owner,
		.epoch = model_epoch(model),
		.model = model->id,
		.shard = shard,
		.seq = worker_wanted(model),
		.step = model->worker->step,
		.phase = model->worker->phase,
		.span = at->span,
		.count_max = phase->payload == PAYLOAD_INDICES ? at->support_capacity : at->room
	};
	if (phase->support == SUPPORT_AGREED) {
		uint32_t n;
		agree_support(model, shard, &n);
		want.agreed = 1;
		want.count_max = n;
	}
	if (model_async(model))
		async_expect(model, &want);
	return want;
}

int worker_welcomes(const sluice_model *model, uint32_t shard, const struct message *m,
		    const char **why)
{
	const char *judged = model_async(model) ? async_judge(model, m) : NULL;
	if (m->have_version != lane_have(model, shard) && !model_async(model))
		judged = "it applies to another version than this worker holds";
	else if (!judged && m->chosen > (model->recipe.automatic ? WORTH_CANDIDATES : 0))
		judged = "it chooses what there is not";
	if (judged)
		*why = judged;
	return !judged;
}

/* It is in the target. */
static void count_delta(sluice_model *model, const struct shard_layout *at, const struct message *m)
{
	model->stats.pulled_elements += m->count;
	model_count_dense(model, at);
}

/* Nothing is left to do of this publication. */
static void publication_ends(sluice_model *model, uint32_t shard, const struct message *m,
			     uint64_t publication)
{
	struct worker *w = model->worker;
	lane_took(model, shard, publication);
	w->raised |= m->raised;
	if (!shard) /* all workers follow one shard */
		watch_chosen(model, m->chosen);
	w->shards_done++;
}

void worker_took_delta(sluice_model *model, uint32_t shard, const struct message *m,
		       uint64_t publication)
{
	count_delta(model, &model->layout.shards[shard], m);
	publication_ends(model, shard, m, publication);
}

/* The private copy that a READ brought is validated, then added. */
static void apply_delta(sluice_model *model, uint32_t shard, struct message *m, uint8_t *copy)
{
	struct worker *w = model->worker;
	sluice_job *job = model->job;
	const struct shard_layout *at = &model->layout.shards[shard];
	const struct message_expect want = worker_expect(model, shard);
	const size_t note = message_bytes(m);
	const char *why = "";
	uint32_t agreed;
	m->stream.seed = model->recipe.seed;
	if (!worker_welcomes(model, shard, m, &why) || message_check(m, &want, &why) ||
	    message_decode(m, copy, w->relative, w->value, &why) ||
	    census_take_delta(model, shard, copy + note, lane_last_bytes(model, shard) - note,
			      &why)) {
		job_fail(job, SLUICE_EWIRE, at->owner,
			 "version %llu of shard %u from %s was refused: %s",
			 (unsigned long long)w->step, shard, rank_text(job, at->owner), why);
		return;
	}
	const uint32_t *index = m->coding == CODING_DENSE  ? NULL :
				m->coding == CODING_AGREED ? agree_support(model, shard, &agreed) :
							     w->relative;
	if (m->kind == MESSAGE_SUPPORT) {
		agree_apply_support(model, shard, m);
	} else if (model_async(model)) {
		async_apply(model, shard, m);
		count_delta(model, at, m);
	} else {
		int rc = on_device_apply(model, w->target + at->begin, index, w->value, m->count);
		lazy_apply(model, shard, index, w->value, m->count, m->anchor != 0);
		if (!rc)
			rc = agree_clear_published(model, at, index, w->value, m->count);
		if (rc) {
			job_fail(job, rc, job->rank, "%s", sluice_last_error());
			return;
		}
		count_delta(model, at, m);
	}
	publication_ends(model, shard, m, want.seq);
}

/* Returns 1 when the version of this step is applied for every shard. */
static int take_deltas(sluice_model *model)
{
	struct worker *w = model->worker;
	const uint64_t publication = worker_wanted(model);
	if (!w->target)
		return 0; /* the application has not asked yet */
	for (uint32_t s = 0; s < model->layout.n_shards && !model->job->failure.code; s++) {
		struct message m;
		uint8_t *copy;
		if (lane_announced(model, s, publication)) {
			uint64_t start = now_ns();
			if (dense_pull(model, s)) {
				model->stats.apply_ns += now_ns() - start;
				continue;
			}
			lane_read(model, s);
			model->stats.pull_ns += now_ns() - start;
		}
		if (lane_arrived(model, s)) {
			uint64_t start = now_ns();
			if (lane_take(model, s, &m, &copy))
				apply_delta(model, s, &m, copy);
			model->stats.apply_ns += now_ns() - start;
		}
	}
	return w->shards_done == model->layout.n_shards;
}

/* ---- both ------------------------------------------------------------------ */

int worker_advance(sluice_model *model, unsigned until)
{
	struct worker *w = model->worker;
	while (w->phase < until) {
		int up = phase_now(model, w->phase)->direction == PHASE_UP;
		if (up && !w->encoded && worker_send(model))
			signal_overflowed(model, 1);
		if (!(up ? on_device_valued(model) && lanes_post(model) : take_deltas(model)))
			return 0;
		w->phase++;
		w->encoded = 0;
		w->shards_done = 0;
	}
	return 1;
}
