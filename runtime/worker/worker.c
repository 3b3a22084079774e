/* SPDX-License-Identifier: BSD-3-Clause
 * The loop of the worker half. A gradient goes down this file (pick, emit, post), and a delta comes
 * back up (notice, READ, validate, apply). The functions never wait: they advance through the
 * schedule's phases as far as they can, and the calls in push.c do the waiting. Two tables have the
 * payload of each phase and the kinds of answer to its messages. Methods add hooks. */
#include "job/peers.h"
#include "job/progress_token.h"
#include "model/compressor.h"
#include "model/model.h"
#include "model/stopwatch.h"
#include "worker/agree.h"
#include "worker/async.h"
#include "worker/dense.h"
#include "worker/compressor_ops.h"
#include "worker/lane.h"
#include "worker/signal.h"
#include "worker/state.h"
#include "worker/target.h"
#include "worker/upload.h"
#include "worker/watch.h"
#include "worker/worker.h"
#include "base/bytes.h"
#include "worker/hooks.h"
#include <float.h>
#include <stdio.h>
#include <string.h>

/* ---- pick ------------------------------------------------------------------ */

/* Picks among these spans (NULL: the whole vector). Returns SLUICE_ENUMERIC if the sum is not
 * finite. */
static int pick_up(sluice_model *model, const struct signal *signal, const struct span *spans,
		   size_t n_spans, struct pick *out)
{
	struct worker *w = model->worker;
	const struct recipe *recipe = &model->recipe;
	const uint64_t of = model->layout.count - model->layout.exempt;
	const double density = model->stats.density_up;
	const int looks = signal->addend || signal->summed;
	const struct pick_call call = { .step = w->step.number,
					.density = density,
					.k = hooks_count(model, density, of),
					.spans = spans,
					.n_spans = n_spans,
					.vector = signal->addend ? NULL : worker_residual(model),
					.grad = signal->addend,
					.scale = signal->scale,
					/* This is possible only if the shard decodes exactly the
					 * picked values. */
					.take = looks && recipe->up.values.type == VALUE_F32 &&
						!recipe->lazy.window };

	*out = compressor_pick(w->compressor, &call);
	if (!looks || pick_finite(out))
		return 0;
	pick_put_back(out); /* infinity minus infinity is not zero */
	const struct vector addend = vector_of(signal->addend, model->layout.count, VALUE_F32, 1);
	return signal_judge_sum(model, signal->addend ? &addend : NULL);
}

/* ---- emit ------------------------------------------------------------------ */

/* Each message is posted as soon as it is made, so that it travels while the next one is made. */
static int send_to_shard(sluice_model *model, uint32_t shard, struct pick pick)
{
	struct worker *w = model->worker;
	struct message m = upload_head(model, shard);

	if (w->step.rule.reset)
		m.values = (struct value_coding){ VALUE_F32, 0, 0, 0 };
	int rc = upload_pick(model, &m, &pick, model->layout.shards[shard].begin);
	if (rc)
		return rc;
	hooks_emitted(model, &model->layout.shards[shard], &pick);
	upload_settle(model, shard, &pick);
	model->stats.pushed_elements += pick.n;
	if (w->step.phase || model->recipe.lazy.window)
		return 0; /* with the token held; otherwise messages are posted when all are made */
	const struct lap lap = stopwatch_begin();
	progress_enter(model->job); /* does not count as a call of the application */
	if (!model->job->failure.code)
		lane_post(model->worker->lanes, shard);
	progress_unlock(model->job);
	stopwatch_end(&model->stopwatch, TIME_PUSH, &lap);
	return 0;
}

/* Returns the part of the spans that lies in one shard. */
static size_t spans_of(const sluice_model *model, const struct shard_layout *at, struct span *spans)
{
	const size_t n = layout_shard_spans(&model->layout, at, spans);

	for (size_t i = 0; i < n; i++) {
		spans[i].begin += at->begin;
		spans[i].end += at->begin;
	}
	return n;
}

int worker_send_shard(sluice_model *model, uint32_t shard)
{
	struct worker *w = model->worker;
	const struct shard_layout *at = &model->layout.shards[shard];
	struct pick pick = pick_all(worker_residual(model), at->span);

	if (model_stands(model, model->lr))
		pick = pick_none(worker_residual(model));
	else if (!w->step.rule.all_up) /* cannot fail, because nothing is added */
		pick_up(model, &(struct signal){ .addend = NULL }, w->spans,
			spans_of(model, at, w->spans), &pick);
	return send_to_shard(model, shard, pick);
}

