/* SPDX-License-Identifier: BSD-3-Clause
 * The datagrams of fake_fabric.h: address handles, and UD queue pairs with their receives. The
 * rules are those of drivers/infiniband/sw/rxe/rxe_recv.c and rxe_resp.c of Linux 6.12, and of
 * ibv_post_send(3) and ibv_post_recv(3): a datagram for which nothing is ready, or whose Q_Key or
 * partition is wrong, vanishes, and its sender is told that it was sent. */
#include "fake_fabric.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { GRH_BYTES = 40, GRH_SGID_AT = 8, GRH_DGID_AT = 24, JUNK = 0xa5 };
static const uint32_t CONTROLLED = 0x80000000; /* such a Q_Key stands for that of the queue pair */

struct fake_ah {
	struct ibv_ah ah;
	struct ibv_ah_attr attr;
};

struct fake_datagram {
	struct fake_datagram *next;
	uint32_t from, to, qkey;
	uint16_t pkey;
	int has_grh;
	size_t n;
	uint8_t bytes[];
};
static struct fake_datagram *late; /* in the order in which they were sent */

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct fake_ah *a;

	if (fake_fails("ibv_create_ah", EHOSTUNREACH))
		return NULL;
	a = fake_new(sizeof(*a));
	*a = (struct fake_ah){ .ah = { .context = pd->context, .pd = pd }, .attr = *attr };
	fake_count(&fake_counts.ahs, 1);
	return &a->ah;
}

/* Soft-RoCE finds the handle by its number when it makes the packet, which does not leave if the
 * handle has ended by then: rxe_get_av() in rxe_av.c. */
int ibv_destroy_ah(struct ibv_ah *ah)
{
	fake_lock();
	for (struct fake_qp *q = fake_qps; q != NULL; q = q->next)
		for (uint64_t i = q->first; q->qp.qp_type == IBV_QPT_UD && i < q->end; i++) {
			struct fake_wr *f = &q->wrs[i % q->capacity];

			if (f->wr.wr.ud.ah != ah)
				continue;
			fake_misuse("ibv_destroy_ah before a datagram has left");
			f->wr.wr.ud.ah = NULL;
		}
	fake_unlock();
	free(ah);
	fake_count(&fake_counts.ahs, -1);
	return 0;
}

int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *q = fake_qp_of(qp);
	int err = fake_fails("ibv_post_recv", ENOMEM) ? ENOMEM : 0;

	fake_lock();
	for (; wr != NULL && err == 0; wr = wr->next) {
		*bad = wr;
		if (qp->state == IBV_QPS_RESET)
			err = EINVAL;
		else if (q->n_receives == q->max_receives ||
			 (fake.refused_receive && qp->state == IBV_QPS_RTS &&
			  !--fake.refused_receive))
			err = ENOMEM;
		else
			q->receives[(q->first_receive + q->n_receives++) % q->max_receives] =
				(struct fake_receive){ wr->wr_id, wr->num_sge > 0 ?
									  wr->sg_list[0] :
									  (struct ibv_sge){ 0 } };
	}
	fake_unlock();
	return err;
}

/* Two ports share a partition if the numbers are equal and at least one side is a full member. */
static int partition_matches(uint16_t a, uint16_t b)
{
	return (a & 0x7fff) == (b & 0x7fff) && (a | b) & 0x8000;
}

static void receive(struct fake_qp *q, const struct fake_datagram *d)
{
	const struct fake_receive r = q->receives[q->first_receive];
	struct ibv_wc wc = { .wr_id = r.wr_id,
			     .opcode = IBV_WC_RECV,
			     .byte_len = (uint32_t)(GRH_BYTES + d->n),
			     .qp_num = q->qp.qp_num,
			     .src_qp = d->from,
			     .slid = FAKE_LID,
			     .wc_flags = d->has_grh ? IBV_WC_GRH : 0 };
	uint8_t *to = fake_local_bytes(q, &r.sge, 1);

	q->first_receive = (q->first_receive + 1) % q->max_receives;
	q->n_receives--;
	if (to == NULL || r.sge.length < wc.byte_len) {
		wc.status = to == NULL ? IBV_WC_LOC_PROT_ERR : IBV_WC_LOC_LEN_ERR;
		q->qp.state = IBV_QPS_ERR;
	} else {
		memset(to, JUNK, GRH_BYTES); /* undefined without a GRH */
		if (d->has_grh) {
			memcpy(to + GRH_SGID_AT, fake_gid(), 16);
			memcpy(to + GRH_DGID_AT, fake_gid(), 16);
		}
		memcpy(to + GRH_BYTES, d->bytes, d->n);
		fake_counts.datagrams_received++;
	}
	fake_complete(fake_cq_of(q->qp.recv_cq), (struct fake_cqe){ .wc = wc });
}

