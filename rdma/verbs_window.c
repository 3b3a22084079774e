/* SPDX-License-Identifier: BSD-3-Clause
 * Memory windows of type 2B: each gives one peer's queue pair a part of a registration that nobody
 * can reach without it. A window lives as long as the queue pair: it is made after it, bound as
 * soon as requests can be posted, and ends before it (soft-RoCE hangs for a minute in destroying a
 * queue pair that has windows). Its key is known before it is bound. Some devices check whose a
 * window is, but not where it ends (soft-RoCE again), so each covers a whole registration. */
#include "base/clock.h"
#include "base/log.h"
#include "rdma/loop.h"
#include "rdma/verbs_register.h"
#include <errno.h>
#include <stdio.h>

enum { ROOM_MS = 1000, PROVE_BYTES = 64 };

/* ---- does the device have them --------------------------------------------- */

/* Only the write that the window allows may succeed. The last one, which must fail, breaks the
 * loop. */
static int try_window(struct loop *loop, struct ibv_mw *mw, struct ibv_mr *mr,
		      char why[LOOP_WHY_BYTES])
{
	static const struct {
		enum ibv_wr_opcode opcode;
		enum ibv_wc_status wanted;
		const char *what;
	} steps[] = {
		{ IBV_WR_BIND_MW, IBV_WC_SUCCESS, "binding one" },
		{ IBV_WR_RDMA_WRITE, IBV_WC_SUCCESS, "writing through one" },
		{ IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR,
		  "reading through one that is only for writing" },
	};
	uint32_t key = ibv_inc_rkey(mw->rkey);

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct ibv_sge sge = { .addr = (uintptr_t)loop->page->base + LOOP_PAGE_BYTES / 2,
				       .length = PROVE_BYTES,
				       .lkey = loop->mr->lkey };
		struct ibv_send_wr wr = { .opcode = steps[i].opcode };
		char text[LOOP_WHY_BYTES] = "";
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
		snprintf(why, LOOP_WHY_BYTES, "%s ends with: %.80s", steps[i].what,
			 status < 0 ? text : ibv_wc_status_str((enum ibv_wc_status)status));
		return -1;
	}
	return 0;
}

int window_prove(struct ibv_pd *pd, const struct verbs_device *device, char why[LOOP_WHY_BYTES])
{
	struct loop loop = { 0 };
	struct ibv_mr *mr = NULL;
	struct ibv_mw *mw = NULL;
	int rc = -1;

	if (!(device->attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B)) {
		snprintf(why, LOOP_WHY_BYTES, "it has none of type 2B");
		return -1;
	}
	if (loop_open(pd, device, &loop, why) < 0)
		goto out;
	mr = ibv_reg_mr(pd, loop.page->base, LOOP_PAGE_BYTES / 2,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = mr != NULL ? ibv_alloc_mw(pd, IBV_MW_TYPE_2) : NULL;
	if (mw == NULL)
		snprintf(why, LOOP_WHY_BYTES, "%s: %s", mr == NULL ? "ibv_reg_mr" : "ibv_alloc_mw",
			 errno_text(errno));
	else
		rc = try_window(&loop, mw, mr, why);
out:
	window_end(&mw);
	if (mr != NULL)
		ibv_dereg_mr(mr);
	loop_close(&loop);
	return rc;
}

/* ---- one window ------------------------------------------------------------ */

int window_make(struct verbs_endpoint *ep, struct ibv_mw **window, uint32_t *rkey_out)
{
	struct verbs *v = verbs_of_endpoint(ep);

	*window = ibv_alloc_mw(v->pd, IBV_MW_TYPE_2);
	if (*window == NULL)
		return fail(SLUICE_EDEVICE,
			    "verbs: ibv_alloc_mw for rank %d on %s, which says it has %d: %s; "
			    "SLUICE_MEMORY_WINDOWS=no does without",
			    ep->endpoint.peer, v->device.name, v->device.attr.max_mw,
			    errno_text(errno));
	*rkey_out = ibv_inc_rkey((*window)->rkey);
	return SLUICE_OK;
}

void window_end(struct ibv_mw **window)
{
	int err = *window != NULL ? ibv_dealloc_mw(*window) : 0;

	if (err != 0)
		log_line(LOG_WARN, "rdma", "verbs: ibv_dealloc_mw: %s", errno_text(err));
	*window = NULL;
}

int window_bind(struct verbs_endpoint *ep, struct ibv_mw *window, uint32_t rkey, struct ibv_mr *mr,
		unsigned access)
{
	struct verbs *v = verbs_of_endpoint(ep);
	uint64_t until = now_ns() + (uint64_t)ROOM_MS * 1000000;
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = { .mw = window,
			     .rkey = rkey,
			     .bind_info = { .mr = mr,
					    .addr = (uintptr_t)mr->addr,
					    .length = mr->length,
					    .mw_access_flags = access } },
	};

	while (post_request(ep, &wr) < 0) {
		if (ep->failing)
			return fail_quietly(SLUICE_EPEER, "%s", ep->why);
		if (poll_completions(v) == 0 && now_ns() > until)
			return fail(SLUICE_EDEVICE,
				    "verbs: no window for rank %d could be bound for %d ms: its "
				    "queue of %u requests stays full",
				    ep->endpoint.peer, ROOM_MS, v->log_entries);
	}
	window->rkey = rkey;
	return SLUICE_OK;
}

