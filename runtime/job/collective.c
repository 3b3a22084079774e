/* SPDX-License-Identifier: BSD-3-Clause
 * Collectives among all ranks after the bootstrap. Each rank writes one message to each peer and
 * waits for theirs. There is room for two messages per pair of ranks, which is enough, because no
 * rank can begin round n+2 before all have finished round n. This is the control path only:
 * gradients and deltas are never sent here.
 *
 * Where lost workers are dropped (members.c), a round has one step more. Without it, a worker that
 * died after it wrote to some ranks would count there and not on the others:
 *
 *   1. Each rank writes its message to each living peer.
 *   2. A rank that holds the messages of all ranks that live in its epoch reports this to the
 *      announcer. The missing message of a lost worker delays this only until the epoch without
 * that worker is adopted.
 *   3. When all living ranks have reported, the announcer closes the round with the workers that
 *      live then, and announces both. A report from an older epoch is enough, because that rank
 *      then holds more messages than it needs.
 *   4. A rank uses the messages of the workers named in 3, all of which it holds. The rows of
 * others are zero.
 *
 * So all ranks use the same rows in the same round, whenever they learn of a loss, and no round is
 * ever repeated. A worker counts if it lived when the round was closed, even if it dies before it
 * learns of that. It does not matter which worker is lost, rank 0 or another, or how many. */
#include "base/arguments.h"
#include "job/collective.h"
#include "job/failure.h"
#include "job/peers.h"
#include "job/progress_token.h"
#include "base/bytes.h"
#include "job/hubs.h"
#include "job/living.h"
#include "job/members.h"
#include <stdio.h>
#include <stdlib.h>

struct round {
	sluice_job *job;
	uint64_t seq;
	uint32_t op;
	struct about about;
	int next_post; /* this rank's message was posted to all peers below this number */
	const uint8_t *mine;
	size_t stride, bytes;
};

/* Posts the messages that are not posted yet. If a queue is full, it stops; the caller calls it
 * again after progress. */
static int post_messages(struct round *r)
{
	sluice_job *job = r->job;
	for (; r->next_post < job->size; r->next_post++) {
		int p = r->next_post;
		if (!messages_are_direct(job, p, r->seq) || !job->peers[p].control)
			continue; /* a hub forwards the message */
		if (job->peers[p].state != PEER_ALIVE)
			/* Unless the peer is dropped, the wait for its message will name it. */
			continue;
		int rc = messages_put(job, p, r->seq, r->op, r->about,
				      r->bytes ? r->mine + r->stride * (size_t)p : NULL, r->bytes);
		if (rc == SLUICE_EAGAIN || rc == SLUICE_EPEER)
			return rc;
		if (rc)
			return job_fail(job, rc, p, "cannot write to %s", rank_text(job, p));
	}
	return 0;
}

/* Returns the first rank that has not written its message to this rank. If there is none, returns
 * the first one whose message a hub has not forwarded, or -1 if no message is missing. */
static int first_missing(const struct round *r)
{
	int forwarded = -1;
	for (int p = 0; p < r->job->size; p++) {
		if (messages_has(r->job, p, r->seq) || !job_living(r->job, p))
			continue;
		if (messages_are_direct(r->job, p, r->seq))
			return p;
		if (forwarded < 0)
			forwarded = p;
	}
	return forwarded;
}

/* Forwards the messages if this rank is a hub. Returns 1 when that is done, 0 before, or an
 * error. */
static int forward_messages(struct round *r)
{
	int member = r->job->rank;
	const int rc = messages_forward(r->job, r->seq, r->stride ? 0 : COLLECTIVE_BYTES, &member);
	if (!rc || rc == SLUICE_EAGAIN)
		return !rc;
	return job_fail(r->job, rc, member, "cannot write to %s", rank_text(r->job, member));
}

static int call_differs(const struct round *r, int peer, const struct collective_message *message)
{
	const int ends = message->op == COLLECTIVE_CLOSE || message->op == COLLECTIVE_FINALIZE;

	return job_fail(r->job, SLUICE_EINVAL, peer,
			"collectives differ: %s is in %s (%u bytes), this rank in %s (%zu bytes)%s",
			rank_text(r->job, peer), collective_name(message->op), message->bytes,
			collective_name(r->op), r->bytes,
			ends ? "; that rank has ended early: read its output" : "");
}

