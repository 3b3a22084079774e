/* SPDX-License-Identifier: BSD-3-Clause
 * See shard_quorum.h. Called by shard.c and publish.c. */
#include "shard/shard_quorum.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "job/messages.h"
#include "job/peers.h"
#include "job/sim_rank.h"
#include "model/layout.h"
#include "shard/gather.h"
#include "shard/inbox.h"
#include "shard/publish.h"
#include "shard/reduce.h"
#include "shard/state.h"
#include <stdlib.h>
#include <string.h>

enum { FLAGS = 8 }; /* of sluice_raise() */

struct quorum_worker {
	uint64_t steps;  /* number of its pushes that were counted */
	uint64_t missed; /* number of consecutive exchanges that closed without it, up to now */
	uint64_t spells; /* number of absences so far, each of one or more such exchanges */
	float weight;    /* weight of its push that waits */
	int waits;       /* 1: its next message is a checked push */
	int parked;      /* 1: it has joined collective number `collective` */
	uint32_t collective;
};

struct quorum_shard {
	uint32_t completed; /* the most collectives that the worker of any push has completed */
	int running;        /* 1: the grace runs */
	uint64_t since;     /* time or turn at which it began */
	int wrote;          /* 1: the snapshot is that of publication `snapshot` */
	uint64_t snapshot;
	uint64_t raised[FLAGS]; /* the newest publication with each flag; 0: there is none */
	struct quorum_worker of[];
};

/* ---- memory ---------------------------------------------------------------- */

static int shard_quorum_used(const struct shard *shard)
{
	return shard->rules.recipe->quorum.workers != 0;
}

static int shard_quorum_open(struct shard *shard)
{
	const size_t workers = (size_t)shard->job->workers;
	const struct quorum_shard *q;

	q = shard->quorum = calloc(1, sizeof(*q) + workers * sizeof(q->of[0]));
	return q ? 0 : fail(SLUICE_ENOMEM, "no memory for shard %u", shard->id);
}

/* While the grace runs, this rank must look at the clock although no event comes. */
static void run_grace(const struct shard *shard, int running)
{
	struct quorum_shard *q = shard->quorum;

	if (q->running != running)
		progress_unannounced(shard->job, running - q->running);
	q->running = running;
}

static void shard_quorum_close(struct shard *shard)
{
	free(shard->quorum);
	shard->quorum = NULL;
}

static void shard_quorum_restart(struct shard *shard)
{
	struct quorum_shard *q = shard->quorum;

	if (!q)
		return;
	q->wrote = 0;
	memset(q->raised, 0, sizeof(q->raised));
	for (int w = 0; w < shard->job->workers; w++)
		q->of[w] = (struct quorum_worker){ .steps = shard->rules.first_step };
}

/* ---- messages ---------------------------------------------------------------- */

