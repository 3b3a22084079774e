/* SPDX-License-Identifier: BSD-3-Clause
 * See register.h. */
#include "rdma/register.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "rdma/path.h"
#include "rdma/queues.h"
#include "rdma/region.h"
#include "rdma/retry.h"
#include "sluice.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST_EXPONENT = 46, SHORTEST_EXPONENT = 13 };
enum { RUN_MS = 2000, PAGE_BYTES = 4096, PATTERN_BYTES = 256, WINDOW_BYTES = 64 };
/* Offsets of prove_memory() in the page. */
enum { PATTERN_AT = 0, ECHO_AT = PATTERN_BYTES, SAVED_AT = 2 * PATTERN_BYTES };

/* ---- two queue pairs that are connected to each other --------------------------- */

struct loop {
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	struct region *page;
	struct ibv_mr *mr; /* the registration of the page, with all rights */
};

static int join_qp(struct ibv_qp *qp, const struct verbs_device *device, uint32_t peer)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = device->pkey_index,
		.port_num = device->port,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = device->port_attr.active_mtu,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = PATH_RNR_TIMER,
		.ah_attr = { .dlid = device->port_attr.lid, .port_num = device->port },
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = RETRY_ACK_TIMEOUT,
		.retry_cnt = QUEUES_RETRIES,
		.rnr_retry = QUEUES_RETRIES,
		.max_rd_atomic = 1,
	};
	int err;

	if (verbs_device_global(device) && device->gid_index >= 0) {
		rtr.ah_attr.is_global = 1;
		rtr.ah_attr.grh.dgid = device->gid;
		rtr.ah_attr.grh.sgid_index = (uint8_t)device->gid_index;
		rtr.ah_attr.grh.hop_limit = 1;
	}
	err = ibv_modify_qp(qp, &init,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (!err)
		err = ibv_modify_qp(qp, &rtr,
				    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					    IBV_QP_MIN_RNR_TIMER);
	if (!err)
		err = ibv_modify_qp(qp, &rts,
				    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					    IBV_QP_MAX_QP_RD_ATOMIC);
	return err;
}

/* Closes a loop that is zeroed, partly opened or open. */
static void loop_close(struct loop *loop)
{
	for (int i = 0; i < 2; i++)
		if (loop->qp[i])
			ibv_destroy_qp(loop->qp[i]);
	if (loop->cq)
		ibv_destroy_cq(loop->cq);
	if (loop->mr)
		ibv_dereg_mr(loop->mr);
	region_close(&loop->page);
}

/* Opens a loop. Returns 0, or -1 with the reason in why. */
static int loop_open(struct ibv_pd *pd, const struct verbs_device *device, struct loop *loop,
		     char why[PROVE_WHY_BYTES])
{
	int err;

	snprintf(why, PROVE_WHY_BYTES, "no memory for the test");
	if (region_open(PAGE_BYTES, REGION_READ | REGION_WRITE, "proof", &loop->page))
		return -1;
	loop->mr = ibv_reg_mr(pd, loop->page->base, PAGE_BYTES,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				      IBV_ACCESS_REMOTE_WRITE);
	loop->cq = ibv_create_cq(pd->context, 8, NULL, NULL, 0);
	if (!loop->mr || !loop->cq)
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
		if (!loop->qp[i])
			goto failed;
	}
	for (int i = 0; i < 2; i++) {
		err = join_qp(loop->qp[i], device, loop->qp[1 - i]->qp_num);
		if (err) {
			errno = err;
			goto failed;
		}
	}
	return 0;

failed:
	snprintf(why, PROVE_WHY_BYTES,
		 "this rank could not test it, because it has no queue pair to itself: %s",
		 errno_text(errno));
	return -1;
}

/* Posts one signalled request to the queue pair of this side and waits for its completion. Returns
 * the status. Returns -1, with the reason in why, if the request could not be posted or did not
 * complete. */
