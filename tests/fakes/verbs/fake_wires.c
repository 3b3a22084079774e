/* SPDX-License-Identifier: BSD-3-Clause
 * The wires of fake_fabric.h: queue pairs, and the checking and execution of their work
 * requests. */
#include "fake_fabric.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fake_qp *fake_qps;
static uint32_t last_qpn = 1; /* 0 and 1 belong to the subnet manager */

/* ---- queue pairs ----------------------------------------------------------- */

struct fake_qp *fake_qp_of(struct ibv_qp *qp)
{
	return (struct fake_qp *)(void *)qp;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct fake_qp *q;

	if (fake_fails("ibv_create_qp", ENOMEM))
		return NULL;
	fake_lock();
	if (attr->cap.max_inline_data > fake.max_inline || fake_counts.qps >= fake.attr.max_qp ||
	    attr->cap.max_send_wr > (uint32_t)fake.attr.max_qp_wr ||
	    attr->cap.max_recv_wr > (uint32_t)fake.attr.max_qp_wr) {
		fake_unlock();
		errno = attr->cap.max_inline_data > fake.max_inline ? EINVAL : ENOMEM;
		return NULL;
	}
	q = fake_new(sizeof(*q));
	*q = (struct fake_qp){ .qp = { .context = pd->context,
				       .qp_context = attr->qp_context,
				       .pd = pd,
				       .send_cq = attr->send_cq,
				       .recv_cq = attr->recv_cq,
				       .srq = attr->srq,
				       .qp_num = ++last_qpn,
				       .state = IBV_QPS_RESET,
				       .qp_type = attr->qp_type },
			       .next = fake_qps,
			       .capacity = attr->cap.max_send_wr,
			       .max_inline = attr->cap.max_inline_data,
			       .max_receives = attr->srq ? 0 : attr->cap.max_recv_wr,
			       .wrs = fake_new(attr->cap.max_send_wr * sizeof(*q->wrs)) };
	q->receives = fake_new((q->max_receives + 1) * sizeof(*q->receives));
	if (fake.pair_bytes)
		q->pinned = fake.pair_bytes(&attr->cap);
	fake_counts.pinned += q->pinned;
	fake_qps = q;
	fake_count(&fake_counts.qps, 1);
	fake_counts.qps_made++;
	fake_unlock();
	return &q->qp;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct fake_qp *q = fake_qp_of(qp), **at;

	fake_lock();
	fake_place_all(q);
	for (struct fake_mw *m = fake_mws; m != NULL; m = m->next)
		if (m->mr != NULL && m->qp == q)
			fake_unbind(m);
	/* A card removes the completions of a destroyed queue pair, and so their receives:
	 * __mlx5_cq_clean() in mlx5/cq.c. Receives that it has taken are lost unless
	 * LAST_WQE_REACHED came first (__ib_drain_srq() in Linux, core/verbs.c). Soft-RoCE has
	 * taken a copy: get_srq_wqe() in rxe_resp.c. */
	if (q->taken && fake.no_last_wqe)
		((struct fake_srq *)(void *)qp->srq)->in_use -= q->taken;
	else
		fake_counts.receives_leaked += q->taken;
	for (struct fake_cq *cq = fake_cqs; cq != NULL; cq = cq->next) {
		int kept = 0;

		for (int i = 0; i < cq->count; i++) {
			struct fake_cqe e = cq->entries[(cq->first + i) % cq->capacity];

			if (e.wc.qp_num != qp->qp_num)
				cq->entries[(cq->first + kept++) % cq->capacity] = e;
			else if (e.srq != NULL)
				e.srq->in_use--;
		}
		cq->count = kept;
	}
	for (at = &fake_qps; *at != NULL; at = &(*at)->next)
		if ((*at)->peer == q)
			(*at)->peer = NULL;
	for (at = &fake_qps; *at != q; at = &(*at)->next)
		;
	*at = q->next;
	fake_counts.pinned -= q->pinned;
	fake_count(&fake_counts.qps, -1);
	fake_unlock();
	free(q->receives);
	free(q->wrs);
	free(q);
	return 0;
}

