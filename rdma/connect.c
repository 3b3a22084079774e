/* SPDX-License-Identifier: BSD-3-Clause
 * See connect.h. */
#include "rdma/connect.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "sluice.h"
#include <stdlib.h>

enum {
	EVENTS_AT_ONCE = 64,
	REFUSALS_LOGGED = 10, /* after this many logged refusals, only one in REFUSALS_EVERY is
				 logged */
	REFUSALS_EVERY = 1000
};

struct connect {
	int rank, size;
	const struct carrier_ops *ops;
	struct carrier *carrier;
	struct proofs *proofs;
	struct link_shared shared;
	struct link **links, **by_rank;
	int n_links;
	int turn, trying; /* turn: the link that may begin a try first; trying: see link_shared */
	uint64_t refused;
	int behind;
};

/* ---- requests --------------------------------------------------------------------- */

static void refuse_request(struct connect *c, const struct carrier_event *event,
			   const struct frame *request, enum frame_reason reason, const char *why)
{
	char text[CARRIER_TEXT];

	c->refused++;
	/* A flood of requests must not flood the log of this rank. */
	if (c->refused <= REFUSALS_LOGGED || c->refused % REFUSALS_EVERY == 0) {
		c->ops->sender(event, text);
		log_line(reason == REFUSAL_PROOF ? LOG_WARN : LOG_DEBUG, "rdma",
			 "verbs: refused a connection from %s: %s (%llu refused so far)", text, why,
			 (unsigned long long)c->refused);
	}
	proofs_refuse(c->proofs, event, request, reason);
}

static void answer_hello(struct connect *c, const struct carrier_event *event,
			 const struct frame *hello)
{
	const struct link *l = c->by_rank[hello->rank];

	if (l && link_refuses(l))
		refuse_request(c, event, hello, REFUSAL_GONE,
			       "this rank has given up on that peer");
	else if (proofs_reply(c->proofs, event, hello))
		refuse_request(c, event, hello, REFUSAL_FAILED, "this rank could not make a reply");
}

static void answer_proof(struct connect *c, const struct carrier_event *event, struct frame *proof,
			 uint64_t now)
{
	struct link *l = c->by_rank[proof->rank];
	const char *why = proofs_judge(c->proofs, event, proof);
	enum frame_reason reason = REFUSAL_PROOF;

	if (!why && !l) {
		reason = REFUSAL_NOT_YET;
		why = "this rank does not expect it yet";
	} else if (!why && link_refuses(l)) {
		reason = REFUSAL_GONE;
		why = "this rank has given up on that peer";
	} else if (!why) {
		reason = link_accept(l, event, proof, now, &why);
		if (!reason)
			return;
	}
	refuse_request(c, event, proof, reason, why);
}

static void answer_request(struct connect *c, const struct carrier_event *event, uint64_t now)
{
	const char *why = "";
	struct frame frame;

	if (frame_decode(event->bytes, event->n, &frame, &why))
		refuse_request(c, event, NULL, REFUSAL_PROOF, why);
	else if (frame.rank >= (uint32_t)c->size || frame.rank == (uint32_t)c->rank)
		refuse_request(c, event, NULL, REFUSAL_PROOF, "its rank is not in this job");
	else if (frame.kind == FRAME_HELLO)
		answer_hello(c, event, &frame);
	else if (frame.kind == FRAME_PROOF)
		answer_proof(c, event, &frame, now);
	else
		refuse_request(c, event, NULL, REFUSAL_PROOF, "it is neither a hello nor a proof");
}

/* ---- events ----------------------------------------------------------------------- */

static void end_all(struct connect *c, const char *why)
{
	for (int i = 0; i < c->n_links; i++)
		link_end(c->links[i], why);
}

static void carrier_events(struct connect *c)
{
	struct carrier_event event;
	int n = 0;

	/* A flood of requests must not keep the rank from other work. */
	for (; n < EVENTS_AT_ONCE && c->ops->next(c->carrier, &event); n++) {
		uint64_t now = now_ns();

		if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			answer_request(c, &event, now);
		} else if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
			end_all(c, "the RDMA device of this rank was removed");
			c->ops->stop(c->carrier);
		} else if (event.owner) {
			link_answer(event.owner, &event, now);
		}
	}
	c->behind = n == EVENTS_AT_ONCE;
}

