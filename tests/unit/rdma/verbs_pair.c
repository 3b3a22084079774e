/* SPDX-License-Identifier: BSD-3-Clause
 * See verbs_pair.h. */
#include "verbs_pair.h"
#include "base/clock.h"
#include "base/error.h"
#include "rdma/auth.h"
#include "sluice.h"
#include "cases.h"
#include <errno.h>
#include <string.h>
#include <sched.h>
#include <unistd.h>

enum { WAIT_MS = 20000, RANKS_MOST = 512 };

int pair_no_manager;

int __wrap_access(const char *path, int mode);
int __real_access(const char *path, int mode);

/* Simulates the existence of a connection manager. */
int __wrap_access(const char *path, int mode)
{
	if (strcmp(path, "/dev/infiniband/rdma_cm") != 0)
		return __real_access(path, mode);
	errno = ENOENT;
	return pair_no_manager ? -1 : 0;
}

const char *pair_traffic_class, *pair_service_level, *pair_gid_index;
uint8_t pair_mtu[2];
int pair_ranks = 2;
const char *pair_memory_windows = "auto", *pair_relaxed_ordering = "auto";
int pair_link_lost_ms = PAIR_LINK_LOST_MS;

int pair_open(struct verbs_pair *p, uint32_t queue_depth)
{
	static uint8_t key[RANKS_MOST][AUTH_KEY_BYTES];
	int rc = 0;

	memset(p, 0, sizeof(*p));
	memset(key, 7, sizeof(key));
	for (int r = 0; r < 2 && rc == 0; r++) {
		struct transport_config config = { .rank = r,
						   .size = pair_ranks,
						   .expected = 1,
						   .queue_depth = queue_depth,
						   .lost_after_ms = PAIR_LOST_MS,
						   .link_lost_after_ms = pair_link_lost_ms,
						   .control_line_bytes = PAIR_LINE,
						   .memory_windows = pair_memory_windows,
						   .gid_index = pair_gid_index,
						   .traffic_class = pair_traffic_class,
						   .service_level = pair_service_level,
						   .relaxed_ordering = pair_relaxed_ordering };
		const struct peer_keys keys = { .rank = r,
						.size = pair_ranks,
						.wire_version = 1,
						.key = (const uint8_t(*)[32])key };

		if (pair_mtu[r])
			fake.mtu = pair_mtu[r];
		rc = region_open((size_t)pair_ranks * PAIR_LINE, REGION_WRITE, "control",
				 &p->control[r]);
		config.control = p->control[r];
		if (rc == 0)
			rc = verbs_transport.open(&config, &p->t[r]);
		if (rc == 0)
			rc = verbs_transport.admit(p->t[r], &keys);
		if (rc == 0)
			rc = verbs_transport.record(p->t[r], p->record[r], &p->record_bytes[r]);
	}
	for (int r = 0; r < 2 && rc == 0; r++)
		rc = verbs_transport.connect(p->t[r], 1 - r, p->record[1 - r],
					     p->record_bytes[1 - r], &p->e[r]);
	fake_counts.access_errors = 0; /* caused by the check that a window refuses access */
	return rc == 0 ? pair_connect(p) : rc;
}

int pair_connect(struct verbs_pair *p)
{
	uint64_t until = now_ns() + (uint64_t)WAIT_MS * 1000000;

	do {
		int a, b;

		pair_poll(p);
		a = verbs_transport.ready(p->e[0]);
		b = verbs_transport.ready(p->e[1]);
		if (a < 0 || b < 0)
			return a < 0 ? a : b;
		if (a && b)
			return 0;
		sched_yield();
	} while (now_ns() < until);
	return SLUICE_ETIMEDOUT;
}

void pair_close(struct verbs_pair *p)
{
	for (int r = 0; r < 2; r++)
		verbs_transport.close(&p->t[r]);
	for (int r = 0; r < 2; r++)
		region_close(&p->control[r]);
}

void pair_poll_side(struct verbs_pair *p, int side)
{
	int room = PAIR_EVENTS - p->n_events[side];

	p->n_events[side] += verbs_transport.poll(p->t[side], p->events[side] + p->n_events[side],
						  room);
}

void pair_poll(struct verbs_pair *p)
{
	pair_poll_side(p, 0);
	pair_poll_side(p, 1);
}

int pair_count(const struct verbs_pair *p, int side, enum event_kind kind)
{
	int n = 0;

	for (int i = 0; i < p->n_events[side]; i++)
		n += p->events[side][i].kind == kind;
	return n;
}

int pair_wait(struct verbs_pair *p, int side, enum event_kind kind, int n)
{
	uint64_t until = now_ns() + (uint64_t)WAIT_MS * 1000000;

	while (pair_count(p, side, kind) < n) {
		if (now_ns() > until)
			return -1;
		pair_poll(p);
		sched_yield();
	}
	return 0;
}

int pair_describe(struct verbs_pair *p, int side, const struct region *region, uint8_t *descriptor)
{
	int rc;

	while ((rc = verbs_transport.describe(p->e[side], region, descriptor)) == SLUICE_EAGAIN)
		pair_poll(p);
	return rc;
}

int pair_share(struct verbs_pair *p, int side, const struct region *region, struct remote **out)
{
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
	int rc = pair_describe(p, side, region, descriptor);

	return rc == 0 ? verbs_transport.remote_open(p->e[1 - side], descriptor, out) : rc;
}

struct verbs_region described(struct verbs_pair *p, const struct region *region)
{
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
	struct verbs_region wire;

	assert_int_equal(pair_describe(p, 1, region, descriptor), 0);
	assert_int_equal(verbs_region_decode(descriptor, 1, 0, &wire), 0);
	return wire;
}
