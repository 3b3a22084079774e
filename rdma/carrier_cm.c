/* SPDX-License-Identifier: BSD-3-Clause
 * The row cm of carrier.h: frames travel in the private data of requests, rejects and accepts of
 * rdma_cm, and the kernel's connection manager knows the ends of a connection. */
#include "base/error.h"
#include "rdma/carrier.h"
#include "rdma/queues.h"
#include "sluice.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BACKLOG = 128 };

struct cm {
	struct carrier carrier;
	const struct verbs_device *device;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct ibv_context *context;     /* which rdma_cm shares among all ids of the device */
	struct sockaddr_storage address; /* the address of the listener */
	uint16_t port;
	const struct path_choice *path;
	uint32_t reads;
};

struct cm_peer {
	struct cm *cm;
	struct sockaddr_storage address; /* of the peer's listener */
	void *owner;
	struct rdma_cm_id *id;
	int timeout_ms;
};

static struct cm *cm_of(const struct carrier *c)
{
	/* the first member; casts away const as strchr() does */
	return (struct cm *)(uintptr_t)c;
}

static struct cm_peer *cm_peer_of(const struct carrier_peer *p)
{
	return (struct cm_peer *)(uintptr_t)p;
}

static int why_call_failed(const char *call, char why[CARRIER_WHY_BYTES])
{
	snprintf(why, CARRIER_WHY_BYTES, "%s: %s", call, errno_text(errno));
	return -1;
}

/* ---- of this rank ------------------------------------------------------------------ */

static int listen_at(struct cm *c)
{
	struct sockaddr_storage address = c->device->address;
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
		char text[CARRIER_TEXT];

		return fail(SLUICE_EDEVICE, "verbs: cannot listen at %s of %s: %s",
			    verbs_address_text(&c->device->address, text), c->device->name,
			    errno_text(errno));
	}
	led_to = c->listener->verbs ? ibv_get_device_name(c->listener->verbs->device) : "no device";
	if (strcmp(led_to, c->device->name) != 0)
		return fail(SLUICE_EDEVICE,
			    "verbs: the address of %s leads to %s: two devices share this address",
			    c->device->name, led_to);
	memcpy(&c->address, rdma_get_local_addr(c->listener), sizeof(c->address));
	c->port = ntohs(rdma_get_src_port(c->listener));
	c->context = c->listener->verbs;
	return SLUICE_OK;
}

static void cm_stop(struct carrier *carrier)
{
	struct cm *c = cm_of(carrier);

	if (c->listener)
		rdma_destroy_id(c->listener);
	c->listener = NULL;
}

static void cm_close(struct carrier *carrier)
{
	struct cm *c = cm_of(carrier);

	cm_stop(carrier);
	if (c->channel)
		rdma_destroy_event_channel(c->channel);
	free(c);
}

static int cm_open(const struct verbs_device *device, int size, struct carrier **out)
{
	struct cm *c = calloc(1, sizeof(*c));
	int rc;

	(void)size;
	if (!c)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*c));
	c->carrier.ops = &carrier_cm;
	c->device = device;
	rc = listen_at(c);
	if (rc)
		cm_close(&c->carrier);
	else
		*out = &c->carrier;
	return rc;
}

static void cm_use(struct carrier *c, const struct path_choice *path, uint32_t reads)
{
	cm_of(c)->path = path;
	cm_of(c)->reads = reads;
}

static struct ibv_context *cm_context(const struct carrier *c)
{
	return cm_of(c)->context;
}

static int cm_fd(const struct carrier *c)
{
	return cm_of(c)->channel->fd;
}

static void cm_record(const struct carrier *c, struct verbs_record *out)
{
	out->port = cm_of(c)->port;
}

static void cm_text(const struct carrier *c, char text[CARRIER_TEXT])
{
	verbs_address_text(&cm_of(c)->address, text);
}

static void cm_sender(const struct carrier_event *request, char text[CARRIER_TEXT])
{
	verbs_address_text((void *)rdma_get_peer_addr(request->id), text);
}

/* The id of a request inherits the context of the listener, which is NULL. */
static void copy_event(const struct rdma_cm_event *event, struct carrier_event *out)
{
	const struct cm_peer *p = event->id->context;
	const size_t n = event->param.conn.private_data_len;

	*out = (struct carrier_event){ .type = event->event,
				       .status = event->status,
				       .owner = p && p->id == event->id ? p->owner : NULL,
				       .id = event->id };
	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_REJECTED:
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
}

/* The address leads to the route. */
static void find_route(struct carrier_event *event)
{
	const struct cm_peer *p = event->id->context;

	if (!rdma_resolve_route(event->id, p->timeout_ms))
		return;
	event->type = RDMA_CM_EVENT_ROUTE_ERROR;
	event->status = -errno;
}

/* Acknowledges the event at once, because rdma_destroy_id() waits until all events of the id are
 * acknowledged. */
static int cm_next(struct carrier *c, struct carrier_event *out)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(cm_of(c)->channel, &event))
		return 0;
	copy_event(event, out);
	rdma_ack_cm_event(event);
	if (out->type == RDMA_CM_EVENT_ADDR_RESOLVED && out->owner)
		find_route(out);
	return 1;
}

/* ---- of one peer ------------------------------------------------------------------- */

static int cm_meet(struct carrier *c, const struct verbs_record *its, void *owner,
		   struct carrier_peer **out)
{
	struct cm_peer *p = calloc(1, sizeof(*p));

	if (!p)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*p));
	p->cm = cm_of(c);
	p->address = verbs_record_listener(its);
	p->owner = owner;
	*out = (struct carrier_peer *)(void *)p;
	return SLUICE_OK;
}

static void cm_part(struct carrier_peer *p)
{
	free(cm_peer_of(p));
}

