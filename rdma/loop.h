/* SPDX-License-Identifier: BSD-3-Clause
 * Two queue pairs of this process, connected by hand, and a page between them: a card is asked to
 * do a thing before anybody relies on it. Used by ladder_prove.c and verbs_window.c. */
#ifndef RDMA_LOOP_H
#define RDMA_LOOP_H
#include "rdma/region.h"
#include "rdma/verbs_device.h"

enum { LOOP_PAGE_BYTES = 4096, LOOP_WHY_BYTES = 160 };

struct loop {
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	struct region *page;
	struct ibv_mr *mr; /* of the page, with all rights */
};

/* 0, or -1 and why. */
int loop_open(struct ibv_pd *pd, const struct verbs_device *device, struct loop *loop,
	      char why[LOOP_WHY_BYTES]);
/* Accepts one that is all zero, or opened in part. */
void loop_close(struct loop *loop);
/* Posts one signalled request to queue pair number side and waits for its end: its status, or -1
 * and why: it could not be posted, or did not end. */
int loop_run(struct loop *loop, int side, struct ibv_send_wr *wr, char why[LOOP_WHY_BYTES]);
#endif
