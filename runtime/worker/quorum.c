/* SPDX-License-Identifier: BSD-3-Clause
 * See quorum.h. */
#include "worker/quorum.h"
#include "base/error.h"
#include "job/messages.h"
#include "job/peers.h"
#include "job/progress_token.h"
#include "job/sim_rank.h"
#include "model/model.h"
#include "model/snapshot.h"
#include "worker/lane.h"
#include "worker/state.h"
#include "worker/upload.h"
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* The shards close an exchange within this time if they have the same pushes. */
enum { SPLIT_NS = 100000000 };

/* The messages that this worker reads next from a shard. */
enum reading {
	READS_DELTAS,
	READS_ANSWER, /* the shard is asked how far behind this worker is */
	READS_PARTS   /* of a snapshot */
};

struct quorum_shard_state {
	enum reading reading;
	uint32_t part;     /* the next part of the snapshot */
	uint64_t snapshot; /* the version of the snapshot's first part */
	uint64_t applied;  /* publications since the last one with this worker's drift */
	uint64_t missed;   /* publications between the last two with this worker's drift */
	unsigned counted;  /* workers in the newest publication; 0: unknown */
	int counts;        /* 0: it has not counted this worker's last push */
	int parked;        /* 1: since the last push, all_parked() has sent it MESSAGE_PARK */
	/* The collective in the MESSAGE_PARK that stand_by() has sent; 0: this worker does not
	 * stand by. */
	uint32_t stands_by;
};

struct quorum {
	uint64_t joined;     /* the last collective reported to the shards; 0: none */
	uint32_t mark;       /* the field `anchor` of messages */
	int watches, late;   /* stays_split(): 1: this rank looks at the clock; the last result */
	uint64_t split_ns;   /* the time since when it looks */
	atomic_int unshared; /* 1: not all ranks have opened or restored the model yet */
	atomic_int makes;    /* 1: the thread of the model makes messages, without the token */
	float weight;
	uint32_t n_shards;
	struct quorum_shard_state of[]; /* [shard] */
};

/* ---- memory ---------------------------------------------------------------- */

static int quorum_used(const struct worker *w)
{
	return w->rules.recipe->quorum.workers != 0;
}

static int quorum_open(struct worker *w)
{
	const uint32_t n = w->layout->n_shards;
	struct quorum *q = w->quorum = calloc(1, sizeof(*q) + n * sizeof(q->of[0]));

	if (!q)
		return fail(SLUICE_ENOMEM, "no memory for exchanges with a quorum");
	q->n_shards = n;
	q->weight = 1;
	return 0;
}

static void quorum_close(struct worker *w)
{
	free(w->quorum);
	w->quorum = NULL;
}

static void quorum_restart(struct worker *w)
{
	struct quorum *q = w->quorum;

	q->joined = 0;
	q->unshared = 1;
	q->makes = 0;
	for (uint32_t s = 0; s < q->n_shards; s++)
		q->of[s] = (struct quorum_shard_state){ .counted = (unsigned)w->job->workers,
							.counts = 1 };
}

static void quorum_begin(struct worker *w, const float *params)
{
	(void)params;
	w->quorum->unshared = 0;
}

int quorum_set_weight(struct worker *w, float weight)
{
	if (!w->quorum)
		return fail(SLUICE_EINVAL,
			    "sluice_set: SLUICE_WEIGHT needs a recipe with quorum=, because other "
			    "exchanges have the plain mean of all workers");
	if (w->rules.recipe->reduce == REDUCE_SENDERS)
		return fail(
			SLUICE_EINVAL,
			"sluice_set: SLUICE_WEIGHT with reduce=senders: each coordinate has the "
			"plain mean of the workers that sent it; write reduce=mean");
	if (!(isfinite(weight) && weight > 0))
		return fail(SLUICE_EINVAL,
			    "sluice_set: SLUICE_WEIGHT is %g, but must be finite and above 0",
			    (double)weight);
	w->quorum->weight = weight;
	return 0;
}

/* ---- a push ---------------------------------------------------------------- */

static void unpark(struct quorum *q)
{
	for (uint32_t s = 0; s < q->n_shards; s++)
		q->of[s].parked = 0;
}

static void quorum_step_begins(struct worker *w)
{
	progress_enter(w->job);
	w->quorum->makes = 1;
	unpark(w->quorum);
	w->quorum->mark = (uint32_t)messages_completed(w->job);
	progress_unlock(w->job);
	step_set_norm(&w->step, w->quorum->weight);
}