/* Runs the timers of all links. Begins with the link after the one that began the last try. */
static int tick_links(struct connect *c, uint64_t now)
{
	int timers = 0, turn = c->turn;

	for (int i = 0; i < c->n_links; i++) {
		const int at = (c->turn + i) % c->n_links, before = c->trying;

		timers |= link_tick(c->links[at], now);
		if (c->trying > before)
			turn = at + 1;
	}
	c->turn = turn;
	return timers;
}

int connect_look(struct connect *c, uint64_t now)
{
	const char *why = queues_look(c->shared.queues);

	if (why)
		end_all(c, why);
	carrier_events(c);
	return tick_links(c, now);
}

int connect_is_behind(const struct connect *c)
{
	return c->behind;
}

void connect_settle(struct connect *c)
{
	for (int i = 0; i < c->n_links; i++)
		link_settle(c->links[i]);
}

/* ---- opening and closing ---------------------------------------------------------- */

static int open_parts(struct connect *c, const struct verbs_device *device)
{
	int rc;

	c->links = calloc((size_t)c->size, sizeof(*c->links));
	c->by_rank = calloc((size_t)c->size, sizeof(*c->by_rank));
	if (!c->links || !c->by_rank)
		return fail(SLUICE_ENOMEM, "verbs: no memory for a table of %d peers", c->size);
	rc = c->ops->open(device, c->size, &c->carrier);
	return rc ? rc : proofs_open(c->rank, c->carrier, &c->proofs);
}

int connect_open(const struct verbs_device *device, int rank, int size, int lost_after_ms,
		 int link_lost_after_ms, struct connect **out)
{
	struct connect *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*c));
	c->rank = rank;
	c->size = size;
	c->ops = carrier_of(device);
	rc = open_parts(c, device);
	if (rc) {
		connect_down(c);
		connect_close(&c);
		*out = NULL;
		return rc;
	}
	c->shared = (struct link_shared){ .lost_after_ms = lost_after_ms,
					  .link_lost_after_ms = link_lost_after_ms,
					  .device = device,
					  .context = c->ops->context(c->carrier),
					  .proofs = c->proofs,
					  .trying = &c->trying };
	*out = c;
	return SLUICE_OK;
}

struct ibv_context *connect_context(const struct connect *c)
{
	return c->shared.context;
}

void connect_record(const struct connect *c, struct verbs_record *out)
{
	c->ops->record(c->carrier, out);
}

void connect_text(const struct connect *c, char text[CARRIER_TEXT])
{
	c->ops->text(c->carrier, text);
}

int connect_fd(const struct connect *c)
{
	return c->ops->fd(c->carrier);
}

void connect_use(struct connect *c, struct queues *queues, const struct queue_sizes *sizes,
		 const struct path_choice *path, struct event_queue *events, unsigned *wants)
{
	c->shared.queues = queues;
	c->shared.sizes = sizes;
	c->shared.events = events;
	c->shared.wants = wants;
	c->ops->use(c->carrier, path, sizes->reads);
}

void connect_admit(struct connect *c, const struct peer_keys *keys)
{
	proofs_admit(c->proofs, keys);
}

int connect_admitted(const struct connect *c)
{
	return proofs_admitted(c->proofs);
}

int connect_add(struct connect *c, const struct link_config *config, struct link **out)
{
	int rc = link_open(&c->shared, config, out);

	if (rc)
		return rc;
	c->links[c->n_links++] = c->by_rank[config->peer] = *out;
	return SLUICE_OK;
}

/* Taking a link down polls for all links, so all links must be down before any of them is
 * closed. */
void connect_down(struct connect *c)
{
	if (c->carrier)
		c->ops->stop(c->carrier);
	for (int i = 0; i < c->n_links; i++)
		link_down(c->links[i]);
}

void connect_close(struct connect **connect)
{
	struct connect *c = *connect;

	if (!c)
		return;
	for (int i = 0; i < c->n_links; i++)
		link_close(&c->links[i]);
	if (c->carrier)
		c->ops->close(c->carrier);
	proofs_close(&c->proofs);
	free(c->links);
	free(c->by_rank);
	free(c);
	*connect = NULL;
}
