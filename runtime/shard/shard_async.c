/* SPDX-License-Identifier: BSD-3-Clause
 * The shard half of asynchronous steps; see shard_async.h. Called by shard.c. */
#include "shard/shard.h"
#include "base/clock.h"
#include "base/error.h"
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---------------------------------------------------------------- */

int shard_async_open(sluice_model *model, struct shard *shard)
{
	const struct recipe *recipe = &model->recipe;
	struct async_shard *a = shard->async = calloc(1, sizeof *a);
	if (!a)
		return fail(SLUICE_ENOMEM, "no memory for shard %u", shard->id);
	a->anchor = shard->kept.of[KEPT_SHARD_ANCHOR];
	a->mean = shard->kept.of[KEPT_SHARD_MEAN];
	a->leading = shard->kept.of[KEPT_SHARD_LEADING];
	a->iterates = shard->kept.of[KEPT_SHARD_ITERATES];
	a->behind = calloc((size_t)recipe->staleness + 1, sizeof *a->behind);
	return a->behind ? 0 : fail(SLUICE_ENOMEM, "no memory for shard %u", shard->id);
}

void shard_async_close(struct shard *shard)
{
	struct async_shard *a = shard->async;
	if (!a)
		return;
	free(a->behind);
	free(a);
	shard->async = NULL;
}

void shard_async_begin(sluice_model *model, struct shard *shard)
{
	struct async_shard *a = shard->async;
	size_t bytes = shard->at->span * sizeof(float);
	memcpy(a->anchor, shard->copy, bytes);
	if (a->leading)
		memcpy(a->leading, shard->copy, bytes);
	a->anchors = 0;
	a->taken = 0;
	a->gathering = model->recipe.signal == SIGNAL_SVRG;
	for (int w = 0; w < model->job->workers; w++) {
		struct inbox *inbox = &shard->inboxes[w];
		inbox->steps = inbox->answers = inbox->asked = 0;
		inbox->waits = inbox->parked = 0;
	}
}

/* ---- publishing ------------------------------------------------------------ */

/* For one worker, in its place of the log, where it has read what lay there: it waits for this. */
static void publish_for(sluice_model *model, struct shard *shard, int worker,
			enum message_kind kind)
{
	const struct shard_layout *at = shard->at;
	struct async_shard *a = shard->async;
	struct inbox *inbox = &shard->inboxes[worker];
	uint8_t *entry = shard->log.ring + (size_t)worker * at->delta_bytes;
	const float *value = kind == MESSAGE_SNAPSHOT ? a->anchor : shard->copy;
	struct message m = {
		.kind = kind,
		.values = kind == MESSAGE_SNAPSHOT ? (struct value_coding){ VALUE_F32, 0, 0, 0 } :
						     model->recipe.down.values,
		/* Workers are below 2^23: a shard's numbers are no worker's. */
		.stream = { RANDOM_ROUND, 1u << 23, shard->version, model->recipe.seed },
		.first = at->begin,
		.raised = (uint8_t)shard->raised,
		.parts = 1,
		.rank = (uint32_t)model->job->rank,
		.epoch = model->job->membership_epoch,
		.model = model->id,
		.shard = shard->id,
		.seq = inbox->asked,
		.step = shard->version,
		.span = at->span,
		.count = at->span,
		.divisor = 1,
		.anchor = a->anchors,
		.lr = shard->lr
	};
	if (kind != MESSAGE_SNAPSHOT && !model->recipe.whole) {
		for (uint32_t i = 0; i < at->span; i++)
			model->value[i] = shard->copy[i] - a->anchor[i];
		value = model->value;
	}
	memset(entry, 0, 8); /* the magic dies before any byte of the body does */
	atomic_thread_fence(memory_order_seq_cst);
	size_t bytes = message_encode(&m, NULL, value, model->value, entry, at->delta_bytes);
	if (!bytes) {
		shard_overflowed(model, shard, m.bad);
		return;
	}
	uint64_t end = inbox->answers++ * at->log_bytes + (uint64_t)worker * at->delta_bytes;
	inbox->newest = (struct announced){ m.seq, end + ((bytes + 7) & ~(size_t)7),
					    (uint32_t)bytes };
	inbox->notice_due = 1;
	inbox->have_version = shard->version;
	inbox->parked = 0;
}

