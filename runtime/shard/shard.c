/* SPDX-License-Identifier: BSD-3-Clause
 * The loop of the shard half. It takes the workers' messages out of their inboxes in rank order,
 * reduces them as prefixes become complete, applies the update, publishes a delta and notifies the
 * workers. It never blocks: any thread that polls runs shards_advance(), so shards make progress
 * while their rank's application computes. */
#include "shard/shard.h"
#include "shard/gather.h"
#include "shard/inbox.h"
#include "shard/median.h"
#include "shard/publish.h"
#include "shard/reduce.h"
#include "shard/shard_async.h"
#include "shard/shard_bits.h"
#include "shard/shard_dense.h"
#include "shard/state.h"
#include "base/log.h"
#include "job/living.h"
#include "job/peers.h"
#include "model/model.h"
#include "shard/agreed.h"
#include "shard/shard_device.h"
#include "shard/shard_hooks.h"
#include "shard/shard_quorum.h"
#include <stdio.h>
#include <string.h>

/* ---- gather ---------------------------------------------------------------- */

static const char *take_pairs(struct shard *shard, int worker, const struct message *m)
{
	const struct entries got = scratch_entries(shard->scratch);
	const uint32_t *index = m->coding == CODING_DENSE ? NULL : got.index;

	const char *why = median_clip(shard, worker, m, got.value);

	if (why)
		return why;
	if (shard_device_takes(shard))
		shard_device_add(shard, index, got.value, m->count);
	else
		reduction_add(&shard->reduction, index, got.value, m->count);
	return NULL;
}

/* How a shard handles the payload of a phase. take() adds the content of a worker's message, which
 * is in the scratch's entries. It returns NULL, or why the message is refused. answer() is called
 * when all messages of the preceding phase have arrived. It publishes the result, and returns 1 if
 * it did. */
static const struct payload_kind {
	const char *(*take)(struct shard *shard, int worker, const struct message *m);
	int (*answer)(struct shard *shard);
} kinds[PAYLOADS];

/* Takes the next worker's message out of its inbox and adds it. Returns 1 if the message was there,
 * or if the worker is no longer a member of the job, so that none is expected. */
static int take_push(struct shard *shard)
{
	const int worker = gather_next(shard);
	const char *why = NULL;
	struct taken t;

	if (!job_living(shard->job, worker)) {
		gather_pass(shard);
		return 1;
	}
	if (shard->job->peers[worker].state == PEER_LOST)
		return 0; /* the job will soon drop this worker */
	if (!inbox_has(shard, worker) || !shard_device_ready(shard) ||
	    inbox_take(shard, worker, &gather_intake, INBOX_DECODE, &t))
		return 0;
	why = shard_hooks_note(shard, inbox_next_seq(shard, worker), t.slot + message_bytes(&t.m),
			       shard->at->slot_bytes - message_bytes(&t.m));
	if (why) {
		inbox_refuse(shard, worker, why);
		return 0;
	}
	if (!gather_same_rate(shard, worker, t.m.lr, !gather_counted(shard)) ||
	    !gather_count(shard, worker, &t.m))
		return 0;
	shard_hooks_taken(shard, worker, &t.m);
	why = kinds[schedule_phase(shard->rules.schedule, shard->phase)->payload].take(
		shard, worker, &t.m);
	if (why)
		inbox_refuse(shard, worker, why);
	return !why;
}

/* ---- pick ------------------------------------------------------------------ */

/* Picks the coordinates to publish from the change of this step plus the residual of earlier
 * steps. */
