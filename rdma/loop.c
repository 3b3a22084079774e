/* SPDX-License-Identifier: BSD-3-Clause
 * See loop.h. */
#include "rdma/loop.h"
#include "base/clock.h"
#include "base/error.h"
#include "rdma/verbs.h"
#include <errno.h>
#include <stdio.h>

enum { RUN_MS = 2000 };

static int join_qp(struct ibv_qp *qp, const struct verbs_device *device, uint32_t peer)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = device->port,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = device->port_attr.active_mtu,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .dlid = device->port_attr.lid, .port_num = device->port },
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 16,
		.retry_cnt = VERBS_RETRIES,
		.rnr_retry = VERBS_RETRIES,
		.max_rd_atomic = 1,
	};
	int err;

	if (!device->infiniband) {
		rtr.ah_attr.is_global = 1;
		rtr.ah_attr.grh.dgid = device->gid;
		rtr.ah_attr.grh.sgid_index = (uint8_t)device->gid_index;
		rtr.ah_attr.grh.hop_limit = 1;
	}
	err = ibv_modify_qp(qp, &init,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (err == 0)
		err = ibv_modify_qp(qp, &rtr,
				    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					    IBV_QP_MIN_RNR_TIMER);
	if (err == 0)
		err = ibv_modify_qp(qp, &rts,
				    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					    IBV_QP_MAX_QP_RD_ATOMIC);
	return err;
}

void loop_close(struct loop *loop)
{
	for (int i = 0; i < 2; i++)
		if (loop->qp[i] != NULL)
			ibv_destroy_qp(loop->qp[i]);
	if (loop->cq != NULL)
		ibv_destroy_cq(loop->cq);
	if (loop->mr != NULL)
		ibv_dereg_mr(loop->mr);
	region_close(&loop->page);
}

int loop_open(struct ibv_pd *pd, const struct verbs_device *device, struct loop *loop,
	      char why[LOOP_WHY_BYTES])
{
	int err;

	snprintf(why, LOOP_WHY_BYTES, "no memory for its proof");
	if (region_open(LOOP_PAGE_BYTES, REGION_READ | REGION_WRITE, "proof", &loop->page) < 0)
		return -1;
	loop->mr = ibv_reg_mr(pd, loop->page->base, LOOP_PAGE_BYTES,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				      IBV_ACCESS_REMOTE_WRITE);
	loop->cq = ibv_create_cq(pd->context, 8, NULL, NULL, 0);
	if (loop->mr == NULL || loop->cq == NULL)
		goto failed;
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr attr = {
			.send_cq = loop->cq,
			.recv_cq = loop->cq,
			.qp_type = IBV_QPT_RC,
			.cap = { .max_send_wr = 4,
				 .max_recv_wr = 1,
				 .max_send_sge = 1,
				 .max_recv_sge = 1 },
		};

		loop->qp[i] = ibv_create_qp(pd, &attr);
		if (loop->qp[i] == NULL)
			goto failed;
	}
	for (int i = 0; i < 2; i++) {
		err = join_qp(loop->qp[i], device, loop->qp[1 - i]->qp_num);
		if (err != 0) {
			errno = err;
			goto failed;
		}
	}
	return 0;

failed:
	snprintf(why, LOOP_WHY_BYTES, "it could not be proved: no queue pair to oneself: %s",
		 errno_text(errno));
	return -1;
}

int loop_run(struct loop *loop, int side, struct ibv_send_wr *wr, char why[LOOP_WHY_BYTES])
{
	uint64_t until = now_ns() + (uint64_t)RUN_MS * 1000000;
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int got = 0, err;

	wr->send_flags |= IBV_SEND_SIGNALED;
	err = ibv_post_send(loop->qp[side], wr, &bad);
	if (err != 0) {
		snprintf(why, LOOP_WHY_BYTES, "%s", errno_text(err));
		return -1;
	}
	while (got == 0 && now_ns() < until)
		got = ibv_poll_cq(loop->cq, 1, &wc);
	if (got == 1)
		return (int)wc.status;
	snprintf(why, LOOP_WHY_BYTES, "no completion");
	return -1;
}
