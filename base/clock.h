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
#endif