static const char *closed_text(uint32_t about, char text[32])
{
	if (about_is_model(about))
		snprintf(text, 32, "model %u", about);
	else
		snprintf(text, 32, "region %u", about - ABOUT_REGIONS);
	return text;
}

/* Ranks that close different models or regions would later number them differently, and would take
 * a notify of one region for a notify of another. */
static int closing_differs(const struct round *r, int peer,
			   const struct collective_message *message)
{
	char theirs[32], mine[32];

	return job_fail(r->job, SLUICE_EINVAL, peer,
			"collectives differ: %s closes %s, but %s closes %s (numbered from 0 as "
			"they were opened): close models and regions in the same order on all "
			"ranks; if one of the two has ended early, read its output",
			rank_text(r->job, peer), closed_text(message->about.model, theirs),
			rank_text(r->job, r->job->rank), closed_text(r->about.model, mine));
}

static int is_other_closing(const struct round *r, uint32_t op, uint32_t about)
{
	return op == COLLECTIVE_CLOSE && op == r->op && about != r->about.model;
}

/* Fails at once, with a message that names the rank, if a rank is in another call. If workers may
 * be dropped, a call counts only if its message is part of the round, which take_messages()
 * determines. */
static int one_differs(const struct round *r)
{
	struct collective_message m;

	for (int p = 0; p < r->job->size && !job_elastic(r->job); p++) {
		if (!messages_has(r->job, p, r->seq))
			continue;

		const uint32_t op = messages_op(r->job, p, r->seq);

		if ((op == r->op && !is_other_closing(r, op, messages_about(r->job, p, r->seq))) ||
		    messages_read(r->job, p, r->seq, &m))
			continue;
		if (m.op != r->op)
			return call_differs(r, p, &m);
		if (is_other_closing(r, m.op, m.about.model))
			return closing_differs(r, p, &m);
	}
	return 0;
}

static int round_done(void *context)
{
	struct round *r = context;
	const int unposted = post_messages(r), rc = one_differs(r);
	if (rc)
		return rc;
	if (unposted || first_missing(r) >= 0)
		return 0;
	const int forwarded = forward_messages(r);
	if (forwarded <= 0)
		return forwarded;
	if (!job_elastic(r->job))
		return 1;
	members_held(r->job, r->seq);
	/* This rank must not leave before all other ranks know that the round is closed. */
	return members_closed(r->job, r->seq);
}

static void round_describe(void *context, char *text, size_t cap)
{
	struct round *r = context;
	int missing = 0, first = first_missing(r);
	for (int p = 0; p < r->job->size; p++)
		missing += !messages_has(r->job, p, r->seq) && job_living(r->job, p);
	if (first < 0 && job_elastic(r->job) && members_hold(r->job, r->seq))
		snprintf(text, cap,
			 "%s: a rank has not received a message, or %s does not close the round",
			 collective_name(r->op), rank_text(r->job, r->job->workers));
	else if (first < 0)
		snprintf(text, cap, "%s: all ranks have joined%s", collective_name(r->op),
			 r->next_post < r->job->size ? ", but a queue is full" : "");
	else if (!messages_are_direct(r->job, first, r->seq))
		snprintf(text, cap,
			 "%s: %s has not forwarded the messages of other ranks, because some of "
			 "them have not joined; its own log names one",
			 collective_name(r->op), rank_text(r->job, hubs_of(r->job, r->job->rank)));
	else
		snprintf(text, cap, "%s: %s has not joined%s", collective_name(r->op),
			 rank_text(r->job, first), missing > 1 ? ", nor have others" : "");
}

/* Returns 1 if the peer's bytes are not meant for this rank: each peer gets different bytes and
 * this peer is not connected. Hubs do not forward such bytes. */
static int is_not_for_this_rank(const struct round *r, int peer)
{
	return r->stride && !messages_are_direct(r->job, peer, r->seq);
}

