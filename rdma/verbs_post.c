/* SPDX-License-Identifier: BSD-3-Clause
 * The way out of the verbs transport, its hot path: a transfer enters the endpoint's log and
 * becomes work requests as soon as the queue pair has room. No allocation, no system call. The log
 * counts what the send queue holds by itself, because some devices do not notice when it is
 * full. */
#include "rdma/verbs.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct ibv_qp *qp_of(const struct verbs_endpoint *ep)
{
	return ep->id->qp;
}

/* Unsignalled work requests cost no completion, but the queue empties by completions only: one in a
 * quarter of the queue is signalled. */
static int time_to_signal(const struct verbs *v, const struct verbs_endpoint *ep)
{
	return ep->wr_sent + 1 - ep->wr_signalled >= v->log_entries / 4;
}

/* 0, or -1: not now. Any other trouble takes the link down after this poll. */
static int post_one(struct verbs_endpoint *ep, struct ibv_send_wr *wr, int signalled)
{
	struct verbs *v = verbs_of_endpoint(ep);
	struct ibv_send_wr *bad;
	int err;

	if (ep->wr_sent - ep->wr_done >= v->log_entries)
		return -1;
	signalled = signalled || time_to_signal(v, ep);
	wr->wr_id = ep->wr_sent + 1;
	if (signalled)
		wr->send_flags |= IBV_SEND_SIGNALED;
	err = ibv_post_send(qp_of(ep), wr, &bad);
	if (err == ENOMEM)
		return -1;
	if (err != 0) {
		snprintf(ep->why, sizeof(ep->why), "posting to it failed: %s", errno_text(err));
		ep->failing = v->trouble = 1;
		return -1;
	}
	ep->wr_sent++;
	if (signalled)
		ep->wr_signalled = ep->wr_sent;
	return 0;
}

/* The next work request of one entry. */
static int post_piece(struct verbs_endpoint *ep, struct sent *s)
{
	struct verbs *v = verbs_of_endpoint(ep);
	uint64_t left = s->bytes - s->posted;
	uint32_t n = (uint32_t)(left < v->max_message ? left : v->max_message);
	int last = n == left;
	struct ibv_sge sge = { .addr = (uintptr_t)s->local + s->posted,
			       .length = n,
			       .lkey = s->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = n > 0,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { .remote_addr = s->remote_address + s->posted, .rkey = s->rkey },
	};

	if (s->kind == TRANSFER_GET) {
		wr.opcode = IBV_WR_RDMA_READ;
	} else {
		if (s->kind == TRANSFER_PUT_NOTIFY && last) {
			wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
			wr.imm_data = htobe32(s->imm);
		}
		if (s->copied && s->bytes <= v->inline_bytes)
			wr.send_flags = IBV_SEND_INLINE;
	}
	if (post_one(ep, &wr, last && (s->kind == TRANSFER_GET || s->report)) < 0)
		return -1;
	s->posted += n;
	s->started = 1;
	if (last)
		s->last_wr = ep->wr_sent;
	return last;
}

void post_log(struct verbs_endpoint *ep)
{
	struct verbs *v = verbs_of_endpoint(ep);

	while (ep->next_post < ep->end) {
		struct sent *s = sent_at(v, ep, ep->next_post);
		int rc;

		if (s->settled) {
			s->last_wr = ep->wr_sent;
			ep->next_post++;
			continue;
		}
		if (s->kind == TRANSFER_GET && !s->started) {
			if (ep->reads >= ep->reads_max)
				return; /* a replay: posting new ones asks before */
			ep->reads++;
			s->started = 1;
		}
		rc = post_piece(ep, s);
		if (rc < 0) {
			if (s->kind == TRANSFER_GET && s->posted == 0) {
				ep->reads--;
				s->started = 0;
			}
			return;
		}
		ep->next_post += rc > 0;
	}
}

void post_completed(struct verbs_endpoint *ep, uint64_t wr)
{
	struct verbs *v = verbs_of_endpoint(ep);

	if (wr > ep->wr_done)
		ep->wr_done = wr;
	while (ep->first < ep->next_post) {
		struct sent *s = sent_at(v, ep, ep->first);

		if (s->last_wr > ep->wr_done)
			break;
		if (s->kind == TRANSFER_GET)
			ep->reads--;
		if (s->notify != 0)
			ep->notify_done = s->notify;
		if (s->kind == TRANSFER_GET || s->report)
			event_queue_put(&v->events, &(struct event){ .kind = EVENT_DONE,
								     .peer = ep->endpoint.peer,
								     .cookie = s->cookie });
		ep->first++;
		ep->breaks = 0; /* something got through */
	}
	if (ep->next_post < ep->end && ep->state == LINK_UP)
		post_log(ep);
}