/* A grid is as wide as the largest magnitude of the whole vector. */
static int find_range(sluice_model *model)
{
	struct worker *w = model->worker;
	const float *residual = worker_residual(model);

	if (model->recipe.up.values.type != VALUE_GRID)
		return 0;
	step_set_range(&w->step, largest_magnitude(residual, model->layout.count));
	if (w->step.range <= FLT_MAX)
		return 0;
	return step_fail(&w->step, first_nonfinite(residual, model->layout.count));
}

/* Selects from the whole vector once, then makes one message for each shard, also if there is
 * nothing to send. */
static int send_selection(sluice_model *model, const struct signal *signal)
{
	struct worker *w = model->worker;
	const struct layout *l = &model->layout;
	const int left_out = (w->step.left_out && !w->step.rule.reset) ||
			     model_stands(model, model->lr);
	struct pick all = pick_none(worker_residual(model));
	size_t from = 0;
	int rc = left_out || w->step.rule.all_up ? 0 : pick_up(model, signal, NULL, 0, &all);

	if (!rc)
		rc = find_range(model);
	if (!rc)
		hooks_picked(model);
	for (uint32_t s = 0; s < l->n_shards && !rc; s++) {
		const uint64_t end = l->shards[s].begin + l->shards[s].span;

		rc = send_to_shard(model, s,
				   w->step.rule.all_up && !left_out ?
					   pick_all(all.vector, l->shards[s].span) :
					   pick_part(&all, end, &from));
	}
	return rc;
}

/* ---- what a phase carries -------------------------------------------------- */

static int apply_delta(sluice_model *model, uint32_t shard, const struct message *m,
		       const struct entries *got);

/* send: makes the messages of an up phase, on the host. apply: applies a decoded message of a down
 * phase; returns 0 or an error. */
static const struct payload_kind {
	int (*send)(sluice_model *model, const struct signal *signal);
	int (*apply)(sluice_model *model, uint32_t shard, const struct message *m,
		     const struct entries *got);
} kinds[PAYLOADS] = {
	[PAYLOAD_PAIRS] = { send_selection, apply_delta },
	[PAYLOAD_VALUES] = { send_selection, apply_delta },
	[PAYLOAD_AGREED] = { agree_send_values, apply_delta },
	[PAYLOAD_INDICES] = { agree_send_indices, agree_apply_support },
	[PAYLOAD_SKETCH] = { agree_send_sketches, NULL },
};

static enum phase_payload payload_now(const sluice_model *model)
{
	return phase_now(model, model->worker->step.phase)->payload;
}

static int fold_here(sluice_model *model, const struct vector *grad, const struct vector *before,
		     struct signal *out)
{
	return signal_fold(model, grad, before, 0, model->layout.count, out);
}

static int emit_here(sluice_model *model, enum phase_payload payload, const struct signal *signal)
{
	return kinds[payload].send(model, signal);
}

const struct compressor_ops host_compressor_ops = { .fold = fold_here, .emit = emit_here };

int worker_send(sluice_model *model, struct signal *signal)
{
	struct worker *w = model->worker;
	const uint64_t elements = model->stats.pushed_elements;
	struct signal folded = { .addend = NULL };
	int rc;

	if (!signal)
		signal = &folded;
	if (!w->step.phase)
		hooks_folded(model, signal);
	lanes_forget(model->worker->lanes);
	rc = w->ops->emit(model, payload_now(model), signal);
	if (!rc && !w->step.phase)
		hooks_sent(model, elements);
	step_encoded(&w->step);
	return rc;
}

/* ---- how a phase closes ---------------------------------------------------- */

static uint64_t wanted_of_step(const sluice_model *model)
{
	return schedule_publications(&model->schedule, model->worker->step.number,
				     model->worker->step.phase);
}

static void expect_of_step(const sluice_model *model, uint32_t shard, struct message_expect *want)
{
	const struct phase *phase = phase_now(model, model->worker->step.phase);
	const struct shard_layout *at = &model->layout.shards[shard];
	uint32_t n;

	want->step = model->worker->step.number;
	want->phase = model->worker->step.phase;
	if (phase->payload == PAYLOAD_INDICES) {
		want->kind = MESSAGE_SUPPORT;
		want->count_max = at->support_capacity;
	} else if (phase->payload == PAYLOAD_AGREED) {
		agree_support(model, shard, &n);
		want->agreed = 1;
		want->count_max = n;
	}
}