static struct fake_srq *srq_of(struct fake_qp *q)
{
	return (struct fake_srq *)(void *)q->qp.srq;
}

static void take_in_advance(struct fake_qp *q)
{
	struct fake_srq *srq = srq_of(q);

	for (; srq != NULL && srq->count > 0 && q->taken < fake.takes; q->taken++) {
		srq->first = (srq->first + 1) % srq->capacity;
		srq->count--;
		srq->in_use++;
	}
}

static void send_done(struct fake_qp *q, const struct ibv_send_wr *wr, uint64_t number,
		      enum ibv_wc_status status)
{
	if (status != IBV_WC_SUCCESS || wr->send_flags & IBV_SEND_SIGNALED)
		fake_complete(fake_cq_of(q->qp.send_cq),
			      (struct fake_cqe){ .wc = { .wr_id = wr->wr_id,
							 .status = status,
							 .qp_num = q->qp.qp_num },
						 .qp = q,
						 .retires = number });
}

static void complete_receive(struct fake_qp *q, struct ibv_wc wc)
{
	struct fake_srq *srq = srq_of(q);

	wc.qp_num = q->qp.qp_num;
	if (srq == NULL) {
		wc.wr_id = q->receives[q->first_receive].wr_id;
		q->first_receive = (q->first_receive + 1) % q->max_receives;
		q->n_receives--;
		fake_complete(fake_cq_of(q->qp.recv_cq),
			      (struct fake_cqe){ .wc = wc, .after = fake_last_packet() });
		return;
	}
	/* All receives of a queue have the same number here, so the oldest place will do. */
	wc.wr_id = srq->wr_ids[(srq->first + srq->capacity - 1) % srq->capacity];
	fake_complete(fake_cq_of(q->qp.recv_cq),
		      (struct fake_cqe){ .wc = wc, .srq = srq, .after = fake_last_packet() });
}

struct fake_qp *fake_last_wqe(void)
{
	struct fake_qp *found = NULL;

	for (struct fake_qp *q = fake_qps; q != NULL; q = q->next)
		if (q->looks == 1 && found == NULL)
			found = q;
		else if (q->looks > 1)
			q->looks--;
	if (found == NULL)
		return NULL;
	found->looks = 0;
	for (; found->taken > 0; found->taken--)
		complete_receive(found, (struct ibv_wc){ .status = IBV_WC_WR_FLUSH_ERR });
	return found;
}

void fake_qp_error(struct fake_qp *q)
{
	if (!q->stopped && q->qp.state == IBV_QPS_RTS && q->qp.srq != NULL && !fake.no_last_wqe)
		q->looks = fake.last_looks + 1;
	q->stopped = 1;
	q->qp.state = IBV_QPS_ERR;
	fake_place_all(q);
	for (; q->first < q->end; q->first++)
		send_done(q, &q->wrs[q->first % q->capacity].wr, q->first + 1, IBV_WC_WR_FLUSH_ERR);
	while (q->n_receives > 0)
		complete_receive(q, (struct ibv_wc){ .status = IBV_WC_WR_FLUSH_ERR });
}

struct fake_qp *fake_qp_numbered(uint32_t number)
{
	struct fake_qp *q = fake_qps;

	while (q != NULL && q->qp.qp_num != number)
		q = q->next;
	return q;
}

/* The attributes that a queue pair must set and may set in each state: qp_state_table of
 * drivers/infiniband/core/verbs.c in Linux 6.12. */
