/* SPDX-License-Identifier: BSD-3-Clause
 * Connecting through rdma_cm. The lower rank of a pair is the client:
 *
 *   client                                   server
 *     HELLO nonce (in a request)       ->    keeps nothing
 *     <-  CHALLENGE nonce, tag (in a reject)
 *     checks the tag, makes a queue pair
 *     PROOF tag (in a second request)  ->    checks it, makes a queue pair
 *     <-  ACCEPT tag, keys of slot and control region
 *     checks the tag
 *     greeting: WRITE with immediate   ->    learns the client's keys; both are up
 *
 * rdma_cm draws the first packet number of each queue pair at random. A lost connection is made again
 * the same way while there is time. A server that lost one says HELLO too: a challenge tells that the
 * client's process lives, "nobody listens" that it ended. All that rdma_cm or a peer says is input;
 * what may never come (a stopped process answers nothing) has a timer of ours. */
#include "base/clock.h"
#include "base/log.h"
#include "rdma/verbs.h"
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

enum {
	BACKLOG = 128,
	EVENTS_AT_ONCE = 64,
	REFUSALS_MAX = 5,       /* wrong proofs before a peer is given up */
	NOBODY_MAX = 3,         /* the same for "nobody listens" before it was ever connected */
	BREAKS_MAX = 8,         /* in a row, without one transfer between */
	PROBE_EVERY_MS = 500,
	REJECT_NO_SERVICE = 8   /* status of a reject: the InfiniBand "invalid service id" */
};

static uint64_t ms_to_ns(uint64_t ms)
{
	return ms * 1000000;
}

/* How long one try may take: longer each time, as a busy peer answers late. But when a connection is
 * made again, time is short, and a request that was lost is sent again by nobody for seconds. */
uint64_t connect_try_ns(const struct verbs_endpoint *ep)
{
	int longest = verbs_of_endpoint(ep)->lost_after_ms / 2;
	int ms = verbs_of_endpoint(ep)->lost_after_ms / 10;

	if (ep->give_up_ns == 0)
		ms <<= ep->tries < 4 ? ep->tries : 4;
	if (ms < 200)
		ms = 200;
	return ms_to_ns((uint64_t)(ms < longest ? ms : longest));
}

static int port_active(const struct verbs *v)
{
	struct ibv_port_attr attr;

	return ibv_query_port(v->context, v->device.port, &attr) != 0 || attr.state == IBV_PORT_ACTIVE;
}

void connect_end_hello(struct verbs_endpoint *ep)
{
	if (ep->hello != NULL)
		rdma_destroy_id(ep->hello);
	ep->hello = NULL;
	ep->hello_deadline_ns = 0;
}

void connect_try_later(struct verbs_endpoint *ep, const char *why)
{
	uint64_t wait_ms = ep->client ? 20u << (ep->tries < 4 ? ep->tries : 4) : PROBE_EVERY_MS;

	if (ep->state == LINK_GONE)
		return;
	if (why != ep->why)
		snprintf(ep->why, sizeof(ep->why), "%s", why);
	log_line(LOG_DEBUG, "rdma", "verbs: rank %d: try %u: %s", ep->endpoint.peer, ep->tries, ep->why);
	connect_end_hello(ep);
	link_drop(ep);
	ep->tries++;
	ep->retry_at_ns = now_ns() + ms_to_ns(wait_ms);
}

/* ---- the client's requests ------------------------------------------------------------------- */

/* An id on its way to the peer's listener, from our own address: without it, the route may begin at
 * another device of this machine. */
static int start_id(struct verbs_endpoint *ep, struct rdma_cm_id **id_out)
{
	struct verbs *v = verbs_of_endpoint(ep);
	struct rdma_cm_id *id;
	uint8_t timeout = v->ack_timeout;

	if (rdma_create_id(v->channel, &id, ep, RDMA_PS_TCP) != 0) {
		snprintf(ep->why, sizeof(ep->why), "rdma_create_id: %s", errno_text(errno));
		return -1;
	}
	/* Before the route: it becomes part of it. Not all devices can; then theirs counts. */
	rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout));
	if (rdma_resolve_addr(id, (struct sockaddr *)&v->device.address, (struct sockaddr *)&ep->address,
			      (int)(connect_try_ns(ep) / 1000000)) != 0) {
		snprintf(ep->why, sizeof(ep->why), "rdma_resolve_addr: %s", errno_text(errno));
		rdma_destroy_id(id);
		return -1;
	}
	*id_out = id;
	return 0;
}

