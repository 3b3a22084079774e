/* SPDX-License-Identifier: BSD-3-Clause
 * Two ranks and the windows through which they exchange messages. All other ranks only take part in
 * the collectives. */
#ifndef BENCH_PAIR_H
#define BENCH_PAIR_H
#include "sluice_region.h"
#include <stddef.h>
#include <stdint.h>

enum pair_role { ROLE_BYSTANDER, ROLE_FIRST, ROLE_SECOND }; /* ROLE_FIRST measures */

struct pair {
	sluice_job *job;
	sluice_region *region;
	enum pair_role role;
	int first, second, other; /* ranks; other: the partner of this rank */
	size_t half;              /* bytes in half of the window: first the incoming half, then
				     the outgoing */
	uint8_t *in, *out;
	uint64_t notified;  /* number of the other rank's notifies that this rank has waited for */
	char transport[16]; /* the transport of the pair: "shm", "verbs", "ofi" */
	int by_polling;     /* 1: messages arrive only while this rank calls the library */
};

/* Opens the window for messages of up to `most` bytes. Collective. Returns 0 or SLUICE_E*. */
int pair_open(struct pair *pair, sluice_job *job, int second, size_t most);
void pair_close(struct pair *pair);

/* Sends the first rank's number to all ranks. Collective. */
int pair_agree(struct pair *pair, double *value);

/* Puts `bytes` bytes of the outgoing half at the start of the other rank's incoming half. */
int pair_put(struct pair *pair, size_t bytes, int notify);
/* Waits for one more notify of the other rank. */
int pair_wait(struct pair *pair);

/* Marks the first and last byte of a message of `bytes` bytes. Stamps are 1, 2 .. 255, 1, ... */
void stamp_write(uint8_t *message, size_t bytes, uint64_t round);
/* Polls memory until it has the stamp. If nothing arrives, checks whether the job has failed.
 * Returns 0 or SLUICE_E*. */
int stamp_poll(struct pair *pair, const uint8_t *message, size_t bytes, uint64_t round);
#endif