/* Returns the number of collectives that this worker has completed. In MESSAGE_PARK, it is the
 * number of the collective that the worker joins next. */
static uint32_t quorum_mark(const struct worker *w)
{
	return w->quorum->mark;
}

/* ---- publications ------------------------------------------------------------ */

uint64_t quorum_wanted(const struct worker *w, uint32_t shard)
{
	return lane_have(w->lanes, shard) + 1;
}

void quorum_expect(const struct worker *w, uint32_t shard, struct message_expect *want)
{
	want->step = quorum_wanted(w, shard);
	want->phase = w->step.phase;
}

/* Sends MESSAGE_PARK with the number of the collective that this worker joins next. */
static void park_at(struct worker *w, uint32_t shard)
{
	w->quorum->mark = (uint32_t)messages_completed(w->job) + 1;
	upload_without(w, shard, MESSAGE_PARK);
	lane_post(w->lanes, shard);
}

/* Asks one shard for its newest publication, by a message without coordinates, which also ends the
 * parking. Does nothing if the shard has no free slot; the next poll calls this again. */
static void ask_newest(struct worker *w, uint32_t shard)
{
	struct quorum_shard_state *of = &w->quorum->of[shard];

	if (!lane_free(w->lanes, shard))
		return;
	of->reading = READS_ANSWER;
	of->parked = 0;
	of->stands_by = 0;
	w->quorum->mark = (uint32_t)messages_completed(w->job);
	upload_without(w, shard, MESSAGE_ASK);
	lane_post(w->lanes, shard);
}

/* Returns the number of announced publications that this worker has not applied. */
static uint64_t behind(const struct worker *w, uint32_t shard)
{
	return lane_version(w->lanes, shard) - lane_have(w->lanes, shard);
}

void quorum_read(struct worker *w, uint32_t shard)
{
	const struct shard_layout *at = &w->layout->shards[shard];
	struct quorum_shard_state *of = &w->quorum->of[shard];
	const int close = behind(w, shard) <= QUORUM_LOG_ENTRIES;

	if (!lane_posted(w->lanes, shard))
		lane_post(w->lanes, shard);
	if (!lane_idle(w->lanes, shard) || !lane_acknowledged(w->lanes, shard))
		return;
	if (of->reading == READS_ANSWER)
		of->reading = close ? READS_DELTAS : READS_PARTS;
	if (of->reading == READS_PARTS) {
		const struct snapshot_part part = snapshot_part(at->span, of->part);

		lane_read_snapshot(w->lanes, shard, part.offset, part.bytes);
	} else if (!close) {
		ask_newest(w, shard);
	} else if (behind(w, shard)) {
		lane_read(w->lanes, shard);
	}
}

/* Begins again, because the shard has overwritten what this worker was reading. */
static void read_again(struct worker *w, uint32_t shard)
{
	w->quorum->of[shard].part = 0;
	w->quorum->of[shard].reading = READS_DELTAS;
	ask_newest(w, shard);
}

void quorum_torn(struct worker *w, uint32_t shard)
{
	read_again(w, shard);
}

/* Returns NULL, or why the message is not the next part of a snapshot. */
static const char *judge_part(const struct worker *w, uint32_t shard, const struct message *m)
{
	const struct shard_layout *at = &w->layout->shards[shard];
	const struct snapshot_part part = snapshot_part(at->span, w->quorum->of[shard].part);
	const struct message_expect want = { .kind = MESSAGE_SNAPSHOT,
					     .rank = (uint64_t)home_rank(w->model.home, shard),
					     .epoch = model_epoch(w->job),
					     .model = w->model.id,
					     .shard = shard,
					     .seq = MESSAGE_ANY,
					     .step = m->seq,
					     .span = part.span,
					     .count_max = part.span };
	const char *why = NULL;

	if (message_check(m, &want, &why))
		return why;
	if (m->part != w->quorum->of[shard].part || m->parts != snapshot_parts(at->span) ||
	    m->coding != CODING_DENSE)
		return "it is another part of the snapshot than expected";
	return NULL;
}

/* Returns the flags that were raised after publication `have`. m: of a snapshot. */
static unsigned flags_since(const struct message *m, uint64_t have)
{
	const uint64_t ago = m->divisor | (uint64_t)m->anchor << 32;
	unsigned raised = 0;

	for (int f = 0; f < 8; f++) {
		const uint64_t n = ago >> 8 * f & 0xff;

		raised |= (unsigned)(n && m->seq + 1 > have + n) << f;
	}
	return raised;
}