static void start_hello(struct verbs_endpoint *ep, uint64_t now)
{
	struct verbs *v = verbs_of_endpoint(ep);

	if (!port_active(v))
		return; /* asked again at the next tick */
	ep->retry_at_ns = 0;
	ep->hello_auth = (struct auth_context){
		.client = (uint32_t)v->rank, .server = (uint32_t)ep->endpoint.peer};
	if (auth_random(ep->hello_auth.nonce_client, AUTH_NONCE_BYTES) < 0 ||
	    start_id(ep, &ep->hello) < 0) {
		connect_try_later(ep, ep->why);
		return;
	}
	ep->hello_deadline_ns = now + connect_try_ns(ep);
}

static int request(struct rdma_cm_id *id, const struct verbs *v, const struct frame *frame, uint32_t qpn)
{
	uint8_t bytes[FRAME_MAX];
	struct rdma_conn_param param = {
		.private_data = bytes,
		.private_data_len = (uint8_t)frame_encode(frame, bytes),
		.responder_resources = (uint8_t)v->reads,
		.initiator_depth = (uint8_t)v->reads,
		.retry_count = VERBS_RETRIES,
		.rnr_retry_count = VERBS_RETRIES,
		.srq = 1,
		.qp_num = qpn, /* counts only where id has no queue pair */
	};

	return rdma_connect(id, &param);
}

static void send_hello(struct verbs_endpoint *ep)
{
	struct verbs *v = verbs_of_endpoint(ep);
	struct frame frame = {.kind = FRAME_HELLO, .rank = (uint32_t)v->rank};
	uint32_t qpn = 1;

	memcpy(frame.nonce_client, ep->hello_auth.nonce_client, AUTH_NONCE_BYTES);
	/* There is no queue pair yet, but one number from everybody would look like one stale connection. */
	auth_random(&qpn, sizeof(qpn));
	if (request(ep->hello, v, &frame, (qpn & 0xffffff) | 1) != 0) {
		snprintf(ep->why, sizeof(ep->why), "rdma_connect: %s", errno_text(errno));
		connect_try_later(ep, ep->why);
	}
}

static void send_proof(struct verbs_endpoint *ep)
{
	struct verbs *v = verbs_of_endpoint(ep);
	struct frame frame = {.kind = FRAME_PROOF, .rank = (uint32_t)v->rank, .received = ep->received};
	uint8_t covered[ACCEPT_SIGNED_BYTES];

	_Static_assert(FRAME_HEADER_BYTES + 2 * AUTH_NONCE_BYTES + AUTH_TAG_BYTES + 8 <= FRAME_REQUEST_MAX,
		       "a proof does not fit into a request");
	memcpy(frame.nonce_client, ep->auth.nonce_client, AUTH_NONCE_BYTES);
	memcpy(frame.nonce_server, ep->auth.nonce_server, AUTH_NONCE_BYTES);
	if (auth_tag(&v->secret, AUTH_PROOF, &ep->auth, covered, frame_signed(&frame, covered), frame.tag) < 0 ||
	    link_make(ep) < 0) {
		connect_try_later(ep, ep->why);
		return;
	}
	ep->state = LINK_PROVING;
	if (request(ep->id, v, &frame, 0) != 0) {
		snprintf(ep->why, sizeof(ep->why), "rdma_connect: %s", errno_text(errno));
		connect_try_later(ep, ep->why);
	}
}

/* ---- what a peer answers --------------------------------------------------------------------- */

static void refused(struct verbs_endpoint *ep, const char *why)
{
	if (++ep->refusals >= REFUSALS_MAX)
		link_gone(ep, why);
	else
		connect_try_later(ep, why);
}

static void nobody_listens(struct verbs_endpoint *ep)
{
	if (ep->was_up || ep->tries >= NOBODY_MAX)
		link_gone(ep, "its process ended: nobody listens at its address");
	else
		connect_try_later(ep, "nobody listens at its address");
}