static const struct {
	enum ibv_qp_type type;
	enum ibv_qp_state from, to;
	int must, may;
} steps[] = {
	{ IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT,
	  IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_INIT, 0,
	  IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR,
	  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	  IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS,
	  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		  IBV_QP_MAX_QP_RD_ATOMIC,
	  IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		  IBV_QP_PATH_MIG_STATE },
	{ IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS, 0,
	  IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE |
		  IBV_QP_MIN_RNR_TIMER },
	{ IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
	  0 },
	{ IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_INIT, 0,
	  IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY },
	{ IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	{ IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY },
	{ IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY },
};

static int step_is_legal(const struct ibv_qp *qp, enum ibv_qp_state to, int mask)
{
	mask &= ~IBV_QP_STATE;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (steps[i].type == qp->qp_type && steps[i].from == qp->state && steps[i].to == to)
			return (mask & steps[i].must) == steps[i].must &&
			       !(mask & ~(steps[i].must | steps[i].may));
	return to == IBV_QPS_ERR || to == IBV_QPS_RESET;
}

/* On Ethernet, this does not compare addresses, because the connection manager's ports have
 * several. */
static int leads_to_peer(const struct fake_qp *q)
{
	return fake.link_layer != IBV_LINK_LAYER_INFINIBAND || fake_leads_here(&q->attr.ah_attr);
}

static void take_attributes(struct fake_qp *q, const struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_DEST_QPN)
		q->dest = attr->dest_qp_num;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		q->max_reads = attr->max_rd_atomic;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		q->attr.max_dest_rd_atomic = attr->max_dest_rd_atomic;
	if (mask & IBV_QP_PKEY_INDEX)
		q->attr.pkey_index = attr->pkey_index;
	if (mask & IBV_QP_QKEY)
		q->attr.qkey = attr->qkey;
	if (mask & IBV_QP_RQ_PSN)
		q->attr.rq_psn = attr->rq_psn;
	if (mask & IBV_QP_SQ_PSN)
		q->attr.sq_psn = attr->sq_psn;
	if (mask & IBV_QP_AV)
		q->attr.ah_attr = attr->ah_attr;
	if (mask & IBV_QP_PATH_MTU)
		q->attr.path_mtu = attr->path_mtu;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		q->attr.min_rnr_timer = attr->min_rnr_timer;
	if (mask & IBV_QP_TIMEOUT)
		q->attr.timeout = attr->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		q->attr.retry_cnt = attr->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		q->attr.rnr_retry = attr->rnr_retry;
}

/* Nothing from the time before the reset is left, and nothing completes. */
static void reset_pair(struct fake_qp *q)
{
	q->first = q->retired = q->end;
	q->first_receive = q->n_receives = 0;
	q->stopped = 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *q = fake_qp_of(qp);
	const enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : qp->state;

	if (to != IBV_QPS_ERR && fake_fails("ibv_modify_qp", EINVAL))
		return EINVAL;
	fake_lock();
	if (!step_is_legal(qp, to, mask) ||
	    (mask & IBV_QP_PKEY_INDEX && attr->pkey_index >= FAKE_PKEYS)) {
		fake_unlock();
		return EINVAL;
	}
	take_attributes(q, attr, mask);
	if (to == IBV_QPS_RTR)
		take_in_advance(q);
	if (to == IBV_QPS_RTS && qp->qp_type == IBV_QPT_RC && leads_to_peer(q))
		q->peer = fake_qp_numbered(q->dest);
	if (to == IBV_QPS_RESET)
		reset_pair(q);
	if (to == IBV_QPS_ERR)
		fake_qp_error(q);
	else
		qp->state = to;
	fake_unlock();
	return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	(void)mask;
	if (fake_fails("ibv_query_qp", EIO))
		return EIO;
	*attr = fake_qp_of(qp)->attr;
	memset(init, 0, sizeof(*init));
	attr->qp_state = qp->state;
	attr->max_rd_atomic = (uint8_t)fake_qp_of(qp)->max_reads;
	return 0;
}

/* ---- executing work requests ----------------------------------------------- */

static struct fake_mr *mr_of_key(uint32_t key, int remote)
{
	struct fake_mr *m = fake_mrs;

	while (m != NULL && (remote ? m->mr.rkey : m->mr.lkey) != key)
		m = m->next;
	return m;
}

static int within(uint64_t address, uint64_t n, uint64_t base, uint64_t bytes)
{
	return address >= base && n <= bytes && address - base <= bytes - n;
}

