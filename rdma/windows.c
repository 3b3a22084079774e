/* SPDX-License-Identifier: BSD-3-Clause
 * See windows.h. Some devices, such as soft-RoCE, check who uses a window but not its bounds.
 * This is harmless, because all windows over a registration give the same peer the same rights, and
 * a registration covers exactly the bytes that the peer may reach. */
#include "rdma/windows.h"
#include "base/error.h"
#include "base/log.h"
#include "rdma/frame.h"
#include "sluice.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* mlx5 binds 2 GiB at most. */
#define CUT_BYTES ((uint64_t)1 << 30)

struct window {
	struct ibv_mw *mw; /* bound once mw->rkey is rkey */
	uint32_t rkey;
	uint64_t request; /* number of the request that binds it; 0: there is none */
};

struct windows {
	struct windows_config config;
	uint32_t n;
	struct window at[];
};

uint64_t windows_cut(uint64_t bytes, uint64_t most)
{
	uint64_t cut = most < CUT_BYTES ? most : CUT_BYTES;

	while (verbs_region_windows(bytes, cut) > REGION_KEYS_MOST && cut <= most / 2)
		cut *= 2;
	return cut;
}

unsigned windows_access(const struct region *region)
{
	return (region->access & REGION_READ ? IBV_ACCESS_REMOTE_READ : 0u) |
	       (region->access & REGION_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0u);
}

int windows_open(const struct windows_config *config, struct windows **out)
{
	const uint64_t n = verbs_region_windows(config->bytes, config->window_bytes);
	struct windows *w;

	if (n > REGION_KEYS_MOST)
		return fail(SLUICE_ENOSUPP,
			    "verbs: region %s of %llu bytes needs %llu memory windows of %s for "
			    "rank %d, but a region can have only %d; open more shards or smaller "
			    "regions, or set SLUICE_MEMORY_WINDOWS=no",
			    config->region, (unsigned long long)config->bytes,
			    (unsigned long long)n, config->device->name, config->peer,
			    REGION_KEYS_MOST);
	w = calloc(1, sizeof(*w) + n * sizeof(w->at[0]));
	if (!w)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %llu memory windows",
			    (unsigned long long)n);
	w->config = *config;
	w->n = (uint32_t)n;
	*out = w;
	return SLUICE_OK;
}

void windows_close(struct windows **w)
{
	windows_end(*w);
	free(*w);
	*w = NULL;
}

uint32_t windows_count(const struct windows *w)
{
	return w->n;
}

uint64_t windows_bytes(const struct windows *w)
{
	return w->n > 1 ? w->config.window_bytes : 0;
}

uint32_t windows_key(const struct windows *w, uint32_t i)
{
	return w->at[i].rkey;
}

int windows_make(struct windows *w)
{
	const struct windows_config *c = &w->config;

	for (struct window *at = w->at; at < w->at + w->n; at++) {
		if (at->mw)
			continue;
		at->mw = ibv_alloc_mw(c->pd, IBV_MW_TYPE_2);
		if (!at->mw)
			return fail(SLUICE_EDEVICE,
				    "verbs: ibv_alloc_mw for rank %d failed on %s, which claims to "
				    "have %d memory windows: %s; set SLUICE_MEMORY_WINDOWS=no to "
				    "use none",
				    c->peer, c->device->name, c->device->attr.max_mw,
				    errno_text(errno));
		at->rkey = ibv_inc_rkey(at->mw->rkey);
	}
	return SLUICE_OK;
}

static int bind_one(const struct windows *w, struct window *at, struct ibv_mr *mr,
		    struct sendlog *log)
{
	const struct windows_config *c = &w->config;
	const uint64_t from = (uint64_t)(at - w->at) * c->window_bytes, left = c->bytes - from;
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = { .mw = at->mw,
			     .rkey = at->rkey,
			     .bind_info = { .mr = mr,
					    .addr = (uintptr_t)mr->addr + from,
					    .length = left < c->window_bytes ? left :
									       c->window_bytes,
					    .mw_access_flags = c->access } },
	};
	int err, rc = sendlog_request(log, &wr, &err);

	if (!rc) {
		at->mw->rkey = at->rkey;
		at->request = wr.wr_id;
	}
	if (rc != SLUICE_EDEVICE)
		return rc;
	return fail(SLUICE_EDEVICE,
		    "verbs: %s of this rank does not bind a memory window of %llu bytes over "
		    "region %s of %llu bytes: %s; set SLUICE_MEMORY_WINDOWS=no to use none",
		    c->device->name, (unsigned long long)wr.bind_mw.bind_info.length, c->region,
		    (unsigned long long)c->bytes, errno_text(err));
}

int windows_bind(struct windows *w, struct ibv_mr *mr, struct sendlog *log)
{
	int rc = SLUICE_OK;

	for (struct window *at = w->at; !rc && at < w->at + w->n; at++)
		if (at->mw && at->mw->rkey != at->rkey)
			rc = bind_one(w, at, mr, log);
	return rc;
}

int windows_explain(const struct windows *w, uint64_t request, char why[200])
{
	for (uint32_t i = 0; w && i < w->n; i++) {
		if (w->at[i].request != request)
			continue;
		snprintf(why, 200,
			 "%.20s of this rank did not bind its memory window over region %.24s of "
			 "%llu bytes; set SLUICE_MEMORY_WINDOWS=no on this rank's node",
			 w->config.device->name, w->config.region,
			 (unsigned long long)w->config.bytes);
		return 1;
	}
	return 0;
}

void windows_end(struct windows *w)
{
	for (uint32_t i = 0; w && i < w->n; i++) {
		int err = w->at[i].mw ? ibv_dealloc_mw(w->at[i].mw) : 0;

		if (err)
			log_line(LOG_WARN, "rdma", "verbs: ibv_dealloc_mw: %s", errno_text(err));
		w->at[i].mw = NULL;
		w->at[i].request = 0;
	}
}