/* The answer to HELLO. */
static void challenged(struct verbs_endpoint *ep, const struct frame *frame, uint64_t now)
{
	struct verbs *v = verbs_of_endpoint(ep);

	memcpy(ep->hello_auth.nonce_server, frame->nonce_server, AUTH_NONCE_BYTES);
	if (frame->rank != (uint32_t)ep->endpoint.peer ||
	    !auth_check(&v->secret, AUTH_CHALLENGE, &ep->hello_auth, NULL, 0, frame->tag)) {
		refused(ep, "it does not hold this job's key");
		return;
	}
	ep->auth = ep->hello_auth;
	connect_end_hello(ep);
	if (!ep->client) { /* it lives: it will come */
		ep->retry_at_ns = now + ms_to_ns(PROBE_EVERY_MS);
		return;
	}
	if (start_id(ep, &ep->id) < 0) {
		ep->id = NULL;
		connect_try_later(ep, ep->why);
		return;
	}
	ep->link_deadline_ns = now + connect_try_ns(ep);
}

static void rejected(struct verbs_endpoint *ep, const struct cm_event *event, int of_hello, uint64_t now)
{
	const char *why = "";
	struct frame frame;

	if (frame_decode(event->bytes, event->n, &frame, &why) < 0) {
		if (event->status == REJECT_NO_SERVICE || event->status == -ECONNREFUSED ||
		    event->status == ECONNREFUSED) {
			nobody_listens(ep);
			return;
		}
		snprintf(ep->why, sizeof(ep->why), "it rejected the connection (status %d): %s", event->status,
			 why);
		connect_try_later(ep, ep->why);
		return;
	}
	if (frame.kind == FRAME_CHALLENGE && of_hello)
		challenged(ep, &frame, now);
	else if (frame.kind == FRAME_REFUSAL && frame.reason == REFUSAL_GONE)
		link_gone(ep, "it has given this rank up");
	else if (frame.kind == FRAME_REFUSAL && frame.reason == REFUSAL_PROOF)
		refused(ep, "it refuses this rank's proof: it does not hold the same job key");
	else
		connect_try_later(ep, "it is not ready yet");
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
	return (struct slot_address){.address = (uintptr_t)ep->slot, .rkey = ep->slot_mr->rkey,
				     .credits = verbs_of_endpoint(ep)->credits};
}

/* The answer to PROOF. */
static void accepted(struct verbs_endpoint *ep, const struct cm_event *event)
{
	struct verbs *v = verbs_of_endpoint(ep);
	uint8_t covered[ACCEPT_SIGNED_BYTES], greeting[GREETING_BYTES];
	struct slot_address slot = connect_own_slot(ep);
	const char *why = "its answer is of another kind";
	struct frame frame;

	if (frame_decode(event->bytes, event->n, &frame, &why) < 0 || frame.kind != FRAME_ACCEPT) {
		refused(ep, why);
		return;
	}
	if (frame.rank != (uint32_t)ep->endpoint.peer ||
	    !auth_check(&v->secret, AUTH_ACCEPT, &ep->auth, covered, frame_signed(&frame, covered),
			frame.tag)) {
		refused(ep, "it does not hold this job's key");
		return;
	}
	if (connect_take_slot(ep, &frame.slot, frame.control) < 0 || link_replay(ep, frame.received) < 0) {
		link_gone(ep, ep->why[0] != '\0' ? ep->why : "it offers an impossible slot");
		return;
	}
	greeting_encode(&slot, ep->own_control, greeting);
	if (post_scratch(ep, IBV_WR_RDMA_WRITE_WITH_IMM, ep->peer_slot.address + SLOT_GREETING, greeting,
			 sizeof(greeting), 1) < 0) {
		connect_try_later(ep, ep->why);
		return;
	}
	link_up(ep);
}

/* ---- events ---------------------------------------------------------------------------------- */