static const char *judge_of_step(const sluice_model *model, uint32_t shard, const struct message *m)
{
	return m->have_version != lane_have(model->worker->lanes, shard) ?
		       "it applies to another version than this worker holds" :
		       NULL;
}

/* Adds a delta (the entries) to the target, and passes it to the methods. */
static int apply_of_step(sluice_model *model, uint32_t shard, const struct message *m,
			 const struct entries *got)
{
	const struct shard_layout *at = &model->layout.shards[shard];
	uint32_t agreed;
	const uint32_t *index = m->coding == CODING_DENSE  ? NULL :
				m->coding == CODING_AGREED ? agree_support(model, shard, &agreed) :
							     got->index;

	if (m->coding == CODING_AGREED && target_lands(model)) /* the device reads it, too */
		index = memcpy(got->index, index, m->count * sizeof(*index));
	const int rc = target_add(model, at->begin, index, got->value, m->count);
	return rc ? rc : hooks_applied(model, shard, index, got, m);
}

/* Publications within a step are counted separately from steps. */
static uint64_t base_of_step(const struct message *m)
{
	return m->seq;
}

/* wanted: the publication that a down phase waits for. expect: the conditions for its header.
 * judge: returns NULL, or why a publication that is valid by itself may not come now. apply:
 * changes the target. base: the version that the next push names as the basis of its gradient */
static const struct closing {
	uint64_t (*wanted)(const sluice_model *model);
	void (*expect)(const sluice_model *model, uint32_t shard, struct message_expect *want);
	const char *(*judge)(const sluice_model *model, uint32_t shard, const struct message *m);
	int (*apply)(sluice_model *model, uint32_t shard, const struct message *m,
		     const struct entries *got);
	uint64_t (*base)(const struct message *m);
} closings[CLOSINGS] = {
	[CLOSE_ALL_LIVING] = { wanted_of_step, expect_of_step, judge_of_step, apply_of_step,
			       base_of_step },
	[CLOSE_ANY] = { async_awaited, async_expect, async_judge, async_apply, async_base },
};

static const struct closing *closing_of(const sluice_model *model)
{
	return &closings[model->schedule.phases[0].close];
}

/* ---- pull ------------------------------------------------------------------ */

uint64_t worker_wanted(const sluice_model *model)
{
	return closing_of(model)->wanted(model);
}

/* Returns the conditions that a publication of the phase under way must meet. */
static struct message_expect expect(const sluice_model *model, uint32_t shard)
{
	const struct shard_layout *at = &model->layout.shards[shard];
	struct message_expect want = { .kind = MESSAGE_DELTA,
				       .rank = (uint64_t)home_rank(model->home, shard),
				       .epoch = model_epoch(model->job),
				       .model = model->id,
				       .shard = shard,
				       .seq = worker_wanted(model),
				       .span = at->span,
				       .count_max = at->room };

	closing_of(model)->expect(model, shard, &want);
	return want;
}

/* Returns NULL, or why a message that is valid by itself may not come now. */
static const char *welcome(const sluice_model *model, uint32_t shard, const struct message *m)
{
	const char *why = closing_of(model)->judge(model, shard, m);

	if (!why && m->chosen > rulebook_choices(&model->recipe))
		why = "it chooses what there is not";
	return why;
}

/* Completes the handling of this publication. */
static void publication_ends(sluice_model *model, uint32_t shard, const struct message *m)
{
	lane_took(model->worker->lanes, shard, worker_wanted(model), closing_of(model)->base(m));
	if (!shard) /* all workers adopt the choice of the same shard */
		watch_chosen(model, m->chosen);
	step_shard_ends(&model->worker->step, m->raised);
}

static void count_delta(sluice_model *model, uint32_t shard, const struct message *m)
{
	model->stats.pulled_elements += m->count;
	model_count_dense(&model->stats, model->layout.shards[shard].span,
			  home_is_here(model->home, shard));
}

static int apply_delta(sluice_model *model, uint32_t shard, const struct message *m,
		       const struct entries *got)
{
	int rc = closing_of(model)->apply(model, shard, m, got);

	if (!rc)
		count_delta(model, shard, m);
	return rc;
}

