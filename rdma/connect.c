/* SPDX-License-Identifier: BSD-3-Clause
 * Connecting through rdma_cm. The lower rank of a pair is the client:
 *
 *   client                                   server
 *     HELLO nonce (in a request)       ->    keeps nothing
 *     <-  CHALLENGE nonce, tag (in a reject)
 *     checks the tag, makes a queue pair
 *     PROOF tag (in a second request)  ->    checks it, makes a queue pair
 *     <-  ACCEPT tag, keys of slot and control region
 *     checks the tag, binds its windows
 *     READY (an immediate)             ->    binds its windows: the keys it sent work from now on
 *     <-  READY
 *     KEYS: writes its own, then an immediate ->  takes them over
 *     <-  KEYS, and is up
 *     takes them over, is up
 *
 * rdma_cm draws the first packet number of each queue pair at random. A lost connection is made
 * again the same way while there is time. A server that lost one says HELLO too: a challenge tells
 * that the client's process lives, "nobody listens" that it ended. All that rdma_cm or a peer says
 * is input; what may never come (a stopped process answers nothing) has a timer of ours. */
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
	BREAKS_MAX = 8 /* in a row, without one transfer between */
};

/* ---- events ---------------------------------------------------------------- */

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
	log_line(LOG_INFO, "rdma",
		 "verbs: lost the connection to rank %d: %s; trying for %.1f s to make it again",
		 ep->endpoint.peer, why, v->lost_after_ms / 2000.0);
	snprintf(ep->broke, sizeof(ep->broke), "%s", why);
	ep->failing = 0;
	/* Taking a link down says goodbye. On soft-RoCE a connection manager's message that cannot
	 * leave ends the device's connection manager for good; so wait for the port, within the
	 * same time. */
	ep->cut = !connect_port_active(v);
	if (ep->cut) {
		ep->state = LINK_DOWN;
		snprintf(ep->broke, sizeof(ep->broke), "port %d of this rank's %s went down",
			 v->device.port, v->device.name);
		snprintf(ep->why, sizeof(ep->why), "the port stays down");
	} else {
		link_drop(ep);
	}
	if (++ep->breaks > BREAKS_MAX) {
		link_gone(ep, "its connection breaks again and again");
		return;
	}
	if (ep->give_up_ns == 0)
		ep->give_up_ns = now + connect_ms_to_ns((uint64_t)v->lost_after_ms / 2);
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
			snprintf(ep->why, sizeof(ep->why), "rdma_resolve_route: %s",
				 errno_text(errno));
			connect_try_later(ep, ep->why);
		}
		return;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (out_of_turn(ep, of_hello))
			return;
		if (of_hello)
			connect_send_hello(ep);
		else
			connect_send_proof(ep);
		return;
	case RDMA_CM_EVENT_REJECTED:
		if (!of_hello && ep->state == LINK_UP)
			connect_broken(ep, "it was rejected after it was made");
		else
			connect_rejected(ep, event, of_hello, now);
		return;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (!of_hello && ep->state == LINK_PROVING)
			connect_accepted(ep, event);
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
		snprintf(ep->why, sizeof(ep->why), "%s (status %d)", rdma_event_str(event->type),
			 event->status);
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
	*out = (struct cm_event){ .type = event->event,
				  .status = event->status,
				  .id = event->id,
				  .listener = event->listen_id };
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
	default: break;
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

/* ---- timers ---------------------------------------------------------------- */

static void tick_one(struct verbs_endpoint *ep, uint64_t now)
{
	char text[sizeof(ep->gone_text)];

	if (ep->give_up_ns != 0 && now >= ep->give_up_ns) {
		snprintf(text, sizeof(text),
			 "%.110s; it could not be connected again in %.1f s: %.90s", ep->broke,
			 verbs_of_endpoint(ep)->lost_after_ms / 2000.0, ep->why);
		link_gone(ep, text);
	} else if (ep->cut) {
		if (!connect_port_active(verbs_of_endpoint(ep)))
			return;
		ep->cut = 0;
		link_drop(ep);
		ep->retry_at_ns = now;
	} else if (ep->hello_deadline_ns != 0 && now >= ep->hello_deadline_ns) {
		connect_try_later(ep, "no answer to a hello");
	} else if (ep->link_deadline_ns != 0 && now >= ep->link_deadline_ns) {
		connect_try_later(ep, ep->state == LINK_PROVING ?
					      "no answer to the proof" :
					      "no greeting over the new connection");
	} else if (ep->hello == NULL && ep->id == NULL && ep->retry_at_ns == 0) {
		/* The first time: the client begins, the server looks after a client that does not
		 * come. */
		ep->retry_at_ns = ep->client ? now :
					       now + 2 * connect_ms_to_ns(CONNECT_PROBE_EVERY_MS);
	}
	if (ep->state == LINK_DOWN && ep->hello == NULL && ep->id == NULL && ep->retry_at_ns != 0 &&
	    now >= ep->retry_at_ns)
		connect_start_hello(ep, now);
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

/* ---- opening and closing --------------------------------------------------- */

int connect_listen(struct verbs *v)
{
	v->channel = rdma_create_event_channel();
	if (v->channel == NULL)
		return fail(SLUICE_EDEVICE,
			    "verbs: rdma_create_event_channel: %s; modprobe rdma_ucm",
			    errno_text(errno));
	if (rdma_create_id(v->channel, &v->listener, NULL, RDMA_PS_TCP) != 0) {
		v->listener = NULL;
		return fail(SLUICE_EDEVICE, "verbs: rdma_create_id: %s", errno_text(errno));
	}
	if (rdma_bind_addr(v->listener, (struct sockaddr *)&v->device.address) != 0 ||
	    rdma_listen(v->listener, BACKLOG) != 0) {
		char text[80];

		return fail(SLUICE_EDEVICE, "verbs: cannot listen at %s of %s: %s",
			    verbs_address_text(&v->device.address, text), v->device.name,
			    errno_text(errno));
	}
	if (v->listener->verbs == NULL ||
	    strcmp(ibv_get_device_name(v->listener->verbs->device), v->device.name) != 0)
		return fail(SLUICE_EDEVICE,
			    "verbs: the address of %s leads to %s: two devices share it",
			    v->device.name,
			    v->listener->verbs == NULL ?
				    "no device" :
				    ibv_get_device_name(v->listener->verbs->device));
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
