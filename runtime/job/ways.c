/* SPDX-License-Identifier: BSD-3-Clause
 * See ways.h. */
#include "job/ways.h"
#include "job/peers.h"
#include "base/bytes.h"
#include "base/log.h"
#include "rdma/transport.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIAL_MS = 5000, CARD_TEXT = 128 };

/* ---- trials ---------------------------------------------------------------------- */

static void write_result(const struct route *routes, const int *peers, int n, const char *why,
			 struct ways_tried *out)
{
	int failed = 0;

	out->bytes = 1;
	for (int i = 0; i < n; i++) {
		if (routes[i].answered)
			continue;
		if (failed++ < TRIAL_LISTED)
			put_le32(out->entry + 1 + 4 * (failed - 1), (uint32_t)peers[i]);
	}
	out->entry[0] = (uint8_t)(failed <= TRIAL_LISTED ? failed : TRIAL_ALL);
	if (!failed)
		return;
	const size_t at = 1 + 4 * (size_t)(failed <= TRIAL_LISTED ? failed : 0);
	const size_t text = strnlen(why, TRIAL_TEXT);

	memcpy(out->entry + at, why, text);
	out->bytes = at + text;
}

int ways_try(const sluice_job *job, const struct reach *reach, struct transport *t,
	     struct ways_tried *out)
{
	int *peers = calloc((size_t)job->size, sizeof(*peers));
	struct route *routes = calloc((size_t)job->size, sizeof(*routes));
	const int n = peers ? reach_trials(reach, job->rank, peers) : 0;
	char why[TRIAL_TEXT + 1] = "";

	out->bytes = 0;
	if (n && routes) {
		for (int i = 0; i < n; i++)
			routes[i].record = record_find(&job->records[peers[i]], t->ops->name, 0,
						       &routes[i].bytes);
		t->ops->try_routes(t, routes, n, TRIAL_MS, why, sizeof(why));
		write_result(routes, peers, n, why, out);
	}
	free(routes);
	const int rc = peers && routes ? 0 :
					 fail(SLUICE_ENOMEM, "no memory for the trials of %d ranks",
					      job->size);
	free(peers);
	return rc;
}

/* ---- messages -------------------------------------------------------------------- */

/* Copies the text of the first failed trial that the tester of two ranks reported. */
static void copy_reason(const sluice_job *job, const struct reach *reach, int a, int b,
			char text[TRIAL_TEXT + 1])
{
	size_t bytes = 0, at;
	const uint8_t *entry = record_find(&job->records[reach_tester(reach, a, b)],
					   reach_trial_name, 0, &bytes);

	text[0] = '\0';
	if (!entry || !bytes)
		return;
	at = 1 + 4 * (size_t)(entry[0] <= TRIAL_LISTED ? entry[0] : 0);
	for (size_t i = 0; at + i < bytes && i < TRIAL_TEXT; i++) {
		const uint8_t c = entry[at + i];

		text[i] = (char)(c < ' ' || c > '~' ? ' ' : c);
		text[i + 1] = '\0';
	}
}

static void card_text(const sluice_job *job, const struct transport_ops *ops, int rank, int card,
		      char text[CARD_TEXT])
{
	size_t bytes = 0;
	const uint8_t *record = record_find(&job->records[rank], ops->name, 0, &bytes);

	text[0] = '\0';
	if (record && bytes)
		ops->card(record, bytes, card < 0 ? 0 : card, text, CARD_TEXT);
}

static enum reach_way way_between(const struct reach *reach, int a, int b)
{
	switch (reach_pairing(reach, a, b).kind) {
	case PAIRING_ROUTE: return WAY_NO_ROUTE;
	case PAIRING_NONE: return WAY_NO_NETWORK;
	default: return WAY_OWN;
	}
}

static const char *const words[WAYS] = {
	[WAY_OTHER_CARD] = "connect through cards of one network, which are not the nearest of "
			   "both ranks",
	[WAY_ROUTE] = "share no network and connect by a route, which a trial found",
	[WAY_NO_ROUTE] = "share no network, and a trial found no route",
	[WAY_NO_NETWORK] = "have cards of different kinds, such as InfiniBand and RoCE, or "
			   "InfiniBand cards without IP in different subnets or partitions",
};

