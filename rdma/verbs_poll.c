/* SPDX-License-Identifier: BSD-3-Clause
 * The way in of the verbs transport: completions are taken, receives and credits are given back,
 * rdma_cm and the clock are looked at now and then. Sleeping is one epoll over the completion
 * channel, rdma_cm, the device's own events, a timer and an eventfd. */
#include "base/clock.h"
#include "base/log.h"
#include "rdma/verbs.h"
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { POLLS_PER_LOOK = 16, LOOK_NS = 2000000, LOOK_CONNECTING_NS = 200000, TICK_MS = 10 };

/* Receives first, then the peers' credit, so that whoever has credit finds a receive. Rarely: a
 * peer is told when it has used half of what it may send. */
static void give_back(struct verbs *v)
{
	if (v->receives_missing < VERBS_RECEIVE_BATCH && !v->credit_due)
		return;
	if (poll_post_receives(v, v->receives_missing) < 0)
		return;
	v->receives_missing = 0;
	if (!v->credit_due)
		return;
	v->credit_due = 0;
	for (int i = 0; i < v->n_peers; i++) {
		struct verbs_endpoint *ep = v->peers[i];
		uint64_t word = htole64(ep->received);

		if (ep->state != LINK_UP || ep->received - ep->credit_given < v->credits / 2)
			continue;
		if (post_slot(ep, SLOT_CREDIT, &word, sizeof(word), 0) == 0)
			ep->credit_given = ep->received;
		else
			v->credit_due = 1; /* at the next poll */
	}
}

/* ---- the rest of the world ------------------------------------------------- */

static void device_events(struct verbs *v)
{
	struct ibv_async_event event;

	while (ibv_get_async_event(v->context, &event) == 0) {
		enum ibv_event_type type = event.event_type;

		ibv_ack_async_event(&event);
		if (type == IBV_EVENT_DEVICE_FATAL)
			for (int i = 0; i < v->n_peers; i++)
				link_gone(v->peers[i],
					  "this rank's RDMA device failed (DEVICE_FATAL)");
		log_line(type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_DEVICE_FATAL ||
					 type == IBV_EVENT_CQ_ERR ?
				 LOG_WARN :
				 LOG_DEBUG,
			 "rdma", "verbs: %s reports: %s", v->device.name, ibv_event_type_str(type));
	}
}

static void take_down_failing(struct verbs *v)
{
	v->trouble = 0;
	for (int i = 0; i < v->n_peers; i++) {
		struct verbs_endpoint *ep = v->peers[i];
		char why[sizeof(ep->why)];

		if (!ep->failing)
			continue;
		snprintf(why, sizeof(why), "%s", ep->why);
		if (ep->fatal)
			link_gone(ep, why);
		else
			connect_broken(ep, why);
	}
}

/* What completions found, and what changes links: not while completions are taken. */
static void poll_troubles(struct verbs *v)
{
	if (v->trouble)
		take_down_failing(v);
	if (v->greeted)
		greet_answer(v);
}

static void look_around(struct verbs *v, uint64_t now)
{
	if (!v->admitted)
		return; /* nobody can be told apart yet */
	device_events(v);
	connect_events(v);
	connect_tick(v, now);
	v->next_look_ns = now + (v->ticking ? LOOK_CONNECTING_NS : LOOK_NS);
}

void poll_until_linked(struct verbs_endpoint *ep)
{
	struct verbs *v = verbs_of_endpoint(ep);

	while (ep->state != LINK_UP && ep->state != LINK_GONE) {
		look_around(v, now_ns());
		poll_completions(v);
		poll_troubles(v);
		sched_yield();
	}
}

int verbs_poll(struct transport *t, struct event *events, int n)
{
	struct verbs *v = verbs_of(t);
	int taken;

	/* The clock costs more than the rest of a poll that finds nothing. */
	if (v->ticking || v->next_look_ns == 0 || ++v->polls % POLLS_PER_LOOK == 0) {
		uint64_t now = now_ns();

		if (now >= v->next_look_ns)
			look_around(v, now);
	}
	taken = event_queue_take(&v->events, events, n);
	for (int more = 1; more && taken < n;) {
		more = poll_completions(v) == COMPLETIONS_AT_ONCE; /* fewer: that was all */
		taken += event_queue_take(&v->events, events + taken, n - taken);
	}
	give_back(v);
	if (v->trouble || v->greeted) {
		poll_troubles(v);
		taken += event_queue_take(&v->events, events + taken, n - taken);
	}
	return taken;
}

/* ---- sleeping -------------------------------------------------------------- */

static void tick_every(const struct verbs *v, int milliseconds)
{
	struct timespec interval = { .tv_nsec = milliseconds * 1000000L };
	struct itimerspec spec = { .it_interval = interval, .it_value = interval };

	timerfd_settime(v->timer, 0, &spec, NULL);
}

int verbs_arm(struct transport *t)
{
	struct verbs *v = verbs_of(t);
	int err;

	if (v->events.count > 0)
		return 1;
	err = ibv_req_notify_cq(v->cq, 0);
	if (err != 0) {
		log_line(LOG_ERROR, "rdma", "verbs: ibv_req_notify_cq: %s", errno_text(err));
		return 1;
	}
	/* What came before the request was served makes no noise. */
	if (poll_completions(v) > 0 || v->events.count > 0 || v->trouble)
		return 1;
	if (v->ticking)
		tick_every(v, TICK_MS);
	return 0;
}

void verbs_disarm(struct transport *t)
{
	struct verbs *v = verbs_of(t);
	struct ibv_cq *cq;
	void *context;
	uint64_t count;
	ssize_t ignored;
	unsigned n = 0;

	while (ibv_get_cq_event(v->completions, &cq, &context) == 0)
		n++;
	if (n > 0)
		ibv_ack_cq_events(v->cq, n);
	tick_every(v, 0);
	ignored = read(v->wake_fd, &count, sizeof(count));
	(void)ignored;       /* EAGAIN: nobody woke us */
	v->next_look_ns = 0; /* rdma_cm may have woken us */
}

void verbs_cancel(struct transport *t)
{
	(void)t; /* a completion that makes noise without need is drained by the next sleeper */
}

int verbs_fd(struct transport *t)
{
	return verbs_of(t)->epoll;
}

void verbs_wake(struct transport *t)
{
	const uint64_t one = 1;
	int saved = errno; /* may be called from a signal handler */
	ssize_t ignored = write(verbs_of(t)->wake_fd, &one, sizeof(one));

	(void)ignored; /* it fails only when fd is readable anyway */
	errno = saved;
}