/* Takes a part of a snapshot in place of the shard's common parameters. */
static void take_common(struct worker *w, uint32_t shard, const struct message *m,
			const uint8_t *copy)
{
	const struct shard_layout *at = &w->layout->shards[shard];
	struct quorum_shard_state *of = &w->quorum->of[shard];
	const char *why = judge_part(w, shard, m);
	float *base = w->kept.of[KEPT_BASE];

	base += at->begin + snapshot_part(at->span, of->part).begin;
	/* The part belongs to an older snapshot, to a snapshot that replaced the one whose first
	 * part was read, or to a snapshot for another worker that is newer than the last notice. */
	if (!why && (m->seq <= lane_have(w->lanes, shard) || (of->part && m->seq != of->snapshot) ||
		     m->seq > lane_version(w->lanes, shard))) {
		read_again(w, shard);
		return;
	}
	if (why || message_decode(NULL, m, copy, NULL, base, &why)) {
		lane_refuse(w->lanes, shard, why);
		return;
	}
	of->snapshot = m->seq;
	if (++of->part < snapshot_parts(at->span)) {
		lane_took(w->lanes, shard, lane_have(w->lanes, shard), lane_base(w->lanes, shard));
		return;
	}
	of->part = 0;
	of->reading = READS_DELTAS;
	of->applied += m->seq - lane_have(w->lanes, shard);
	of->counted = 0;
	step_shard_ends(&w->step, flags_since(m, lane_have(w->lanes, shard)));
	lane_took(w->lanes, shard, m->seq, m->seq);
}

int quorum_took(struct worker *w, uint32_t shard, const struct message *m, const uint8_t *copy)
{
	struct quorum_shard_state *of = &w->quorum->of[shard];

	if (of->reading == READS_PARTS) {
		take_common(w, shard, m, copy);
		return 1;
	}
	if (m->kind == MESSAGE_DELTA && m->seq > quorum_wanted(w, shard)) {
		read_again(w, shard);
		return 1;
	}
	of->applied++;
	of->counted = m->divisor;
	return 0;
}

int quorum_pulled_from(const struct worker *w, uint32_t shard)
{
	const struct quorum_shard_state *of = &w->quorum->of[shard];

	return of->reading == READS_DELTAS && !of->stands_by && lane_idle(w->lanes, shard) &&
	       lane_acknowledged(w->lanes, shard) && !behind(w, shard);
}

/* Returns 1 if some shards have counted the push and others have not, for longer than the grace and
 * SPLIT_NS together. Until then, this rank must look at the clock although no event comes. */
static int stays_split(struct worker *w, int split)
{
	struct quorum *q = w->quorum;

	q->late &= split;
	if (split && !q->late) {
		const uint64_t now = sim_rank_time_ns(w->job->sim_rank);

		q->split_ns = q->watches ? q->split_ns : now;
		q->late = (double)(now - q->split_ns) >=
			  (double)w->rules.recipe->quorum.grace * 1e9 + SPLIT_NS;
	}
	if (q->watches != (split && !q->late))
		progress_unannounced(w->job, q->watches ? -1 : 1);
	q->watches = split && !q->late;
	return q->late;
}

/* If some shards have counted this worker's push and others have not, the worker makes no other
 * push before the latter close an exchange. If the latter waited for a worker that waits in the
 * same way for the former, no shard would close. So the former get MESSAGE_PARK if that lasts
 * (stays_split()), and MESSAGE_ASK when all shards have counted the push. */
static void stand_by(struct worker *w)
{
	const uint32_t next = (uint32_t)messages_completed(w->job) + 1;
	struct quorum *q = w->quorum;
	int all = 1, any = 0;

	for (uint32_t s = 0; s < q->n_shards; s++) {
		q->of[s].counts |= lane_acknowledged(w->lanes, s);
		all &= q->of[s].counts;
		any |= q->of[s].counts;
	}
	const int late = stays_split(w, any && !all);

	for (uint32_t s = 0; s < q->n_shards; s++) {
		struct quorum_shard_state *of = &q->of[s];

		if (!lane_acknowledged(w->lanes, s))
			continue;
		if (late && of->stands_by != next) {
			park_at(w, s);
			of->stands_by = next;
		} else if (all && of->stands_by) {
			ask_newest(w, s);
		}
	}
}

int quorum_pulled(struct worker *w)
{
	int done = 1;

	stand_by(w);

	for (uint32_t s = 0; s < w->quorum->n_shards && done; s++)
		done = quorum_pulled_from(w, s);
	return done;
}

