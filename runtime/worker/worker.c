/* SPDX-License-Identifier: BSD-3-Clause
 * The loop of the worker half. The first functions in this file send a gradient (pick, emit, post),
 * and the later ones receive a delta (notice, READ, validate, apply). They never wait: they advance
 * through the schedule's phases as far as they can, and the calls in push.c wait. Two tables have
 * the payload of each phase and the kinds of answer to its messages. Methods add hooks. */
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
#include "worker/nonfinite.h"
#include "worker/quorum.h"
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
static int pick_up(struct worker *w, const struct signal *signal, const struct span *spans,
		   size_t n_spans, struct pick *out)
{
	const struct recipe *recipe = w->rules.recipe;
	const struct fragment fragment = worker_fragment(w);
	const uint64_t of = fragment.count - fragment.exempt;
	const double density = w->model.stats->density_up;
	const int looks = signal->addend || signal->summed;
	const struct pick_call call = { .step = w->step.number,
					.density = density,
					.k = hooks_count(w, density, of),
					.spans = spans,
					.n_spans = n_spans,
					.vector = signal->addend ? NULL : worker_residual(w),
					.grad = signal->addend,
					.scale = signal->scale,
					/* Values can be taken out of the vector only if the shard
					 * decodes exactly the picked values. */
					.take = looks && w->step.rule.values_up.type == VALUE_F32 &&
						!recipe->lazy.window };

	*out = compressor_pick(w->compressor, &call);
	if (!looks || pick_finite(out))
		return 0;
	pick_put_back(out); /* puts the values back first, because subtracting infinity from
			       itself would not give 0 */
	const struct vector addend = vector_of(signal->addend, w->layout->count, VALUE_F32, 1);
	return signal_judge_sum(w, signal->addend ? &addend : NULL);
}

/* ---- emit ------------------------------------------------------------------ */

/* more: as in upload_post() */
static int send_to_shard(struct worker *w, uint32_t shard, struct pick pick, int more)
{
	struct message m = upload_head(w, shard);
	int rc = upload_pick(w, &m, &pick, w->layout->shards[shard].begin);
	if (rc)
		return rc;
	hooks_emitted(w, &w->layout->shards[shard], &pick);
	upload_settle(w, shard, &pick);
	w->model.stats->pushed_elements += pick.n;
	if (w->step.phase || w->rules.recipe->lazy.window)
		return 0; /* the caller holds the token, and posts when all messages are made */
	upload_post(w, shard, more);
	return 0;
}

int worker_send_shard(struct worker *w, uint32_t shard)
{
	const struct shard_layout *at = &w->layout->shards[shard];
	struct pick pick = pick_all(worker_residual(w), at->span);

	if (worker_stands(w))
		pick = pick_none(worker_residual(w));
	else if (!w->step.rule.all_up) /* cannot fail, because the selection adds no gradient
					  here */
		pick_up(w, &(struct signal){ .addend = NULL }, w->spans,
			layout_spans(w->layout, at->begin, at->begin + at->span, w->spans), &pick);
	return send_to_shard(w, shard, pick, 0);
}

/* Finds the largest magnitude of the exchange, which a grid must cover. */
static int find_range(struct worker *w)
{
	const struct fragment fragment = worker_fragment(w);
	const float *residual = worker_residual(w) + fragment.begin;

	if (w->rules.recipe->up.values.type != VALUE_GRID)
		return 0;
	step_set_range(&w->step, largest_magnitude(residual, fragment.count));
	if (w->step.range <= FLT_MAX)
		return 0;
	return step_fail(&w->step, fragment.begin + first_nonfinite(residual, fragment.count));
}

/* Sets the norm of this worker's exchange. With clip=median, each shard compares it with the norms
 * of the other workers. sent: the coordinates of the exchange; NULL if everything is sent. */
