/* SPDX-License-Identifier: BSD-3-Clause
 * One try at a connection: how long it may take, how it ends, when the next one comes. Called by
 * all of connect*.c. */
#include "base/clock.h"
#include "base/log.h"
#include "rdma/verbs.h"
#include <stdio.h>

/* How long one try may take: longer each time, as a busy peer answers late. But when a connection
 * is made again, time is short, and a request that was lost is sent again by nobody for seconds. */
uint64_t connect_try_ns(const struct verbs_endpoint *ep)
{
	int longest = verbs_of_endpoint(ep)->lost_after_ms / 2;
	int ms = verbs_of_endpoint(ep)->lost_after_ms / 10;

	if (ep->give_up_ns == 0)
		ms <<= ep->tries < 4 ? ep->tries : 4;
	if (ms < 200)
		ms = 200;
	return connect_ms_to_ns((uint64_t)(ms < longest ? ms : longest));
}

int connect_port_active(const struct verbs *v)
{
	struct ibv_port_attr attr;

	return ibv_query_port(v->context, v->device.port, &attr) != 0 ||
	       attr.state == IBV_PORT_ACTIVE;
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
	uint64_t wait_ms = ep->client ? 20u << (ep->tries < 4 ? ep->tries : 4) :
					CONNECT_PROBE_EVERY_MS;

	if (ep->state == LINK_GONE)
		return;
	if (why != ep->why)
		snprintf(ep->why, sizeof(ep->why), "%s", why);
	log_line(LOG_DEBUG, "rdma", "verbs: rank %d: try %u: %s", ep->endpoint.peer, ep->tries,
		 ep->why);
	connect_end_hello(ep);
	link_drop(ep);
	ep->tries++;
	ep->retry_at_ns = now_ns() + connect_ms_to_ns(wait_ms);
}
