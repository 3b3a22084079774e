/* SPDX-License-Identifier: BSD-3-Clause
 * Monotonic time in nanoseconds. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H
#include <stdint.h>
#include <time.h>

enum { NS_PER_MS = 1000000 };

static inline uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Returns the time until then, rounded up, and 0 if it has passed. */
static inline int ms_until(uint64_t then_ns, uint64_t now)
{
	return then_ns > now ? (int)((then_ns - now) / NS_PER_MS) + 1 : 0;
}

/* The end of a wait that polls: a time, and then 100 more polls. A process that does not run,
 * because the machine is busy or the process is stopped, does not poll either, so the time alone
 * proves nothing. */
struct poll_limit {
	uint64_t until_ns;
	unsigned polls; /* number of polls since then */
};

static inline struct poll_limit poll_limit_after_ms(unsigned ms)
{
	return (struct poll_limit){ .until_ns = now_ns() + (uint64_t)ms * NS_PER_MS };
}

/* To be called once for each poll. */
static inline int poll_limit_reached(struct poll_limit *limit)
{
	enum { POLLS_LEAST = 100 };

	return now_ns() >= limit->until_ns && limit->polls++ >= POLLS_LEAST;
}
#endif