static struct pick pick_down(struct shard *shard)
{
	const struct recipe *recipe = shard->rules.recipe;
	const struct selection_kind *kind = &selection_kinds[recipe->down.select];
	const struct step_rule rule = rulebook_step(&shard->rules, shard->version + 1,
						    shard->chosen);
	const uint32_t of = shard->at->span - shard->at->exempt;
	const struct update update = update_of_step(shard->rules.update, shard->version + 1,
						    shard->at->begin);
	const struct change change = { .update = &update,
				       .averages = shard->averages,
				       .params = shard->copy,
				       .divisor = gather_counted(shard),
				       .lr = gather_lr(shard),
				       .residual = shard_residual(shard),
				       .candidates = compressor_candidates(shard->compressor),
				       .selects = !rule.all_down && kind->adds,
				       .everywhere = rule.all_up };
	struct pick_call call = { .step = shard->version + 1,
				  .density = rule.down,
				  .k = shard_hooks_count(shard, rule.down, of) };
	struct pick pick;
	const struct entries out = scratch_entries(shard->scratch);

	shard_hooks_summed(shard);
	reduction_change(&shard->reduction, &change, &call);
	shard_bits_see(shard, &call);
	if (shard_hooks_pick(shard, call.vector, &pick))
		return pick;
	if (!rule.all_down)
		return compressor_pick(shard->compressor, &call);
	if (rule.all_up)
		return pick_all(call.vector, shard->at->span);
	/* The vector is nonzero at the coordinates that any worker has selected, and at those that
	 * earlier steps left in the residual. */
	return (struct pick){ .index = out.index,
			      .vector = call.vector,
			      .n = select_nonzero(call.vector, shard->at->span, out.index,
						  shard->at->down_capacity) };
}

/* ---- publish --------------------------------------------------------------- */

/* Publishes the support that the leader has selected, or that the sketches show. */
static int answer_support(struct shard *shard)
{
	const uint32_t *index;
	const uint32_t n = agreed_support(shard, &index);
	struct message m = publish_next(shard, MESSAGE_SUPPORT, n);

	m.lr = gather_lr(shard);
	publish_support(shard, &m, index);
	shard->phase += 2;
	return 1;
}

/* Measures how much of a delta compression loses (model/measure.h). */
static void measure_published(struct shard *shard, const struct pick *emitted)
{
	const float *x = emitted->vector;

	/* An unbiased selector has already scaled x, so the original values are unknown. */
	if (!shard->model.measure->on || selection_kinds[shard->rules.recipe->down.select].unbiased)
		return;
	shard->loss.all = loss_squares(x, shard->at->span);
	shard->loss.lost = shard->loss.all -
			   loss_spared(x, emitted->index, emitted->value, (uint32_t)emitted->n);
}

/* Adds an encoded delta to the shard's copy of the parameters. Returns the result of
 * publish_follow(). */
static int add_to_copy(struct shard *shard, const struct message *m, const uint8_t *entry,
		       const struct pick *emitted)
{
	float *value = scratch_entries(shard->scratch).value;
	const uint32_t *index = emitted->index;
	uint32_t n = (uint32_t)emitted->n;
	const char *why;

	if (index && m->coding == CODING_DENSE) {
		/* The message is dense because that was shorter. The workers then add its zeros
		 * as well, which turns -0 into +0, so the copy must do the same. */
		message_decode(scratch_team(shard->scratch), m, entry, NULL, value, &why);
		index = NULL;
		n = shard->at->span;
	}
	return publish_follow(shard, 0, index, value, n);
}

/* Publishes the change as a delta. Encodes the delta into the log, then subtracts from the residual
 * the values that workers will decode, and adds these values to the copy with the workers' own
 * function. Finally announces the delta. Returns 0 if a value or a parameter has overflowed, which
 * ends the job. */
static int answer_change(struct shard *shard)
{
	const int stands = rulebook_stands(shard->rules.recipe, gather_lr(shard));

	if (!stands && shard_device_takes(shard))
		return shard_device_answer(shard);
	struct pick pick = stands ? pick_none(shard->copy) : pick_down(shard);
	struct message m = publish_delta(shard, (uint32_t)pick.n);
	m.anchor = shard_hooks_mark(shard);
	size_t bytes;
	const uint8_t *entry = publish_pick(shard, &m, &pick, &bytes);

	if (!entry)
		return 0;
	measure_published(shard, &pick);
	compressor_settle(shard->compressor, &pick, 0, 0);
	if (!add_to_copy(shard, &m, entry, &pick)) {
		publish_param_overflowed(shard);
		return 0;
	}
	publish_commit(shard, READERS_EVERYBODY, &m, bytes);
	reduction_clear(&shard->reduction);
	shard_hooks_step_ends(shard);
	publish_step_ends(shard);
	return 1;
}