static int write_slot(struct verbs_endpoint *ep, enum ibv_wr_opcode opcode, uint32_t imm, size_t at,
		      const void *bytes, size_t n, int signalled)
{
	struct verbs *v = verbs_of_endpoint(ep);
	uint8_t *scratch = ep->copies + (size_t)v->log_entries * TRANSFER_INLINE_BYTES + at;
	struct ibv_sge sge = { .addr = (uintptr_t)scratch,
			       .length = (uint32_t)n,
			       .lkey = ep->copies_mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = n > 0,
		.opcode = opcode,
		.imm_data = htobe32(imm),
		.send_flags = n <= v->inline_bytes ? IBV_SEND_INLINE : 0,
		.wr.rdma = { .remote_addr = ep->peer_slot.address + at,
			     .rkey = ep->peer_slot.rkey },
	};

	if (n > 0)
		memcpy(scratch, bytes, n);
	return post_one(ep, &wr, signalled);
}

int post_slot(struct verbs_endpoint *ep, size_t at, const void *bytes, size_t n, int signalled)
{
	return write_slot(ep, IBV_WR_RDMA_WRITE, 0, at, bytes, n, signalled);
}

int post_greeting(struct verbs_endpoint *ep, enum greeting greeting, const void *bytes, size_t n)
{
	return write_slot(ep, IBV_WR_RDMA_WRITE_WITH_IMM, greeting, SLOT_GREETING, bytes, n, 1);
}

int post_request(struct verbs_endpoint *ep, struct ibv_send_wr *wr)
{
	return post_one(ep, wr, 0);
}

/* ---- struct transport_ops.post --------------------------------------------- */

/* Notifies that the peer has taken; it writes that word itself, so it is believed within bounds. */
static uint64_t credit(struct verbs_endpoint *ep)
{
	uint64_t taken = __atomic_load_n((uint64_t *)(void *)(ep->slot + SLOT_CREDIT),
					 __ATOMIC_ACQUIRE);

	taken = le64toh(taken);
	if (taken > ep->credit_seen && taken <= ep->notify_sent)
		ep->credit_seen = taken;
	return ep->credit_seen;
}

static int room(const struct verbs *v, struct verbs_endpoint *ep, const struct transfer *x)
{
	if (ep->end - ep->first >= v->log_entries)
		return 0;
	if (x->kind == TRANSFER_GET)
		return ep->reads < ep->reads_max && ep->next_post == ep->end &&
		       ep->state == LINK_UP;
	if (x->kind == TRANSFER_PUT_NOTIFY &&
	    ep->notify_sent - ep->credit_seen >= ep->peer_slot.credits)
		return ep->notify_sent - credit(ep) < ep->peer_slot.credits;
	return 1;
}

int verbs_post(struct endpoint *e, const struct transfer *x)
{
	struct verbs_endpoint *ep = verbs_endpoint_of(e);
	struct verbs *v = verbs_of_endpoint(ep);
	const struct verbs_remote *remote;
	struct sent *s;
	uint32_t lkey = 0;
	const int device = x->local_region && x->local_region->device;
	int rc, copy;

	if (ep->state == LINK_GONE)
		return fail_quietly(SLUICE_EPEER, "rank %d is gone: %s", e->peer, ep->gone_text);
	rc = transfer_check(e, x);
	if (rc < 0)
		return rc;
	if (!room(v, ep, x))
		return SLUICE_EAGAIN;
	copy = x->kind != TRANSFER_GET && x->bytes <= TRANSFER_INLINE_BYTES && !device;
	if (copy) {
		lkey = ep->copies_mr->lkey;
	} else if (x->bytes > 0) {
		rc = register_local(ep, x->local_region, x->kind == TRANSFER_GET, &lkey);
		if (rc < 0)
			return rc;
	}
	remote = verbs_remote_of(x->remote);
	s = sent_at(v, ep, ep->end);
	*s = (struct sent){
		.remote_address = remote->address + x->offset,
		.bytes = x->bytes,
		.notify = x->kind == TRANSFER_PUT_NOTIFY ? ++ep->notify_sent : 0,
		.cookie = x->cookie,
		.local = x->local,
		.lkey = lkey,
		.rkey = remote->rkey,
		.region = remote->id,
		.imm = x->imm,
		.kind = (uint8_t)x->kind,
		.report = x->report != 0,
		.copied = (uint8_t)copy,
	};
	if (copy && x->bytes > 0) {
		uint8_t *own = ep->copies +
			       (ep->end & (v->log_entries - 1)) * TRANSFER_INLINE_BYTES;

		memcpy(own, x->local, x->bytes);
		s->local = own;
	}
	ep->end++;
	transfer_count(&v->transport, x);
	if (ep->state == LINK_UP && ep->next_post == ep->end - 1)
		post_log(ep);
	return SLUICE_OK;
}
