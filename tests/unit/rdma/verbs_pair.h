/* SPDX-License-Identifier: BSD-3-Clause
 * Two ranks of the verbs transport in one thread, over fake_fabric.h: opened, connected, polled in
 * turn, closed. For the tests of rdma/verbs*.c. */
#ifndef TESTS_VERBS_PAIR_H
#define TESTS_VERBS_PAIR_H
#include "tests/fakes/verbs/fake_fabric.h"
#include "rdma/frame.h"
#include "rdma/transport.h"

enum { PAIR_EVENTS = 4096, PAIR_LOST_MS = 1500, PAIR_LINK_LOST_MS = 60000, PAIR_LINE = 256 };

struct verbs_pair {
	struct region *control[2];
	struct transport *t[2];
	struct endpoint *e[2];
	uint8_t record[2][TRANSPORT_RECORD_BYTES];
	size_t record_bytes[2];
	struct event events[2][PAIR_EVENTS];
	int n_events[2];
};

/* pair_memory_windows: "auto" (windows on this card) or "no" (a domain for each peer). */
/* Values of the settings with these names. */
extern const char *pair_traffic_class, *pair_service_level, *pair_gid_index;
/* 1: there is no connection manager. */
extern int pair_no_manager;
/* Number of ranks of the job. More than 2: only ranks 0 and 1 exist, and expect no other peer at
 * the start. */
extern int pair_ranks;
/* enum ibv_mtu of the two ranks' ports; 0: fake.mtu. */
extern uint8_t pair_mtu[2];
extern const char *pair_memory_windows, *pair_relaxed_ordering;
/* Limit for a lost link: PAIR_LINK_LOST_MS. */
extern int pair_link_lost_ms;
/* Returns 0 or the first SLUICE_E*. Resets the card's counters. Open objects stay open until
 * pair_close(). */
int pair_open(struct verbs_pair *p, uint32_t queue_depth);
/* Returns 0 when both endpoints are ready, the error of one of them, or SLUICE_ETIMEDOUT. */
int pair_connect(struct verbs_pair *p);
void pair_close(struct verbs_pair *p);
/* Polls both sides, or one side, once. */
void pair_poll(struct verbs_pair *p);
void pair_poll_side(struct verbs_pair *p, int side);
/* Polls until side has had n events of this kind. Returns 0, or -1 after some seconds. */
int pair_wait(struct verbs_pair *p, int side, enum event_kind kind, int n);
int pair_count(const struct verbs_pair *p, int side, enum event_kind kind);
/* Describes a region of side to the other side once the connection is up. */
int pair_describe(struct verbs_pair *p, int side, const struct region *region, uint8_t *descriptor);
/* Opens a region of side at the other side. */
int pair_share(struct verbs_pair *p, int side, const struct region *region, struct remote **out);
/* Returns the region of rank 1 as described to rank 0. */
struct verbs_region described(struct verbs_pair *p, const struct region *region);
#endif
