/* SPDX-License-Identifier: BSD-3-Clause
 * What the machine itself can do between the two processes of a pair: memory that both map, memcpy
 * into it and polling. No Sluice on the way; it only helps the two to meet. */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H
#include "tools/bench/pair.h"
#include "tools/bench/samples.h"

struct raw {
	uint8_t *shared; /* two halves: what the first, and what the second rank writes; NULL:
			  * none */
	uint8_t *private;
	size_t half;
};

/* Collective. Leaves raw->shared NULL where the two processes cannot share memory (two nodes). */
int raw_open(struct raw *raw, struct pair *pair);
void raw_close(struct raw *raw);
/* Microseconds of half a round trip of memcpy and polling, per round. Both ranks of the pair. */
int raw_ping_pong(struct raw *raw, struct pair *pair, size_t bytes, uint64_t rounds,
		  struct samples *us);
/* Seconds for `count` copies of `bytes` into (out) or out of the shared memory. First rank only. */
double raw_copy(struct raw *raw, size_t bytes, uint64_t count, int out);
#endif
