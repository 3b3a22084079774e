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
	uint32_t open, possible; /* has an address; could have one */
	uint8_t boot_id[sizeof(((struct card *)0)->boot_id)];
};

struct reach {
	int size, simulated;
	struct offer offers[];
};

const uint8_t *card_find(const struct card *card, const char *name, size_t *bytes_out)
{
	for (size_t at = TERMS_BYTES; at + HEAD_BYTES <= card->payload_bytes;) {
		const uint8_t *entry = card->payload + at;
		const size_t bytes = get_le32(entry + NAME_BYTES);

		if (bytes > card->payload_bytes - at - HEAD_BYTES)
			return NULL;
		*bytes_out = bytes;
		if (!strncmp((const char *)entry, name, NAME_BYTES - 1))
			return entry + HEAD_BYTES;
		at += HEAD_BYTES + bytes;
	}
	return NULL;
}

int reach_open(const struct card *cards, int size, int simulated, struct reach **out)
{
	struct reach *r = calloc(1, sizeof(*r) + (size_t)size * sizeof(r->offers[0]));

	if (!r)
		return fail(SLUICE_ENOMEM, "no memory to compare the cards of %d ranks", size);
	r->size = size;
	r->simulated = simulated;
	for (int rank = 0; rank < size; rank++) {
		struct offer *o = &r->offers[rank];

		memcpy(o->boot_id, cards[rank].boot_id, sizeof(o->boot_id));
		for (int t = 0; transports[t]; t++) {
			size_t bytes;

			if (!card_find(&cards[rank], transports[t]->name, &bytes))
				continue;
			o->open |= bytes ? 1u << t : 0;
			o->possible |= 1u << t;
		}
	}
	*out = r;
	return SLUICE_OK;
}

void reach_close(struct reach **r)
{
	free(*r);
	*r = NULL;
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

/* The first transport of those that reaches from one to the other. */
static int first_of(const struct reach *r, uint32_t those, int a, int b)
{
	if (!those)
		return -1;
	const enum distance distance = distance_between(r, a, b);

	for (int t = 0; transports[t]; t++)
		if (those >> t & 1 && distance <= transports[t]->farthest)
			return t;
	return -1;
}

int reach_way(const struct reach *r, int a, int b)
{
	return first_of(r, r->offers[a].open & r->offers[b].open, a, b);
}

int reach_missing(const struct reach *r, int a, int b)
{
	if (reach_way(r, a, b) >= 0)
		return -1;
	return first_of(r, r->offers[a].possible & r->offers[b].possible, a, b);
}

static int is_cut(const struct reach *r, int a, int b)
{
	return reach_way(r, a, b) < 0 && reach_missing(r, a, b) < 0;
}

int reach_cut(const struct reach *r, int own, int *a_out, int *b_out)
{
	*a_out = own;
	for (*b_out = 0; *b_out < r->size; ++*b_out)
		if (is_cut(r, own, *b_out))
			return 1;
	for (*a_out = 0; *a_out < r->size; ++*a_out)
		for (*b_out = *a_out + 1; *b_out < r->size; ++*b_out)
			if (is_cut(r, *a_out, *b_out))
				return 1;
	return 0;
}

int reach_is_incomplete(const struct reach *r)
{
	for (int a = 0; a < r->size; a++)
		for (int b = a + 1; b < r->size; b++)
			if (reach_missing(r, a, b) >= 0)
				return 1;
	return 0;
}

int reach_wants(const struct reach *r, int rank, int transport)
{
	if (r->offers[rank].open >> transport & 1)
		return 0;
	for (int other = 0; other < r->size; other++)
		if (reach_missing(r, rank, other) == transport)
			return 1;
	return 0;
}

int reach_first_user(const struct reach *r, int transport)
{
	for (int a = 0; a < r->size; a++)
		for (int b = 0; b < r->size; b++)
			if (a != b && reach_way(r, a, b) == transport)
				return a;
	return -1;
}