static const struct payload_kind kinds[PAYLOADS] = {
	[PAYLOAD_PAIRS] = { take_pairs, answer_change },
	[PAYLOAD_VALUES] = { take_pairs, answer_change },
	[PAYLOAD_AGREED] = { agreed_take_values, answer_change },
	[PAYLOAD_INDICES] = { agreed_take_indices, answer_support },
	[PAYLOAD_SKETCH] = { agreed_take_sketch, NULL },
};

/* ---- the loop -------------------------------------------------------------- */

/* Advances a step that needs a message from every living worker. Takes the messages in rank order.
 * Returns 1 if the step made progress. */
static int advance_step(struct shard *shard)
{
	const int workers = shard->job->workers;
	const enum dense_outcome dense = shard_dense_advance(shard);
	int moved = 0;

	if (dense != DENSE_NONE)
		return dense == DENSE_PUBLISHED;
	if (!median_ready(shard))
		return 0;
	while (gather_next(shard) < workers && take_push(shard))
		moved = 1;
	if (gather_next(shard) < workers || !gather_counted(shard))
		return moved;
	return kinds[schedule_phase(shard->rules.schedule, shard->phase + 1)->payload].answer(
		shard);
}

/* Advances an exchange that a quorum of the workers closes. */
static int advance_quorum(struct shard *shard)
{
	int moved;

	if (!shard_quorum_gather(shard, &moved))
		return moved;
	return kinds[schedule_phase(shard->rules.schedule, shard->phase + 1)->payload].answer(
		shard);
}

static int excused_from_step(const struct shard *shard, int worker)
{
	return worker < gather_next(shard);
}

/* How a step is closed. advance() gathers and publishes as far as possible, and returns 1 if there
 * was progress. excused() returns 1 if the shard does not wait for a message of this worker. */
static const struct closing {
	int (*advance)(struct shard *shard);
	int (*excused)(const struct shard *shard, int worker);
} closings[CLOSINGS] = {
	[CLOSE_ALL_LIVING] = { advance_step, excused_from_step },
	[CLOSE_ANY] = { shard_async_advance, shard_async_excused },
	[CLOSE_QUORUM] = { advance_quorum, shard_quorum_excused },
};

static const struct closing *shard_closing(const struct shard *shard)
{
	return &closings[shard->rules.schedule->phases[0].close];
}

/* Returns 1 if the notices of this short shard wait, because another short shard of the same
 * exchange has some of its messages and lacks others. A worker pushes to both shards before it
 * waits for a notice, and it needs both publications. */
static int waits_for_others(const sluice_model *model, const struct shard *shard)
{
	if (!inboxes_due(shard) || !shard_is_short(shard->at, shard->job->workers) ||
	    shard_closing(shard) != &closings[CLOSE_ALL_LIVING])
		return 0;
	for (uint32_t i = 0; i < model->n_own; i++) {
		const struct shard *other = &model->shards[i];

		if (other->at->fragment == shard->at->fragment &&
		    other->published + 1 == shard->published && inboxes_waiting_since(other) &&
		    shard_is_short(other->at, other->job->workers))
			return 1;
	}
	return 0;
}

static int advance(struct shard *shard)
{
	const uint64_t published = shard->published;
	const uint64_t began = stopwatch_slice(shard->model.stopwatch);
	const int moved = shard_closing(shard)->advance(shard);

	if (moved)
		stopwatch_slice_ends(shard->model.stopwatch,
				     shard->published == published ? TRACE_SUM : TRACE_PUBLISH,
				     began);
	return moved;
}

