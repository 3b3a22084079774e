/* SPDX-License-Identifier: BSD-3-Clause
 * See reach.h. */
#include "job/reach.h"
#include "base/bytes.h"
#include "base/error.h"
#include "rdma/transport.h"
#include "sluice.h"
#include <stdlib.h>
#include <string.h>

enum { TERMS_BYTES = 4, NAME_BYTES = 8, HEAD_BYTES = NAME_BYTES + 4 };
const char reach_trial_name[8] = "trial";

/* The transports that a rank offers. Transports are bits, by their number in the table. */
struct offer {
	struct network networks[NETWORKS_MOST]; /* all bytes of unused entries are 0 */
	int n_networks;
	uint32_t open, possible; /* open: transports that have an address; possible: those that
				    could have one */
	uint32_t cards;          /* a bit for each card on which the transport with networks is
				    open */
	uint8_t boot_id[sizeof(((struct rank_record *)0)->boot_id)];
};

/* All ranks with equal offers. There are fewer pairs of kinds than pairs of ranks, so comparing
 * kinds is cheaper. */
struct kind {
	const struct offer *offer;
	int first, second; /* the two lowest ranks; second is -1 if there is only one */
	int n;             /* ranks */
};

/* The ranks that did not answer this rank's trials; n is -1 if the rank made no trials. */
struct trial {
	int n, failed[TRIAL_LISTED];
};

struct reach {
	int size, simulated, fills, n_kinds;
	struct offer *offers; /* [rank] */
	struct kind *kinds;   /* memory for `size` kinds */
	struct trial *trials; /* [rank] */
	int *alike;           /* [rank]: the lowest rank with equal networks */
};

const uint8_t *record_find(const struct rank_record *record, const char *name, int card,
			   size_t *bytes_out)
{
	for (size_t at = TERMS_BYTES; at + HEAD_BYTES <= record->payload_bytes;) {
		const uint8_t *entry = record->payload + at;
		const size_t bytes = get_le32(entry + NAME_BYTES);

		if (bytes > record->payload_bytes - at - HEAD_BYTES)
			return NULL;
		*bytes_out = bytes;
		if (!strncmp((const char *)entry, name, NAME_BYTES - 1) &&
		    entry[NAME_BYTES - 1] == card)
			return entry + HEAD_BYTES;
		at += HEAD_BYTES + bytes;
	}
	return NULL;
}

int reach_open(int size, int simulated, struct reach **out)
{
	struct reach *r = *out = calloc(1, sizeof(*r));

	if (r) {
		r->size = size;
		r->simulated = simulated;
		r->offers = calloc((size_t)size, sizeof(*r->offers));
		r->kinds = calloc((size_t)size, sizeof(*r->kinds));
		r->trials = calloc((size_t)size, sizeof(*r->trials));
		r->alike = calloc((size_t)size, sizeof(*r->alike));
	}
	return r && r->offers && r->kinds && r->trials && r->alike ?
		       SLUICE_OK :
		       fail(SLUICE_ENOMEM, "no memory to compare the records of %d ranks", size);
}

void reach_close(struct reach **r)
{
	if (*r) {
		free((*r)->offers);
		free((*r)->kinds);
		free((*r)->trials);
		free((*r)->alike);
	}
	free(*r);
	*r = NULL;
}

static void read_networks(const struct rank_record *record, const struct transport_ops *ops,
			  const uint8_t *bytes, size_t n, struct offer *o)
{
	const int networks = ops->networks(bytes, n, o->networks);

	o->n_networks = networks > 0 ? networks : 0;
	for (int card = 0; card < NETWORKS_MOST; card++)
		if (record_find(record, ops->name, card, &n) && n)
			o->cards |= 1u << card;
}

static struct offer offer_of(const struct rank_record *record)
{
	struct offer o;

	memset(&o, 0, sizeof(o));
	memcpy(o.boot_id, record->boot_id, sizeof(o.boot_id));
	for (int t = 0; transports[t]; t++) {
		size_t bytes;
		const uint8_t *entry = record_find(record, transports[t]->name, 0, &bytes);

		if (!entry)
			continue;
		o.open |= bytes ? 1u << t : 0;
		o.possible |= 1u << t;
		if (bytes && transports[t]->networks)
			read_networks(record, transports[t], entry, bytes, &o);
	}
	return o;
}

