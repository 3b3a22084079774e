/* SPDX-License-Identifier: BSD-3-Clause
 * The connection manager of fake_fabric.h: ids, listeners, and the events between them. */
#include "fake_fabric.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The functions must have the parameters of the functions that they replace. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

enum {
	FIRST_PORT = 20000,
	REJECTED_BY_CONSUMER = 28,
	NO_SERVICE = 8,
	PADDED_REQUEST = 56,
	PADDED_REJECT = 148,
	PADDED_ACCEPT = 196,
	KERNEL_TIMEOUT = 19 /* for the packet lifetime that cma.c assumes on Ethernet */
};

struct fake_event {
	struct rdma_cm_event event;
	struct fake_event *next;
	uint8_t bytes[256];
};

/* A channel represents the rank that made it, whose port has this MTU. */
struct fake_channel {
	struct rdma_event_channel channel;
	uint8_t mtu;
	struct fake_event *first;
};

/* The states of drivers/infiniband/core/cm.c that rdma_init_qp_attr() checks. */
enum fake_cm_state { CM_IDLE, CM_REQ_SENT, CM_REQ_RCVD, CM_REP_SENT, CM_REP_RCVD, CM_ESTABLISHED };

struct fake_id {
	struct rdma_cm_id id;
	struct fake_id *next, *partner;
	uint16_t port, dest;
	int listening, connected, unacked;
	enum fake_cm_state state;
	uint32_t qpn;                                 /* number of the queue pair that the user
							 passed */
	uint8_t responder_resources, initiator_depth; /* as set by the user */
	uint8_t path_mtu, traffic_class;
};

static struct fake_id *all_ids;
static uint16_t last_port = FIRST_PORT;

static struct fake_id *id_of(struct rdma_cm_id *id)
{
	return (struct fake_id *)(void *)id;
}

static struct fake_channel *channel_of(struct rdma_event_channel *channel)
{
	return (struct fake_channel *)(void *)channel;
}

/* ---- events ---------------------------------------------------------------- */

static void tell(struct fake_id *id, struct fake_id *listener, enum rdma_cm_event_type type,
		 int status, const void *bytes, size_t n, size_t padded)
{
	struct fake_channel *channel = channel_of(id->id.channel);
	struct fake_event *event = fake_new(sizeof(*event)), **at;

	event->event.id = &id->id;
	event->event.listen_id = listener != NULL ? &listener->id : NULL;
	event->event.event = type;
	event->event.status = status;
	if (id->partner) {
		event->event.param.conn.responder_resources = id->partner->initiator_depth;
		event->event.param.conn.initiator_depth = id->partner->responder_resources;
		event->event.param.conn.qp_num = id->partner->qpn;
	}
	if (n > 0)
		memcpy(event->bytes, bytes, n);
	event->event.param.conn.private_data = padded > 0 ? event->bytes : NULL;
	event->event.param.conn.private_data_len = (uint8_t)padded;
	for (at = &channel->first; *at != NULL; at = &(*at)->next)
		;
	*at = event;
	fake_pulse(channel->channel.fd);
}

int rdma_get_cm_event(struct rdma_event_channel *ibv_channel, struct rdma_cm_event **out)
{
	struct fake_channel *channel = channel_of(ibv_channel);
	struct fake_event *event;

	fake_lock();
	event = channel->first;
	if (event != NULL) {
		channel->first = event->next;
		if (channel->first == NULL)
			fake_drain(ibv_channel->fd);
		id_of(event->event.id)->unacked++;
		fake_counts.unacked++;
		*out = &event->event;
	}
	fake_unlock();
	if (event == NULL)
		errno = EAGAIN;
	return event != NULL ? 0 : -1;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	fake_lock();
	id_of(event->id)->unacked--;
	fake_counts.unacked--;
	fake_unlock();
	free(event);
	return 0;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct fake_channel *channel;

	if (fake_fails("rdma_create_event_channel", ENODEV))
		return NULL;
	channel = fake_new(sizeof(*channel));
	*channel = (struct fake_channel){ .channel = { .fd = eventfd(0, EFD_CLOEXEC) },
					  .mtu = fake.mtu };
	fake_count(&fake_counts.cm_channels, 1);
	return &channel->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	fake_lock();
	for (struct fake_id *id = all_ids; id != NULL; id = id->next)
		if (id->id.channel == channel)
			fake_misuse("rdma_destroy_event_channel with an id left");
	if (channel_of(channel)->first != NULL)
		fake_misuse("rdma_destroy_event_channel with events left");
	fake_unlock();
	close(channel->fd);
	free(channel);
	fake_count(&fake_counts.cm_channels, -1);
}