static void find_norm(struct worker *w, const struct pick *sent)
{
	if (!w->rules.recipe->clip.median)
		return;
	const struct fragment fragment = worker_fragment(w);

	step_set_norm(&w->step,
		      sent ? pick_norm(sent) :
			     values_norm(worker_residual(w) + fragment.begin, fragment.count));
	/* A grid has no point at 0. If all values to send are 0, a range of 0 decodes them as 0;
	 * shards refuse other values in a message of norm 0. */
	if (w->step.norm <= 0)
		step_set_range(&w->step, 0);
}

/* Selects from all coordinates of this exchange. */
static int pick_exchange(struct worker *w, const struct signal *signal,
			 const struct fragment *fragment, struct pick *out)
{
	const size_t n = w->layout->n_fragments > 1 ?
				 layout_spans(w->layout, fragment->begin,
					      fragment->begin + fragment->count, w->spans) :
				 0;

	return pick_up(w, signal, n ? w->spans : NULL, n, out);
}

/* Selects once, then makes one message for each shard of the exchange, even if there is nothing to
 * send. */
static int send_selection(struct worker *w, const struct signal *signal)
{
	const struct layout *l = w->layout;
	const struct fragment fragment = worker_fragment(w);
	const int left_out = (w->step.left_out && !w->step.rule.reset) || worker_stands(w);
	struct pick all = pick_none(worker_residual(w));
	size_t from = 0;
	int rc = left_out || w->step.rule.all_up ? 0 : pick_exchange(w, signal, &fragment, &all);

	pick_part(&all, fragment.begin, &from); /* seeded selectors have picked in all shards */
	size_t first = from;
	const struct pick here = pick_part(&all, fragment.begin + fragment.count, &first);

	if (!rc)
		rc = find_range(w);
	if (!rc)
		find_norm(w, w->step.rule.all_up && !left_out ? NULL : &here);
	if (!rc)
		hooks_picked(w);
	for (uint32_t s = fragment.first; s < fragment.end && !rc; s++) {
		const uint64_t end = l->shards[s].begin + l->shards[s].span;

		rc = send_to_shard(w, s,
				   w->step.rule.all_up && !left_out ?
					   pick_all(all.vector, l->shards[s].span) :
					   pick_part(&all, end, &from),
				   1);
	}
	return rc;
}

/* ---- the payload of a phase ------------------------------------------------ */

static int apply_delta(struct worker *w, uint32_t shard, const struct message *m,
		       const struct entries *got);

/* send: makes the messages of an up phase on the host. apply: applies a decoded message of a down
 * phase, and returns 0 or an error. */
static const struct payload_kind {
	int (*send)(struct worker *w, const struct signal *signal);
	int (*apply)(struct worker *w, uint32_t shard, const struct message *m,
		     const struct entries *got);
} kinds[PAYLOADS] = {
	[PAYLOAD_PAIRS] = { send_selection, apply_delta },
	[PAYLOAD_VALUES] = { send_selection, apply_delta },
	[PAYLOAD_AGREED] = { agree_send_values, apply_delta },
	[PAYLOAD_INDICES] = { agree_send_indices, agree_apply_support },
	[PAYLOAD_SKETCH] = { agree_send_sketches, NULL },
};

static enum phase_payload payload_now(const struct worker *w)
{
	return schedule_phase(w->rules.schedule, w->step.phase)->payload;
}

static int fold_here(struct worker *w, const struct vector *grad, const struct vector *before,
		     struct signal *out)
{
	const struct fragment fragment = worker_fragment(w);

	return signal_fold(w, grad, before, fragment.begin, fragment.count, out);
}

static int emit_here(struct worker *w, enum phase_payload payload, const struct signal *signal)
{
	return kinds[payload].send(w, signal);
}

const struct compressor_ops host_compressor_ops = { .fold = fold_here, .emit = emit_here };