/* Copies the messages out of memory that the peers can write, and validates each copy. */
static int take_messages(struct round *r, uint8_t *all)
{
	sluice_job *job = r->job;
	struct collective_message message;
	for (int p = 0; p < job->size; p++) {
		if (!round_has(job, p) || is_not_for_this_rank(r, p)) {
			if (all)
				memset(all + (size_t)p * r->bytes, 0, r->bytes);
			continue;
		}
		if (messages_read(job, p, r->seq, &message))
			return job_fail(job, SLUICE_EWIRE, p,
					"%s sent a collective message that is not valid",
					rank_text(job, p));
		/* A dedicated server may send no bytes. A worker sends as many bytes as this rank
		 * does. */
		int fits = r->mine && (p < job->workers || message.bytes) ?
				   message.bytes == r->bytes :
				   message.bytes <= r->bytes;
		if (message.op != r->op || !fits)
			return call_differs(r, p, &message);
		if (is_other_closing(r, message.op, message.about.model))
			return closing_differs(r, p, &message);
		if (all) {
			memset(all + (size_t)p * r->bytes, 0, r->bytes);
			memcpy(all + (size_t)p * r->bytes, message.copy + COLLECTIVE_HEADER_BYTES,
			       message.bytes);
		}
	}
	return 0;
}

uint32_t collective_pending(const sluice_job *job)
{
	uint64_t seq = messages_next(job);
	int first = 0;
	while (first < job->workers && !job_living(job, first))
		first++;
	return first < job->workers && messages_has(job, first, seq) ?
		       messages_op(job, first, seq) :
		       0;
}

static int none_collects(void *context)
{
	return !messages_claimed(context);
}

static void describe_other(void *context, char *text, size_t cap)
{
	(void)context;
	snprintf(text, cap, "the collective call of another thread");
}

/* Posts all pending pushes of this job, its root and all groups, before this rank waits for
 * something else. The call fails only if this job fails. */
static int park_all(sluice_job *job)
{
	sluice_job *root = job->root;
	int rc = clients_handler(&job->clients)->park(job);
	uint32_t at = 0;
	for (sluice_job *one; (one = groups_next(root, &at));)
		if (one != job)
			clients_handler(&one->clients)->park(one);
	return rc;
}

/* If mine is NULL, this rank takes part but sends no bytes. `bytes` then limits the messages of the
 * others. */
int collective_run_about(sluice_job *job, enum collective op, struct about about, const void *mine,
			 size_t stride, size_t bytes, void *all)
{
	struct round r = { .job = job,
			   .op = op,
			   .about = about,
			   .mine = mine,
			   .stride = stride,
			   .bytes = mine ? bytes : 0 };
	progress_take(job);
	int rc = job_failed(job);
	if (!rc && messages_claimed(job))
		rc = progress_until(job, none_collects, describe_other, job);
	if (rc) {
		progress_release(job);
		return rc;
	}
	messages_claim(job);
	rc = park_all(job);
	if (!rc) {
		r.seq = messages_begin(job);
		rc = progress_until(job, round_done, round_describe, &r);
	}
	r.bytes = bytes;
	if (!rc)
		rc = take_messages(&r, all);
	messages_free(job);
	progress_release(job);
	return rc;
}

int collective_run(sluice_job *job, enum collective op, const void *mine, size_t stride,
		   size_t bytes, void *all)
{
	return collective_run_about(job, op, (struct about){ ABOUT_NO_MODEL, 0 }, mine, stride,
				    bytes, all);
}

/* A rank reports its error in a row: a code, the beginning of the error's text, and a digest of the
 * text. Without an error, a number is in place of the text. */
enum { ROW_TEXT = 4, ROW_DIGEST = 248, ROW_BYTES = 256 };

/* Returns 1 if no lower rank reported the same error. */
static int is_first(const sluice_job *job, const uint8_t *rows, const uint8_t *mine)
{
	for (int r = 0; r < job->rank; r++)
		if (round_has(job, r) && !memcmp(rows + (size_t)r * ROW_BYTES, mine, ROW_BYTES))
			return 0;
	return 1;
}

static uint64_t largest(const sluice_job *job, const uint8_t *rows, int *rank)
{
	uint64_t most = 0;

	*rank = job->rank;
	for (int r = 0; r < job->size; r++) {
		const uint64_t value = get_le64(rows + (size_t)r * ROW_BYTES + ROW_TEXT);

		if (!round_has(job, r) || value <= most)
			continue;
		most = value;
		*rank = r;
	}
	return most;
}

/* If several ranks have the same error text, the lowest of them logs it as an error and the others
 * log it at level info. This covers an error that the caller held back (error_hold), and the errors
 * of ranks that fail because another rank did. */