static int loop_run(struct loop *loop, int side, struct ibv_send_wr *wr, char why[PROVE_WHY_BYTES])
{
	struct poll_limit limit = poll_limit_after_ms(RUN_MS);
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int got = 0, err;

	wr->send_flags |= IBV_SEND_SIGNALED;
	err = ibv_post_send(loop->qp[side], wr, &bad);
	if (err) {
		snprintf(why, PROVE_WHY_BYTES, "%s", errno_text(err));
		return -1;
	}
	while (got == 0 && !poll_limit_reached(&limit))
		got = ibv_poll_cq(loop->cq, 1, &wc);
	if (got == 1)
		return (int)wc.status;
	snprintf(why, PROVE_WHY_BYTES, "no completion");
	return -1;
}

/* ---- memory ---------------------------------------------------------------------- */

/* Tests memory that is only a local buffer. A queue pair READs a pattern into it and WRITEs it back
 * to the page, so no other rank needs a right to this memory. */
static int transfer(struct loop *loop, enum ibv_wr_opcode opcode, const struct ibv_mr *mr,
		    uint64_t address, uint32_t n, size_t page_at, char why[PROVE_WHY_BYTES])
{
	struct ibv_sge sge = { .addr = address, .length = n, .lkey = mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.wr.rdma = { .remote_addr = (uintptr_t)loop->page->base + page_at,
			     .rkey = loop->mr->rkey },
	};
	char text[PROVE_WHY_BYTES] = "";
	int status = loop_run(loop, 0, &wr, text);

	if (status == IBV_WC_SUCCESS)
		return 0;
	snprintf(why, PROVE_WHY_BYTES, "the card cannot %s it: %.100s",
		 opcode == IBV_WR_RDMA_READ ? "write" : "read",
		 status < 0 ? text : ibv_wc_status_str((enum ibv_wc_status)status));
	return -1;
}

static int prove_memory(struct ibv_pd *pd, const struct verbs_device *device,
			const struct ibv_mr *mr, uint64_t address, size_t bytes,
			char why[PROVE_WHY_BYTES])
{
	uint32_t n = (uint32_t)(bytes < PATTERN_BYTES ? bytes : PATTERN_BYTES);
	struct loop loop = { 0 };
	uint8_t *page;
	int rc;

	rc = loop_open(pd, device, &loop, why);
	if (rc)
		goto out_close;
	page = loop.page->base;
	for (uint32_t i = 0; i < n; i++)
		page[PATTERN_AT + i] = (uint8_t)(i * 37 + 11);
	rc = transfer(&loop, IBV_WR_RDMA_WRITE, mr, address, n, SAVED_AT, why);
	if (!rc)
		rc = transfer(&loop, IBV_WR_RDMA_READ, mr, address, n, PATTERN_AT, why);
	if (!rc)
		rc = transfer(&loop, IBV_WR_RDMA_WRITE, mr, address, n, ECHO_AT, why);
	if (!rc && memcmp(page + PATTERN_AT, page + ECHO_AT, n)) {
		snprintf(why, PROVE_WHY_BYTES,
			 "the card read back bytes that differ from those it wrote");
		rc = -1;
	}
	if (!rc)
		rc = transfer(&loop, IBV_WR_RDMA_READ, mr, address, n, SAVED_AT, why);
out_close:
	loop_close(&loop);
	return rc;
}

/* ---- memory windows -------------------------------------------------------------- */

/* Tests that the window allows only the write. The read must fail. This breaks the loop, so it must
 * be the last test. */