int worker_send(struct worker *w, struct signal *signal)
{
	const uint64_t elements = w->model.stats->pushed_elements;
	struct signal folded = { .addend = NULL };
	int rc;

	if (!signal)
		signal = &folded;
	if (!w->step.phase)
		hooks_folded(w, signal);
	lanes_forget(w->lanes);
	rc = w->ops->emit(w, payload_now(w), signal);
	if (!rc && !w->step.phase)
		hooks_sent(w, elements);
	step_encoded(&w->step);
	return rc;
}

/* ---- the closing of a phase -------------------------------------------------- */

static uint64_t wanted_of_step(const struct worker *w, uint32_t shard)
{
	(void)shard;
	return schedule_publications(w->rules.schedule, w->step.number, w->step.phase);
}

static void expect_of_step(const struct worker *w, uint32_t shard, struct message_expect *want)
{
	const struct phase *phase = schedule_phase(w->rules.schedule, w->step.phase);
	const struct shard_layout *at = &w->layout->shards[shard];
	uint32_t n;

	want->step = w->step.number;
	want->phase = w->step.phase;
	if (phase->payload == PAYLOAD_INDICES) {
		want->kind = MESSAGE_SUPPORT;
		want->count_max = at->support_capacity;
	} else if (phase->payload == PAYLOAD_AGREED) {
		agree_support(w->agreed, shard, &n);
		want->agreed = 1;
		want->count_max = n;
	}
}

static const char *judge_of_step(const struct worker *w, uint32_t shard, const struct message *m)
{
	return m->have_version != lane_have(w->lanes, shard) ?
		       "it applies to another version than this worker holds" :
		       NULL;
}

/* Adds a delta, which is in the compressor's entries, to the target, and passes it to the
 * methods. */
static int apply_of_step(struct worker *w, uint32_t shard, const struct message *m,
			 const struct entries *got)
{
	const struct shard_layout *at = &w->layout->shards[shard];
	uint32_t agreed;
	const uint32_t *index = m->coding == CODING_DENSE ?
					NULL :
				m->coding == CODING_AGREED ?
					agree_support(w->agreed, shard, &agreed) :
					got->index;

	if (m->coding == CODING_AGREED && target_lands(w)) /* the device also reads these
							      coordinates */
		index = memcpy(got->index, index, m->count * sizeof(*index));
	const int rc = target_add(w, at->begin, index, got->value, m->count);
	return rc ? rc : hooks_applied(w, shard, index, got, m);
}

/* Returns the number of the publication and not of the step, because a step may have several
 * publications. */
static uint64_t base_of_step(const struct message *m)
{
	return m->seq;
}

/* wanted: the publication for which a down phase waits. expect: the conditions for its header.
 * judge: returns NULL, or the reason why a publication that is valid by itself is not expected now.
 * apply: changes the target. base: the version that the next push names as the basis of its
 * gradient */
static const struct closing {
	uint64_t (*wanted)(const struct worker *w, uint32_t shard);
	void (*expect)(const struct worker *w, uint32_t shard, struct message_expect *want);
	const char *(*judge)(const struct worker *w, uint32_t shard, const struct message *m);
	int (*apply)(struct worker *w, uint32_t shard, const struct message *m,
		     const struct entries *got);
	uint64_t (*base)(const struct message *m);
} closings[CLOSINGS] = {
	[CLOSE_ALL_LIVING] = { wanted_of_step, expect_of_step, judge_of_step, apply_of_step,
			       base_of_step },
	[CLOSE_ANY] = { async_awaited, async_expect, async_judge, async_apply, async_base },
	[CLOSE_QUORUM] = { quorum_wanted, quorum_expect, judge_of_step, apply_of_step,
			   base_of_step },
};

static const struct closing *closing_of(const struct worker *w)
{
	return &closings[w->rules.schedule->phases[0].close];
}

/* ---- pull ------------------------------------------------------------------ */

uint64_t worker_wanted(const struct worker *w, uint32_t shard)
{
	return closing_of(w)->wanted(w, shard);
}

