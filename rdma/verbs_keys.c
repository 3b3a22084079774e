/* SPDX-License-Identifier: BSD-3-Clause
 * Keys that change with the connection. When two ranks are connected again, each writes a table of
 * its regions' new keys into the other's slot, before anything else; the remotes that were opened,
 * and what waits in the log, go on with these. In the slot: connection u32, n u32, n times (id u32,
 * rkey u32). */
#include "base/bytes.h"
#include "base/log.h"
#include "rdma/verbs_register.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRY_BYTES = 8, HEADER_BYTES = 8 };
_Static_assert((int)KEYS_MAX *(int)ENTRY_BYTES + (int)HEADER_BYTES <=
		       (int)SLOT_BYTES - (int)SLOT_KEYS,
	       "the table does not fit into the slot");

int keys_offered(const struct verbs *v, int rank)
{
	int n = 0;

	for (const struct verbs_registration *r = v->registrations; r != NULL; r = r->next)
		n += r->at[rank].offered;
	return n;
}

size_t keys_table(const struct verbs_endpoint *ep, uint8_t out[KEYS_TABLE_BYTES])
{
	struct verbs *v = verbs_of_endpoint(ep);
	const int rank = ep->endpoint.peer;
	uint32_t n = 0;

	pthread_mutex_lock(&v->registering);
	for (const struct verbs_registration *r = v->registrations; r != NULL && n < KEYS_MAX;
	     r = r->next) {
		if (!r->at[rank].offered)
			continue;
		put_le32(out + HEADER_BYTES + n * ENTRY_BYTES, r->id);
		put_le32(out + HEADER_BYTES + n * ENTRY_BYTES + 4, r->at[rank].rkey);
		n++;
	}
	pthread_mutex_unlock(&v->registering);
	put_le32(out, ep->link);
	put_le32(out + 4, n);
	return HEADER_BYTES + n * ENTRY_BYTES;
}

/* ---- the peer's ------------------------------------------------------------ */

/* Where the table says: the key, or NULL. */
static const uint8_t *find(const struct verbs_endpoint *ep, uint32_t id)
{
	for (uint32_t i = 0; i < ep->n_peer_keys; i++)
		if (get_le32(ep->peer_keys + i * ENTRY_BYTES) == id)
			return ep->peer_keys + i * ENTRY_BYTES + 4;
	return NULL;
}

static void renew(const struct verbs_endpoint *ep, uint32_t id, uint32_t *rkey)
{
	const uint8_t *found = find(ep, id);

	if (found != NULL) /* else its owner closed it, and nobody uses it any more */
		*rkey = get_le32(found);
}

int keys_take(struct verbs_endpoint *ep)
{
	const struct verbs *v = verbs_of_endpoint(ep);
	uint8_t header[HEADER_BYTES];
	uint32_t n;

	memcpy(header, ep->slot + SLOT_KEYS, sizeof(header));
	n = get_le32(header + 4);
	if (n > KEYS_MAX) {
		snprintf(ep->why, sizeof(ep->why),
			 "its table of keys has %u entries, %u are possible", n, KEYS_MAX);
		return -1;
	}
	memcpy(ep->peer_keys, ep->slot + SLOT_KEYS + HEADER_BYTES, n * ENTRY_BYTES);
	ep->n_peer_keys = n;
	ep->peer_link = get_le32(header);
	for (struct verbs_remote *r = ep->remotes; r != NULL; r = r->next)
		renew(ep, r->id, &r->rkey);
	for (uint64_t i = ep->first; i < ep->end; i++)
		renew(ep, sent_at(v, ep, i)->region, &sent_at(v, ep, i)->rkey);
	return 0;
}

int keys_of(const struct verbs_endpoint *ep, const struct wire_region *wire, uint32_t *rkey_out)
{
	const uint8_t *found;

	*rkey_out = wire->rkey;
	if (wire->link == ep->peer_link)
		return SLUICE_OK;
	/* Described before the connection broke, arrived after. */
	found = find(ep, wire->id);
	if (found == NULL)
		return fail(SLUICE_EWIRE,
			    "rank %d described region %u for its connection %u; this is %u, and it "
			    "names no such region",
			    ep->endpoint.peer, wire->id, wire->link, ep->peer_link);
	*rkey_out = get_le32(found);
	return SLUICE_OK;
}