static int try_window(struct loop *loop, struct ibv_mw *mw, struct ibv_mr *mr,
		      char why[PROVE_WHY_BYTES])
{
	static const struct {
		enum ibv_wr_opcode opcode;
		enum ibv_wc_status wanted;
		const char *what;
	} steps[] = {
		{ IBV_WR_BIND_MW, IBV_WC_SUCCESS, "binding a window" },
		{ IBV_WR_RDMA_WRITE, IBV_WC_SUCCESS, "writing through a window" },
		{ IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR, "reading through a write-only window" },
	};
	uint32_t key = ibv_inc_rkey(mw->rkey);

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct ibv_sge sge = { .addr = (uintptr_t)loop->page->base + PAGE_BYTES / 2,
				       .length = WINDOW_BYTES,
				       .lkey = loop->mr->lkey };
		struct ibv_send_wr wr = { .opcode = steps[i].opcode };
		char text[PROVE_WHY_BYTES] = "";
		int status;

		if (wr.opcode == IBV_WR_BIND_MW) {
			wr.bind_mw.mw = mw;
			wr.bind_mw.rkey = key;
			wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
				.mr = mr,
				.addr = (uintptr_t)mr->addr,
				.length = mr->length,
				.mw_access_flags = IBV_ACCESS_REMOTE_WRITE
			};
		} else {
			wr.sg_list = &sge;
			wr.num_sge = 1;
			wr.wr.rdma.remote_addr = (uintptr_t)mr->addr;
			wr.wr.rdma.rkey = key;
		}
		status = loop_run(loop, wr.opcode == IBV_WR_BIND_MW ? 1 : 0, &wr, text);
		if (status == (int)steps[i].wanted)
			continue;
		snprintf(why, PROVE_WHY_BYTES, "%s gives: %.80s", steps[i].what,
			 status < 0 ? text : ibv_wc_status_str((enum ibv_wc_status)status));
		return -1;
	}
	return 0;
}

/* A driver refuses a window that is too long when its binding is posted. The queue pair is in the
 * error state, so nothing is actually bound, and the trial needs no memory of that length. Returns
 * the longest power of two that is not refused, or 0. */
static uint64_t longest_window(const struct loop *loop, struct ibv_mw *mw, struct ibv_mr *mr)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	uint64_t bytes = 0;

	if (ibv_modify_qp(loop->qp[1], &error, IBV_QP_STATE))
		return 0;
	for (int i = LONGEST_EXPONENT; i >= SHORTEST_EXPONENT && !bytes; i--) {
		struct ibv_send_wr *bad, wr = {
			.opcode = IBV_WR_BIND_MW,
			.send_flags = IBV_SEND_SIGNALED,
			.bind_mw = { .mw = mw,
				     .rkey = ibv_inc_rkey(mw->rkey),
				     .bind_info = { .mr = mr,
						    .addr = (uintptr_t)mr->addr,
						    .length = (uint64_t)1 << i,
						    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE } }
		};

		if (!ibv_post_send(loop->qp[1], &wr, &bad))
			bytes = (uint64_t)1 << i;
	}
	return bytes;
}

static int try_windows(struct ibv_pd *pd, const struct verbs_device *device, int access,
		       uint64_t *most_out, char why[PROVE_WHY_BYTES])
{
	struct loop loop = { 0 };
	struct ibv_mr *mr = NULL;
	struct ibv_mw *mw = NULL;
	int rc = -1;

	if (loop_open(pd, device, &loop, why))
		goto out;
	mr = ibv_reg_mr(pd, loop.page->base, PAGE_BYTES / 2,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | access);
	mw = mr ? ibv_alloc_mw(pd, IBV_MW_TYPE_2) : NULL;
	if (!mw)
		snprintf(why, PROVE_WHY_BYTES, "%s: %s", !mr ? "ibv_reg_mr" : "ibv_alloc_mw",
			 errno_text(errno));
	else
		rc = try_window(&loop, mw, mr, why);
	if (!rc) {
		*most_out = longest_window(&loop, mw, mr);
		rc = *most_out ? 0 : -1;
		if (rc)
			snprintf(why, PROVE_WHY_BYTES, "it refuses windows of %d bytes and more",
				 1 << SHORTEST_EXPONENT);
	}
out:
	if (mw)
		ibv_dealloc_mw(mw);
	if (mr)
		ibv_dereg_mr(mr);
	loop_close(&loop);
	return rc;
}

