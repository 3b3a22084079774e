/* SPDX-License-Identifier: BSD-3-Clause
 * The shard half of asynchronous steps; see shard_async.h. */
#include "shard/shard_async.h"
#include "base/clock.h"
#include "base/error.h"
#include "compress/sparse.h"
#include "model/compressor.h"
#include "model/kept.h"
#include "shard/gather.h"
#include "shard/inbox.h"
#include "shard/publish.h"
#include "shard/reduce.h"
#include "shard/state.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct async_worker {
	uint64_t have_version; /* the version on which its gradients are computed */
	/* steps: pushes that were added or refused. answers: publications for this worker. */
	uint64_t steps, answers;
	uint64_t asked; /* sequence number of the newest message that needs an answer */
	int waits;      /* 1: its next message is a checked push that waits */
	int parked;     /* 1: it computes no gradient */
};

/* kept.h describes the vectors. */
struct async_shard {
	float *anchor;
	float *mean;    /* svrg: the mean of the full gradients at the anchor; otherwise NULL */
	float *leading; /* accelerated: y, which moves by steps of lr / theta; otherwise NULL */
	/* accelerated: sum of the parameters of all versions since the anchor; otherwise NULL */
	double *iterates;
	uint32_t anchors; /* number of earlier anchors */
	uint64_t taken;   /* pushes added since this anchor */
	int gathering;    /* 1: the full gradients at this anchor are being collected */
	int next_rank;    /* the full gradients of all lower ranks are in the sum */
	float lr;         /* rate of the last push that was added */
	unsigned raised;
	uint32_t *behind; /* TAU + 1 entries, scratch; behind[i] is the number of workers that are i
			     versions behind */
	struct async_worker of[];
};

/* ---- memory ---------------------------------------------------------------- */

static int shard_async_used(const struct shard *shard)
{
	return shard->rules.recipe->when == WHEN_ASYNC;
}

static int shard_async_open(struct shard *shard)
{
	const struct recipe *recipe = shard->rules.recipe;
	const size_t workers = (size_t)shard->job->workers;
	struct async_shard *a;

	a = shard->async = calloc(1, sizeof(*a) + workers * sizeof(a->of[0]));
	if (!a)
		return fail(SLUICE_ENOMEM, "no memory for shard %u", shard->id);
	a->anchor = shard->kept.of[KEPT_SHARD_ANCHOR];
	a->mean = shard->kept.of[KEPT_SHARD_MEAN];
	a->leading = shard->kept.of[KEPT_SHARD_LEADING];
	a->iterates = shard->kept.of[KEPT_SHARD_ITERATES];
	a->behind = calloc((size_t)recipe->async.staleness + 1, sizeof *a->behind);
	return a->behind ? 0 : fail(SLUICE_ENOMEM, "no memory for shard %u", shard->id);
}

static void shard_async_close(struct shard *shard)
{
	struct async_shard *a = shard->async;
	if (!a)
		return;
	free(a->behind);
	free(a);
	shard->async = NULL;
}

static void shard_async_restart(struct shard *shard)
{
	struct async_shard *a = shard->async;
	if (!a)
		return;
	a->next_rank = 0;
	a->raised = 0;
	for (int w = 0; w < shard->job->workers; w++)
		a->of[w].have_version = shard->version;
}

void shard_async_begin(struct shard *shard)
{
	struct async_shard *a = shard->async;
	size_t bytes = shard->at->span * sizeof(float);
	memcpy(a->anchor, shard->copy, bytes);
	if (a->leading)
		memcpy(a->leading, shard->copy, bytes);
	a->anchors = 0;
	a->taken = 0;
	a->gathering = shard->rules.recipe->signal.kind == SIGNAL_SVRG;
	for (int w = 0; w < shard->job->workers; w++) {
		struct async_worker *of = &a->of[w];
		of->steps = of->answers = of->asked = 0;
		of->waits = of->parked = 0;
	}
}

/* ---- publishing ------------------------------------------------------------ */

/* Publishes for one worker, in that worker's place in the log. The worker has read what was there,
 * because it waits for this publication. */