int shards_advance(sluice_model *model)
{
	int moved = 0, waiting = 0;

	for (uint32_t i = 0; i < model->n_own && !model->job->failure.code; i++) {
		struct shard *shard = &model->shards[i];

		moved |= advance(shard);
		if (model->n_own == 1 || !shard_is_short(shard->at, shard->job->workers))
			moved |= inboxes_notify(shard);
		else
			waiting |= inboxes_due(shard);
	}
	if (!waiting)
		return moved;
	progress_gather(model->job, 1);
	for (uint32_t i = 0; i < model->n_own; i++)
		if (!waits_for_others(model, &model->shards[i]))
			moved |= inboxes_notify(&model->shards[i]);
	progress_gather(model->job, 0);
	return moved;
}

int shard_works(const struct shard *shard)
{
	char stage[256];

	return inboxes_waiting_since(shard) || inboxes_have_work(shard) ||
	       shard_device_busy(shard, stage, sizeof(stage));
}

/* ---- explain --------------------------------------------------------------- */

/* Describes what the GPU is doing for a shard that waits for no worker. */
static void describe_device(const struct shard *shard, char *text, size_t cap)
{
	char stage[256];

	if (shard_device_busy(shard, stage, sizeof stage))
		snprintf(text, cap, "; shard %u here waits for step %llu of %s", shard->id,
			 (unsigned long long)shard->version + 1, stage);
}

/* Names up to four workers whose push of this step has not arrived. Returns the number of all such
 * workers. */
static int missing_workers(const struct shard *shard, char *who, size_t cap)
{
	const sluice_job *job = shard->job;
	int missing = 0;
	*who = 0;
	for (int w = 0; w < job->workers; w++) {
		if (shard_closing(shard)->excused(shard, w) || !job_living(job, w) ||
		    inbox_has(shard, w))
			continue;
		size_t used = strlen(who);
		if (missing < 5)
			snprintf(who + used, cap - used, "%s%s", used ? ", " : "",
				 missing < 4 ? rank_text(job, w) : "and more");
		missing++;
	}
	return missing;
}

void shards_describe_waits(const sluice_model *model, char *text, size_t cap)
{
	char who[256];
	*text = 0;
	for (uint32_t i = 0; i < model->n_own && !*text; i++) {
		const struct shard *shard = &model->shards[i];
		if (inboxes_waiting_since(shard) && missing_workers(shard, who, sizeof who))
			snprintf(text, cap,
				 "; shard %u here waits for the push of step %llu from %s",
				 shard->id, (unsigned long long)shard->version + 1, who);
		else
			describe_device(shard, text, cap);
	}
}

/* Logs one line for each shard that has waited since the first push of its step. The line names the
 * workers for which the shard waits, and how long it has waited. */
void shards_explain(sluice_model *model, uint64_t now, int always)
{
	sluice_job *job = model->job;
	uint64_t warn_after = job->budget.warn_after_ns;
	int lines = 0;
	for (uint32_t i = 0; i < model->n_own; i++) {
		struct shard *shard = &model->shards[i];
		uint64_t since = inboxes_waiting_since(shard);
		if (!since || (!always && now - since < warn_after))
			continue;
		char who[256];
		if (!missing_workers(shard, who, sizeof who))
			continue;
		char line[384];
		snprintf(line, sizeof line,
			 "shard %u waits %.1f s for the push of step %llu from %s", shard->id,
			 (double)(now - since) / 1e9, (unsigned long long)shard->version + 1, who);
		log_line(LOG_WARN, "runtime", "%s", line);
		if (!always && !lines)
			peers_report(job, line);
		lines++;
	}
}

int shards_wait(const sluice_model *model)
{
	for (uint32_t i = 0; i < model->n_own; i++)
		if (inboxes_waiting_since(&model->shards[i]))
			return 1;
	return 0;
}