void connect_broken(struct verbs_endpoint *ep, const char *why)
{
	struct verbs *v = verbs_of_endpoint(ep);
	uint64_t now = now_ns();

	if (ep->state == LINK_GONE)
		return;
	if (ep->revoked) {
		link_gone(ep, "it was dropped from the job");
		return;
	}
	if (!ep->was_up) {
		connect_try_later(ep, why);
		return;
	}
	log_line(LOG_INFO, "rdma", "verbs: lost the connection to rank %d: %s; trying for %.1f s to make it again",
		 ep->endpoint.peer, why, v->lost_after_ms / 2000.0);
	snprintf(ep->broke, sizeof(ep->broke), "%s", why);
	ep->failing = 0;
	/* Taking a link down says goodbye. On soft-RoCE a connection manager's message that cannot leave
	 * ends the device's connection manager for good; so wait for the port, within the same time. */
	ep->cut = !port_active(v);
	if (ep->cut) {
		ep->state = LINK_DOWN;
		snprintf(ep->broke, sizeof(ep->broke), "port %d of this rank's %s went down", v->device.port,
			 v->device.name);
		snprintf(ep->why, sizeof(ep->why), "the port stays down");
	} else {
		link_drop(ep);
	}
	if (++ep->breaks > BREAKS_MAX) {
		link_gone(ep, "its connection breaks again and again");
		return;
	}
	if (ep->give_up_ns == 0)
		ep->give_up_ns = now + ms_to_ns((uint64_t)v->lost_after_ms / 2);
	ep->retry_at_ns = now;
	v->ticking = 1;
	v->next_look_ns = 0;
}

static void device_removed(struct verbs *v)
{
	struct rdma_cm_id *listener = v->listener;

	for (int i = 0; i < v->n_peers; i++)
		link_gone(v->peers[i], "the RDMA device of this rank was removed");
	v->listener = NULL;
	if (listener != NULL)
		rdma_destroy_id(listener);
}

/* A step of a connection that has its queue pair already, whatever rdma_cm may say. */
static int out_of_turn(const struct verbs_endpoint *ep, int of_hello)
{
	return !of_hello && ep->id->qp != NULL;
}

static void of_endpoint(struct verbs_endpoint *ep, const struct cm_event *event, uint64_t now)
{
	int of_hello = event->id == ep->hello;

	if (!of_hello && event->id != ep->id)
		return;
	switch (event->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (out_of_turn(ep, of_hello))
			return;
		if (rdma_resolve_route(event->id, (int)(connect_try_ns(ep) / 1000000)) != 0) {
			snprintf(ep->why, sizeof(ep->why), "rdma_resolve_route: %s", errno_text(errno));
			connect_try_later(ep, ep->why);
		}
		return;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (out_of_turn(ep, of_hello))
			return;
		if (of_hello)
			send_hello(ep);
		else
			send_proof(ep);
		return;
	case RDMA_CM_EVENT_REJECTED:
		if (!of_hello && ep->state == LINK_UP)
			connect_broken(ep, "it was rejected after it was made");
		else
			rejected(ep, event, of_hello, now);
		return;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (!of_hello && ep->state == LINK_PROVING)
			accepted(ep, event);
		return; /* the server waits for the greeting */
	case RDMA_CM_EVENT_DISCONNECTED:
		if (!of_hello)
			connect_broken(ep, "it was disconnected by the other side");
		return;
	case RDMA_CM_EVENT_CONNECT_RESPONSE: /* somebody accepts a hello: no server of ours */
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		snprintf(ep->why, sizeof(ep->why), "%s (status %d)", rdma_event_str(event->type), event->status);
		if (of_hello || ep->state != LINK_UP)
			connect_try_later(ep, ep->why);
		else
			connect_broken(ep, rdma_event_str(event->type));
		return;
	default:
		log_line(LOG_DEBUG, "rdma", "verbs: rank %d: %s", ep->endpoint.peer,
			 rdma_event_str(event->type));
	}
}

/* Copies the event and acknowledges it at once: an id cannot end before. 0: there was none. */
static int next_event(struct verbs *v, struct cm_event *out)
{
	struct rdma_cm_event *event;
	size_t n;

	if (rdma_get_cm_event(v->channel, &event) != 0)
		return 0;
	*out = (struct cm_event){.type = event->event, .status = event->status, .id = event->id,
				 .listener = event->listen_id};
	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_REJECTED:
		n = event->param.conn.private_data_len;
		if (event->param.conn.private_data != NULL && n <= sizeof(out->bytes)) {
			memcpy(out->bytes, event->param.conn.private_data, n);
			out->n = n;
		}
		out->responder_resources = event->param.conn.responder_resources;
		out->initiator_depth = event->param.conn.initiator_depth;
		break;
	default:
		break;
	}
	rdma_ack_cm_event(event);
	return 1;
}