/* Returns the conditions that a publication of the current phase must meet. */
static struct message_expect expect(const struct worker *w, uint32_t shard)
{
	const struct shard_layout *at = &w->layout->shards[shard];
	struct message_expect want = { .kind = MESSAGE_DELTA,
				       .rank = (uint64_t)home_rank(w->model.home, shard),
				       .epoch = model_epoch(w->job),
				       .model = w->model.id,
				       .shard = shard,
				       .seq = worker_wanted(w, shard),
				       .span = at->span,
				       .count_max = at->room };

	closing_of(w)->expect(w, shard, &want);
	return want;
}

/* Returns NULL, or the reason why a message that is valid by itself is not expected now. */
static const char *welcome(const struct worker *w, uint32_t shard, const struct message *m)
{
	const char *why = closing_of(w)->judge(w, shard, m);

	if (!why && m->chosen > rulebook_choices(w->rules.recipe))
		why = "its choice is not one that this recipe offers";
	return why;
}

/* Ends the handling of this publication. */
static void publication_ends(struct worker *w, uint32_t shard, const struct message *m)
{
	lane_took(w->lanes, shard, worker_wanted(w, shard), closing_of(w)->base(m));
	if (!shard) /* all workers adopt shard 0's choice; a recipe with fragments has no choices */
		watch_chosen(w, m->chosen);
	step_shard_ends(&w->step, m->raised);
}

static void count_delta(struct worker *w, uint32_t shard, const struct message *m)
{
	w->model.stats->pulled_elements += m->count;
	model_count_dense(w->model.stats, w->layout->shards[shard].span,
			  home_is_here(w->model.home, shard));
}

static int apply_delta(struct worker *w, uint32_t shard, const struct message *m,
		       const struct entries *got)
{
	int rc = closing_of(w)->apply(w, shard, m, got);

	if (!rc)
		count_delta(w, shard, m);
	return rc;
}

/* Validates the private copy that a READ has fetched, then applies it. */
static void take_delta(struct worker *w, uint32_t shard, struct message *m, uint8_t *copy)
{
	sluice_job *job = w->job;
	struct entries to = { NULL, NULL };
	const struct message_expect want = expect(w, shard);
	const size_t note = message_bytes(m);
	const char *why = welcome(w, shard, m);
	int rc = 0;

	m->stream.seed = w->rules.recipe->seed;
	if (!why && !message_check(m, &want, &why))
		rc = target_entries(w, m->count, &to);
	if (rc) {
		job_fail(job, rc, job->rank, "%s", sluice_last_error());
		return;
	}
	if (why || message_decode(scratch_team(w->scratch), m, copy, to.index, to.value, &why) ||
	    hooks_note(w, shard, copy + note, lane_last_bytes(w->lanes, shard) - note, &why)) {
		lane_refuse(w->lanes, shard, why);
		return;
	}
	rc = kinds[payload_now(w)].apply(w, shard, m, &to);
	if (rc) {
		job_fail(job, rc, job->rank, "%s", sluice_last_error());
		return;
	}
	publication_ends(w, shard, m);
}

/* Returns 1 if one of the fast paths of dense.c has added the publication, or has failed. */
static int added_whole(struct worker *w, uint32_t shard,
		       int (*add)(struct worker *w, uint32_t shard,
				  const struct dense_expect *expect, struct message *m))
{
	const struct dense_expect expected = { expect(w, shard), welcome };
	struct message m;

	if (!add(w, shard, &expected, &m))
		return 0;
	if (!w->job->failure.code) {
		count_delta(w, shard, &m);
		publication_ends(w, shard, &m);
	}
	return 1;
}

/* Adds an announced publication directly from the owner's log, or copies it from there. */
static void fetch_delta(struct worker *w, uint32_t shard)
{
	const struct lap lap = stopwatch_begin();

	if (added_whole(w, shard, dense_pull)) {
		stopwatch_end(w->model.stopwatch, TIME_APPLY, &lap);
		return;
	}
	lane_read(w->lanes, shard);
	stopwatch_end(w->model.stopwatch, TIME_PULL, &lap);
}