static void publish_for_all(sluice_model *model, struct shard *shard, enum message_kind kind)
{
	for (int w = 0; w < model->job->workers; w++)
		publish_for(model, shard, w, kind);
}

/* ---- the bound ------------------------------------------------------------- */

/* 1 if all workers under way, but for one, can still be taken in the order of their parameters' age
 * when the shard is at `version`. */
static int fits(const sluice_model *model, const struct shard *shard, uint64_t version, int but_for)
{
	const uint64_t most = model->recipe.staleness;
	struct async_shard *a = shard->async;
	memset(a->behind, 0, (most + 1) * sizeof *a->behind);
	for (int w = 0; w < model->job->workers; w++) {
		const struct inbox *inbox = &shard->inboxes[w];
		if (inbox->parked || w == but_for)
			continue;
		if (version - inbox->have_version > most)
			return 0;
		a->behind[version - inbox->have_version]++;
	}
	uint64_t before = 0; /* as old as this or older */
	for (uint64_t late = most + 1; late-- > 0;) {
		before += a->behind[late];
		if (a->behind[late] && late + before - 1 > most)
			return 0;
	}
	return 1;
}

/* Of those whose push waits, the one with the oldest parameters, the lowest rank of several; -1:
 * none. */
static int oldest_waiting(const sluice_model *model, const struct shard *shard)
{
	int oldest = -1;
	for (int w = 0; w < model->job->workers; w++)
		if (shard->inboxes[w].waits &&
		    (oldest < 0 ||
		     shard->inboxes[w].have_version < shard->inboxes[oldest].have_version))
			oldest = w;
	return oldest;
}

/* ---- taking ---------------------------------------------------------------- */

/* The next message of this worker into model->copy, checked. 0, or it was blamed. */
static int copy_next(sluice_model *model, struct shard *shard, int worker, struct message *m)
{
	const struct shard_layout *at = shard->at;
	struct inbox *inbox = &shard->inboxes[worker];
	const uint8_t *slot = inbox->slots +
			      ring_offset(at->slot_depth, at->slot_bytes, inbox->ring.next_seq);
	const char *why = "";
	struct message_expect want = { .rank = (uint64_t)worker,
				       .epoch = model_epoch(model),
				       .model = model->id,
				       .shard = shard->id,
				       .seq = inbox->ring.next_seq,
				       .step = MESSAGE_ANY,
				       .phase = 0,
				       .span = at->span,
				       .count_max = at->span };
	int rc = message_copy(slot, at->slot_bytes, model->copy, at->slot_bytes, m, &why);
	if (!rc) {
		want.kind = m->kind == MESSAGE_ASK || m->kind == MESSAGE_PARK ? m->kind :
										MESSAGE_PUSH;
		if (want.kind == MESSAGE_PUSH)
			want.step = inbox->steps + 1;
		rc = message_check(m, &want, &why);
	}
	/* Who parks behind a push has not seen its answer. */
	if (!rc && m->kind != MESSAGE_PARK && m->have_version != inbox->have_version) {
		why = "the worker holds another version than this shard published for it";
		rc = SLUICE_EWIRE;
	}
	if (!rc && (m->chosen || !isfinite(m->lr) || !(m->lr > 0))) {
		why = "it has a choice or a learning rate that cannot be";
		rc = SLUICE_EWIRE;
	}
	return rc ? shard_refuse(model, shard, worker, why) : 0;
}

static int accept(struct shard *shard, int worker, enum message_kind kind)
{
	struct inbox *inbox = &shard->inboxes[worker];
	inbox->waits = 0;
	if (kind != MESSAGE_PARK)
		inbox->asked = inbox->ring.next_seq;
	return ring_reader_accept(&inbox->ring, worker, inbox->ring.next_seq);
}

/* What the worker pushed last before an anchor is answered with that anchor, when all are in. */
static void answer_push(sluice_model *model, struct shard *shard, int worker)
{
	struct inbox *inbox = &shard->inboxes[worker];
	if (schedule_before_anchor(&model->schedule, inbox->steps))
		inbox->parked = 1;
	else
		publish_for(model, shard, worker, MESSAGE_DELTA);
}