static void publish_for(struct shard *shard, int worker, enum message_kind kind)
{
	const struct shard_layout *at = shard->at;
	struct async_shard *a = shard->async;
	struct async_worker *of = &a->of[worker];
	float *difference = scratch_entries(shard->scratch).value;
	const float *value = kind == MESSAGE_SNAPSHOT ? a->anchor : shard->copy;
	struct message m = publish_head(shard, kind);

	if (kind != MESSAGE_SNAPSHOT)
		m.values = shard->rules.recipe->down.values;
	m.stream = (struct random_stream){ RANDOM_ROUND, SHARD_NUMBERS, shard->version,
					   shard->rules.recipe->seed };
	m.first = at->begin;
	m.raised = (uint8_t)a->raised;
	m.seq = of->asked;
	m.step = shard->version;
	m.count = at->span;
	m.divisor = 1;
	m.anchor = a->anchors;
	m.lr = a->lr;
	if (kind != MESSAGE_SNAPSHOT && !shard->rules.recipe->async.whole) {
		for (uint32_t i = 0; i < at->span; i++)
			difference[i] = shard->copy[i] - a->anchor[i];
		value = difference;
	}
	if (!publish_all_of(shard, (struct readers){ worker, of->answers }, &m, value))
		return;
	of->answers++;
	of->have_version = shard->version;
	of->parked = 0;
}

static void publish_for_all(struct shard *shard, enum message_kind kind)
{
	for (int w = 0; w < shard->job->workers; w++)
		publish_for(shard, w, kind);
}

/* ---- the bound ------------------------------------------------------------- */

/* Returns 1 if a shard at `version` can still add a push of every worker that is not parked, except
 * worker but_for, without exceeding the staleness bound. It would add those with the oldest
 * parameters first. */
static int fits(const struct shard *shard, uint64_t version, int but_for)
{
	const uint64_t most = shard->rules.recipe->async.staleness;
	struct async_shard *a = shard->async;
	memset(a->behind, 0, (most + 1) * sizeof *a->behind);
	for (int w = 0; w < shard->job->workers; w++) {
		const struct async_worker *of = &a->of[w];
		if (of->parked || w == but_for)
			continue;
		if (version - of->have_version > most)
			return 0;
		a->behind[version - of->have_version]++;
	}
	uint64_t before = 0; /* number of workers that are at least `late` versions behind */
	for (uint64_t late = most + 1; late-- > 0;) {
		before += a->behind[late];
		if (a->behind[late] && late + before - 1 > most)
			return 0;
	}
	return 1;
}

/* Returns the worker with the oldest parameters among those whose push waits. If several have the
 * same age, returns the lowest rank. Returns -1 if no push waits. */
static int oldest_waiting(const struct shard *shard)
{
	const struct async_worker *of = shard->async->of;
	int oldest = -1;
	for (int w = 0; w < shard->job->workers; w++)
		if (of[w].waits && (oldest < 0 || of[w].have_version < of[oldest].have_version))
			oldest = w;
	return oldest;
}

/* ---- taking ---------------------------------------------------------------- */

static void expect_push(const struct shard *shard, int worker, const struct message *m,
			struct message_expect *want)
{
	want->kind = m->kind == MESSAGE_ASK || m->kind == MESSAGE_PARK ? m->kind : MESSAGE_PUSH;
	want->step = want->kind == MESSAGE_PUSH ? shard->async->of[worker].steps + 1 : MESSAGE_ANY;
	want->span = want->count_max = shard->at->span;
}

static const char *judge_push(const struct shard *shard, int worker, const struct message *m)
{
	/* A worker that parks right after a push has not seen the answer yet. */
	if (m->kind != MESSAGE_PARK && m->have_version != shard->async->of[worker].have_version)
		return "the worker holds another version than this shard published for it";
	if (m->chosen || !isfinite(m->lr) || !(m->lr > 0))
		return "its choice or its learning rate is not valid";
	return NULL;
}

static const struct intake intake = { expect_push, judge_push };

static int accept(struct shard *shard, int worker, enum message_kind kind)
{
	struct async_worker *of = &shard->async->of[worker];
	of->waits = 0;
	if (kind != MESSAGE_PARK)
		of->asked = inbox_next_seq(shard, worker);
	return inbox_accept(shard, worker);
}

