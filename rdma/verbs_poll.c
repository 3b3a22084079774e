/* SPDX-License-Identifier: BSD-3-Clause
 * The way in of the verbs transport: completions become events, receives and credits are given back,
 * rdma_cm and the clock are looked at now and then. Sleeping is one epoll over the completion channel,
 * rdma_cm, the device's own events, a timer and an eventfd. */
#include "base/clock.h"
#include "base/log.h"
#include "rdma/verbs.h"
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { COMPLETIONS = 32, POLLS_PER_LOOK = 16, LOOK_NS = 2000000, LOOK_CONNECTING_NS = 200000, TICK_MS = 10 };

/* ---- completions ----------------------------------------------------------------------------- */

/* What the status means to a user; a link failure is survived by connecting again. */
static const char *explain_status(enum ibv_wc_status status, int *link_failure_out)
{
	*link_failure_out = 0;
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
		*link_failure_out = 1;
		return "no answer after all retries: link, switch or node is down, or it hangs";
	case IBV_WC_RNR_RETRY_EXC_ERR:
		*link_failure_out = 1;
		return "it had no receive ready, after all retries";
	case IBV_WC_WR_FLUSH_ERR:
		*link_failure_out = 1;
		return "the connection was closed under a transfer";
	case IBV_WC_LOC_QP_OP_ERR: /* soft-RoCE, when the own interface is down */
	case IBV_WC_RESP_TIMEOUT_ERR:
	case IBV_WC_GENERAL_ERR:
	case IBV_WC_FATAL_ERR:
	case IBV_WC_REM_ABORT_ERR:
		*link_failure_out = 1;
		return "the device says that the connection failed";
	case IBV_WC_REM_ACCESS_ERR:
		return "it refused an access of this rank (key, bounds or rights): a remote access error";
	case IBV_WC_REM_INV_REQ_ERR:
		return "it refused a request of this rank as invalid";
	case IBV_WC_REM_OP_ERR:
		return "it could not carry out a request of this rank";
	case IBV_WC_LOC_PROT_ERR:
		return "a local buffer is not registered for it";
	case IBV_WC_LOC_LEN_ERR:
		return "a message had an impossible length";
	default:
		return "the device reports an error";
	}
}

static void failed(struct verbs_endpoint *ep, const struct ibv_wc *wc)
{
	int link_failure;
	const char *text = explain_status(wc->status, &link_failure);

	/* The first tells why; those after it are flushed. */
	if (ep->failing || ep->state == LINK_DOWN)
		return;
	snprintf(ep->why, sizeof(ep->why), "%s", text);
	log_line(LOG_INFO, "rdma", "verbs: rank %d (%s): %s: %s, vendor 0x%x, QP 0x%06x of %s",
		 ep->endpoint.peer, ep->device, text, ibv_wc_status_str(wc->status), wc->vendor_err, wc->qp_num,
		 verbs_of_endpoint(ep)->device.name);
	ep->failing = 1;
	ep->fatal = !link_failure;
	verbs_of_endpoint(ep)->trouble = 1;
}

static void complete_one(struct verbs *v, const struct ibv_wc *wc)
{
	struct verbs_endpoint *ep = link_of_qpn(v, wc->qp_num);

	if (wc->wr_id == WR_RECEIVE)
		v->receives_missing++;
	if (ep == NULL)
		return; /* of a queue pair that is no more */
	if (wc->status != IBV_WC_SUCCESS) {
		failed(ep, wc);
		return;
	}
	if (wc->wr_id != WR_RECEIVE) {
		post_completed(ep, wc->wr_id);
		return;
	}
	if (ep->awaits != GREETING_NONE) {
		greet_take(ep, be32toh(wc->imm_data));
		return;
	}
	ep->breaks = 0;
	ep->received++;
	if (ep->received - ep->credit_given >= v->credits / 2)
		v->credit_due = 1;
	event_queue_put(&v->events, &(struct event){
		.kind = EVENT_IMM, .peer = ep->endpoint.peer, .imm = be32toh(wc->imm_data)});
}

int poll_completions(struct verbs *v)
{
	struct ibv_wc wc[COMPLETIONS];
	uint32_t room = v->events.capacity - v->events.count;
	int n;

	/* A send completion may end every entry of one log. */
	if (room < COMPLETIONS + (uint32_t)v->n_peers * v->log_entries)
		return 0;
	n = ibv_poll_cq(v->cq, COMPLETIONS, wc);
	if (n < 0) {
		log_line(LOG_ERROR, "rdma", "verbs: ibv_poll_cq failed on %s", v->device.name);
		return 0;
	}
	for (int i = 0; i < n; i++)
		complete_one(v, &wc[i]);
	return n;
}

int poll_post_receives(struct verbs *v, uint32_t n)
{
	struct ibv_recv_wr chain[VERBS_RECEIVE_BATCH], *bad;

	while (n > 0) {
		uint32_t batch = n < VERBS_RECEIVE_BATCH ? n : VERBS_RECEIVE_BATCH;
		int err;

		for (uint32_t i = 0; i < batch; i++)
			chain[i] = (struct ibv_recv_wr){
				.wr_id = WR_RECEIVE, .next = i + 1 < batch ? &chain[i + 1] : NULL};
		err = ibv_post_srq_recv(v->srq, chain, &bad);
		if (err != 0)
			return fail(SLUICE_EDEVICE, "verbs: %s does not take a receive: %s", v->device.name,
				    errno_text(err));
		n -= batch;
	}
	return SLUICE_OK;
}

/* Receives first, then the peers' credit, so that whoever has credit finds a receive. Rarely: a peer is
 * told when it has used half of what it may send. */
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

/* ---- the rest of the world ------------------------------------------------------------------- */

static void device_events(struct verbs *v)
{
	struct ibv_async_event event;

	while (ibv_get_async_event(v->context, &event) == 0) {
		enum ibv_event_type type = event.event_type;

		ibv_ack_async_event(&event);
		if (type == IBV_EVENT_DEVICE_FATAL)
			for (int i = 0; i < v->n_peers; i++)
				link_gone(v->peers[i], "this rank's RDMA device failed (DEVICE_FATAL)");
		log_line(type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_CQ_ERR
				 ? LOG_WARN : LOG_DEBUG,
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
		more = poll_completions(v) == COMPLETIONS; /* fewer: that was all */
		taken += event_queue_take(&v->events, events + taken, n - taken);
	}
	give_back(v);
	if (v->trouble || v->greeted) {
		poll_troubles(v);
		taken += event_queue_take(&v->events, events + taken, n - taken);
	}
	return taken;
}

/* ---- sleeping -------------------------------------------------------------------------------- */

static void tick_every(const struct verbs *v, int milliseconds)
{
	struct timespec interval = {.tv_nsec = milliseconds * 1000000L};
	struct itimerspec spec = {.it_interval = interval, .it_value = interval};

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
	(void)ignored; /* EAGAIN: nobody woke us */
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