void connect_events(struct verbs *v)
{
	struct cm_event event;

	for (int i = 0; i < EVENTS_AT_ONCE && next_event(v, &event); i++) {
		uint64_t now = now_ns();

		if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST)
			connect_requested(v, &event, now);
		else if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL)
			device_removed(v);
		else if (event.id->context != NULL && event.id != v->listener)
			of_endpoint(event.id->context, &event, now);
	}
}

/* ---- timers ---------------------------------------------------------------------------------- */

static void tick_one(struct verbs_endpoint *ep, uint64_t now)
{
	char text[sizeof(ep->gone_text)];

	if (ep->give_up_ns != 0 && now >= ep->give_up_ns) {
		snprintf(text, sizeof(text), "%.110s; it could not be connected again in %.1f s: %.90s", ep->broke,
			 verbs_of_endpoint(ep)->lost_after_ms / 2000.0, ep->why);
		link_gone(ep, text);
	} else if (ep->cut) {
		if (!port_active(verbs_of_endpoint(ep)))
			return;
		ep->cut = 0;
		link_drop(ep);
		ep->retry_at_ns = now;
	} else if (ep->hello_deadline_ns != 0 && now >= ep->hello_deadline_ns) {
		connect_try_later(ep, "no answer to a hello");
	} else if (ep->link_deadline_ns != 0 && now >= ep->link_deadline_ns) {
		connect_try_later(ep, ep->state == LINK_ACCEPTING ? "no greeting after it was accepted"
							  : "no answer to the proof");
	} else if (ep->hello == NULL && ep->id == NULL && ep->retry_at_ns == 0) {
		/* The first time: the client begins, the server looks after a client that does not come. */
		ep->retry_at_ns = ep->client ? now : now + 2 * ms_to_ns(PROBE_EVERY_MS);
	}
	if (ep->state == LINK_DOWN && ep->hello == NULL && ep->id == NULL && ep->retry_at_ns != 0 &&
	    now >= ep->retry_at_ns)
		start_hello(ep, now);
}

void connect_tick(struct verbs *v, uint64_t now)
{
	if (!v->ticking)
		return;
	v->ticking = 0;
	for (int i = 0; i < v->n_peers; i++) {
		struct verbs_endpoint *ep = v->peers[i];

		if (ep->state != LINK_UP && ep->state != LINK_GONE)
			tick_one(ep, now);
		v->ticking |= ep->state != LINK_UP && ep->state != LINK_GONE;
	}
}

/* ---- opening and closing --------------------------------------------------------------------- */

int connect_listen(struct verbs *v)
{
	v->channel = rdma_create_event_channel();
	if (v->channel == NULL)
		return fail(SLUICE_EDEVICE, "verbs: rdma_create_event_channel: %s; modprobe rdma_ucm",
			    errno_text(errno));
	if (rdma_create_id(v->channel, &v->listener, NULL, RDMA_PS_TCP) != 0) {
		v->listener = NULL;
		return fail(SLUICE_EDEVICE, "verbs: rdma_create_id: %s", errno_text(errno));
	}
	if (rdma_bind_addr(v->listener, (struct sockaddr *)&v->device.address) != 0 ||
	    rdma_listen(v->listener, BACKLOG) != 0) {
		char text[80];

		return fail(SLUICE_EDEVICE, "verbs: cannot listen at %s of %s: %s",
			    verbs_address_text(&v->device.address, text), v->device.name, errno_text(errno));
	}
	if (v->listener->verbs == NULL ||
	    strcmp(ibv_get_device_name(v->listener->verbs->device), v->device.name) != 0)
		return fail(SLUICE_EDEVICE, "verbs: the address of %s leads to %s: two devices share it",
			    v->device.name, v->listener->verbs == NULL ? "no device"
			    : ibv_get_device_name(v->listener->verbs->device));
	v->context = v->listener->verbs;
	return SLUICE_OK;
}

/* Nobody can connect any more; the links are the caller's. */
void connect_close(struct verbs *v)
{
	for (int i = 0; i < v->n_peers; i++)
		connect_end_hello(v->peers[i]);
	if (v->listener != NULL)
		rdma_destroy_id(v->listener);
	v->listener = NULL;
}
