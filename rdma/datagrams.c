/* SPDX-License-Identifier: BSD-3-Clause
 * See datagrams.h. The masks are those that the kernel requires for each step of a UD queue pair,
 * see qp_state_table in drivers/infiniband/core/verbs.c. */
#include "rdma/datagrams.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "rdma/auth.h"
#include "rdma/region.h"
#include "sluice.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	GRH_BYTES = 40, /* they precede each received datagram, even one without a GRH */
	SLOT_SIZE = 256,
	RECEIVES_MOST = 256,
	SENDS_MOST = 64,
	LEAST = 16,
	LEAVE_MS = 100,
	RESTARTS_MOST = 2,       /* in one call of datagrams_next() */
	QKEY_USABLE = 0x7fffffff /* mask; Q_Keys with the highest bit belong to the kernel */
};
_Static_assert((int)GRH_BYTES + (int)DATAGRAM_BYTES <= (int)SLOT_SIZE, "a slot is too small");

struct datagrams {
	const struct verbs_device *device;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *recv_cq, *send_cq; /* a wr_id of recv_cq is the number of a slot */
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct region *memory; /* a slot for each receive, then for each send */
	uint32_t qkey, receives, sends;
	uint64_t sent, done; /* sends posted, and completed */
	int hung;            /* 1: sends had not completed in time, and none has since */
	unsigned restarts;   /* of the queue pair */
	int failed;          /* errno of starting the queue pair again after an error, or 0 */
};

static uint8_t *slot_of(const struct datagrams *d, uint64_t number)
{
	return (uint8_t *)d->memory->base + number * SLOT_SIZE;
}

/* ---- the queue pair ---------------------------------------------------------------- */

static int post_receive(struct datagrams *d, uint64_t number)
{
	struct ibv_sge sge = { .addr = (uintptr_t)slot_of(d, number),
			       .length = SLOT_SIZE,
			       .lkey = d->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = number, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_recv(d->qp, &wr, &bad);
}

/* Moves a queue pair that is new or was reset to RTS, and posts all receives. */
static int start_pair(struct datagrams *d)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT,
				    .pkey_index = d->device->pkey_index,
				    .port_num = d->device->port,
				    .qkey = d->qkey },
			   rtr = { .qp_state = IBV_QPS_RTR }, rts = { .qp_state = IBV_QPS_RTS };
	int err = ibv_modify_qp(d->qp, &init,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	d->sent = d->done = 0;
	d->hung = 0;
	for (uint64_t i = 0; i < d->receives && !err; i++)
		err = post_receive(d, i);
	if (!err)
		err = ibv_modify_qp(d->qp, &rtr, IBV_QP_STATE);
	if (!err)
		err = ibv_modify_qp(d->qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return err;
}

static void forget_completions(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) > 0)
		;
}

/* Restarts the queue pair after a completion with an error. Until then it sends nothing, or does
 * not work at all: soft-RoCE stops it when its interface is down, and a card stops it when a
 * datagram is too long. Its number and Q_Key stay the same. */
static void restart_pair(struct datagrams *d, enum ibv_wc_status status)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	int err = ibv_modify_qp(d->qp, &reset, IBV_QP_STATE);

	d->restarts++;
	if (!err) {
		forget_completions(d->recv_cq);
		forget_completions(d->send_cq);
		err = start_pair(d);
	}
	log_line(err && !d->failed ? LOG_WARN : LOG_DEBUG, "rdma",
		 "verbs: the queue pair for datagrams of %s stopped (%s)%s%s", d->device->name,
		 ibv_wc_status_str(status), err ? " and cannot be started again: " : "",
		 err ? errno_text(err) : "");
	d->failed = err;
}

/* ---- sending and receiving --------------------------------------------------------- */

struct ibv_ah *datagrams_address(struct datagrams *d, struct ibv_ah_attr *to)
{
	return ibv_create_ah(d->pd, to);
}

