/* SPDX-License-Identifier: BSD-3-Clause
 * See connect.h. */
#include "rdma/connect.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "sluice.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	BACKLOG = 128,
	EVENTS_AT_ONCE = 64,
	REFUSALS_LOGGED = 10, /* after that, logs one in this many: */
	REFUSALS_EVERY = 1000
};

struct connect {
	int rank, size;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct proofs *proofs;
	struct link_shared shared;
	struct sockaddr_storage address; /* of the listener */
	struct link **links, **by_rank;
	int n_links;
	int turn, trying; /* the link that may try first; see link_shared */
	uint64_t refused;
};

/* ---- requests --------------------------------------------------------------------- */

static void refuse_request(struct connect *c, struct rdma_cm_id *id, enum frame_reason reason,
			   const char *why)
{
	char text[80];

	c->refused++;
	/* Flooding this rank with requests must not flood its log. */
	if (c->refused <= REFUSALS_LOGGED || c->refused % REFUSALS_EVERY == 0)
		log_line(reason == REFUSAL_PROOF ? LOG_WARN : LOG_DEBUG, "rdma",
			 "verbs: refused a connection from %s: %s (%llu refused so far)",
			 verbs_address_text((void *)rdma_get_peer_addr(id), text), why,
			 (unsigned long long)c->refused);
	proofs_refuse(c->proofs, id, reason);
}

static void answer_hello(struct connect *c, struct rdma_cm_id *id, const struct frame *hello)
{
	const struct link *l = c->by_rank[hello->rank];

	if (l && link_refuses(l))
		refuse_request(c, id, REFUSAL_GONE, "this rank has given up on that peer");
	else if (proofs_reply(c->proofs, id, hello))
		refuse_request(c, id, REFUSAL_FAILED, "no reply could be made");
}

static void answer_proof(struct connect *c, const struct cm_event *event, struct frame *proof,
			 uint64_t now)
{
	struct rdma_cm_id *id = event->id;
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
	refuse_request(c, id, reason, why);
}

static void answer_request(struct connect *c, const struct cm_event *event, uint64_t now)
{
	struct rdma_cm_id *id = event->id;
	const char *why = "";
	struct frame frame;

	id->context = NULL;
	if (frame_decode(event->bytes, event->n, &frame, &why))
		refuse_request(c, id, REFUSAL_PROOF, why);
	else if (frame.rank >= (uint32_t)c->size || frame.rank == (uint32_t)c->rank)
		refuse_request(c, id, REFUSAL_PROOF, "its rank is not in this job");
	else if (frame.kind == FRAME_HELLO)
		answer_hello(c, id, &frame);
	else if (frame.kind == FRAME_PROOF)
		answer_proof(c, event, &frame, now);
	else
		refuse_request(c, id, REFUSAL_PROOF, "it is neither a hello nor a proof");
}

/* ---- events ----------------------------------------------------------------------- */

static void end_all(struct connect *c, const char *why)
{
	for (int i = 0; i < c->n_links; i++)
		link_end(c->links[i], why);
}

static void end_listener(struct connect *c)
{
	if (c->listener)
		rdma_destroy_id(c->listener);
	c->listener = NULL;
}

/* Copies the event and acknowledges it at once, because rdma_destroy_id() blocks until all events
 * of the id are acknowledged. Returns 0 if there is no event. */
static int next_event(struct connect *c, struct cm_event *out)
{
	struct rdma_cm_event *event;
	size_t n;

	if (rdma_get_cm_event(c->channel, &event))
		return 0;
	*out = (struct cm_event){ .type = event->event,
				  .status = event->status,
				  .id = event->id,
				  .listener = event->listen_id };
	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_REJECTED:
		n = event->param.conn.private_data_len;
		if (event->param.conn.private_data && n <= sizeof(out->bytes)) {
			memcpy(out->bytes, event->param.conn.private_data, n);
			out->n = n;
		}
		out->responder_resources = event->param.conn.responder_resources;
		out->initiator_depth = event->param.conn.initiator_depth;
		out->qpn = event->param.conn.qp_num;
		memcpy(out->gid, event->id->route.addr.addr.ibaddr.dgid.raw, sizeof(out->gid));
		break;
	default: break;
	}
	rdma_ack_cm_event(event);
	return 1;
}