/* Validates the private copy that a READ has fetched, then applies it. */
static void take_delta(sluice_model *model, uint32_t shard, struct message *m, uint8_t *copy)
{
	sluice_job *job = model->job;
	struct entries to = { NULL, NULL };
	const struct message_expect want = expect(model, shard);
	const size_t note = message_bytes(m);
	const char *why = welcome(model, shard, m);
	int rc = 0;

	m->stream.seed = model->recipe.seed;
	if (!why && !message_check(m, &want, &why))
		rc = target_entries(model, m->count, &to);
	if (rc) {
		job_fail(job, rc, job->rank, "%s", sluice_last_error());
		return;
	}
	if (why || message_decode(m, copy, to.index, to.value, &why) ||
	    hooks_note(model, shard, copy + note,
		       lane_last_bytes(model->worker->lanes, shard) - note, &why)) {
		lane_refuse(model->worker->lanes, shard, why);
		return;
	}
	rc = kinds[payload_now(model)].apply(model, shard, m, &to);
	if (rc) {
		job_fail(job, rc, job->rank, "%s", sluice_last_error());
		return;
	}
	publication_ends(model, shard, m);
}

/* Returns 1 if one of the fast paths of dense.c has added the publication, or has failed. */
static int added_whole(sluice_model *model, uint32_t shard,
		       int (*add)(sluice_model *model, uint32_t shard,
				  const struct dense_expect *expect, struct message *m))
{
	const struct dense_expect expected = { expect(model, shard), welcome };
	struct message m;

	if (!add(model, shard, &expected, &m))
		return 0;
	if (!model->job->failure.code) {
		count_delta(model, shard, &m);
		publication_ends(model, shard, &m);
	}
	return 1;
}

/* Adds an announced publication directly from the owner's log, or starts to READ it. */
static void fetch_delta(sluice_model *model, uint32_t shard)
{
	const struct lap lap = stopwatch_begin();

	if (added_whole(model, shard, dense_pull)) {
		stopwatch_end(&model->stopwatch, TIME_APPLY, &lap);
		return;
	}
	lane_read(model->worker->lanes, shard);
	stopwatch_end(&model->stopwatch, TIME_PULL, &lap);
}

/* Returns 1 when the version of this step is applied for every shard. */
static int take_deltas(sluice_model *model)
{
	struct worker *w = model->worker;
	const uint64_t publication = worker_wanted(model);

	if (!model->worker->step.asked)
		return 0; /* the application has not called pull yet */
	for (uint32_t s = 0; s < model->layout.n_shards && !model->job->failure.code; s++) {
		struct message m;
		uint8_t *copy;

		if (lane_announced(model->worker->lanes, s, publication))
			fetch_delta(model, s);
		if (lane_arrived(model->worker->lanes, s)) {
			const struct lap lap = stopwatch_begin();

			if (!added_whole(model, s, dense_pull_read) &&
			    lane_take(model->worker->lanes, s, &m, &copy))
				take_delta(model, s, &m, copy);
			stopwatch_end(&model->stopwatch, TIME_APPLY, &lap);
		}
	}
	return w->step.shards_done == model->layout.n_shards;
}

/* ---- the loop -------------------------------------------------------------- */

int worker_advance(sluice_model *model, unsigned until)
{
	struct worker *w = model->worker;

	while (w->step.phase < until) {
		const int up = phase_now(model, w->step.phase)->direction == PHASE_UP;

		if (up && !w->step.encoded && worker_send(model, NULL))
			signal_overflowed(model, 1);
		if (!(up ? worker_staged(model) && lanes_post(model->worker->lanes) :
			   take_deltas(model)))
			return 0;
		step_phase_ends(&w->step);
	}
	return 1;
}

void worker_describe(void *context, char *text, size_t cap)
{
	sluice_model *model = context;
	struct worker *w = model->worker;
	uint32_t waiting = 0, first = 0;
	uint64_t wanted = worker_wanted(model);
	if (worker_busy(model, text, cap))
		return;
	int down = w->step.phase < model->schedule.n_phases &&
		   phase_now(model, w->step.phase)->direction == PHASE_DOWN;
	for (uint32_t s = 0; s < model->layout.n_shards; s++) {
		int missing = down ? lane_have(model->worker->lanes, s) < wanted :
				     !lane_posted(model->worker->lanes, s);
		if (missing && !waiting++)
			first = s;
	}
	snprintf(text, cap, "step %llu: %s shard %u of %s%s", (unsigned long long)w->step.number,
		 down ? "the new version of" : "a free slot at", first,
		 rank_text(model->job, home_rank(model->home, first)),
		 waiting > 1 ? " and of others" : "");
}
