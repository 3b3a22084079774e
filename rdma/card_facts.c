/* SPDX-License-Identifier: BSD-3-Clause
 * See card_facts.h. */
#include "rdma/card_facts.h"
#include "base/clock.h"
#include "base/error.h"
#include "rdma/auth.h"
#include "rdma/queues.h"
#include "sluice.h"
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { CONNECT_MS = 10000, PAGE_BYTES = 4096 };

struct both {
	struct transport *t[2];
	struct endpoint *e[2];
};

static int open_both(const struct transport_config *config, struct both *b)
{
	static uint8_t key[2][AUTH_KEY_BYTES];
	uint8_t record[2][TRANSPORT_RECORD_BYTES];
	size_t n[2];
	int rc = 0;

	if (getrandom(key[0], sizeof(key[0]), 0) != (ssize_t)sizeof(key[0]))
		return fail(SLUICE_EDEVICE, "getrandom: %s", errno_text(errno));
	memcpy(key[1], key[0], sizeof(key[0]));
	for (int r = 0; r < 2 && !rc; r++) {
		const struct peer_keys keys = {
			.rank = r, .size = 2, .wire_version = 1, .key = (const uint8_t(*)[32])key
		};
		struct transport_config mine = *config;

		mine.rank = r;
		mine.size = 2;
		rc = verbs_transport.open(&mine, &b->t[r]);
		if (!rc)
			rc = verbs_transport.admit(b->t[r], &keys);
		if (!rc)
			rc = verbs_transport.record(b->t[r], record[r], &n[r]);
	}
	for (int r = 0; r < 2 && !rc; r++)
		rc = verbs_transport.connect(b->t[r], 1 - r, record[1 - r], n[1 - r], &b->e[r]);
	return rc;
}

static int connect_both(struct both *b)
{
	const uint64_t until = now_ns() + (uint64_t)CONNECT_MS * NS_PER_MS;
	struct event events[16];

	for (int ready = 0; ready < 2;) {
		ready = 0;
		for (int r = 0; r < 2; r++) {
			int rc;

			verbs_transport.poll(b->t[r], events, 16);
			rc = verbs_transport.ready(b->e[r]);
			if (rc < 0)
				return rc;
			ready += rc;
		}
		if (now_ns() > until)
			return fail(SLUICE_ETIMEDOUT,
				    "verbs: %s could not connect to itself within %d s",
				    b->t[0]->device, CONNECT_MS / 1000);
		sched_yield();
	}
	return SLUICE_OK;
}

/* A driver that does not support dma-bufs refuses before it looks at the descriptor, so a wrong
 * descriptor is enough for the test. */
static int refuses_dmabuf(struct ibv_pd *pd)
{
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(pd, 0, PAGE_BYTES, 0, -1, IBV_ACCESS_LOCAL_WRITE);
	const int err = mr ? 0 : errno;

	register_end(&mr);
	return err == EBADF ? 0 : err;
}

static int accepts_relaxed(struct ibv_pd *pd)
{
	static uint8_t page[PAGE_BYTES] __attribute__((aligned(PAGE_BYTES)));
	struct ibv_mr *mr = ibv_reg_mr(pd, page, sizeof(page), IBV_ACCESS_RELAXED_ORDERING);
	const int accepts = mr != NULL;

	register_end(&mr);
	return accepts;
}

static int measure(const struct both *b, struct card_facts *out)
{
	enum {
		ATTRIBUTES = IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			     IBV_QP_MIN_RNR_TIMER | IBV_QP_AV
	};
	const struct verbs_parts parts = verbs_parts_of(b->e[0]);
	enum relaxed relaxed = RELAXED_NONE;
	struct ibv_qp_init_attr unused;
	struct ibv_pd *pd;
	int err = 0;

	snprintf(out->device, sizeof(out->device), "%s", parts.device->name);
	out->port = parts.device->port;
	out->requests = parts.sizes->log_entries;
	out->inline_bytes = parts.sizes->inline_bytes;
	out->pair_pinned = parts.sizes->pair_pinned;
	for (int r = 0; r < 2 && !err; r++)
		err = ibv_query_qp(verbs_parts_of(b->e[r]).qp, &out->side[r], ATTRIBUTES, &unused);
	if (err)
		return fail(SLUICE_EDEVICE, "verbs: ibv_query_qp: %s", errno_text(err));
	pd = ibv_alloc_pd(parts.qp->context);
	if (!pd)
		return verbs_failed("ibv_alloc_pd");
	if (!prove_windows(pd, parts.device, &relaxed, &out->longest_window, out->no_windows))
		out->no_windows[0] = '\0';
	out->relaxed = accepts_relaxed(pd);
	out->dmabuf = refuses_dmabuf(pd);
	ibv_dealloc_pd(pd);
	return SLUICE_OK;
}

int card_facts_measure(const struct transport_config *config, struct card_facts *out)
{
	struct both b = { 0 };
	int rc;

	*out = (struct card_facts){ 0 };
	rc = open_both(config, &b);
	if (!rc)
		rc = connect_both(&b);
	if (!rc)
		rc = measure(&b, out);
	for (int r = 0; r < 2; r++)
		verbs_transport.close(&b.t[r]);
	return rc;
}

/* See InfiniBand Architecture Specification, 9.7.5.2.8. Code 0 is the longest time. */
double card_facts_rnr_us(unsigned code)
{
	static const uint16_t tens[32] = { 65535, 1,    2,    3,     4,     6,     8,     12,
					   16,    24,   32,   48,    64,    96,    128,   192,
					   256,   384,  512,  768,   1024,  1536,  2048,  3072,
					   4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152 };

	return 10.0 * (code ? tens[code & 31] : 65536);
}