static struct trial trial_of(const struct rank_record *record)
{
	struct trial trial = { .n = -1 };
	size_t bytes;
	const uint8_t *entry = record_find(record, reach_trial_name, 0, &bytes);

	if (!entry || !bytes || entry[0] > TRIAL_LISTED || 1 + 4 * (size_t)entry[0] > bytes)
		return trial;
	for (trial.n = 0; trial.n < entry[0]; trial.n++)
		trial.failed[trial.n] = (int)get_le32(entry + 1 + 4 * (size_t)trial.n);
	return trial;
}

static int compare_networks(const struct offer *a, const struct offer *b)
{
	return memcmp(a->networks, b->networks, sizeof(a->networks));
}

static int compare_offers(const struct offer *a, const struct offer *b)
{
	const int order = compare_networks(a, b);

	if (order)
		return order;
	if (a->open != b->open)
		return a->open < b->open ? -1 : 1;
	if (a->possible != b->possible)
		return a->possible < b->possible ? -1 : 1;
	if (a->cards != b->cards)
		return a->cards < b->cards ? -1 : 1;
	return memcmp(a->boot_id, b->boot_id, sizeof(a->boot_id));
}

static int by_offer_and_rank(const void *one, const void *other)
{
	const struct kind *a = one, *b = other;
	const int order = compare_offers(a->offer, b->offer);

	return order ? order : (a->first > b->first) - (a->first < b->first);
}

/* kinds has one entry for each rank, and is sorted. */
static void find_alike(struct reach *r)
{
	for (int from = 0, to; from < r->size; from = to) {
		int lowest = r->kinds[from].first;

		for (to = from;
		     to < r->size && !compare_networks(r->kinds[from].offer, r->kinds[to].offer);
		     to++)
			if (r->kinds[to].first < lowest)
				lowest = r->kinds[to].first;
		for (int i = from; i < to; i++)
			r->alike[r->kinds[i].first] = lowest;
	}
}

void reach_fill(struct reach *r, const struct rank_record *records)
{
	struct kind *last = r->kinds;

	r->fills++;
	for (int rank = 0; rank < r->size; rank++) {
		r->offers[rank] = offer_of(&records[rank]);
		r->trials[rank] = trial_of(&records[rank]);
		r->kinds[rank] = (struct kind){ &r->offers[rank], rank, -1, 1 };
	}
	qsort(r->kinds, (size_t)r->size, sizeof(*r->kinds), by_offer_and_rank);
	find_alike(r);
	for (const struct kind *k = last + 1; k < r->kinds + r->size; k++) {
		if (compare_offers(k->offer, last->offer)) {
			*++last = *k;
			continue;
		}
		if (last->second < 0)
			last->second = k->first;
		last->n++;
	}
	r->n_kinds = (int)(last - r->kinds) + 1;
}

static enum distance distance_between(const struct reach *r, int a, int b)
{
	if (a == b)
		return DISTANCE_NONE;
	if (r->simulated)
		return DISTANCE_PROCESS;
	return memcmp(r->offers[a].boot_id, r->offers[b].boot_id, sizeof(r->offers[a].boot_id)) ?
		       DISTANCE_NETWORK :
		       DISTANCE_KERNEL;
}

/* ---- networks ------------------------------------------------------------------- */

int reach_networked(void)
{
	for (int t = 0; transports[t]; t++)
		if (transports[t]->networks)
			return t;
	return -1;
}

struct pairing reach_pairing(const struct reach *r, int a, int b)
{
	const struct offer *x = &r->offers[a], *y = &r->offers[b];

	return network_pairing(x->networks, x->n_networks, y->networks, y->n_networks);
}

/* Consecutive kinds make the trials for each other. If one kind made them for all others, its ranks
 * would make most trials. */
int reach_tester(const struct reach *r, int a, int b)
{
	const int x = r->alike[a], y = r->alike[b];

	return (x + y) % 2 == (x < y) ? x : y;
}

