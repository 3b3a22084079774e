/* SPDX-License-Identifier: BSD-3-Clause
 * One connection's queue pair: made after the proof, its log replayed after a break, taken down
 * without losing what had arrived. Called by connect.c. */
#include "base/log.h"
#include "rdma/verbs.h"
#include <stdio.h>

/* ---- making ---------------------------------------------------------------- */

int link_make(struct verbs_endpoint *ep)
{
	struct verbs *v = verbs_of_endpoint(ep);
	struct ibv_qp_init_attr attr = {
		.send_cq = v->cq,
		.recv_cq = v->cq,
		.srq = v->srq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = v->log_entries,
			.max_send_sge = 1,
			.max_inline_data = v->inline_bytes,
		},
	};

	if (ep->id->verbs != v->context) {
		snprintf(ep->why, sizeof(ep->why), "the route to it does not go through %s",
			 v->device.name);
		return -1;
	}
	if (rdma_create_qp(ep->id, ep->pd, &attr) != 0) {
		snprintf(ep->why, sizeof(ep->why), "no queue pair: %s", errno_text(errno));
		return -1;
	}
	ep->qpn = ep->id->qp->qp_num;
	ep->wr_sent = ep->wr_done = ep->wr_signalled = 0;
	ep->failing = ep->fatal = 0;
	ep->awaits = GREETING_READY;
	ep->link++;
	link_index(v);
	if (windows_make(ep) == 0 &&
	    (v->control == NULL || register_describe(ep, v->control, ep->own_control) == 0))
		return 0;
	snprintf(ep->why, sizeof(ep->why), "%s", sluice_last_error());
	link_unmake(ep);
	return -1;
}

static void settle_puts(struct verbs_endpoint *ep, uint64_t received)
{
	const struct verbs *v = verbs_of_endpoint(ep);
	uint64_t known = ep->first; /* entries before it are in place at the peer, gets apart */

	for (uint64_t n = ep->first; n < ep->end; n++) {
		struct sent *s = sent_at(v, ep, n);

		if (s->notify != 0 && s->notify <= received)
			known = n + 1;
	}
	for (uint64_t n = ep->first; n < ep->end; n++) {
		struct sent *s = sent_at(v, ep, n);

		s->posted = 0;
		s->last_wr = 0;
		s->started = 0;
		if (n < known && s->kind != TRANSFER_GET)
			s->settled = 1;
	}
}

int link_replay(struct verbs_endpoint *ep, uint64_t received)
{
	if (received < ep->notify_done || received > ep->notify_sent) {
		snprintf(ep->why, sizeof(ep->why),
			 "it says it received %llu notifies; %llu to %llu are possible",
			 (unsigned long long)received, (unsigned long long)ep->notify_done,
			 (unsigned long long)ep->notify_sent);
		return -1;
	}
	settle_puts(ep, received);
	ep->next_post = ep->first;
	ep->reads = 0;
	if (received > ep->credit_seen)
		ep->credit_seen = received;
	return 0;
}

void link_up(struct verbs_endpoint *ep)
{
	struct verbs *v = verbs_of_endpoint(ep);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	ep->reads_max = v->reads;
	if (ibv_query_qp(ep->id->qp, &attr, IBV_QP_MAX_QP_RD_ATOMIC, &init) == 0 &&
	    attr.max_rd_atomic < ep->reads_max)
		ep->reads_max = attr.max_rd_atomic > 0 ? attr.max_rd_atomic : 1;
	log_line(ep->was_up ? LOG_WARN : LOG_DEBUG, "rdma",
		 "verbs: %s rank %d, QP 0x%06x, %u READs, %llu transfers to post again",
		 ep->was_up ? "connected again to" : "connected to", ep->endpoint.peer, ep->qpn,
		 ep->reads_max, (unsigned long long)(ep->end - ep->first));
	ep->state = LINK_UP;
	ep->was_up = 1;
	ep->tries = ep->refusals = 0;
	ep->hello_deadline_ns = ep->link_deadline_ns = ep->retry_at_ns = ep->give_up_ns = 0;
	if (ep->received - ep->credit_given >= v->credits / 2)
		v->credit_due = 1; /* what came right behind its greeting */
	post_log(ep);
	post_completed(ep, 0); /* what was settled ends here */
}

/* ---- taking down ----------------------------------------------------------- */

static void drain(struct verbs *v)
{
	while (poll_completions(v) > 0)
		;
}

void link_unmake(struct verbs_endpoint *ep)
{
	struct verbs *v = verbs_of_endpoint(ep);
	struct rdma_cm_id *id = ep->id;
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

	if (id->qp == NULL)
		return;
	/* First no more may arrive, then all that did is counted: the peer will be told how many.
	 * Once more after the end of the queue pair, as a software device may have been in the
	 * middle of a packet. */
	ibv_modify_qp(id->qp, &error, IBV_QP_STATE);
	rdma_disconnect(id); /* fails where it was never connected */
	drain(v);
	ep->state = LINK_DOWN;
	windows_end(ep);
	rdma_destroy_qp(id);
	id->qp = NULL;
	drain(v);
	link_index(v);
	ep->qpn = 0;
	ep->awaits = ep->greeted = GREETING_NONE;
}

void link_drop(struct verbs_endpoint *ep)
{
	if (ep->id == NULL)
		return;
	link_unmake(ep);
	rdma_destroy_id(ep->id);
	ep->id = NULL;
	ep->state = LINK_DOWN;
	ep->failing = ep->cut = 0;
	ep->link_deadline_ns = 0;
}

void link_gone(struct verbs_endpoint *ep, const char *text)
{
	struct verbs *v = verbs_of_endpoint(ep);

	if (ep->state == LINK_GONE)
		return;
	snprintf(ep->gone_text, sizeof(ep->gone_text), "%s", text);
	link_drop(ep);
	if (ep->hello != NULL)
		rdma_destroy_id(ep->hello);
	ep->hello = NULL;
	ep->state = LINK_GONE;
	ep->hello_deadline_ns = ep->retry_at_ns = ep->give_up_ns = 0;
	register_revoke(ep);
	log_line(LOG_INFO, "rdma", "verbs: rank %d is gone: %s; its keys are revoked",
		 ep->endpoint.peer, text);
	if (!event_queue_full(&v->events))
		event_queue_put(&v->events, &(struct event){ .kind = EVENT_GONE,
							     .peer = ep->endpoint.peer,
							     .status = SLUICE_EPEER,
							     .text = ep->gone_text });
	/* Whoever waits for one of these must not wait on. */
	for (; ep->first < ep->end; ep->first++) {
		const struct sent *s = sent_at(v, ep, ep->first);

		if ((s->kind == TRANSFER_GET || s->report) && !event_queue_full(&v->events))
			event_queue_put(&v->events, &(struct event){ .kind = EVENT_DONE,
								     .peer = ep->endpoint.peer,
								     .cookie = s->cookie,
								     .status = SLUICE_EPEER });
	}
	ep->next_post = ep->first;
}