int collective_agree_most(sluice_job *job, int rc, const char *what, uint64_t *most, int *rank)
{
	uint8_t mine[ROW_BYTES] = { 0 }, *rows = malloc((size_t)job->size * ROW_BYTES);
	if (!rc && !rows)
		rc = fail(SLUICE_ENOMEM, "no memory to gather from %d ranks", job->size);
	put_le32(mine, (uint32_t)rc);
	if (rc) {
		snprintf((char *)mine + ROW_TEXT, ROW_DIGEST - ROW_TEXT, "%s", sluice_last_error());
		put_le64(mine + ROW_DIGEST,
			 digest64(sluice_last_error(), strlen(sluice_last_error())));
	} else {
		put_le64(mine + ROW_TEXT, *most);
		/* This rank has no error, so nothing remains to be held back: later errors are
		 * logged at once. */
		error_release(LOG_ERROR);
	}
	int all = collective_run(job, COLLECTIVE_OPEN, mine, 0, ROW_BYTES, rows);
	enum log_level level = all || !rows || is_first(job, rows, mine) ? LOG_ERROR : LOG_INFO;
	for (int r = 0; r < job->size && !all && !rc; r++) {
		const uint8_t *row = rows + (size_t)r * ROW_BYTES;
		if (!get_le32(row))
			continue;
		error_hold();
		all = fail(SLUICE_EPEER, "%s could not %s: %.*s", rank_text(job, r), what,
			   ROW_DIGEST - ROW_TEXT - 1, (const char *)row + ROW_TEXT);
	}
	error_release(level);
	if (!rc && !all)
		*most = largest(job, rows, rank);
	free(rows);
	return rc ? rc : all;
}

int collective_agree(sluice_job *job, int rc, const char *what)
{
	uint64_t most = 0;
	int rank;

	return collective_agree_most(job, rc, what, &most, &rank);
}

int sluice_barrier(sluice_job *job)
{
	int rc = job_check(job, "sluice_barrier");
	return rc ? rc : collective_run(job, COLLECTIVE_BARRIER, NULL, 0, 0, NULL);
}

int sluice_gather(sluice_job *job, const void *mine, size_t bytes, void *all)
{
	int rc = job_check(job, "sluice_gather");
	if (rc)
		return rc;
	if (!mine || !all || bytes > SLUICE_GATHER_MAX)
		return fail(SLUICE_EINVAL,
			    "sluice_gather: mine or all is NULL, or bytes=%zu is above "
			    "SLUICE_GATHER_MAX, %d: move larger data through a region "
			    "or a model",
			    bytes, SLUICE_GATHER_MAX);
	uint8_t *rows = malloc((size_t)job->size * bytes + 1);
	if (!rows)
		return fail(SLUICE_ENOMEM, "sluice_gather: no memory to gather from %d ranks",
			    job->size);
	rc = collective_run(job, COLLECTIVE_GATHER, mine, 0, bytes, rows);
	if (!rc)
		memcpy(all, rows, (size_t)job->workers * bytes);
	free(rows);
	return rc;
}

int sluice_sum(sluice_job *job, double *values, size_t n)
{
	enum { CHUNK = COLLECTIVE_BYTES / sizeof(double) };
	int rc = job_check(job, "sluice_sum");
	if (rc)
		return rc;
	if (!values && n)
		return fail(SLUICE_EINVAL, "sluice_sum: values is NULL");
	if ((rc = argument_aligned(values, sizeof *values, "values", "sluice_sum")))
		return rc;
	double *rows = malloc((size_t)job->size * COLLECTIVE_BYTES);
	if (!rows)
		return fail(SLUICE_ENOMEM, "sluice_sum: no memory to gather from %d ranks",
			    job->size);
	for (size_t at = 0; at < n && !rc; at += CHUNK) {
		size_t part = n - at < CHUNK ? n - at : CHUNK;
		rc = collective_run(job, COLLECTIVE_SUM, values + at, 0, part * sizeof *rows, rows);
		for (size_t i = 0; i < part && !rc; i++) {
			double sum = 0;
			for (int r = 0; r < job->workers; r++) /* the order of the ranks is fixed,
								  so all ranks get the same bits */
				sum += rows[(size_t)r * part + i];
			values[at + i] = sum;
		}
	}
	free(rows);
	return rc;
}