/* ---- all windows of a connection ------------------------------------------- */

unsigned window_access(const struct region *region)
{
	unsigned access = 0;

	if (region->access & REGION_READ)
		access |= IBV_ACCESS_REMOTE_READ;
	if (region->access & REGION_WRITE)
		access |= IBV_ACCESS_REMOTE_WRITE;
	return access;
}

int windows_make(struct verbs_endpoint *ep)
{
	struct verbs *v = verbs_of_endpoint(ep);
	int rc;

	if (!v->windows)
		return SLUICE_OK;
	pthread_mutex_lock(&v->registering);
	rc = window_make(ep, &ep->slot_window, &ep->slot_rkey);
	for (struct verbs_registration *r = v->registrations; rc == SLUICE_OK && r != NULL;
	     r = r->next) {
		struct keys *k = &r->at[ep->endpoint.peer];

		if (k->offered)
			rc = window_make(ep, &k->window, &k->rkey);
	}
	pthread_mutex_unlock(&v->registering);
	return rc;
}

int windows_bind(struct verbs_endpoint *ep)
{
	struct verbs *v = verbs_of_endpoint(ep);
	const int rank = ep->endpoint.peer;
	int rc = SLUICE_OK;

	if (!v->windows)
		return SLUICE_OK;
	pthread_mutex_lock(&v->registering);
	if (ep->slot_window != NULL)
		rc = window_bind(ep, ep->slot_window, ep->slot_rkey, ep->slot_mr,
				 IBV_ACCESS_REMOTE_WRITE);
	for (struct verbs_registration *r = v->registrations; rc == SLUICE_OK && r != NULL;
	     r = r->next) {
		const struct keys *k = &r->at[rank];

		if (k->window != NULL)
			rc = window_bind(ep, k->window, k->rkey, keys_remote(r, rank),
					 window_access(r->region));
	}
	pthread_mutex_unlock(&v->registering);
	return rc;
}

void windows_end(struct verbs_endpoint *ep)
{
	struct verbs *v = verbs_of_endpoint(ep);

	if (!v->windows)
		return;
	pthread_mutex_lock(&v->registering);
	for (struct verbs_registration *r = v->registrations; r != NULL; r = r->next)
		window_end(&r->at[ep->endpoint.peer].window);
	window_end(&ep->slot_window);
	pthread_mutex_unlock(&v->registering);
}
