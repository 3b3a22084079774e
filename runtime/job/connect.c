/* SPDX-License-Identifier: BSD-3-Clause
 * See connect.h. */
#include "job/connect.h"
#include "base/clock.h"
#include "base/log.h"
#include "job/collective.h"
#include "job/describe.h"
#include "job/heart.h"
#include "job/hubs.h"
#include "job/living.h"
#include "job/peers.h"
#include "job/progress_token.h"
#include "job/reach.h"
#include "job/state.h"
#include "job/ways.h"
#include <stdio.h>
#include <stdlib.h>

struct transport *connect_transport(const sluice_job *job, const struct transport_ops *ops,
				    int card)
{
	for (int t = 0; t < job->transports.n; t++)
		if (job->transports.list[t]->ops == ops && job->transports.list[t]->card == card)
			return job->transports.list[t];
	return NULL;
}

/* Returns 1 if the job can continue without the peer. */
static int may_do_without(const sluice_job *job, int peer)
{
	return job_can_lose(job, peer) && messages_next(job) > 1;
}

/* Starts to connect over the first transport that reaches the peer. */
static int connect_peer(sluice_job *job, int peer)
{
	const struct reach *reach = job->reach;
	const int way = reach_transport(reach, job->rank, peer);
	const int by_cards = way >= 0 && transports[way]->networks && peer != job->rank;
	const struct pairing cards = by_cards ? reach_pairing(reach, job->rank, peer) :
						(struct pairing){ .a = 0, .b = 0 };
	struct transport *t = way < 0 ? NULL : connect_transport(job, transports[way], cards.a);
	size_t bytes = 0;
	const uint8_t *address = t ? record_find(&job->records[peer], t->ops->name, cards.b,
						 &bytes) :
				     NULL;
	if (!address)
		return ways_unreachable(job, reach, job->rank, peer);
	int rc = t->ops->connect(t, peer, address, bytes, &job->peers[peer].endpoint);
	if (rc != SLUICE_EPEER)
		return rc;
	char why[ERROR_TEXT_BYTES];
	snprintf(why, sizeof why, "%s", sluice_last_error());
	if (may_do_without(job, peer)) {
		peers_lost(job, peer, why);
		return 0;
	}
	return job_fail(job, rc, peer, "%s is lost: %s", rank_text(job, peer), why);
}

/* Returns 1 if the peer is connected and its control region is open, and 0 while that is not so. */
static int finish_peer(sluice_job *job, int peer)
{
	struct peer *p = &job->peers[peer];
	const struct transport_ops *ops = p->endpoint->transport->ops;
	int rc = ops->ready ? ops->ready(p->endpoint) : 1;
	if (rc <= 0)
		return rc;
	if ((rc = peers_open_region(job, peer, NULL, &p->control)))
		return rc;
	heart_met(job, peer);
	if (p->control->bytes < (uint64_t)job->size * LINE_BYTES)
		return fail(SLUICE_EWIRE, "%s gave a control region of %llu bytes: too small",
			    rank_text(job, peer), (unsigned long long)p->control->bytes);
	return 1;
}

struct joining {
	sluice_job *job;
	uint64_t give_up_ns;
	int rc, culprit;
};

static int is_missing(const sluice_job *job, int peer)
{
	return job->peers[peer].endpoint && !job->peers[peer].control && job_living(job, peer);
}

static void describe_missing(void *context, char *text, size_t cap)
{
	const sluice_job *job = ((struct joining *)context)->job;
	int missing = 0, named = 0;
	size_t used = (size_t)snprintf(text, cap, "connections with");
	for (int p = 0; p < job->size; p++) {
		if (!is_missing(job, p))
			continue;
		if (missing++ < 8 && used < cap && ++named)
			used += (size_t)snprintf(text + used, cap - used, "%s %s",
						 missing > 1 ? "," : "", rank_text(job, p));
	}
	if (missing > named && used < cap)
		snprintf(text + used, cap - used, " and %d more", missing - named);
}

