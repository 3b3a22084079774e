/* SPDX-License-Identifier: BSD-3-Clause
 * The proof of a registration; see ladder.h. Two queue pairs of this process, connected by hand. Memory
 * under proof is only ever a local buffer: the first queue pair READs a pattern into it and WRITEs it
 * back to a page of ours, so no right for anybody else is needed. */
#include "base/clock.h"
#include "base/error.h"
#include "rdma/ladder.h"
#include "rdma/verbs.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { PROVE_BYTES = 256, PROVE_MS = 2000 };
enum { PATTERN_AT = 0, ECHO_AT = PROVE_BYTES, SAVED_AT = 2 * PROVE_BYTES, PAGE_BYTES = 4096 };

struct loop {
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	struct region *page;
	struct ibv_mr *mr;
};

static int join_qp(struct ibv_qp *qp, const struct verbs_device *device, uint32_t peer)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT, .port_num = device->port,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = device->port_attr.active_mtu, .dest_qp_num = peer,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = {.dlid = device->port_attr.lid, .port_num = device->port},
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = 16, .retry_cnt = VERBS_RETRIES,
		.rnr_retry = VERBS_RETRIES, .max_rd_atomic = 1,
	};
	int err;

	if (!device->infiniband) {
		rtr.ah_attr.is_global = 1;
		rtr.ah_attr.grh.dgid = device->gid;
		rtr.ah_attr.grh.sgid_index = (uint8_t)device->gid_index;
		rtr.ah_attr.grh.hop_limit = 1;
	}
	err = ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (err == 0)
		err = ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (err == 0)
		err = ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	return err;
}

static void close_loop(struct loop *loop)
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

static int open_loop(struct ibv_pd *pd, const struct verbs_device *device, struct loop *loop, char why[160])
{
	int err;

	if (region_open(PAGE_BYTES, REGION_READ | REGION_WRITE, "proof", &loop->page) < 0)
		return -1;
	loop->mr = ibv_reg_mr(pd, loop->page->base, PAGE_BYTES,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	loop->cq = ibv_create_cq(pd->context, 8, NULL, NULL, 0);
	if (loop->mr == NULL || loop->cq == NULL)
		goto failed;
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr attr = {
			.send_cq = loop->cq, .recv_cq = loop->cq, .qp_type = IBV_QPT_RC,
			.cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
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
	snprintf(why, 160, "it could not be proved: no queue pair to oneself: %s", errno_text(errno));
	return -1;
}

static int transfer(struct loop *loop, enum ibv_wr_opcode opcode, const struct ibv_mr *mr, uint64_t address,
		    uint32_t n, size_t page_at, char why[160])
{
	uint64_t until = now_ns() + (uint64_t)PROVE_MS * 1000000;
	struct ibv_sge sge = {.addr = address, .length = n, .lkey = mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)loop->page->base + page_at, .rkey = loop->mr->rkey},
	}, *bad;
	struct ibv_wc wc;
	int got = 0, err = ibv_post_send(loop->qp[0], &wr, &bad);
	const char *what = opcode == IBV_WR_RDMA_READ ? "write" : "read";

	if (err != 0) {
		snprintf(why, 160, "the card does not %s it: %s", what, errno_text(err));
		return -1;
	}
	while (got == 0 && now_ns() < until)
		got = ibv_poll_cq(loop->cq, 1, &wc);
	if (got == 1 && wc.status == IBV_WC_SUCCESS)
		return 0;
	snprintf(why, 160, "the card cannot %s it: %s", what,
		 got == 1 ? ibv_wc_status_str(wc.status) : "no completion");
	return -1;
}

int ladder_prove(struct ibv_pd *pd, const struct verbs_device *device, const struct ibv_mr *mr,
		 uint64_t address, size_t bytes, char why[160])
{
	uint32_t n = (uint32_t)(bytes < PROVE_BYTES ? bytes : PROVE_BYTES);
	struct loop loop = {0};
	uint8_t *page;
	int rc;

	snprintf(why, 160, "no memory for its proof");
	rc = open_loop(pd, device, &loop, why);
	if (rc < 0)
		goto out_close;
	page = loop.page->base;
	for (uint32_t i = 0; i < n; i++)
		page[PATTERN_AT + i] = (uint8_t)(i * 37 + 11);
	rc = transfer(&loop, IBV_WR_RDMA_WRITE, mr, address, n, SAVED_AT, why);
	if (rc == 0)
		rc = transfer(&loop, IBV_WR_RDMA_READ, mr, address, n, PATTERN_AT, why);
	if (rc == 0)
		rc = transfer(&loop, IBV_WR_RDMA_WRITE, mr, address, n, ECHO_AT, why);
	if (rc == 0 && memcmp(page + PATTERN_AT, page + ECHO_AT, n) != 0) {
		snprintf(why, 160, "what the card wrote there is not what it reads back");
		rc = -1;
	}
	if (rc == 0)
		rc = transfer(&loop, IBV_WR_RDMA_READ, mr, address, n, SAVED_AT, why);
out_close:
	close_loop(&loop);
	return rc;
}