static uint8_t *local_bytes(const struct fake_qp *q, const struct ibv_sge *sge, int write,
			    int *dead)
{
	struct fake_mr *m = mr_of_key(sge->lkey, 0);

	if (m == NULL || m->mr.pd != q->qp.pd ||
	    !within(sge->addr, sge->length, (uintptr_t)m->mr.addr, m->mr.length) ||
	    (write && !(m->access & IBV_ACCESS_LOCAL_WRITE)))
		return NULL;
	*dead = m->dead;
	return m->host + (sge->addr - (uintptr_t)m->mr.addr);
}

uint8_t *fake_local_bytes(const struct fake_qp *q, const struct ibv_sge *sge, int write)
{
	int dead;

	return local_bytes(q, sge, write, &dead);
}

/* Makes the responder's checks: the key's domain, or for a window its queue pair; then rights and
 * bounds. */
static uint8_t *remote_bytes(const struct fake_qp *target, uint64_t address, uint32_t n,
			     uint32_t key, unsigned needs, int *dead)
{
	struct fake_mr *m = mr_of_key(key, 1);

	for (struct fake_mw *w = fake_mws; m == NULL && w != NULL; w = w->next)
		if (w->key == key && w->mr != NULL && w->qp == target && w->access & needs &&
		    within(address, n, w->address, w->bytes)) {
			*dead = w->mr->dead;
			return w->mr->host + (address - (uintptr_t)w->mr->mr.addr);
		}
	if (m == NULL || m->mr.pd != target->qp.pd || !((unsigned)m->access & needs) ||
	    !within(address, n, (uintptr_t)m->mr.addr, m->mr.length))
		return NULL;
	*dead = m->dead;
	return m->host + (address - (uintptr_t)m->mr.addr);
}

static enum ibv_wc_status bind_window(struct fake_qp *q, const struct ibv_send_wr *wr)
{
	struct fake_mw *w = (struct fake_mw *)(void *)wr->bind_mw.mw;
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;
	struct fake_mr *m = (struct fake_mr *)(void *)info->mr;

	if (fake.no_bind || w->mr != NULL || w->mw.pd != q->qp.pd || m->mr.pd != q->qp.pd ||
	    !(m->access & IBV_ACCESS_MW_BIND) ||
	    !within(info->addr, info->length, (uintptr_t)m->mr.addr, m->mr.length) ||
	    (info->mw_access_flags & IBV_ACCESS_REMOTE_WRITE &&
	     !(m->access & IBV_ACCESS_LOCAL_WRITE)))
		return IBV_WC_MW_BIND_ERR;
	w->mr = m;
	m->windows++;
	w->qp = q;
	w->address = info->addr;
	w->bytes = info->length;
	w->access = info->mw_access_flags;
	w->key = wr->bind_mw.rkey;
	fake_counts.binds++;
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status invalidate(struct fake_qp *q, uint32_t key)
{
	fake_place_all(q);
	for (struct fake_mw *w = fake_mws; w != NULL; w = w->next)
		if (w->key == key && w->qp == q && w->mr != NULL) {
			fake_unbind(w);
			fake_counts.invalidations++;
			return IBV_WC_SUCCESS;
		}
	return IBV_WC_LOC_QP_OP_ERR;
}

static enum ibv_wc_status take_receive(struct fake_qp *target, const struct ibv_send_wr *wr,
				       uint32_t n)
{
	struct fake_srq *srq = srq_of(target);
	const uint32_t imm = fake.next_imm ? htobe32(fake.next_imm) : wr->imm_data;

	if (srq == NULL ? target->n_receives == 0 : srq->count + target->taken == 0) {
		fake_counts.no_receive++;
		return IBV_WC_RNR_RETRY_EXC_ERR;
	}
	if (target->taken > 0) {
		target->taken--;
	} else if (srq != NULL) {
		srq->first = (srq->first + 1) % srq->capacity;
		srq->count--;
		srq->in_use++;
	}
	/* Drivers leave imm_data of a plain message as it was. */
	complete_receive(target,
			 (struct ibv_wc){ .opcode = fake.next_plain ? IBV_WC_RECV :
								      IBV_WC_RECV_RDMA_WITH_IMM,
					  .byte_len = n,
					  .imm_data = imm,
					  .wc_flags = fake.next_plain ? 0 : IBV_WC_WITH_IMM });
	take_in_advance(target);
	fake.next_imm = 0;
	fake.next_plain = 0;
	return IBV_WC_SUCCESS;
}

/* Returns the bytes of an enum ibv_mtu; 0: unknown. */
static uint32_t mtu_bytes(unsigned mtu)
{
	return mtu ? 128u << mtu : UINT32_MAX;
}

static uint32_t packet_bytes(const struct fake_qp *q, uint32_t n)
{
	const uint32_t most = mtu_bytes(q->attr.path_mtu);

	return n < most ? n : most;
}

static enum ibv_wc_status move(struct fake_qp *q, const struct fake_wr *f)
{
	const struct ibv_send_wr *wr = &f->wr;
	int read = wr->opcode == IBV_WR_RDMA_READ, local_dead = 0, remote_dead = 0;
	uint32_t n = wr->num_sge > 0 ? f->sge.length : 0;
	struct fake_qp *target = q->peer;
	const uint8_t *from;
	uint8_t *local = NULL, *remote = NULL;