static void describe_way(const sluice_job *job, const struct reach *reach, enum reach_way way,
			 int a, int b, char *text, size_t cap)
{
	const struct transport_ops *ops = transports[reach_networked()];
	const struct pairing m = reach_pairing(reach, a, b);
	char of_a[CARD_TEXT], of_b[CARD_TEXT], why[TRIAL_TEXT + 1] = "";

	card_text(job, ops, a, m.a, of_a);
	card_text(job, ops, b, m.b, of_b);
	if (way == WAY_NO_ROUTE)
		copy_reason(job, reach, a, b, why);
	snprintf(text, cap, "rank %d, %s, and rank %d, %s%s%s", a, of_a, b, of_b, *why ? ": " : "",
		 why);
}

/* Writes a clause that says why the transport with networks does not connect two ranks that have
 * opened it. Writes "" if it does, or if one of them has not opened it. */
static void explain(const sluice_job *job, const struct reach *reach, int a, int b, char *text,
		    size_t cap)
{
	const int t = reach_networked();
	const enum reach_way way = way_between(reach, a, b);
	char pair[2 * CARD_TEXT + TRIAL_TEXT + 64];
	size_t of_a = 0, of_b = 0;

	*text = '\0';
	if (t < 0 || way == WAY_OWN ||
	    !record_find(&job->records[a], transports[t]->name, 0, &of_a) ||
	    !record_find(&job->records[b], transports[t]->name, 0, &of_b) || !of_a || !of_b)
		return;
	describe_way(job, reach, way, a, b, pair, sizeof(pair));
	snprintf(text, cap, " %s: the ranks %s (%s);", transports[t]->name, words[way], pair);
}

/* Lists the transports in a rank's record, such as " self shm". */
static void list_offers(const struct rank_record *record, char *text, size_t cap)
{
	size_t bytes, used = 0;
	*text = 0;
	for (int i = 0; transports[i] && used < cap; i++)
		if (record_find(record, transports[i]->name, 0, &bytes))
			used += (size_t)snprintf(text + used, cap - used, " %s",
						 transports[i]->name);
}

/* Explains why two ranks cannot reach each other, and what to do. Each rank's own record gives the
 * best reason for what the rank lacks. */
int ways_unreachable(const sluice_job *job, const struct reach *reach, int a, int b)
{
	char of_a[64], of_b[64], apart[ERROR_TEXT_BYTES];
	list_offers(&job->records[a], of_a, sizeof of_a);
	list_offers(&job->records[b], of_b, sizeof of_b);
	explain(job, reach, a, b, apart, sizeof apart);
	return fail(SLUICE_ENOSUPP,
		    "no transport reaches %s from %s: rank %d offers%s, rank %d%s, of which self "
		    "and shm reach ranks of one machine only;%s%s allowed on rank %d: "
		    "SLUICE_TRANSPORT=%s",
		    rank_text(job, b), rank_text(job, a), a, of_a, b, of_b, apart,
		    job->transports.unopened, job->rank, job->settings.transport);
}

void ways_log(const sluice_job *job, const struct reach *reach)
{
	struct reach_count counts[WAYS];
	char text[2 * CARD_TEXT + TRIAL_TEXT + 64];

	if (job->rank || reach_networked() < 0)
		return;
	reach_count(reach, counts);
	for (int way = WAY_OWN + 1; way < WAYS; way++) {
		const struct reach_count *c = &counts[way];
		const int used = c->pairs ? reach_transport(reach, c->a, c->b) : -1;

		if (!c->pairs || used < 0)
			continue;
		describe_way(job, reach, (enum reach_way)way, c->a, c->b, text, sizeof(text));
		log_line(used == reach_networked() ? LOG_INFO : LOG_WARN, "rdma",
			 "%s: %llu pair%s of ranks %s; they use %s. The first is %s",
			 transports[reach_networked()]->name, (unsigned long long)c->pairs,
			 c->pairs == 1 ? "" : "s", words[way], transports[used]->name, text);
	}
}