static void cm_events(struct connect *c)
{
	struct cm_event event;

	for (int i = 0; i < EVENTS_AT_ONCE && next_event(c, &event); i++) {
		uint64_t now = now_ns();

		if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			answer_request(c, &event, now);
		} else if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
			end_all(c, "the RDMA device of this rank was removed");
			end_listener(c);
		} else if (event.id->context && event.id != c->listener) {
			link_cm_event(event.id->context, &event, now);
		}
	}
}

/* Runs the timers of all links. Those behind the one that began a try last go first. */
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
	cm_events(c);
	return tick_links(c, now);
}

void connect_settle(struct connect *c)
{
	for (int i = 0; i < c->n_links; i++)
		link_settle(c->links[i]);
}

/* ---- opening and closing ---------------------------------------------------------- */

static int listen_at(struct connect *c, const struct verbs_device *device)
{
	struct sockaddr_storage address = device->address;
	const char *led_to;

	c->channel = rdma_create_event_channel();
	if (!c->channel)
		return fail(SLUICE_EDEVICE,
			    "verbs: rdma_create_event_channel failed: %s; load the module "
			    "(modprobe rdma_ucm)",
			    errno_text(errno));
	if (rdma_create_id(c->channel, &c->listener, NULL, RDMA_PS_TCP)) {
		c->listener = NULL;
		return fail(SLUICE_EDEVICE, "verbs: rdma_create_id: %s", errno_text(errno));
	}
	if (rdma_bind_addr(c->listener, (struct sockaddr *)&address) ||
	    rdma_listen(c->listener, BACKLOG)) {
		char text[80];

		return fail(SLUICE_EDEVICE, "verbs: cannot listen at %s of %s: %s",
			    verbs_address_text(&device->address, text), device->name,
			    errno_text(errno));
	}
	led_to = c->listener->verbs ? ibv_get_device_name(c->listener->verbs->device) : "no device";
	if (strcmp(led_to, device->name) != 0)
		return fail(SLUICE_EDEVICE,
			    "verbs: the address of %s leads to %s: two devices share it",
			    device->name, led_to);
	memcpy(&c->address, rdma_get_local_addr(c->listener), sizeof(c->address));
	return SLUICE_OK;
}

static int open_listener(struct connect *c, const struct verbs_device *device)
{
	int rc;

	c->links = calloc((size_t)c->size, sizeof(*c->links));
	c->by_rank = calloc((size_t)c->size, sizeof(*c->by_rank));
	if (!c->links || !c->by_rank)
		return fail(SLUICE_ENOMEM, "verbs: no memory for a table of %d peers", c->size);
	rc = proofs_open(c->rank, device, &c->proofs);
	return rc ? rc : listen_at(c, device);
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
	rc = open_listener(c, device);
	if (rc) {
		connect_down(c);
		connect_close(&c);
		*out = NULL;
		return rc;
	}
	c->shared = (struct link_shared){ .lost_after_ms = lost_after_ms,
					  .link_lost_after_ms = link_lost_after_ms,
					  .device = device,
					  .context = c->listener->verbs,
					  .proofs = c->proofs,
					  .trying = &c->trying };
	*out = c;
	return SLUICE_OK;
}

struct ibv_context *connect_context(const struct connect *c)
{
	return c->shared.context;
}

const struct sockaddr_storage *connect_address(const struct connect *c)
{
	return &c->address;
}

uint16_t connect_port(const struct connect *c)
{
	return ntohs(rdma_get_src_port(c->listener));
}

int connect_fd(const struct connect *c)
{
	return c->channel->fd;
}

void connect_use(struct connect *c, struct queues *queues, const struct queue_sizes *sizes,
		 const struct path_choice *path, struct event_queue *events, unsigned *wants)
{
	c->shared.queues = queues;
	c->shared.sizes = sizes;
	c->shared.events = events;
	c->shared.wants = wants;
	proofs_use(c->proofs, c->channel, path, sizes->reads);
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

/* Taking a link down polls for all links, so every link must be down before any is closed. */
void connect_down(struct connect *c)
{
	end_listener(c);
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
	if (c->channel)
		rdma_destroy_event_channel(c->channel);
	proofs_close(&c->proofs);
	free(c->links);
	free(c->by_rank);
	free(c);
	*connect = NULL;
}