int prove_windows(struct ibv_pd *pd, const struct verbs_device *device, enum relaxed *relaxed,
		  uint64_t *most_out, char why[PROVE_WHY_BYTES])
{
	if (!(device->attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B)) {
		snprintf(why, PROVE_WHY_BYTES, "it has no windows of type 2B");
		return -1;
	}
	if (*relaxed && !try_windows(pd, device, IBV_ACCESS_RELAXED_ORDERING, most_out, why))
		return 0;
	*relaxed = RELAXED_NONE;
	return try_windows(pd, device, 0, most_out, why);
}

/* ---- registering ------------------------------------------------------------------- */

static const char *const method_names[] = {
	[METHOD_DMABUF] = "dma-buf", [METHOD_PEER_MEMORY] = "peer memory"
};
static const char *const outcomes[] = {
	[METHOD_DMABUF] = "reads it through a dma-buf",
	[METHOD_PEER_MEMORY] = "reads it through peer memory",
	[METHOD_NONE] = "does not reach it",
};
static atomic_int last_method = METHOD_UNTRIED;
static atomic_int ordering_refused; /* set when relaxed ordering has been refused and this was
				       logged */

static int relaxed_access(const struct region *region, enum relaxed relaxed)
{
	return relaxed == RELAXED_ALL || (relaxed == RELAXED_MARKED && region->relaxed) ?
		       IBV_ACCESS_RELAXED_ORDERING :
		       0;
}

/* With windows, peers reach a registration only through its windows. A window can allow writing
 * only if the registration has local write access. */
int register_access(const struct region *region, int windows, enum relaxed relaxed)
{
	/* The verbs interface requires local write access for remote write access. */
	const int write = region->access & REGION_WRITE ? IBV_ACCESS_LOCAL_WRITE : 0;
	const int access = relaxed_access(region, relaxed) | write;

	if (windows)
		return IBV_ACCESS_MW_BIND | access;
	return access | (write ? IBV_ACCESS_REMOTE_WRITE : 0) |
	       (region->access & REGION_READ ? IBV_ACCESS_REMOTE_READ : 0);
}

int register_local_access(const struct region *region, enum relaxed relaxed)
{
	return IBV_ACCESS_LOCAL_WRITE | relaxed_access(region, relaxed);
}

int register_host(struct ibv_pd *pd, void *base, size_t bytes, int access, const char *what,
		  struct ibv_mr **out)
{
	int rc = verbs_memlock_check(bytes, what);

	if (rc) {
		char sentence[ERROR_TEXT_BYTES];

		snprintf(sentence, sizeof(sentence), "%s", sluice_last_error());
		return fail(rc, "%s", sentence);
	}
	*out = ibv_reg_mr(pd, base, bytes, access);
	if (!*out && access & IBV_ACCESS_RELAXED_ORDERING && errno != ENOMEM) {
		const int err = errno;

		*out = ibv_reg_mr(pd, base, bytes, access & ~IBV_ACCESS_RELAXED_ORDERING);
		if (*out && !atomic_exchange(&ordering_refused, 1))
			log_line(LOG_INFO, "rdma",
				 "verbs: ibv_reg_mr of %s with relaxed ordering failed: %s; "
				 "regions for which this fails are registered without it",
				 what, errno_text(err));
	}
	if (*out)
		return SLUICE_OK;
	return fail(errno == ENOMEM ? SLUICE_ENOMEM : SLUICE_EDEVICE,
		    "%s: ibv_reg_mr of %zu bytes with access 0x%x failed: %s%s", what, bytes,
		    (unsigned)access, errno_text(errno),
		    errno == ENOMEM ? "; check the limit on locked memory (ulimit -l)" : "");
}

