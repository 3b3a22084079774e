/* SPDX-License-Identifier: BSD-3-Clause
 * Completions become events, and what is wrong with them is noted for verbs_poll.c. */
#include "base/log.h"
#include "rdma/verbs.h"
#include <stdio.h>

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
		return "it refused an access of this rank (key, bounds or rights): a remote access "
		       "error";
	case IBV_WC_REM_INV_REQ_ERR: return "it refused a request of this rank as invalid";
	case IBV_WC_REM_OP_ERR: return "it could not carry out a request of this rank";
	case IBV_WC_LOC_PROT_ERR: return "a local buffer is not registered for it";
	case IBV_WC_LOC_LEN_ERR: return "a message had an impossible length";
	default: return "the device reports an error";
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
		 ep->endpoint.peer, ep->device, text, ibv_wc_status_str(wc->status), wc->vendor_err,
		 wc->qp_num, verbs_of_endpoint(ep)->device.name);
	ep->failing = 1;
	ep->fatal = !link_failure;
	verbs_of_endpoint(ep)->trouble = 1;
}

void greet_take(struct verbs_endpoint *ep, uint32_t imm)
{
	struct verbs *v = verbs_of_endpoint(ep);

	if (imm != (uint32_t)ep->awaits) {
		snprintf(ep->why, sizeof(ep->why), "it greets with 0x%x instead of %d", imm,
			 ep->awaits);
		ep->failing = ep->fatal = v->trouble = 1;
		return;
	}
	ep->greeted = ep->awaits;
	ep->awaits = imm == GREETING_READY ? GREETING_KEYS : GREETING_NONE;
	v->greeted = 1;
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
	event_queue_put(&v->events, &(struct event){ .kind = EVENT_IMM,
						     .peer = ep->endpoint.peer,
						     .imm = be32toh(wc->imm_data) });
}

int poll_completions(struct verbs *v)
{
	struct ibv_wc wc[COMPLETIONS_AT_ONCE];
	uint32_t room = v->events.capacity - v->events.count;
	int n;

	/* A send completion may end every entry of one log. */
	if (room < COMPLETIONS_AT_ONCE + (uint32_t)v->n_peers * v->log_entries)
		return 0;
	n = ibv_poll_cq(v->cq, COMPLETIONS_AT_ONCE, wc);
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
			chain[i] = (struct ibv_recv_wr){ .wr_id = WR_RECEIVE,
							 .next = i + 1 < batch ? &chain[i + 1] :
										 NULL };
		err = ibv_post_srq_recv(v->srq, chain, &bad);
		if (err != 0)
			return fail(SLUICE_EDEVICE, "verbs: %s does not take a receive: %s",
				    v->device.name, errno_text(err));
		n -= batch;
	}
	return SLUICE_OK;
}