/* ---- ids ------------------------------------------------------------------- */

static struct fake_id *new_id(struct rdma_event_channel *channel, void *context)
{
	struct fake_id *id = fake_new(sizeof(*id));

	id->id.channel = channel;
	id->id.context = context;
	id->next = all_ids;
	all_ids = id;
	fake_counts.ids++;
	return id;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context,
		   enum rdma_port_space space)
{
	if (fake_fails("rdma_create_id", ENOMEM))
		return -1;
	fake_lock();
	*out = &new_id(channel, context)->id;
	fake_unlock();
	return 0;
}

static void leave(struct fake_id *id)
{
	struct fake_id *partner = id->partner;

	if (partner != NULL) {
		if (id->connected && partner->connected)
			tell(partner, NULL, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0, 0);
		partner->partner = NULL;
		partner->connected = 0;
	}
	id->partner = NULL;
	id->connected = 0;
}

static void destroy(struct fake_id *id);

/* The kernel drops the events of a closed id, and the waiting requests of a closed listener. */
static void forget_events(struct fake_id *id)
{
	struct fake_event **at = &channel_of(id->id.channel)->first;

	while (*at != NULL) {
		struct fake_event *event = *at;
		struct fake_id *child = NULL;

		if (event->event.id != &id->id && event->event.listen_id != &id->id) {
			at = &event->next;
			continue;
		}
		if (event->event.id != &id->id)
			child = id_of(event->event.id);
		*at = event->next;
		free(event);
		if (child != NULL) {
			destroy(child);
			at = &channel_of(id->id.channel)->first;
		}
	}
}

static void destroy(struct fake_id *id)
{
	struct fake_id **at;

	if (id->unacked > 0)
		fake_misuse("rdma_destroy_id with events not acknowledged"); /* the real function
										waits forever */
	leave(id);
	forget_events(id);
	for (at = &all_ids; *at != id; at = &(*at)->next)
		;
	*at = id->next;
	fake_counts.ids--;
	free(id);
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	fake_lock();
	destroy(id_of(id));
	fake_unlock();
	return 0;
}

/* The kernel copies the type of service into the route, and so into the request. */
int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t n)
{
	if (level == RDMA_OPTION_ID && name == RDMA_OPTION_ID_TOS && n == 1)
		id_of(id)->traffic_class = *(const uint8_t *)value;
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	if (fake_fails("rdma_bind_addr", EADDRNOTAVAIL))
		return -1;
	if (fake.no_ip) {
		errno = ENODEV;
		return -1;
	}
	fake_lock();
	memcpy(&id->route.addr.src_addr, address, sizeof(struct sockaddr_in));
	id_of(id)->port = ++last_port;
	id->verbs = fake_context();
	id->port_num = 1;
	fake_unlock();
	return 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return htons(id_of(id)->port);
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	if (fake_fails("rdma_listen", EADDRINUSE))
		return -1;
	fake_lock();
	id_of(id)->listening = 1;
	fake_unlock();
	return 0;
}

/* Converts an IPv4 address to a GID. */
static void gid_of(const void *address, union ibv_gid *gid)
{
	const struct sockaddr_in *in = address;

	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, &in->sin_addr, 4);
}