void register_end(struct ibv_mr **mr)
{
	int err = *mr ? ibv_dereg_mr(*mr) : 0;

	if (err)
		log_line(LOG_WARN, "rdma", "verbs: ibv_dereg_mr: %s", errno_text(err));
	*mr = NULL;
}

/* Registers by one method. On failure, returns NULL and sets why. */
static struct ibv_mr *register_by(struct ibv_pd *pd, const struct memory *memory,
				  enum method method, char why[200])
{
	/* The test writes the saved content back to that memory, so it needs local write access. */
	const int access = IBV_ACCESS_LOCAL_WRITE;
	struct ibv_mr *mr;

	if (method == METHOD_DMABUF && memory->fd < 0) {
		snprintf(why, 200, "it was not exported");
		return NULL;
	}
	mr = method == METHOD_DMABUF ?
		     ibv_reg_dmabuf_mr(pd, memory->fd_offset, memory->bytes,
				       (uintptr_t)memory->address, memory->fd, access) :
		     ibv_reg_mr(pd, memory->address, memory->bytes, access);
	if (!mr)
		snprintf(why, 200, "%s: %s",
			 method == METHOD_DMABUF ? "ibv_reg_dmabuf_mr" : "ibv_reg_mr",
			 errno_text(errno));
	return mr;
}

/* Registers by one method and tests the registration. On failure, returns NULL and sets why. */
static struct ibv_mr *try_method(struct ibv_pd *pd, const struct verbs_device *device,
				 const struct memory *memory, enum method method, char why[200])
{
	struct ibv_mr *mr = register_by(pd, memory, method, why);
	char reason[PROVE_WHY_BYTES];

	if (!mr || !prove_memory(pd, device, mr, (uintptr_t)memory->address, memory->bytes, reason))
		return mr;
	snprintf(why, 200, "it was registered, but %s", reason);
	ibv_dereg_mr(mr);
	return NULL;
}

/* Tries the methods one after another. Returns the first that works, or METHOD_NONE with the
 * reasons. */
static enum method find_method(struct ibv_pd *pd, const struct verbs_device *device,
			       const struct memory *memory, struct ibv_mr **out, char reasons[480])
{
	enum method method = METHOD_DMABUF;
	int level;

	reasons[0] = '\0';
	for (; method < METHOD_NONE && !*out; method++) {
		size_t used = strlen(reasons);
		char why[200];

		*out = try_method(pd, device, memory, method, why);
		if (*out)
			break;
		snprintf(reasons + used, 480 - used, "%s%s: %s", used > 0 ? "; " : "",
			 method_names[method], why);
	}
	/* Logged at info level only when the method changes, because most registrations use the
	 * same one. */
	level = atomic_exchange(&last_method, (int)method) == (int)method ? LOG_DEBUG : LOG_INFO;
	log_line(level, "rdma", "%zu bytes of device memory: %s %s%s%s", memory->bytes,
		 device->name, outcomes[method], reasons[0] ? ", because " : "", reasons);
	return method;
}

int register_device_memory(struct ibv_pd *pd, const struct verbs_device *device,
			   const struct memory *memory, enum method *method, struct ibv_mr **out)
{
	char reasons[480] = "a test showed that";

	*out = NULL;
	if (*method == METHOD_UNTRIED)
		*method = find_method(pd, device, memory, out, reasons);
	else if (*method != METHOD_NONE)
		*out = register_by(pd, memory, *method, reasons);
	if (*out)
		return SLUICE_OK;
	if (*method == METHOD_NONE)
		return fail_quietly(SLUICE_ENOSUPP, "%s does not reach this device memory: %s",
				    device->name, reasons);
	return fail(errno == ENOMEM ? SLUICE_ENOMEM : SLUICE_EDEVICE,
		    "verbs: %s of %zu bytes of device memory: %s", device->name, memory->bytes,
		    reasons);
}