	if (target == NULL ||
	    (target->qp.state != IBV_QPS_RTR && target->qp.state != IBV_QPS_RTS) ||
	    fake.port_down & 1)
		return IBV_WC_RETRY_EXC_ERR;
	/* The responder drops or refuses packets with numbers that it does not expect. */
	if (target->attr.rq_psn != q->attr.sq_psn)
		return IBV_WC_RETRY_EXC_ERR;
	/* A port drops packets longer than its MTU, including those that answer a READ. */
	if (packet_bytes(q, n) > mtu_bytes(target->port_mtu) ||
	    (read && packet_bytes(target, n) > mtu_bytes(q->port_mtu)))
		return IBV_WC_RETRY_EXC_ERR;
	if (n > fake.max_message)
		return IBV_WC_LOC_LEN_ERR;
	if (n > 0 && !(wr->send_flags & IBV_SEND_INLINE)) {
		local = local_bytes(q, &f->sge, read, &local_dead);
		if (local == NULL)
			return IBV_WC_LOC_PROT_ERR;
	}
	if (n > 0) {
		remote = remote_bytes(target, wr->wr.rdma.remote_addr, n, wr->wr.rdma.rkey,
				      read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE,
				      &remote_dead);
		if (remote == NULL) {
			fake_counts.access_errors++;
			fake_qp_error(target);
			return IBV_WC_REM_ACCESS_ERR;
		}
	}
	from = local != NULL ? local : f->bytes;
	if (n > 0 && !local_dead && !remote_dead) {
		if (read)
			fake_place_all(target); /* a READ sees the WRITEs before it */
		if (read || fake.placing == FAKE_AT_ONCE)
			fake_move_bytes(read ? local : remote, read ? remote : from, n);
		else
			fake_send_packets(target, remote, from, n, packet_bytes(q, n));
	}
	if (read) {
		fake_counts.reads++;
		fake_counts.bytes_read += n;
		return IBV_WC_SUCCESS;
	}
	fake_counts.bytes_written += n;
	if (wr->opcode == IBV_WR_RDMA_WRITE) {
		fake_counts.writes++;
		return IBV_WC_SUCCESS;
	}
	fake_counts.writes_with_imm++;
	return take_receive(target, wr, n);
}

static void execute(struct fake_qp *q)
{
	while (q->first < q->end) {
		const struct fake_wr *f = &q->wrs[q->first % q->capacity];
		enum ibv_wc_status status;

		if (fake.fail_status != IBV_WC_SUCCESS && f->wr.opcode == fake.fail_opcode) {
			status = fake.fail_status;
			fake.fail_status = IBV_WC_SUCCESS;
		} else if (f->wr.opcode == IBV_WR_BIND_MW) {
			status = bind_window(q, &f->wr);
		} else if (f->wr.opcode == IBV_WR_LOCAL_INV) {
			status = invalidate(q, f->wr.invalidate_rkey);
		} else if (q->qp.qp_type == IBV_QPT_UD) {
			status = fake_send_datagram(q, f);
		} else {
			status = move(q, f);
		}
		q->reads -= f->wr.opcode == IBV_WR_RDMA_READ;
		q->first++;
		send_done(q, &f->wr, q->first, status);
		if (status != IBV_WC_SUCCESS) {
			fake_qp_error(q);
			return;
		}
	}
}

static int enqueue(struct fake_qp *q, const struct ibv_send_wr *wr)
{
	struct fake_wr *f = &q->wrs[q->end % q->capacity];

	if (q->qp.state != IBV_QPS_RTS && q->qp.state != IBV_QPS_ERR)
		return EINVAL;
	if ((q->qp.qp_type == IBV_QPT_UD) != (wr->opcode == IBV_WR_SEND))
		return EINVAL;
	if (q->end - q->retired >= q->capacity) {
		fake_counts.overflows++;
		return ENOMEM;
	}
	if (wr->opcode == IBV_WR_BIND_MW && fake.longest_window &&
	    wr->bind_mw.bind_info.length > fake.longest_window)
		return EOPNOTSUPP;
	f->wr = *wr;
	if (wr->num_sge > 0)
		f->sge = wr->sg_list[0];
	if (wr->num_sge > 0 && wr->send_flags & IBV_SEND_INLINE) {
		if (f->sge.length > q->max_inline || wr->opcode == IBV_WR_RDMA_READ)
			return EINVAL;
		memcpy(f->bytes, (const void *)(uintptr_t)f->sge.addr, f->sge.length);
	}
	q->end++;
	q->reads += wr->opcode == IBV_WR_RDMA_READ;
	if (q->reads > fake_counts.reads_at_once)
		fake_counts.reads_at_once = q->reads;
	if (q->end - q->retired > fake_counts.most_outstanding)
		fake_counts.most_outstanding = (uint32_t)(q->end - q->retired);
	return 0;
}

int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *q = fake_qp_of(qp);
	int err = fake_fails("ibv_post_send", EIO) ? EIO : 0;