/* Frees the slots of the sends that have completed. */
static void take_sends(struct datagrams *d)
{
	struct ibv_wc wc;

	while (!d->failed && ibv_poll_cq(d->send_cq, 1, &wc) > 0) {
		d->hung = 0;
		if (wc.status != IBV_WC_SUCCESS)
			restart_pair(d, wc.status);
		else
			d->done++;
	}
}

/* If a card has not completed datagrams in time, this waits again only after it completes one. */
void datagrams_forget(struct datagrams *d, struct ibv_ah *ah)
{
	const uint64_t until = now_ns() + (uint64_t)LEAVE_MS * NS_PER_MS;

	take_sends(d);
	while (!d->failed && d->done < d->sent && !d->hung) {
		sched_yield();
		take_sends(d);
		d->hung = d->done < d->sent && now_ns() > until;
	}
	ibv_destroy_ah(ah);
}

int datagrams_send(struct datagrams *d, struct ibv_ah *to, uint32_t qpn, uint32_t qkey,
		   const void *bytes, size_t n, char why[DATAGRAM_WHY_BYTES])
{
	struct ibv_sge sge = { .length = (uint32_t)n, .lkey = d->mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED,
					.wr.ud = { to, qpn, qkey } };
	int err;

	if (d->failed)
		restart_pair(d, IBV_WC_GENERAL_ERR);
	take_sends(d);
	err = d->failed ? d->failed : d->sent - d->done == d->sends ? EAGAIN : 0;
	if (!err) {
		sge.addr = (uintptr_t)slot_of(d, d->receives + d->sent % d->sends);
		memcpy((void *)(uintptr_t)sge.addr, bytes, n);
		err = ibv_post_send(d->qp, &wr, &bad);
	}
	if (err) {
		snprintf(why, DATAGRAM_WHY_BYTES, "this rank could not send a datagram: %s",
			 errno_text(err));
		return -1;
	}
	d->sent++;
	return 0;
}

/* Returns 1 if the completion is a datagram and is long enough to have bytes. */
static int take_receive(struct datagrams *d, const struct ibv_wc *wc, struct datagram *out)
{
	size_t n;

	if (wc->status != IBV_WC_SUCCESS) {
		restart_pair(d, wc->status);
		return 0;
	}
	n = wc->byte_len > GRH_BYTES ? wc->byte_len - GRH_BYTES : 0;
	out->n = n <= DATAGRAM_BYTES ? n : 0;
	out->qpn = wc->src_qp;
	memcpy(out->bytes, slot_of(d, wc->wr_id) + GRH_BYTES, out->n);
	if (post_receive(d, wc->wr_id))
		restart_pair(d, IBV_WC_GENERAL_ERR);
	return out->n > 0;
}

/* Takes the events that made the channel readable, and requests the next event. Returns 0 if there
 * was none. */
static int take_wakeups(struct datagrams *d)
{
	struct ibv_cq *cq;
	void *context;
	unsigned n = 0;

	while (!ibv_get_cq_event(d->channel, &cq, &context))
		n++;
	if (!n)
		return 0;
	ibv_ack_cq_events(d->recv_cq, n);
	return !ibv_req_notify_cq(d->recv_cq, 0);
}

int datagrams_next(struct datagrams *d, struct datagram *out)
{
	const unsigned before = d->restarts;
	struct ibv_wc wc;

	take_sends(d);
	/* Completions that came before the request make no event, so this looks for completions
	 * once more. */
	do {
		while (!d->failed && ibv_poll_cq(d->recv_cq, 1, &wc) > 0)
			if (take_receive(d, &wc, out))
				return 1;
			else if (d->restarts - before >= RESTARTS_MOST)
				return 0; /* the next failure keeps the channel readable */
	} while (take_wakeups(d));
	return 0;
}

/* ---- opening and closing ----------------------------------------------------------- */