static int is_proved(const struct reach *r, int a, int b)
{
	const int tester = reach_tester(r, a, b),
		  tried = r->alike[a] == tester ? r->alike[b] : r->alike[a];
	const struct trial *trial = &r->trials[tester];

	for (int i = 0; i < trial->n; i++)
		if (trial->failed[i] == tried)
			return 0;
	return trial->n >= 0;
}

/* ---- pairs ---------------------------------------------------------------------- */

enum ability {
	CANNOT,
	COULD,
	CAN
}; /* COULD: they can once a rank opens a transport, or if a trial succeeds */

static enum ability ability_by_networks(const struct reach *r, int a, int b)
{
	const enum ability otherwise = r->fills > 1 ? CANNOT : COULD;
	const struct pairing m = reach_pairing(r, a, b);

	switch (m.kind) {
	case PAIRING_OWN: return CAN;
	case PAIRING_OTHER:
		return r->offers[a].cards >> m.a & r->offers[b].cards >> m.b & 1 ? CAN : otherwise;
	case PAIRING_ROUTE: return r->fills > 1 && is_proved(r, a, b) ? CAN : otherwise;
	default: return CANNOT;
	}
}

static enum ability ability_of(const struct reach *r, int t, int a, int b)
{
	const uint32_t open = r->offers[a].open & r->offers[b].open,
		       possible = r->offers[a].possible & r->offers[b].possible;

	if (!((open | possible) >> t & 1) || distance_between(r, a, b) > transports[t]->farthest)
		return CANNOT;
	if (!(open >> t & 1))
		return COULD;
	return transports[t]->networks && a != b ? ability_by_networks(r, a, b) : CAN;
}

/* Returns the first transport from number `from` on that has at least this ability, or -1. */
static int first_able(const struct reach *r, int from, enum ability least, int a, int b)
{
	for (int t = from; transports[t]; t++)
		if (ability_of(r, t, a, b) >= least)
			return t;
	return -1;
}

int reach_transport(const struct reach *r, int a, int b)
{
	return first_able(r, 0, CAN, a, b);
}

int reach_missing(const struct reach *r, int a, int b)
{
	const int t = first_able(r, 0, COULD, a, b);

	return t < 0 || ability_of(r, t, a, b) == CAN ? -1 : t;
}

/* Returns 1 if two ranks must open transport t. This is the first transport that connects them. It
 * is also the next one if a trial of the first may fail. */
static int must_open(const struct reach *r, int t, int a, int b)
{
	int missing = reach_missing(r, a, b);

	if (missing < 0 || missing == t)
		return missing == t;
	if (missing != reach_networked() || reach_pairing(r, a, b).kind != PAIRING_ROUTE)
		return 0;
	return first_able(r, missing + 1, COULD, a, b) == t;
}

static int is_cut(const struct reach *r, int a, int b)
{
	return reach_transport(r, a, b) < 0 && reach_missing(r, a, b) < 0;
}

/* Returns a rank of this kind other than `rank`, or -1 if there is none. */
static int other_than(const struct kind *k, int rank)
{
	return k->first != rank ? k->first : k->second;
}

int reach_cut(const struct reach *r, int own, int *a_out, int *b_out)
{
	*a_out = own;
	for (int i = 0; i < r->n_kinds; i++) {
		*b_out = other_than(&r->kinds[i], own);
		if (*b_out >= 0 && is_cut(r, own, *b_out))
			return 1;
	}
	*a_out = *b_out = r->size;
	for (int i = 0; i < r->n_kinds; i++)
		for (int j = 0; j < r->n_kinds; j++) {
			const int a = r->kinds[i].first, b = other_than(&r->kinds[j], a);

			if (a > b || a > *a_out || (a == *a_out && b >= *b_out) || !is_cut(r, a, b))
				continue;
			*a_out = a;
			*b_out = b;
		}
	return *a_out < r->size;
}

int reach_is_incomplete(const struct reach *r)
{
	for (int i = 0; i < r->n_kinds; i++)
		for (int j = i; j < r->n_kinds; j++) {
			const int a = r->kinds[i].first, b = other_than(&r->kinds[j], a);

			if (b >= 0 && reach_missing(r, a, b) >= 0)
				return 1;
		}
	return 0;
}

