/* SPDX-License-Identifier: BSD-3-Clause
 * How long a connection is tried for: what one try may take, when the next one begins, and when the
 * peer is given up. All times follow from the job's limit for a lost peer. Called by link.c. */
#ifndef RDMA_RETRY_H
#define RDMA_RETRY_H
#include <stdint.h>

enum { RETRY_PROBE_MS = 500 };

/* Only retry.c looks into it. */
struct retry {
	int lost_after_ms, client;
	uint64_t timer_ns, give_up_ns; /* 0: not running */
	unsigned tries, refusals, breaks;
	uint64_t moved; /* what had come through when the connection broke last */
	int was_up;
};

/* The client begins at once. The server looks for a client that does not come. */
struct retry retry_begin(int lost_after_ms, int client, uint64_t now);

/* What one try may take. */
int retry_try_ms(const struct retry *p);
/* Starts the timer: for what one try may take; for this long; not at all. */
void retry_await(struct retry *p, uint64_t now);
void retry_sleep(struct retry *p, uint64_t now, uint32_t ms);
void retry_rest(struct retry *p);
/* The timer has run out; the time to make a lost connection again is over. */
int retry_is_due(const struct retry *p, uint64_t now);
int retry_is_over(const struct retry *p, uint64_t now);

/* A try came to nothing; starts the timer for the next one. Returns how many tries that makes. */
unsigned retry_failed(struct retry *p, uint64_t now);
/* A proof was refused; nobody listens at the peer's address. Returns whether that is the end. */
int retry_refused(struct retry *p);
int retry_alone(const struct retry *p);
/* The connection is up. */
void retry_succeeded(struct retry *p);
int retry_was_up(const struct retry *p);
/* The connection, if it was up, is to be made again within the time from now, unless that runs
 * already. Returns whether it began to run. */
int retry_hurry(struct retry *p, uint64_t now);
/* The connection is lost, after moved transfers in all. Starts the time to make it again. Returns
 * whether it broke too often. */
int retry_lost(struct retry *p, uint64_t now, uint64_t moved);
#endif
