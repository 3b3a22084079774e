/* SPDX-License-Identifier: BSD-3-Clause
 * The proof of a registration; see ladder.h. Memory under proof is only ever a local buffer: a
 * queue pair READs a pattern into it and WRITEs it back to a page of ours, so no right for anybody
 * else is needed. */
#include "rdma/ladder.h"
#include "rdma/loop.h"
#include <stdio.h>
#include <string.h>

enum { PROVE_BYTES = 256 };
enum { PATTERN_AT = 0, ECHO_AT = PROVE_BYTES, SAVED_AT = 2 * PROVE_BYTES };

static int transfer(struct loop *loop, enum ibv_wr_opcode opcode, const struct ibv_mr *mr,
		    uint64_t address, uint32_t n, size_t page_at, char why[160])
{
	struct ibv_sge sge = { .addr = address, .length = n, .lkey = mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.wr.rdma = { .remote_addr = (uintptr_t)loop->page->base + page_at,
			     .rkey = loop->mr->rkey },
	};
	char text[LOOP_WHY_BYTES] = "";
	int status = loop_run(loop, 0, &wr, text);

	if (status == IBV_WC_SUCCESS)
		return 0;
	snprintf(why, 160, "the card cannot %s it: %.100s",
		 opcode == IBV_WR_RDMA_READ ? "write" : "read",
		 status < 0 ? text : ibv_wc_status_str((enum ibv_wc_status)status));
	return -1;
}

int ladder_prove(struct ibv_pd *pd, const struct verbs_device *device, const struct ibv_mr *mr,
		 uint64_t address, size_t bytes, char why[160])
{
	uint32_t n = (uint32_t)(bytes < PROVE_BYTES ? bytes : PROVE_BYTES);
	struct loop loop = { 0 };
	uint8_t *page;
	int rc;

	rc = loop_open(pd, device, &loop, why);
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
	loop_close(&loop);
	return rc;
}
