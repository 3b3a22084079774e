/* SPDX-License-Identifier: BSD-3-Clause
 * See verbs_route.h. */
#include "rdma/verbs_route.h"
#include "base/clock.h"
#include "base/error.h"
#include "rdma/verbs_record.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	AT_ONCE = 64,
	NOBODYS_PORT = 9 /* "discard": no service uses it over RDMA */
};

struct trial {
	struct route *route;
	struct sockaddr_storage to;
	struct rdma_cm_id *id; /* NULL: the trial has ended */
};

struct probing {
	const struct verbs_device *own;
	struct rdma_event_channel *channel;
	struct trial *trials;
	int n, begun, over, timeout_ms;
	char *why;
	size_t cap;
};

static void end_trial(struct probing *p, struct trial *t, const char *call, int error)
{
	char address[80];

	if (t->id)
		rdma_destroy_id(t->id);
	t->id = NULL;
	p->over++;
	if (t->route->answered || *p->why)
		return;
	verbs_address_text(&t->to, address);
	*strchrnul(address, ' ') = '\0'; /* the port number is not used here */
	snprintf(p->why, p->cap, "%s to %s: %s", call, address,
		 error ? errno_text(error) : "no answer");
}

static void begin_trial(struct probing *p, struct trial *t)
{
	struct sockaddr_storage own = p->own->address, to = t->to;

	if (to.ss_family == AF_INET)
		((struct sockaddr_in *)(void *)&to)->sin_port = htons(NOBODYS_PORT);
	else
		((struct sockaddr_in6 *)(void *)&to)->sin6_port = htons(NOBODYS_PORT);
	if (rdma_create_id(p->channel, &t->id, t, RDMA_PS_TCP))
		t->id = NULL;
	if (!t->id || rdma_resolve_addr(t->id, (struct sockaddr *)&own, (struct sockaddr *)&to,
					p->timeout_ms))
		end_trial(p, t, "no route", errno);
}

/* There is no queue pair. If all requests had the same number, they would look like one stale
 * connection. */
static int request(struct rdma_cm_id *id, int number)
{
	struct rdma_conn_param param = {
		.qp_num = (((uint32_t)now_ns() ^ (uint32_t)number << 12) & 0xffffff) | 1,
	};

	return rdma_connect(id, &param);
}

static void take_answer(struct probing *p, struct trial *t, enum rdma_cm_event_type type,
			int status)
{
	int rc = 0;

	if (status < 0)
		status = -status;
	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED: rc = rdma_resolve_route(t->id, p->timeout_ms); break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED: rc = request(t->id, (int)(t - p->trials)); break;
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
		t->route->answered = 1;
		end_trial(p, t, "", 0);
		return;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR: end_trial(p, t, "no route", status); return;
	default: end_trial(p, t, "a trial connection", status); return;
	}
	if (rc)
		end_trial(p, t, "no route", errno);
}

static int take_next(struct probing *p)
{
	struct rdma_cm_event *event;
	struct trial *t;
	enum rdma_cm_event_type type;
	int status;

	if (rdma_get_cm_event(p->channel, &event))
		return 0;
	t = event->id->context;
	type = event->event;
	status = event->status;
	rdma_ack_cm_event(event);
	if (t && t->id)
		take_answer(p, t, type, status);
	return 1;
}

static void run_trials(struct probing *p)
{
	enum { LATE_LOOKS = 10, LATE_LOOK_MS = 10 };
	const uint64_t until = now_ns() + (uint64_t)p->timeout_ms * NS_PER_MS;
	int late = 0;

	while (p->over < p->n) {
		struct pollfd fd = { .fd = p->channel->fd, .events = POLLIN };

		while (p->begun < p->n && p->begun - p->over < AT_ONCE) {
			struct trial *t = &p->trials[p->begun++];

			begin_trial(p, t);
		}
		if (take_next(p))
			continue;
		/* If this process did not run for that long, answers may still be on their way. */
		const uint64_t now = now_ns();
		if (now < until)
			poll(&fd, 1, (int)((until - now) / NS_PER_MS % 1000) + 1);
		else if (late++ < LATE_LOOKS)
			poll(&fd, 1, LATE_LOOK_MS);
		else
			break;
	}
	for (int i = 0; i < p->begun; i++)
		if (p->trials[i].id)
			end_trial(p, &p->trials[i], "a trial connection", 0);
}

void verbs_routes_try(const struct verbs_device *own, struct route *routes, int n, int timeout_ms,
		      char *why, size_t cap)
{
	struct probing p = { .own = own,
			     .n = n,
			     .timeout_ms = timeout_ms,
			     .why = why,
			     .cap = cap,
			     .channel = rdma_create_event_channel(),
			     .trials = calloc((size_t)n, sizeof(*p.trials)) };
	int flags;

	*why = '\0';
	for (int i = 0; i < n && p.trials; i++) {
		struct verbs_record record;

		p.trials[i].route = &routes[i];
		if (!verbs_record_decode(routes[i].record, routes[i].bytes, -1, &record))
			p.trials[i].to = record.cards[0].address;
	}
	flags = p.channel ? fcntl(p.channel->fd, F_GETFL) : -1;
	if (p.trials && flags >= 0 && !fcntl(p.channel->fd, F_SETFL, flags | O_NONBLOCK))
		run_trials(&p);
	else
		snprintf(why, cap, "this rank could not try the routes: %s", errno_text(errno));
	if (p.channel)
		rdma_destroy_event_channel(p.channel);
	free(p.trials);
}