/* Answers a push with a delta. The last push before an anchor gets no delta. Its worker is parked
 * until all pushes are in, and the anchor is its answer. */
static void answer_push(struct shard *shard, int worker)
{
	struct async_worker *of = &shard->async->of[worker];
	if (schedule_before_anchor(shard->rules.schedule, of->steps))
		of->parked = 1;
	else
		publish_for(shard, worker, MESSAGE_DELTA);
}

/* Drops the push with its gradient. The worker continues from the newest parameters. */
static void drop_push(struct shard *shard, int worker)
{
	struct async_worker *of = &shard->async->of[worker];
	accept(shard, worker, MESSAGE_PUSH);
	of->steps++;
	shard->model.stats->refused_messages++;
	answer_push(shard, worker);
}

/* Handles the next message in the ring, which is a checked push. The push waits for its turn, or is
 * dropped if it cannot be counted. */
static void admit(struct shard *shard, int worker, const struct message *m)
{
	struct async_shard *a = shard->async;
	struct async_worker *of = &shard->async->of[worker];
	const int full = schedule_at_anchor(shard->rules.schedule, m->step);
	if (m->anchor != a->anchors || full != a->gathering) {
		if (full || a->gathering)
			inbox_refuse(shard, worker,
				     "it was computed for a different anchor (sluice(7)) than the "
				     "shard's and would corrupt the full gradient");
		else
			drop_push(shard, worker);
		return;
	}
	of->waits = 1;
	if (full || !of->parked)
		return;
	of->parked = 0;
	if (!fits(shard, shard->version, -1))
		drop_push(shard, worker);
}

/* Handles the messages that have arrived since the last call. Returns 1 if there were any. */
static int async_take_arrived(struct shard *shard, int worker)
{
	struct async_worker *of = &shard->async->of[worker];
	struct taken t;
	if (of->waits || !inbox_has(shard, worker) ||
	    shard->job->peers[worker].state == PEER_LOST ||
	    inbox_take(shard, worker, &intake, INBOX_COPY, &t))
		return 0;
	if (t.m.kind == MESSAGE_PUSH) {
		admit(shard, worker, &t.m);
		return 1;
	}
	accept(shard, worker, t.m.kind);
	of->parked = 1;
	if (t.m.kind == MESSAGE_ASK)
		publish_for(shard, worker, MESSAGE_DELTA);
	return 1;
}

/* Decodes the next push of the worker, and adds it to the sum. Returns 0, or an error if its sender
 * was blamed. */