static int all_connected(void *context)
{
	struct joining *j = context;
	sluice_job *job = j->job;
	int missing = 0;
	for (int p = 0; p < job->size && !j->rc; p++) {
		int rc = is_missing(job, p) ? finish_peer(job, p) : 1;
		if (rc == SLUICE_EPEER && may_do_without(job, p))
			rc = 0; /* the peer has ended, and an event will report that */
		missing += !rc;
		if (rc < 0) {
			j->rc = rc;
			j->culprit = rc == SLUICE_EPEER ? p : job->rank;
		}
	}
	if (missing && !j->rc && now_ns() >= j->give_up_ns) {
		char text[512];
		describe_missing(j, text, sizeof text);
		j->rc = fail(SLUICE_ETIMEDOUT, "%s waited %.0f s (SLUICE_BOOT_TIMEOUT) for %s",
			     rank_text(job, job->rank),
			     job->settings.patience.boot_timeout_ms / 1000.0, text);
	}
	return j->rc ? j->rc : !missing;
}

static struct joining begin_joining(sluice_job *job)
{
	const uint64_t boot_timeout_ms = (uint64_t)job->settings.patience.boot_timeout_ms;

	return (struct joining){ .job = job,
				 .give_up_ns = now_ns() + boot_timeout_ms * NS_PER_MS,
				 .culprit = job->rank };
}

static int meet_member(sluice_job *job, int member, const uint8_t *descriptor)
{
	char why[ERROR_TEXT_BYTES];
	const int rc = hubs_meet(job, member, descriptor);

	if (!rc)
		return 0;
	snprintf(why, sizeof(why), "%s", sluice_last_error());
	return fail(rc, "%s%s: its rows cannot be opened: %s", rank_text(job, member),
		    rc == SLUICE_EPEER ? " is lost" : "", why);
}

/* The first round of a job with hubs: the members send the descriptors of their rows to their
 * hubs. */
int connect_rows(sluice_job *job)
{
	enum { ROW = REGION_DESCRIPTOR_BYTES };
	const size_t n = (size_t)job->size;
	uint8_t *mine = calloc(n, ROW), *theirs = calloc(n, ROW);
	int rc = mine && theirs ? 0 : fail(SLUICE_ENOMEM, "no memory for %d peers", job->size);
	if (!rc && hubs_rows(job)) {
		const int hub = hubs_of(job, job->rank);
		rc = describe_to_peer(job, hub, hubs_rows(job), mine + (size_t)hub * ROW);
	}
	if (!rc)
		rc = collective_run(job, COLLECTIVE_OPEN, mine, ROW, ROW, theirs);
	progress_take(job);
	for (int p = 0; p < job->size && !rc; p++)
		if (round_has(job, p) && !hubs_are(job, p) && hubs_of(job, p) == job->rank)
			rc = meet_member(job, p, theirs + (size_t)p * ROW);
	progress_release(job);
	free(mine);
	free(theirs);
	return rc;
}

/* Connects to all peers at the same time, so that a slow peer does not delay the others. */
int connect_all(sluice_job *job)
{
	struct joining j = begin_joining(job);
	progress_take(job); /* the progress thread waits until all endpoints exist */
	int rc = job->sim_rank ? 0 : heart_start(job);
	if (!rc && !job->sim_rank)
		rc = progress_start(job);
	for (int p = 0; p < job->size && !rc; p++) {
		if (job->hubs && !hubs_connect(job, job->rank, p))
			continue;
		messages_connect(job, p, 1);
		rc = connect_peer(job, p);
	}
	if (!rc)
		rc = progress_until(job, all_connected, describe_missing, &j);
	progress_release(job);
	if (!rc && job->hubs)
		rc = connect_rows(job);
	/* No rank may continue before all ranks have joined. */
	return rc ? rc : collective_run(job, COLLECTIVE_OPEN, NULL, 0, 0, NULL);
}

/* ---- later ------------------------------------------------------------------- */

struct offering {
	sluice_job *job;
	connect_needs needs;
	const void *context;
	uint8_t *written; /* [rank]: 1: the offer was written */
};

static int is_needed(const struct offering *o, int p)
{
	const int own = o->job->rank, low = p < own ? p : own, high = p < own ? own : p;

	return p != own && !messages_meet(o->job, p) && job_living(o->job, p) &&
	       (!o->needs || o->needs(o->context, low, high));
}