static void deliver(const struct fake_datagram *d)
{
	struct fake_qp *q = fake_qp_numbered(d->to);

	if (q != NULL && q->qp.qp_type == IBV_QPT_UD &&
	    (q->qp.state == IBV_QPS_RTR || q->qp.state == IBV_QPS_RTS) && d->qkey == q->attr.qkey &&
	    partition_matches(d->pkey, fake.pkeys[q->attr.pkey_index]) && q->n_receives > 0 &&
	    !(fake.port_down & 1))
		receive(q, d);
	else
		fake_counts.datagrams_vanished++;
}

void fake_deliver_late(void)
{
	struct fake_datagram *d;

	fake_lock();
	while ((d = late) != NULL) {
		late = d->next;
		deliver(d);
		free(d);
	}
	fake_unlock();
}

void fake_inject(const void *bytes, size_t n, uint32_t from, uint32_t to, uint32_t qkey)
{
	struct fake_datagram *d = fake_new(sizeof(*d) + n);

	*d = (struct fake_datagram){ .from = from, .to = to, .qkey = qkey, .pkey = 0xffff, .n = n };
	memcpy(d->bytes, bytes, n);
	fake_lock();
	deliver(d);
	fake_unlock();
	free(d);
}

static void forward(struct fake_datagram *d)
{
	struct fake_datagram **at = &late;

	switch (fake.tap ? fake.tap(d->bytes, d->n, d->from, d->to) : FAKE_PASSES) {
	case FAKE_COMES_LATE:
		while (*at != NULL)
			at = &(*at)->next;
		*at = d;
		return;
	case FAKE_COMES_TWICE:
		deliver(d);
		deliver(d);
		break;
	case FAKE_PASSES: deliver(d); break;
	case FAKE_IS_LOST: break;
	}
	free(d);
}

enum ibv_wc_status fake_send_datagram(struct fake_qp *q, const struct fake_wr *f)
{
	const struct ibv_send_wr *wr = &f->wr;
	const struct fake_ah *to = (const struct fake_ah *)(const void *)wr->wr.ud.ah;
	const uint32_t n = wr->num_sge > 0 ? f->sge.length : 0;
	const uint8_t *bytes = f->bytes;
	struct fake_datagram *d;

	if (n > 128u << fake.mtu)
		return IBV_WC_LOC_LEN_ERR;
	if (n > 0 && !(wr->send_flags & IBV_SEND_INLINE))
		bytes = fake_local_bytes(q, &f->sge, 0);
	if (bytes == NULL)
		return IBV_WC_LOC_PROT_ERR;
	fake_counts.datagrams_sent++;
	if (to == NULL || !fake_leads_here(&to->attr)) {
		fake_counts.datagrams_vanished++;
		return IBV_WC_SUCCESS;
	}
	d = fake_new(sizeof(*d) + n);
	*d = (struct fake_datagram){
		.from = q->qp.qp_num,
		.to = wr->wr.ud.remote_qpn,
		.qkey = wr->wr.ud.remote_qkey & CONTROLLED ? q->attr.qkey : wr->wr.ud.remote_qkey,
		.pkey = fake.pkeys[q->attr.pkey_index],
		.has_grh = to->attr.is_global,
		.n = n,
	};
	memcpy(d->bytes, bytes, n);
	forward(d);
	return IBV_WC_SUCCESS;
}
