/* SPDX-License-Identifier: BSD-3-Clause
 * How long a card repeats a packet, and how long a link tries to connect: the time limit of one
 * try, the start of the next one, and when the peer is given up. These times derive from the job's
 * limit for a lost process, so a process that ended is noticed in time. A link tries to restore a
 * broken connection until the limit for a lost link. Called by link.c; the constants also by the
 * files that set up queue pairs.
 */
#ifndef RDMA_RETRY_H
#define RDMA_RETRY_H
#include <stdint.h>

enum {
	RETRY_PROBE_MS = 500,
	/* A card repeats an unacknowledged packet after 4.096 us * 2^16 = 268 ms; some cards take
	 * up to four times that. A broken connection is therefore detected after 1.9 s. A shorter
	 * time would repeat packets that only wait in a switch. A longer time costs more if the
	 * last packet of a transfer is lost. A broken connection loses no data, so this number does
	 * not decide how long a link may be down. */
	RETRY_ACK_TIMEOUT = 16
};

/* Only retry.c reads the members. */
struct retry {
	int lost_after_ms, link_lost_after_ms, client;
	uint64_t timer_ns, give_up_ns; /* 0: not running */
	unsigned tries, refusals, breaks;
	uint64_t moved; /* the number of transfers at the last break */
	int was_up;
};

/* Begins with a client that connects at once, or with a server that first waits, and then checks a
 * client that has not connected. */
struct retry retry_begin(int lost_after_ms, int link_lost_after_ms, int client, uint64_t now);

/* Returns the time limit of one try. */
int retry_try_ms(const struct retry *retry);
/* retry_await() starts the timer for one try. retry_sleep() starts it for ms milliseconds.
 * retry_rest() stops it. */
void retry_await(struct retry *retry, uint64_t now);
void retry_sleep(struct retry *retry, uint64_t now, uint32_t ms);
void retry_rest(struct retry *retry);
/* retry_is_due() returns 1 if the timer has expired. retry_is_over() returns 1 if the time to
 * reconnect is over. */
int retry_is_due(const struct retry *retry, uint64_t now);
int retry_is_over(const struct retry *retry, uint64_t now);

/* Records a failed try and starts the timer for the next one. Returns the number of tries. */
unsigned retry_failed(struct retry *retry, uint64_t now);
/* Called after the peer has refused a proof (retry_refused()), or if nobody listens at its address
 * (retry_alone()). Both return 1 if the caller must give up the peer. */
int retry_refused(struct retry *retry);
int retry_alone(const struct retry *retry);
/* Called when the connection is up. */
void retry_succeeded(struct retry *retry);
int retry_was_up(const struct retry *retry);
/* If the connection was up and the time to reconnect does not run yet, starts that time and returns
 * 1. */
int retry_hurry(struct retry *retry, uint64_t now);
/* Records that the connection is lost after `moved` transfers in total, and starts the time to
 * reconnect. Returns 1 if the connection has broken too often. */
int retry_lost(struct retry *retry, uint64_t now, uint64_t moved);
#endif
