/* SPDX-License-Identifier: BSD-3-Clause
 * The first words over a new queue pair, after the proof; connect.c draws the whole exchange. READY
 * says that the sender's windows are bound (it needs no key itself, having no bytes), KEYS that it
 * has told all its keys. An immediate is only noted where completions are taken (verbs_complete.c),
 * and answered here. */
#include "base/error.h"
#include "rdma/verbs.h"
#include <stdio.h>
#include <string.h>

static void give_up(struct verbs_endpoint *ep)
{
	if (ep->why[0] == '\0')
		snprintf(ep->why, sizeof(ep->why), "%s", sluice_last_error());
	connect_try_later(ep, ep->why);
}

int connect_take_slot(struct verbs_endpoint *ep, const struct slot_address *slot,
		      const uint8_t control[REGION_DESCRIPTOR_BYTES])
{
	if (slot->credits == 0 || slot->address + SLOT_BYTES < slot->address)
		return -1;
	ep->peer_slot = *slot;
	memcpy(ep->control, control, REGION_DESCRIPTOR_BYTES);
	return 0;
}

struct slot_address connect_own_slot(const struct verbs_endpoint *ep)
{
	return (struct slot_address){ .address = (uintptr_t)ep->slot,
				      .rkey = ep->slot_rkey,
				      .credits = verbs_of_endpoint(ep)->credits };
}

static int send_keys(struct verbs_endpoint *ep)
{
	struct slot_address slot = connect_own_slot(ep);
	uint8_t table[KEYS_TABLE_BYTES], greeting[GREETING_BYTES];
	size_t n = keys_table(ep, table);

	greeting_encode(&slot, ep->own_control, greeting);
	return post_slot(ep, SLOT_KEYS, table, n, 0) < 0 ||
			       post_greeting(ep, GREETING_KEYS, greeting, sizeof(greeting)) < 0 ?
		       -1 :
		       0;
}

static void answer_ready(struct verbs_endpoint *ep)
{
	int rc = ep->client ? 0 : windows_bind(ep);

	if (rc == 0)
		rc = ep->client ? send_keys(ep) : post_greeting(ep, GREETING_READY, NULL, 0);
	if (rc < 0)
		give_up(ep);
}

/* What the client says of its slot; the server's came with the proof. */
static int take_slot(struct verbs_endpoint *ep)
{
	uint8_t greeting[GREETING_BYTES], control[REGION_DESCRIPTOR_BYTES];
	struct slot_address slot;

	memcpy(greeting, ep->slot + SLOT_GREETING, sizeof(greeting));
	greeting_decode(greeting, &slot, control);
	if (connect_take_slot(ep, &slot, control) == 0)
		return 0;
	snprintf(ep->why, sizeof(ep->why), "its greeting is impossible");
	return -1;
}

static void answer_keys(struct verbs_endpoint *ep)
{
	if ((!ep->client && take_slot(ep) < 0) || keys_take(ep) < 0) {
		link_gone(ep, ep->why);
		return;
	}
	if (!ep->client && send_keys(ep) < 0) {
		give_up(ep);
		return;
	}
	connect_end_hello(ep);
	link_up(ep);
}

/* ---- called by connect_client.c and verbs_poll.c --------------------------- */

void greet_begin(struct verbs_endpoint *ep)
{
	ep->state = LINK_GREETING;
	ep->why[0] = '\0';
	if (windows_bind(ep) < 0 || post_greeting(ep, GREETING_READY, NULL, 0) < 0)
		give_up(ep);
}

void greet_answer(struct verbs *v)
{
	v->greeted = 0;
	for (int i = 0; i < v->n_peers; i++) {
		struct verbs_endpoint *ep = v->peers[i];
		enum greeting greeted = ep->greeted;

		ep->greeted = GREETING_NONE;
		if (greeted == GREETING_NONE || ep->failing)
			continue;
		ep->why[0] = '\0';
		if (greeted == GREETING_READY)
			answer_ready(ep);
		else
			answer_keys(ep);
	}
}