	*bad = wr;
	fake_lock();
	fake_counts.doorbells++;
	if (fake.looks_at)
		fake.looks_at(qp, wr);
	for (; wr != NULL && err == 0; wr = wr->next) {
		*bad = wr;
		err = enqueue(q, wr);
	}
	if (qp->state == IBV_QPS_ERR)
		fake_qp_error(q);
	else if (!fake.held && !fake.silent && !(fake.lazy && qp->qp_type == IBV_QPT_UD))
		execute(q);
	fake_unlock();
	return err;
}

void fake_send_waiting(const struct ibv_cq *cq)
{
	for (struct fake_qp *q = fake_qps; q != NULL && fake.lazy; q = q->next)
		if (q->qp.send_cq == cq && q->qp.qp_type == IBV_QPT_UD &&
		    q->qp.state == IBV_QPS_RTS)
			execute(q);
}

static void release_from(struct fake_qp *q, int backwards)
{
	if (q == NULL)
		return;
	if (!backwards) /* the list has the newest first */
		release_from(q->next, 0);
	if (q->qp.state == IBV_QPS_RTS)
		execute(q);
	if (backwards)
		release_from(q->next, 1);
}

void fake_release(int backwards)
{
	fake_lock();
	release_from(fake_qps, backwards);
	fake_unlock();
}

void fake_pairs_cut(void)
{
	fake_lock();
	for (struct fake_qp *q = fake_qps; q != NULL; q = q->next)
		if (q->qp.qp_type == IBV_QPT_RC && q->qp.state == IBV_QPS_RTS)
			fake_qp_error(q);
	fake_unlock();
}