/* ---- figures ------------------------------------------------------------------ */

uint64_t quorum_missed(const struct quorum *quorum)
{
	uint64_t most = 0;

	for (uint32_t s = 0; s < quorum->n_shards; s++)
		most = quorum->of[s].missed > most ? quorum->of[s].missed : most;
	return most;
}

uint64_t quorum_exchanges(const struct worker *w)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t s = 0; s < w->quorum->n_shards; s++)
		least = lane_have(w->lanes, s) < least ? lane_have(w->lanes, s) : least;
	return least;
}

unsigned quorum_counted(const struct quorum *quorum)
{
	unsigned least = UINT32_MAX;

	for (uint32_t s = 0; s < quorum->n_shards; s++)
		least = quorum->of[s].counted < least ? quorum->of[s].counted : least;
	return least;
}

/* ---- messages without a drift --------------------------------------------------- */

static void quorum_sent(struct worker *w, uint64_t elements)
{
	(void)elements;
	for (uint32_t s = 0; s < w->quorum->n_shards; s++)
		w->quorum->of[s].counts = 0;
	w->quorum->makes = 0;
}

int quorum_ask(struct worker *w)
{
	const int rc = upload_ask(w, quorum_step_begins);

	w->quorum->makes = 0;
	return rc;
}

static void describe_quorum(void *context, char *text, size_t cap)
{
	const struct worker *w = context;
	uint32_t s = 0;

	while (s + 1 < w->quorum->n_shards && lane_acknowledged(w->lanes, s))
		s++;
	snprintf(text, cap,
		 "an answer of shard %u at %s to the report that this rank joins a collective call",
		 s, rank_text(w->job, home_rank(w->model.home, s)));
}

/* Sends MESSAGE_PARK to each shard that has counted this worker's push. Returns 1 if the shards
 * have counted all messages, or if the model's thread has begun to make more. */
static int all_parked(void *context)
{
	struct worker *w = context;
	struct quorum *q = w->quorum;
	int all = 1;

	for (uint32_t s = 0; s < q->n_shards && !q->makes && !w->job->failure.code; s++) {
		if (!lane_post(w->lanes, s) || !lane_acknowledged(w->lanes, s)) {
			all = 0;
		} else if (!q->of[s].parked && messages_claimed(w->job)) {
			q->of[s].parked = 1;
			park_at(w, s);
			all = 0;
		}
	}
	return all && !w->job->failure.code;
}

/* Sends MESSAGE_PARK to all shards, unless the collective ends meanwhile or the model's thread
 * begins a push. A push that waits must be counted first. The shards can count it before this rank
 * joins the collective, because they do not wait for ranks that have joined. Each shard gets the
 * message when it has counted the push: if all of them got it after the last one had counted, two
 * workers whose pushes wait at different shards would wait for each other. Waits for the answers,
 * so that at most one message to each shard is unread, and no answer is under way when the model is
 * restored or closed. */
static int park_worker(struct worker *w)
{
	unpark(w->quorum);
	return progress_until(w->job, all_parked, describe_quorum, w);
}

/* Parks only for a collective of the model's job, because other collectives do not include all of
 * its workers. While the model's thread makes messages, this function does nothing, and the worker
 * parks when its pull ends. */
int quorum_park(struct worker *w)
{
	struct quorum *q = w->quorum;

	if (!q || q->unshared || q->makes || !messages_joins(w->job) ||
	    q->joined == messages_next(w->job))
		return 0;
	q->joined = messages_next(w->job);
	return park_worker(w);
}

static void quorum_pull_ends(struct worker *w)
{
	struct quorum *q = w->quorum;

	for (uint32_t s = 0; s < q->n_shards; s++) {
		q->of[s].missed = q->of[s].applied ? q->of[s].applied - 1 : 0;
		q->of[s].applied = 0;
	}
	w->model.stats->missed_exchanges += quorum_missed(w->quorum);
	progress_take(w->job);
	q->makes = 0;
	/* The push ended the parking, and another thread may still be in the collective. */
	if (messages_claimed(w->job))
		park_worker(w);
	progress_release(w->job);
}

const struct step_hooks quorum_hooks = { .used = quorum_used,
					 .open = quorum_open,
					 .close = quorum_close,
					 .restart = quorum_restart,
					 .begin = quorum_begin,
					 .step_begins = quorum_step_begins,
					 .mark = quorum_mark,
					 .sent = quorum_sent,
					 .pulled = quorum_pull_ends };