/* Takes the publications of the shards up to the version that counts this worker's push. Returns 1
 * when all of them are applied. */
static int take_missed(struct worker *w)
{
	for (uint32_t s = 0; s < w->layout->n_shards && !w->job->failure.code; s++) {
		struct message m;
		uint8_t *copy;

		quorum_read(w, s);
		if (!lane_arrived(w->lanes, s))
			continue;
		const struct lap lap = stopwatch_begin();
		if (!lane_take(w->lanes, s, &m, &copy))
			quorum_torn(w, s);
		else if (!quorum_took(w, s, &m, copy))
			take_delta(w, s, &m, copy);
		stopwatch_end(w->model.stopwatch, TIME_APPLY, &lap);
	}
	return quorum_pulled(w);
}

/* Returns 1 when the version of this step is applied for every shard. */
static int take_deltas(struct worker *w)
{
	const struct fragment fragment = worker_fragment(w);
	const uint64_t publication = worker_wanted(w, fragment.first);

	if (!w->step.asked && !w->step.behind)
		return 0; /* the application has not called pull yet */
	if (w->quorum)
		return take_missed(w);
	/* Reads the next publications while the program adds those that have arrived. */
	if (!lanes_read(w->lanes, publication))
		return w->step.shards_done == fragment.end - fragment.first;
	for (uint32_t s = fragment.first; s < fragment.end && !w->job->failure.code; s++) {
		struct message m;
		uint8_t *copy;

		if (lane_copies(w->lanes, s) && lane_announced(w->lanes, s, publication))
			fetch_delta(w, s);
		if (lane_arrived(w->lanes, s)) {
			const struct lap lap = stopwatch_begin();

			if (!added_whole(w, s, dense_pull_read) &&
			    lane_take(w->lanes, s, &m, &copy))
				take_delta(w, s, &m, copy);
			stopwatch_end(w->model.stopwatch, TIME_APPLY, &lap);
		}
	}
	return w->step.shards_done == fragment.end - fragment.first;
}

/* ---- the loop -------------------------------------------------------------- */

int worker_advance(struct worker *w, unsigned until)
{
	while (w->step.phase < until) {
		const int up = schedule_phase(w->rules.schedule, w->step.phase)->direction ==
			       PHASE_UP;

		if (up && !w->step.encoded && worker_send(w, NULL))
			nonfinite_sum(w, 1);
		if (!(up ? worker_staged(w) && lanes_post(w->lanes) : take_deltas(w)))
			return 0;
		step_phase_ends(&w->step);
	}
	return 1;
}

/* Returns 1 if a down phase still waits for this shard. */
static int waits_for(const struct worker *w, uint32_t shard)
{
	return w->quorum ? !quorum_pulled_from(w, shard) :
			   lane_have(w->lanes, shard) < worker_wanted(w, shard);
}

void worker_describe(void *context, char *text, size_t cap)
{
	struct worker *w = context;
	const struct fragment fragment = worker_fragment(w);
	uint32_t waiting = 0, first = 0;
	if (worker_busy(w, text, cap))
		return;
	int down = w->step.phase < w->rules.schedule->n_phases &&
		   schedule_phase(w->rules.schedule, w->step.phase)->direction == PHASE_DOWN;
	for (uint32_t s = fragment.first; s < fragment.end; s++) {
		int missing = down ? waits_for(w, s) : !lane_posted(w->lanes, s);
		if (missing && !waiting++)
			first = s;
	}
	snprintf(text, cap, "step %llu: %s shard %u of %s%s", (unsigned long long)w->step.number,
		 down ? "the new version of" : "a free slot at", first,
		 rank_text(w->job, home_rank(w->model.home, first)),
		 waiting > 1 ? " and of others" : "");
}