int reach_wants(const struct reach *r, int rank, int transport)
{
	if (r->offers[rank].open >> transport & 1)
		return 0;
	for (int i = 0; i < r->n_kinds; i++) {
		const int other = other_than(&r->kinds[i], rank);

		if (other >= 0 && must_open(r, transport, rank, other))
			return 1;
	}
	return 0;
}

void reach_cards(const struct reach *r, int rank, int peers[NETWORKS_MOST])
{
	const int t = reach_networked();

	memset(peers, 0, NETWORKS_MOST * sizeof(*peers));
	for (int p = 0; p < r->size && t >= 0; p++) {
		const struct pairing m = reach_pairing(r, rank, p);

		if (p != rank && m.kind == PAIRING_OTHER && m.a > 0 &&
		    first_able(r, 0, COULD, rank, p) == t)
			peers[m.a]++;
	}
}

/* Adds a number to a list that does not contain it yet. */
static int add_once(int *list, int n, int number)
{
	for (int i = 0; i < n; i++)
		if (list[i] == number)
			return n;
	list[n] = number;
	return n + 1;
}

int reach_trials(const struct reach *r, int rank, int *peers)
{
	const int t = reach_networked();
	int n = 0;

	for (int i = 0; i < r->n_kinds && t >= 0 && r->alike[rank] == rank; i++)
		for (int j = 0; j < r->n_kinds; j++) {
			const int a = r->kinds[i].first, b = other_than(&r->kinds[j], a);

			if (r->alike[a] == rank && b >= 0 && reach_tester(r, a, b) == rank &&
			    reach_missing(r, a, b) == t &&
			    reach_pairing(r, a, b).kind == PAIRING_ROUTE)
				n = add_once(peers, n, r->alike[b]);
		}
	return n;
}

static enum reach_way way_of(const struct reach *r, int a, int b)
{
	switch (reach_pairing(r, a, b).kind) {
	case PAIRING_OWN: return WAY_OWN;
	case PAIRING_OTHER: return WAY_OTHER_CARD;
	case PAIRING_ROUTE: return is_proved(r, a, b) ? WAY_ROUTE : WAY_NO_ROUTE;
	default: return WAY_NO_NETWORK;
	}
}

/* Returns 1 if ranks of both kinds have opened transport t and need it to reach each other. */
static int need_networks(const struct reach *r, int t, int a, int b)
{
	return t >= 0 && r->offers[a].open >> t & r->offers[b].open >> t & 1 &&
	       (first_able(r, 0, COULD, a, b) < 0 || first_able(r, 0, COULD, a, b) >= t);
}

void reach_count(const struct reach *r, struct reach_count out[WAYS])
{
	const int t = reach_networked();

	for (int way = 0; way < WAYS; way++)
		out[way] = (struct reach_count){ 0, r->size, r->size };
	for (int i = 0; i < r->n_kinds; i++)
		for (int j = i; j < r->n_kinds; j++) {
			const struct kind *k = &r->kinds[i], *l = &r->kinds[j];
			int a = k->first, b = other_than(l, a);

			if (b < 0 || !need_networks(r, t, a, b))
				continue;
			struct reach_count *c = &out[way_of(r, a, b)];
			if (a > b) {
				a = b;
				b = k->first;
			}
			c->pairs += i == j ? (uint64_t)k->n * (uint64_t)(k->n - 1) / 2 :
					     (uint64_t)k->n * (uint64_t)l->n;
			if (a < c->a || (a == c->a && b < c->b)) {
				c->a = a;
				c->b = b;
			}
		}
}

int reach_first_user(const struct reach *r, int transport)
{
	int user = -1;

	for (int i = 0; i < r->n_kinds; i++)
		for (int j = 0; j < r->n_kinds; j++) {
			const int a = r->kinds[i].first, b = other_than(&r->kinds[j], a);

			if (b >= 0 && reach_transport(r, a, b) == transport &&
			    (user < 0 || a < user))
				user = a;
		}
	return user;
}