/* Writes the offers that may be written now. Returns 1 when all have been written and read. */
static int all_offered(void *context)
{
	const struct offering *o = context;
	sluice_job *group = o->job;
	int all = 1;

	for (int p = 0; p < group->size; p++) {
		if (!is_needed(o, p))
			continue;
		if (!o->written[p]) {
			const int rc = hubs_send_offer(group, p);

			if (rc < 0)
				return rc;
			o->written[p] = (uint8_t)rc;
		}
		all &= o->written[p] && hubs_offer(group, p);
	}
	return all;
}

static void describe_offering(void *context, char *text, size_t cap)
{
	(void)context;
	snprintf(text, cap, "the memory for messages of the other ranks of the group");
}

int connect_lines(sluice_job *group, int peer, const uint8_t *descriptor)
{
	struct peer *p = &group->peers[peer];

	TOKEN_HELD(group);
	int rc = peers_open_region(group, peer, descriptor, &p->control);
	if (!rc && p->control->bytes < (uint64_t)group->size * LINE_BYTES)
		rc = fail(SLUICE_EWIRE, "%s gave a control region of %llu bytes: too small",
			  rank_text(group, peer), (unsigned long long)p->control->bytes);
	return rc;
}

/* The ranks are connected in the root. */
static int trade_lines(struct offering *o)
{
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
	sluice_job *group = o->job;
	int rc = 0;

	o->written = calloc((size_t)group->size, 1);
	if (!o->written)
		return fail(SLUICE_ENOMEM, "no memory for %d peers", group->size);
	for (int p = 0; p < group->size && !rc; p++) {
		if (!is_needed(o, p))
			continue;
		group->peers[p].endpoint = group->root->peers[group_root_rank(group, p)].endpoint;
		rc = describe_held(group, p, group->lines.own, descriptor);
		if (!rc)
			hubs_write_offer(group, p, descriptor);
	}
	if (!rc)
		rc = progress_until(group, all_offered, describe_offering, o);
	for (int p = 0; p < group->size && !rc; p++)
		if (is_needed(o, p))
			rc = connect_lines(group, p, hubs_offer(group, p));
	free(o->written);
	return rc;
}

/* The token must be held. */
static int connect_more(sluice_job *job, connect_needs needs, const void *context, const char *what)
{
	struct offering o = { .job = job, .needs = needs, .context = context };
	struct joining j = begin_joining(job->root);
	char why[ERROR_TEXT_BYTES];
	int n = 0, rc = job_failed(job);
	for (int p = 0; p < job->size && !rc; p++) {
		const int in_root = group_root_rank(job, p);
		if (!is_needed(&o, p))
			continue;
		n++;
		if (!job->root->peers[in_root].endpoint)
			rc = connect_peer(job->root, in_root);
	}
	if (!rc && n)
		rc = progress_until(job, all_connected, describe_missing, &j);
	if (!rc && n && job_in_group(job))
		rc = trade_lines(&o);
	for (int p = 0; p < job->size && !rc && n; p++)
		if (is_needed(&o, p))
			messages_connect(job, p, messages_next(job) + 1);
	if (n)
		log_line(LOG_DEBUG, "runtime", "connected with %d more ranks for %s", n, what);
	if (!rc || job->failure.code)
		return rc;
	snprintf(why, sizeof(why), "%s", sluice_last_error());
	const int culprit = group_rank_of(job, j.culprit);
	return job_fail(job, rc, culprit < 0 ? job->rank : culprit,
			"%s cannot connect with all ranks that %s needs: %s",
			rank_text(job, job->rank), what, why);
}

int connect_pairs(sluice_job *job, connect_needs needs, const void *context, const char *what)
{
	if (!job->hubs) /* without hubs all ranks are connected, and so are the ranks of a group */
		return 0;
	/* A rank may come late, for example because it wrote a file. The time limit for connecting
	 * must start only when all ranks are here. */
	int rc = collective_run(job, COLLECTIVE_OPEN, NULL, 0, 0, NULL);
	if (rc)
		return rc;
	progress_take(job);
	rc = connect_more(job, needs, context, what);
	progress_release(job);
	return collective_agree(job, rc, "connect with the ranks that it needs");
}