/* The gradient is dropped, and the worker goes on from the newest parameters. */
static void drop_push(sluice_model *model, struct shard *shard, int worker)
{
	struct inbox *inbox = &shard->inboxes[worker];
	accept(shard, worker, MESSAGE_PUSH);
	inbox->steps++;
	model->stats.refused_messages++;
	answer_push(model, shard, worker);
}

/* A checked push is in front: it waits for its turn, or is none that can be counted. */
static void admit(sluice_model *model, struct shard *shard, int worker, const struct message *m)
{
	struct async_shard *a = shard->async;
	struct inbox *inbox = &shard->inboxes[worker];
	const int full = schedule_at_anchor(&model->schedule, m->step);
	if (m->anchor != a->anchors || full != a->gathering) {
		if (full || a->gathering)
			shard_refuse(
				model, shard, worker,
				"it belongs to another anchor, whose full gradient it would spoil");
		else
			drop_push(model, shard, worker);
		return;
	}
	inbox->waits = 1;
	if (full || !inbox->parked)
		return;
	inbox->parked = 0;
	if (!fits(model, shard, shard->version, -1))
		drop_push(model, shard, worker);
}

/* Messages that came since: 1 if there were any. */
static int look(sluice_model *model, struct shard *shard, int worker)
{
	struct inbox *inbox = &shard->inboxes[worker];
	struct message m;
	if (inbox->waits || inbox->arrived < inbox->ring.next_seq ||
	    model->job->peers[worker].state == PEER_LOST || copy_next(model, shard, worker, &m))
		return 0;
	if (m.kind == MESSAGE_PUSH) {
		admit(model, shard, worker, &m);
		return 1;
	}
	accept(shard, worker, m.kind);
	inbox->parked = 1;
	if (m.kind == MESSAGE_ASK)
		publish_for(model, shard, worker, MESSAGE_DELTA);
	return 1;
}

/* The push that waits in front is decoded and added to the sum. 0, or it was blamed. */
static int add_push(sluice_model *model, struct shard *shard, int worker)
{
	struct inbox *inbox = &shard->inboxes[worker];
	struct message m;
	const char *why = "";
	if (copy_next(model, shard, worker, &m))
		return SLUICE_EWIRE;
	m.stream.seed = model->recipe.seed;
	if (m.kind != MESSAGE_PUSH || m.anchor != shard->async->anchors)
		return shard_refuse(model, shard, worker, "it changed while it waited");
	if (message_decode(&m, model->copy, model->index, model->value, &why))
		return shard_refuse(model, shard, worker, why);
	if (accept(shard, worker, m.kind))
		return SLUICE_EWIRE;
	reduction_add(&shard->reduction, m.coding == CODING_DENSE ? NULL : model->index,
		      model->value, m.count);
	inbox->steps++;
	shard->lr = m.lr;
	shard->raised |= m.raised;
	return 0;
}

/* ---- the update ------------------------------------------------------------ */

static float theta(const struct async_shard *a)
{
	return 2 / ((float)a->anchors + 4);
}

/* x = theta y + (1 - theta) anchor */
static void combine(struct shard *shard)
{
	const struct async_shard *a = shard->async;
	const float t = theta(a);
	for (uint32_t i = 0; i < shard->at->span; i++)
		shard->copy[i] = t * a->leading[i] + (1 - t) * a->anchor[i];
}

/* The sum holds one push. */
static void update(sluice_model *model, struct shard *shard)
{
	struct async_shard *a = shard->async;
	const struct update rule = update_of_step(&model->update, shard->version + 1);
	struct select_call call = { .spans = shard->spans, .n_spans = shard->n_spans };
	const struct change change = { .update = &rule,
				       .velocity = shard->velocity,
				       .params = shard->copy,
				       .divisor = 1,
				       .lr = a->leading ? shard->lr / theta(a) : shard->lr,
				       .everywhere = 1 };
	if (a->mean)
		reduction_add(&shard->reduction, NULL, a->mean, shard->at->span);
	reduction_change(&shard->reduction, &change, &call);
	sparse_add(a->leading ? a->leading : shard->copy, NULL, call.x, shard->at->span);
	reduction_clear(&shard->reduction);
	if (a->leading) {
		combine(shard);
		for (uint32_t i = 0; i < shard->at->span; i++)
			a->iterates[i] += (double)shard->copy[i];
	}
	a->taken++;
	shard->version++;
}

