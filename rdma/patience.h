/* SPDX-License-Identifier: BSD-3-Clause
 * How long a connection is tried for: what one try may take, when the next one begins, and when the
 * peer is given up. All times follow from the job's limit for a lost peer. Called by link.c. */
#ifndef RDMA_PATIENCE_H
#define RDMA_PATIENCE_H
#include <stdint.h>

enum { PATIENCE_PROBE_MS = 500 };

/* Only patience.c looks into it. */
struct patience {
	int lost_after_ms, client;
	uint64_t timer_ns, give_up_ns; /* 0: not running */
	unsigned tries, refusals, breaks;
	uint64_t moved; /* what had come through when the connection broke last */
	int was_up;
};

/* The client begins at once. The server looks for a client that does not come. */
struct patience patience_begin(int lost_after_ms, int client, uint64_t now);

/* What one try may take. */
int patience_try_ms(const struct patience *p);
/* Starts the timer: for what one try may take; for this long; not at all. */
void patience_await(struct patience *p, uint64_t now);
void patience_sleep(struct patience *p, uint64_t now, uint32_t ms);
void patience_rest(struct patience *p);
/* The timer has run out; the time to make a lost connection again is over. */
int patience_is_due(const struct patience *p, uint64_t now);
int patience_is_over(const struct patience *p, uint64_t now);

/* A try came to nothing; starts the timer for the next one. Returns how many tries that makes. */
unsigned patience_failed(struct patience *p, uint64_t now);
/* A proof was refused; nobody listens at the peer's address. Returns whether that is the end. */
int patience_refused(struct patience *p);
int patience_alone(const struct patience *p);
/* The connection is up. */
void patience_succeeded(struct patience *p);
int patience_was_up(const struct patience *p);
/* The connection, if it was up, is to be made again within the time from now, unless that runs
 * already. Returns whether it began to run. */
int patience_hurry(struct patience *p, uint64_t now);
/* The connection is lost, after moved transfers in all. Starts the time to make it again. Returns
 * whether it broke too often. */
int patience_lost(struct patience *p, uint64_t now, uint64_t moved);
#endif