/* Sets the GIDs like rdma_read_gids() in the kernel's cma.c on Ethernet. */
static void tell_gids(struct rdma_cm_id *id)
{
	gid_of(&id->route.addr.src_addr, &id->route.addr.addr.ibaddr.sgid);
	gid_of(&id->route.addr.dst_addr, &id->route.addr.addr.ibaddr.dgid);
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
		      int timeout_ms)
{
	if (fake_fails("rdma_resolve_addr", EHOSTUNREACH))
		return -1;
	fake_lock();
	memcpy(&id->route.addr.src_addr, from, sizeof(struct sockaddr_in));
	memcpy(&id->route.addr.dst_addr, to, sizeof(struct sockaddr_in));
	id_of(id)->dest = ntohs(((struct sockaddr_in *)(void *)to)->sin_port);
	tell_gids(id);
	id->verbs = fake_route();
	id->port_num = 1;
	tell(id_of(id), NULL, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0, 0);
	fake_unlock();
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	if (fake_fails("rdma_resolve_route", EHOSTUNREACH))
		return -1;
	fake_lock();
	tell(id_of(id), NULL, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0, 0);
	fake_unlock();
	return 0;
}

/* ---- connecting ------------------------------------------------------------ */

int rdma_connect(struct rdma_cm_id *ibv_id, struct rdma_conn_param *param)
{
	struct fake_id *id = id_of(ibv_id), *listener, *child;

	if (fake_fails("rdma_connect", ENOMEM))
		return -1;
	if (param->private_data_len > PADDED_REQUEST) {
		errno = EINVAL;
		return -1;
	}
	fake_lock();
	fake_counts.connects++;
	id->initiator_depth = param->initiator_depth;
	id->responder_resources = param->responder_resources;
	id->qpn = param->qp_num;
	id->state = CM_REQ_SENT;
	id->path_mtu = channel_of(id->id.channel)->mtu;
	for (listener = all_ids; listener != NULL; listener = listener->next)
		if (listener->listening && listener->port == id->dest)
			break;
	if (fake.cm == FAKE_CM_SILENT || fake.port_down & 1) {
		;
	} else if (listener == NULL) {
		tell(id, NULL, RDMA_CM_EVENT_REJECTED, NO_SERVICE, NULL, 0, 0);
	} else {
		child = new_id(listener->id.channel, listener->id.context);
		child->id.verbs = fake_context();
		child->id.route.addr.src_addr = listener->id.route.addr.src_addr;
		child->id.route.addr.dst_addr = id->id.route.addr.src_addr;
		tell_gids(&child->id);
		child->state = CM_REQ_RCVD;
		child->path_mtu = id->path_mtu;
		child->traffic_class = id->traffic_class;
		child->partner = id;
		id->partner = child;
		tell(child, listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0, param->private_data,
		     param->private_data_len, PADDED_REQUEST);
	}
	fake_unlock();
	return 0;
}

int rdma_reject(struct rdma_cm_id *ibv_id, const void *bytes, uint8_t n)
{
	struct fake_id *id = id_of(ibv_id);

	fake_lock();
	if (id->partner != NULL)
		tell(id->partner, NULL, RDMA_CM_EVENT_REJECTED, REJECTED_BY_CONSUMER, bytes, n,
		     PADDED_REJECT);
	leave(id);
	fake_unlock();
	return 0;
}

/* Both sides bring their own queue pairs. Librdmacm asks the client to change its state before it
 * confirms: ucma_process_conn_resp() and rdma_establish() in librdmacm/cma.c of rdma-core 44. */
int rdma_accept(struct rdma_cm_id *ibv_id, struct rdma_conn_param *param)
{
	struct fake_id *id = id_of(ibv_id), *client;
	struct fake_qp *qp;

	if (fake_fails("rdma_accept", EIO))
		return -1;
	fake_lock();
	client = id->partner;
	id->qpn = param->qp_num;
	id->initiator_depth = param->initiator_depth;
	id->responder_resources = param->responder_resources;
	qp = fake_qp_numbered(id->qpn);
	if (qp == NULL || qp->qp.state != IBV_QPS_RTS)
		fake_misuse("rdma_accept before its queue pair can receive");
	if (client != NULL && fake_qp_numbered(client->qpn) == NULL) {
		fake_misuse("rdma_accept of a client without a queue pair");
	} else if (client != NULL) {
		if (qp != NULL)
			qp->port_mtu = channel_of(ibv_id->channel)->mtu;
		id->state = CM_REP_SENT;
		client->state = CM_REP_RCVD;
		tell(client, NULL, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, param->private_data,
		     param->private_data_len, PADDED_ACCEPT);
	}
	fake_unlock();
	return 0;
}

