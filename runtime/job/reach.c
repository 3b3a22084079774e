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

/* Transports as bits, by their number in the table. */
struct offer {
	uint32_t open, possible; /* transports that have an address; that could have one */
	uint8_t boot_id[sizeof(((struct rank_record *)0)->boot_id)];
};

/* Ranks with equal offers. Comparing pairs of kinds is cheaper than comparing pairs of ranks. */
struct kind {
	struct offer offer;
	int first, second; /* the two lowest ranks; second is -1 if there is only one */
};

struct reach {
	int size, simulated, n_kinds;
	struct offer *offers; /* [rank] */
	struct kind *kinds;   /* room for size */
};

const uint8_t *record_find(const struct rank_record *record, const char *name, size_t *bytes_out)
{
	for (size_t at = TERMS_BYTES; at + HEAD_BYTES <= record->payload_bytes;) {
		const uint8_t *entry = record->payload + at;
		const size_t bytes = get_le32(entry + NAME_BYTES);

		if (bytes > record->payload_bytes - at - HEAD_BYTES)
			return NULL;
		*bytes_out = bytes;
		if (!strncmp((const char *)entry, name, NAME_BYTES - 1))
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
	}
	return r && r->offers && r->kinds ?
		       SLUICE_OK :
		       fail(SLUICE_ENOMEM, "no memory to compare the records of %d ranks", size);
}

void reach_close(struct reach **r)
{
	if (*r) {
		free((*r)->offers);
		free((*r)->kinds);
	}
	free(*r);
	*r = NULL;
}

static struct offer offer_of(const struct rank_record *record)
{
	struct offer o = { 0 };

	memcpy(o.boot_id, record->boot_id, sizeof(o.boot_id));
	for (int t = 0; transports[t]; t++) {
		size_t bytes;

		if (!record_find(record, transports[t]->name, &bytes))
			continue;
		o.open |= bytes ? 1u << t : 0;
		o.possible |= 1u << t;
	}
	return o;
}

static int compare_offers(const struct offer *a, const struct offer *b)
{
	if (a->open != b->open)
		return a->open < b->open ? -1 : 1;
	if (a->possible != b->possible)
		return a->possible < b->possible ? -1 : 1;
	return memcmp(a->boot_id, b->boot_id, sizeof(a->boot_id));
}

static int by_offer_and_rank(const void *one, const void *other)
{
	const struct kind *a = one, *b = other;
	const int order = compare_offers(&a->offer, &b->offer);

	return order ? order : (a->first > b->first) - (a->first < b->first);
}

void reach_fill(struct reach *r, const struct rank_record *records)
{
	struct kind *last = r->kinds;

	for (int rank = 0; rank < r->size; rank++) {
		r->offers[rank] = offer_of(&records[rank]);
		r->kinds[rank] = (struct kind){ r->offers[rank], rank, -1 };
	}
	qsort(r->kinds, (size_t)r->size, sizeof(*r->kinds), by_offer_and_rank);
	for (const struct kind *k = last + 1; k < r->kinds + r->size; k++)
		if (compare_offers(&k->offer, &last->offer))
			*++last = *k;
		else if (last->second < 0)
			last->second = k->first;
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

/* Returns the first of these transports that connects the two ranks, or -1. */
static int first_connecting(const struct reach *r, uint32_t those, int a, int b)
{
	if (!those)
		return -1;
	const enum distance distance = distance_between(r, a, b);

	for (int t = 0; transports[t]; t++)
		if (those >> t & 1 && distance <= transports[t]->farthest)
			return t;
	return -1;
}

int reach_transport(const struct reach *r, int a, int b)
{
	return first_connecting(r, r->offers[a].open & r->offers[b].open, a, b);
}

int reach_missing(const struct reach *r, int a, int b)
{
	if (reach_transport(r, a, b) >= 0)
		return -1;
	return first_connecting(r, r->offers[a].possible & r->offers[b].possible, a, b);
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

		if (other >= 0 && reach_missing(r, rank, other) == transport)
			return 1;
	}
	return 0;
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