static void count_staleness(sluice_model *model, uint64_t behind)
{
	sluice_model_stats *s = &model->stats;
	const uint64_t last = sizeof s->staleness / sizeof *s->staleness - 1;
	s->staleness[behind < last ? behind : last]++;
	s->staleness_most = behind > s->staleness_most ? behind : s->staleness_most;
}

/* One push becomes one version. 1 if one was taken. */
static int step(sluice_model *model, struct shard *shard)
{
	int worker = oldest_waiting(model, shard);
	if (worker < 0 || !fits(model, shard, shard->version + 1, worker))
		return 0;
	struct inbox *inbox = &shard->inboxes[worker];
	uint64_t behind = shard->version - inbox->have_version;
	if (add_push(model, shard, worker))
		return 0;
	count_staleness(model, behind);
	update(model, shard);
	answer_push(model, shard, worker);
	return 1;
}

/* ---- anchors --------------------------------------------------------------- */

/* Full gradients, in rank order: the same bits whoever comes first. */
static int gather(sluice_model *model, struct shard *shard)
{
	struct async_shard *a = shard->async;
	int workers = model->job->workers, moved = 0;
	while (shard->next_rank < workers && shard->inboxes[shard->next_rank].waits) {
		if (add_push(model, shard, shard->next_rank))
			return 0;
		shard->next_rank++;
		moved = 1;
	}
	if (shard->next_rank < workers)
		return moved;
	const float share = 1 / (float)workers, *sum = reduction_sum(&shard->reduction);
	for (uint32_t i = 0; i < shard->at->span; i++)
		a->mean[i] = share * sum[i];
	reduction_clear(&shard->reduction);
	shard->next_rank = 0;
	a->gathering = 0;
	if (a->leading)
		combine(shard);
	publish_for_all(model, shard, MESSAGE_DELTA);
	return 1;
}

/* All have taken their part of the steps: what they reached is the next anchor. */
static int end_of_anchor(sluice_model *model, struct shard *shard)
{
	struct async_shard *a = shard->async;
	for (int w = 0; w < model->job->workers; w++)
		if (shard->inboxes[w].steps != (a->anchors + 1ull) * model->schedule.anchor_period)
			return 0;
	for (uint32_t i = 0; i < shard->at->span && a->iterates && a->taken; i++) {
		shard->copy[i] = (float)(a->iterates[i] / (double)a->taken);
		a->iterates[i] = 0;
	}
	memcpy(a->anchor, shard->copy, shard->at->span * sizeof(float));
	a->anchors++;
	a->taken = 0;
	a->gathering = 1;
	publish_for_all(model, shard, MESSAGE_SNAPSHOT);
	shard->raised = 0;
	return 1;
}

/* ---- both ------------------------------------------------------------------ */

static int look_at_all(sluice_model *model, struct shard *shard)
{
	int any = 0;
	for (int w = 0; w < model->job->workers && !model->job->failure.code; w++)
		any |= look(model, shard, w);
	return any;
}

int shard_async_advance(sluice_model *model, struct shard *shard)
{
	struct async_shard *a = shard->async;
	int moved = 0;
	/* A push that had to wait waits until something else comes. */
	for (int more = look_at_all(model, shard); more && !model->job->failure.code;) {
		moved = 1;
		more = a->gathering ? gather(model, shard) : step(model, shard);
		if (a->mean && !a->gathering)
			more |= end_of_anchor(model, shard);
		more |= look_at_all(model, shard);
	}
	if (shard->next_rank > 0 || oldest_waiting(model, shard) >= 0)
		shard->waiting_since_ns = shard->waiting_since_ns && !moved ?
						  shard->waiting_since_ns :
						  now_ns();
	else
		shard->waiting_since_ns = 0;
	return moved;
}