static int open_pair(struct datagrams *d, struct ibv_context *context)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_UD,
					 .cap = { .max_send_wr = d->sends,
						  .max_recv_wr = d->receives,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };
	int flags;

	d->channel = ibv_create_comp_channel(context);
	if (!d->channel)
		return verbs_device_failed(d->device, "ibv_create_comp_channel");
	flags = fcntl(d->channel->fd, F_GETFL);
	if (flags < 0 || fcntl(d->channel->fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return verbs_failed("fcntl");
	d->recv_cq = ibv_create_cq(context, (int)d->receives, NULL, d->channel, 0);
	if (d->recv_cq)
		d->send_cq = ibv_create_cq(context, (int)d->sends, NULL, NULL, 0);
	if (!d->send_cq)
		return verbs_device_failed(d->device, "ibv_create_cq");
	attr.send_cq = d->send_cq;
	attr.recv_cq = d->recv_cq;
	d->qp = ibv_create_qp(d->pd, &attr);
	if (!d->qp)
		return verbs_device_failed(d->device, "ibv_create_qp");
	errno = ibv_req_notify_cq(d->recv_cq, 0);
	if (!errno)
		errno = start_pair(d);
	return errno ? verbs_device_failed(d->device, "starting the queue pair for datagrams") :
		       SLUICE_OK;
}

static int make_parts(struct datagrams *d, struct ibv_context *context)
{
	const struct ibv_device_attr *a = &d->device->attr;
	int rc = auth_random(&d->qkey, sizeof(d->qkey));

	d->qkey &= QKEY_USABLE;
	d->receives = lesser(lesser(RECEIVES_MOST, counted(a->max_qp_wr)), counted(a->max_cqe));
	d->sends = lesser(lesser(SENDS_MOST, counted(a->max_qp_wr)), counted(a->max_cqe));
	if (!rc && (d->receives < LEAST || d->sends < LEAST))
		return fail(SLUICE_EDEVICE,
			    "verbs: %s is too small for datagrams: it has only %d requests and %d "
			    "completions",
			    d->device->name, a->max_qp_wr, a->max_cqe);
	if (!rc)
		rc = region_open((d->receives + d->sends) * SLOT_SIZE, 0, "datagrams", &d->memory);
	if (rc)
		return rc;
	d->pd = ibv_alloc_pd(context);
	if (!d->pd)
		return verbs_device_failed(d->device, "ibv_alloc_pd");
	d->mr = ibv_reg_mr(d->pd, d->memory->base, d->memory->bytes, IBV_ACCESS_LOCAL_WRITE);
	return d->mr ? open_pair(d, context) : verbs_device_failed(d->device, "ibv_reg_mr");
}

int datagrams_open(struct ibv_context *context, const struct verbs_device *device,
		   struct datagrams **out)
{
	struct datagrams *d = calloc(1, sizeof(*d));
	int rc;

	*out = NULL;
	if (!d)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*d));
	d->device = device;
	rc = make_parts(d, context);
	if (rc)
		datagrams_close(&d);
	*out = d;
	return rc;
}

void datagrams_close(struct datagrams **datagrams)
{
	struct datagrams *d = *datagrams;

	if (!d)
		return;
	if (d->qp)
		ibv_destroy_qp(d->qp);
	if (d->send_cq)
		ibv_destroy_cq(d->send_cq);
	if (d->recv_cq)
		ibv_destroy_cq(d->recv_cq);
	if (d->channel)
		ibv_destroy_comp_channel(d->channel);
	if (d->mr)
		ibv_dereg_mr(d->mr);
	if (d->pd)
		ibv_dealloc_pd(d->pd);
	region_close(&d->memory);
	free(d);
	*datagrams = NULL;
}

uint32_t datagrams_qpn(const struct datagrams *d)
{
	return d->qp->qp_num;
}

uint32_t datagrams_qkey(const struct datagrams *d)
{
	return d->qkey;
}

int datagrams_fd(const struct datagrams *d)
{
	return d->channel->fd;
}