int rdma_establish(struct rdma_cm_id *ibv_id)
{
	struct fake_id *id = id_of(ibv_id);
	struct fake_qp *qp;
	int possible;

	if (fake_fails("rdma_establish", EIO))
		return -1;
	fake_lock();
	possible = id->state == CM_REP_RCVD && id->partner;
	qp = fake_qp_numbered(id->qpn);
	if (qp != NULL)
		qp->port_mtu = channel_of(ibv_id->channel)->mtu;
	if (possible) {
		id->state = id->partner->state = CM_ESTABLISHED;
		id->connected = id->partner->connected = 1;
		tell(id->partner, NULL, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0, 0);
	}
	fake_unlock();
	if (!possible)
		errno = EINVAL;
	return possible ? 0 : -1;
}

static uint8_t lesser(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

/* Like cm_init_qp_init_attr(), cm_init_qp_rtr_attr() and cm_init_qp_rts_attr() in
 * drivers/infiniband/core/cm.c of Linux 6.12: both sides have the client's path MTU, the RNR timer
 * is 0 (655 ms), and the peer's user did not choose the timeout. */
static int attributes(const struct fake_id *id, struct ibv_qp_attr *attr)
{
	const struct fake_id *partner = id->partner;

	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		if (id->state == CM_IDLE)
			return -1;
		attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
		attr->port_num = 1;
		return 0;
	case IBV_QPS_RTR:
		if (id->state < CM_REQ_RCVD || partner == NULL)
			return -1;
		attr->ah_attr.is_global = 1;
		attr->ah_attr.grh.dgid = id->id.route.addr.addr.ibaddr.dgid;
		attr->ah_attr.port_num = 1;
		attr->ah_attr.grh.traffic_class = id->traffic_class;
		attr->path_mtu = (enum ibv_mtu)id->path_mtu;
		attr->dest_qp_num = partner->qpn;
		attr->max_dest_rd_atomic = partner->initiator_depth;
		if (id->state == CM_REP_RCVD)
			attr->max_dest_rd_atomic = lesser(partner->initiator_depth,
							  id->responder_resources);
		attr->min_rnr_timer = 0;
		return 0;
	case IBV_QPS_RTS:
		if (id->state < CM_REQ_RCVD || partner == NULL)
			return -1;
		attr->timeout = KERNEL_TIMEOUT;
		attr->retry_cnt = attr->rnr_retry = 7;
		attr->max_rd_atomic = partner->responder_resources;
		return 0;
	default: return -1;
	}
}

int rdma_init_qp_attr(struct rdma_cm_id *ibv_id, struct ibv_qp_attr *attr, int *mask)
{
	int rc;

	if (fake_fails("rdma_init_qp_attr", EINVAL))
		return -1;
	fake_lock();
	rc = attributes(id_of(ibv_id), attr);
	fake_unlock();
	*mask = -1; /* users must have their own masks, because kernels have set unknown bits */
	if (rc)
		errno = EINVAL;
	return rc;
}

int rdma_disconnect(struct rdma_cm_id *ibv_id)
{
	struct fake_id *id = id_of(ibv_id);
	int was;

	fake_lock();
	was = id->connected;
	leave(id);
	fake_unlock();
	if (!was)
		errno = EINVAL;
	return was ? 0 : -1;
}

/* ---- functions with which a test changes connections ----------------------- */

void fake_cm_event(enum rdma_cm_event_type type, int status, const void *bytes, size_t n)
{
	fake_lock();
	for (struct fake_id *id = all_ids; id != NULL; id = id->next)
		if (!id->listening)
			tell(id, NULL, type, status, bytes, n, n);
	fake_unlock();
}

void fake_cm_cut(int told)
{
	fake_lock();
	for (struct fake_id *id = all_ids; id != NULL; id = id->next) {
		if (!id->connected)
			continue;
		id->connected = 0;
		id->partner = NULL;
		if (told)
			tell(id, NULL, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0, 0);
		if (!fake.silent && fake_qp_numbered(id->qpn))
			fake_qp_error(fake_qp_numbered(id->qpn));
	}
	fake_unlock();
}
