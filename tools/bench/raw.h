/* SPDX-License-Identifier: BSD-3-Clause
 * The speed of the machine itself between the two processes of a pair: memory that both map, memcpy
 * into it, and polling. Sluice is only used so that the two find each other. */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H
#include "tools/bench/pair.h"
#include "tools/bench/samples.h"

struct raw {
	uint8_t *shared; /* two halves, one written by each rank; NULL: there is no shared memory */
	uint8_t *private;
	size_t half;
};

/* Collective. Leaves raw->shared NULL if the two processes cannot share memory (two nodes). */
int raw_open(struct raw *raw, struct pair *pair);
void raw_close(struct raw *raw);
/* Measures half a round trip of memcpy and polling in microseconds, per round. Called by both ranks
 * of the pair. */
int raw_ping_pong(struct raw *raw, struct pair *pair, size_t bytes, uint64_t rounds,
		  struct samples *us);
/* Returns the seconds for `count` copies of `bytes` bytes to (out) or from the shared memory.
 * Called only by the first rank. */
double raw_copy(struct raw *raw, size_t bytes, uint64_t count, int out);
#endif