/* Returns 1 if collective number a comes after b. The numbers have 32 bits. */
static int is_after(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

static void expect_drift(const struct shard *shard, int worker, const struct message *m,
			 struct message_expect *want)
{
	want->kind = m->kind == MESSAGE_ASK || m->kind == MESSAGE_PARK ? m->kind : MESSAGE_PUSH;
	want->step = want->kind == MESSAGE_PUSH ? shard->quorum->of[worker].steps + 1 : MESSAGE_ANY;
	want->phase = 0;
	want->span = shard->at->span;
	want->count_max = shard->at->room;
}

static const char *judge_drift(const struct shard *shard, int worker, const struct message *m)
{
	/* A worker joins no collective before this rank has joined the one before it. */
	const uint32_t joined = (uint32_t)messages_next(shard->job) - (m->kind != MESSAGE_PARK);

	(void)worker;
	if (is_after(m->anchor, joined))
		return "it names a collective that cannot have begun";
	if (m->have_version > shard->published)
		return "the worker holds a version that this shard has not published";
	if (m->chosen)
		return "its choice is not valid, because this recipe offers none";
	if (m->kind == MESSAGE_PUSH && !(m->norm > 0))
		return "its weight is not above 0";
	if (m->kind == MESSAGE_PUSH && shard->rules.recipe->reduce == REDUCE_SENDERS &&
	    m->norm != 1)
		return "its weight is not 1 (SLUICE_WEIGHT), but with reduce=senders all drifts "
		       "count equally";
	return NULL;
}

static const struct intake intake = { expect_drift, judge_drift };

/* Returns 1 if the log does not have all publications after this one. */
static int is_far(const struct shard *shard, uint64_t publication)
{
	return shard->published - publication > QUORUM_LOG_ENTRIES;
}

/* Returns how long ago each flag was raised, as a snapshot has it (compress/message.h). */
static uint64_t flags_ago(const struct shard *shard)
{
	uint64_t all = 0;

	for (int f = 0; f < FLAGS; f++) {
		const uint64_t at = shard->quorum->raised[f], ago = shard->published - at + 1;

		all |= at && ago <= UINT8_MAX ? ago << 8 * f : 0;
	}
	return all;
}

/* Answers a worker that holds version `have`, but is too far behind for the log or does not know
 * what it has missed. Another worker may be reading the snapshot, so it is replaced only when the
 * log no longer continues it. */
static void answer_ask(struct shard *shard, int worker, uint64_t have)
{
	struct quorum_shard *q = shard->quorum;
	int rc = 0;

	if (is_far(shard, have) && (!q->wrote || is_far(shard, q->snapshot))) {
		rc = shard_publish_snapshot(shard, flags_ago(shard));
		q->wrote = !rc;
		q->snapshot = shard->version;
	}
	if (rc)
		job_fail(shard->job, rc, shard->job->rank, "%s", sluice_last_error());
	else
		inbox_announce(shard, worker, inbox_newest(shard, worker), 1);
}

/* Takes the worker's messages up to its next push, which it checks and leaves in the inbox. Returns
 * 1 if there were any. */
static int take_waiting(struct shard *shard, int worker)
{
	struct quorum_shard *q = shard->quorum;
	struct quorum_worker *of = &q->of[worker];
	struct taken t;
	int any = 0;

	while (!of->waits && inbox_has(shard, worker) &&
	       shard->job->peers[worker].state != PEER_LOST &&
	       !inbox_take(shard, worker, &intake, INBOX_HEADER, &t)) {
		any = 1;
		of->parked = t.m.kind == MESSAGE_PARK;
		if (of->parked)
			of->collective = t.m.anchor;
		else if (is_after(t.m.anchor, q->completed))
			q->completed = t.m.anchor;
		of->waits = t.m.kind == MESSAGE_PUSH;
		of->weight = t.m.norm;
		if (of->waits || inbox_accept(shard, worker))
			break;
		if (t.m.kind == MESSAGE_ASK)
			answer_ask(shard, worker, t.m.have_version);
		else /* the worker joins when it knows that the shards do not wait for it */
			inbox_announce(shard, worker, inbox_newest(shard, worker), 1);
	}
	return any;
}

/* ---- closing ----------------------------------------------------------------- */

static int is_expected(const struct quorum_shard *q, int worker)
{
	const struct quorum_worker *of = &q->of[worker];

	return of->waits || !of->parked || !is_after(of->collective, q->completed);
}

/* Returns 1 if the grace is over. It begins with the first call for an exchange. */
static int grace_is_over(const struct shard *shard)
{
	const double grace = (double)shard->rules.recipe->quorum.grace;
	struct quorum_shard *q = shard->quorum;
	const uint64_t now = grace > 0 ? sim_rank_time_ns(shard->job->sim_rank) : 0;

	if (!q->running) {
		q->since = now;
		run_grace(shard, 1);
	}
	return (double)(now - q->since) >= grace * 1e9;
}

/* Returns 1 if the worker's current absence is logged: its first, second, fourth, eighth and so
 * on. Workers may be absent in turn all the time. */
static int is_logged(const struct quorum_worker *of)
{
	return !(of->spells & (of->spells - 1));
}

static void warn_of_missing(const struct shard *shard, int worker, uint32_t counted)
{
	log_line(LOG_WARN, "runtime",
		 "shard %u closes exchange %llu with %u of %d workers and without %s, whose push "
		 "has not arrived %g s after the quorum (absence %llu of this rank; absences 1, 2, "
		 "4, 8 and so on are logged). Its drift counts when it comes. To avoid absences, "
		 "raise grace=, let this rank make fewer steps, or let each worker train until "
		 "`exchanges` of sluice_step_info() reaches the same number",
		 shard->id, (unsigned long long)shard->version + 1, counted, shard->job->workers,
		 rank_text(shard->job, worker), (double)shard->rules.recipe->quorum.grace,
		 (unsigned long long)shard->quorum->of[worker].spells);
}

/* Counts the workers that the exchange closes without, and logs when one becomes absent or is
 * back. */
static void note_missing(struct shard *shard, uint32_t counted)
{
	struct quorum_shard *q = shard->quorum;

	for (int w = 0; w < shard->job->workers; w++) {
		struct quorum_worker *of = &q->of[w];

		if (of->waits && of->missed && is_logged(of))
			log_line(LOG_INFO, "runtime",
				 "shard %u counts %s again, without which %llu exchanges closed",
				 shard->id, rank_text(shard->job, w),
				 (unsigned long long)of->missed);
		if (of->waits)
			of->missed = 0;
		if (!is_expected(q, w) || of->waits)
			continue;
		shard->model.stats->absent_workers++;
		of->spells += !of->missed;
		if (!of->missed++ && is_logged(of))
			warn_of_missing(shard, w, counted);
	}
}

/* Adds the next push of the worker to the sum. factor: its weight, relative to the mean weight of
 * the exchange. */
static int add_weighted(struct shard *shard, int worker, double factor)
{
	const struct quorum_worker *of = &shard->quorum->of[worker];
	const struct entries got = scratch_entries(shard->scratch);
	struct taken t;

	if (inbox_take(shard, worker, &intake, INBOX_DECODE, &t))
		return SLUICE_EWIRE;
	if (t.m.kind != MESSAGE_PUSH || float_bits(t.m.norm) != float_bits(of->weight))
		return inbox_refuse(shard, worker, "its bytes changed after they were checked");
	if (!gather_same_rate(shard, worker, t.m.lr, !gather_counted(shard)) ||
	    !gather_count(shard, worker, &t.m))
		return SLUICE_EWIRE;
	for (uint32_t i = 0; factor != 1 && i < t.m.count; i++)
		got.value[i] = (float)(factor * (double)got.value[i]);
	reduction_add(&shard->reduction, t.m.coding == CODING_DENSE ? NULL : got.index, got.value,
		      t.m.count);
	return 0;
}

/* Adds all pushes that wait. If all weights are equal, each factor is exactly 1. */
static int add_pushes(struct shard *shard, uint32_t n, double weights)
{
	struct quorum_shard *q = shard->quorum;

	run_grace(shard, 0);
	note_missing(shard, n);
	for (int w = 0; w < shard->job->workers; w++)
		if (q->of[w].waits && add_weighted(shard, w, (double)q->of[w].weight * n / weights))
			return 0;
	return 1;
}

int shard_quorum_gather(struct shard *shard, int *moved)
{
	struct quorum_shard *q = shard->quorum;
	const uint32_t need = shard->rules.recipe->quorum.workers;
	uint32_t here = 0, expected = 0;
	double weights = 0;

	*moved = 0;
	for (int w = 0; w < shard->job->workers && !shard->job->failure.code; w++) {
		*moved |= take_waiting(shard, w);
		here += (uint32_t)q->of[w].waits;
		weights += q->of[w].waits ? (double)q->of[w].weight : 0;
	}
	for (int w = 0; w < shard->job->workers; w++)
		expected += (uint32_t)is_expected(q, w);
	const uint32_t parked = (uint32_t)shard->job->workers - expected;

	if (shard->job->failure.code)
		return 0;
	if (!here)
		inboxes_wait_since(shard, 0);
	if (!here || here + parked < need) {
		run_grace(shard, 0);
		return 0;
	}
	return (here == expected || grace_is_over(shard)) && add_pushes(shard, here, weights);
}

int shard_quorum_excused(const struct shard *shard, int worker)
{
	return shard->quorum->of[worker].waits || !is_expected(shard->quorum, worker);
}

static int shard_quorum_counts(const struct shard *shard, int worker)
{
	return shard->quorum->of[worker].waits;
}

/* Called when the exchange is published. */
static void shard_quorum_step_ends(struct shard *shard)
{
	for (int f = 0; f < FLAGS; f++)
		if (gather_view(shard)->raised >> f & 1)
			shard->quorum->raised[f] = shard->published;
	for (int w = 0; w < shard->job->workers; w++) {
		struct quorum_worker *of = &shard->quorum->of[w];

		of->steps += (uint64_t)of->waits;
		of->waits = 0;
	}
}

const struct shard_hooks shard_quorum_hooks = { .used = shard_quorum_used,
						.open = shard_quorum_open,
						.close = shard_quorum_close,
						.restart = shard_quorum_restart,
						.counts = shard_quorum_counts,
						.step_ends = shard_quorum_step_ends };