static int cm_start(struct carrier_peer *peer, int timeout_ms, char why[CARRIER_WHY_BYTES])
{
	struct cm_peer *p = cm_peer_of(peer);
	const struct path_choice *path = p->cm->path;
	/* Without this address, the route could begin at another device of this machine. */
	struct sockaddr_storage own = p->cm->device->address;
	uint8_t traffic_class = (uint8_t)path->traffic_class;
	struct rdma_cm_id *id;

	if (rdma_create_id(p->cm->channel, &id, p, RDMA_PS_TCP))
		return why_call_failed("rdma_create_id", why);
	/* The kernel derives two values from this option: the service level, which is the priority
	 * on a VLAN, and the class of the connection manager's own messages. The option must be set
	 * before the route is resolved, because the route includes it. */
	if (path->traffic_class != PATH_AS_RESOLVED)
		rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &traffic_class,
				sizeof(traffic_class));
	if (rdma_resolve_addr(id, (struct sockaddr *)&own, (struct sockaddr *)&p->address,
			      timeout_ms)) {
		why_call_failed("rdma_resolve_addr", why);
		rdma_destroy_id(id);
		return -1;
	}
	p->id = id;
	p->timeout_ms = timeout_ms;
	return 0;
}

static int cm_request(struct carrier_peer *peer, const struct frame *frame,
		      char why[CARRIER_WHY_BYTES])
{
	struct cm_peer *p = cm_peer_of(peer);
	uint8_t bytes[FRAME_MAX];
	struct rdma_conn_param param = {
		.private_data = bytes,
		.private_data_len = (uint8_t)frame_encode(frame, bytes),
		.responder_resources = (uint8_t)p->cm->reads,
		.initiator_depth = (uint8_t)p->cm->reads,
		.retry_count = QUEUES_RETRIES,
		.rnr_retry_count = QUEUES_RETRIES,
		.srq = 1,
		.qp_num = frame->qpn,
	};

	return rdma_connect(p->id, &param) ? why_call_failed("rdma_connect", why) : 0;
}

static int cm_take(struct carrier_peer *p, const struct carrier_event *request,
		   const struct frame *frame, char why[CARRIER_WHY_BYTES])
{
	(void)frame;
	(void)why;
	cm_peer_of(p)->id = request->id;
	return 0;
}

static void cm_yield(struct carrier_peer *p)
{
	cm_peer_of(p)->id = NULL;
}

static uint8_t at_most(uint8_t asked, uint32_t here)
{
	return asked < here ? asked : (uint8_t)here;
}

static int cm_accept(struct carrier_peer *peer, const struct carrier_event *request,
		     const struct frame *frame, char why[CARRIER_WHY_BYTES])
{
	struct cm_peer *p = cm_peer_of(peer);
	uint8_t bytes[FRAME_MAX];
	struct rdma_conn_param param = {
		.private_data = bytes,
		.private_data_len = (uint8_t)frame_encode(frame, bytes),
		.responder_resources = at_most(request->responder_resources, p->cm->reads),
		.initiator_depth = at_most(request->initiator_depth, p->cm->reads),
		.rnr_retry_count = QUEUES_RETRIES,
		.srq = 1,
		.qp_num = frame->qpn,
	};

	p->id->context = p;
	return rdma_accept(p->id, &param) ? why_call_failed("rdma_accept", why) : 0;
}

static void cm_refuse(const struct carrier_event *request, const struct frame *frame)
{
	uint8_t bytes[FRAME_MAX];
	size_t n = frame_encode(frame, bytes);

	rdma_reject(request->id, bytes, (uint8_t)n);
	rdma_destroy_id(request->id);
}

static int cm_confirm(struct carrier_peer *p, char why[CARRIER_WHY_BYTES])
{
	return rdma_establish(cm_peer_of(p)->id) ? why_call_failed("rdma_establish", why) : 0;
}

static void cm_end(struct carrier_peer *peer, const struct frame *frame)
{
	struct cm_peer *p = cm_peer_of(peer);

	(void)frame;
	rdma_disconnect(p->id); /* fails if the id was never connected */
	rdma_destroy_id(p->id);
	p->id = NULL;
}

static struct ibv_context *cm_leads_to(const struct carrier_peer *p)
{
	return cm_peer_of(p)->id->verbs;
}

/* The tag of a PROOF covers the GID from which the client sends. The peer's connection manager
 * reports that GID to the peer. */
static void cm_complete(struct carrier_peer *p, struct frame *frame)
{
	if (frame->kind == FRAME_PROOF)
		memcpy(frame->gid, cm_peer_of(p)->id->route.addr.addr.ibaddr.sgid.raw,
		       FRAME_GID_BYTES);
}

/* Only a server checks the peer's GID, because a client has itself chosen the server's address. */
static struct path_ends cm_ends(const struct carrier_peer *p, const struct frame *frame)
{
	return (struct path_ends){ .id = cm_peer_of(p)->id,
				   .peer_gid = frame->kind == FRAME_PROOF ? frame->gid : NULL };
}

const struct carrier_ops carrier_cm = {
	.name = "cm",
	.open = cm_open,
	.use = cm_use,
	.stop = cm_stop,
	.close = cm_close,
	.context = cm_context,
	.fd = cm_fd,
	.record = cm_record,
	.text = cm_text,
	.next = cm_next,
	.sender = cm_sender,
	.meet = cm_meet,
	.part = cm_part,
	.start = cm_start,
	.request = cm_request,
	.take = cm_take,
	.yield = cm_yield,
	.accept = cm_accept,
	.refuse = cm_refuse,
	.confirm = cm_confirm,
	.end = cm_end,
	.leads_to = cm_leads_to,
	.complete = cm_complete,
	.ends = cm_ends,
};