static int async_add_push(struct shard *shard, int worker)
{
	struct async_shard *a = shard->async;
	const struct entries got = scratch_entries(shard->scratch);
	struct taken t;
	if (inbox_take(shard, worker, &intake, INBOX_DECODE, &t))
		return SLUICE_EWIRE;
	if (t.m.kind != MESSAGE_PUSH || t.m.anchor != a->anchors)
		return inbox_refuse(shard, worker, "its bytes changed after they were checked");
	if (accept(shard, worker, t.m.kind))
		return SLUICE_EWIRE;
	reduction_add(&shard->reduction, t.m.coding == CODING_DENSE ? NULL : got.index, got.value,
		      t.m.count);
	a->of[worker].steps++;
	a->lr = t.m.lr;
	a->raised |= t.m.raised;
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

/* Applies the update rule to the reduction, which holds a single push. */
static void update(struct shard *shard)
{
	struct async_shard *a = shard->async;
	const struct update rule = update_of_step(shard->rules.update, shard->version + 1,
						  shard->at->begin);
	struct pick_call call = { 0 };
	const struct change change = { .update = &rule,
				       .averages = shard->averages,
				       .params = shard->copy,
				       .divisor = 1,
				       .lr = a->leading ? a->lr / theta(a) : a->lr,
				       .everywhere = 1 };
	if (a->mean)
		reduction_add(&shard->reduction, NULL, a->mean, shard->at->span);
	reduction_change(&shard->reduction, &change, &call);
	sparse_add(a->leading ? a->leading : shard->copy, NULL, call.vector, shard->at->span);
	reduction_clear(&shard->reduction);
	if (a->leading) {
		combine(shard);
		for (uint32_t i = 0; i < shard->at->span; i++)
			a->iterates[i] += (double)shard->copy[i];
	}
	a->taken++;
	shard->version++;
}

/* Makes one version from the oldest waiting push. Returns 1 if there was a push that may be
 * added. */
static int step(struct shard *shard)
{
	int worker = oldest_waiting(shard);
	if (worker < 0 || !fits(shard, shard->version + 1, worker))
		return 0;
	struct async_worker *of = &shard->async->of[worker];
	uint64_t behind = shard->version - of->have_version;
	if (async_add_push(shard, worker))
		return 0;
	gather_count_staleness(shard, behind);
	update(shard);
	answer_push(shard, worker);
	return 1;
}

/* ---- anchors --------------------------------------------------------------- */

/* Adds the full gradients in rank order, so that the bits do not depend on the order of arrival.
 * Publishes when all are in. Returns 1 if there was progress. */
static int gather_gradients(struct shard *shard)
{
	struct async_shard *a = shard->async;
	int workers = shard->job->workers, moved = 0;
	while (a->next_rank < workers && a->of[a->next_rank].waits) {
		if (async_add_push(shard, a->next_rank))
			return 0;
		a->next_rank++;
		moved = 1;
	}
	if (a->next_rank < workers)
		return moved;
	const float share = 1 / (float)workers, *sum = reduction_sum(&shard->reduction);
	for (uint32_t i = 0; i < shard->at->span; i++)
		a->mean[i] = share * sum[i];
	reduction_clear(&shard->reduction);
	a->next_rank = 0;
	a->gathering = 0;
	if (a->leading)
		combine(shard);
	publish_for_all(shard, MESSAGE_DELTA);
	return 1;
}

/* If all workers have done their part of the steps, publishes the parameters as the next anchor,
 * and returns 1. */
static int end_of_anchor(struct shard *shard)
{
	struct async_shard *a = shard->async;
	for (int w = 0; w < shard->job->workers; w++)
		if (a->of[w].steps != (a->anchors + 1ull) * shard->rules.schedule->anchor_period)
			return 0;
	for (uint32_t i = 0; i < shard->at->span && a->iterates && a->taken; i++) {
		shard->copy[i] = (float)(a->iterates[i] / (double)a->taken);
		a->iterates[i] = 0;
	}
	memcpy(a->anchor, shard->copy, shard->at->span * sizeof(float));
	a->anchors++;
	a->taken = 0;
	a->gathering = 1;
	publish_for_all(shard, MESSAGE_SNAPSHOT);
	a->raised = 0;
	return 1;
}

/* ---- the loop -------------------------------------------------------------- */

static int take_all_arrived(struct shard *shard)
{
	int any = 0;
	for (int w = 0; w < shard->job->workers && !shard->job->failure.code; w++)
		any |= async_take_arrived(shard, w);
	return any;
}

int shard_async_advance(struct shard *shard)
{
	struct async_shard *a = shard->async;
	int moved = 0;
	/* Ends when a round makes no progress: a push that still waits can be added only after
	 * another message has arrived. */
	for (int more = take_all_arrived(shard); more && !shard->job->failure.code;) {
		moved = 1;
		more = a->gathering ? gather_gradients(shard) : step(shard);
		if (a->mean && !a->gathering)
			more |= end_of_anchor(shard);
		more |= take_all_arrived(shard);
	}
	const uint64_t since = inboxes_waiting_since(shard);
	if (a->next_rank > 0 || oldest_waiting(shard) >= 0)
		inboxes_wait_since(shard, since && !moved ? since : now_ns());
	else
		inboxes_wait_since(shard, 0);
	return moved;
}

int shard_async_excused(const struct shard *shard, int worker)
{
	const struct async_shard *a = shard->async;
	return worker < a->next_rank || (a->of[worker].parked && !a->gathering);
}

const struct shard_hooks shard_async_hooks = { .used = shard_async_used,
					       .open = shard_async_open,
					       .close = shard_async_close,
					       .restart = shard_async_restart };
