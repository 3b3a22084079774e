/* SPDX-License-Identifier: BSD-3-Clause
 * Two ranks and the window between them; all other ranks only take part in the collectives. */
#ifndef BENCH_PAIR_H
#define BENCH_PAIR_H
#include "sluice_region.h"
#include <stddef.h>
#include <stdint.h>

enum pair_role { ROLE_BYSTANDER, ROLE_FIRST, ROLE_SECOND }; /* the first one measures */

struct pair {
	sluice_job *job;
	sluice_region *region;
	enum pair_role role;
	int first, second, other; /* ranks; other: this rank's partner */
	size_t half;              /* bytes: the window is an incoming half, then an outgoing half */
	uint8_t *in, *out;
	uint64_t notified;  /* notifies of the other rank waited for so far */
	char transport[16]; /* the transport of the pair: "shm", "verbs", "ofi" */
	int by_polling;     /* messages arrive only while this rank calls the library */
};

/* Opens the window for messages of up to `most` bytes. Collective. Returns 0 or SLUICE_E*. */
int pair_open(struct pair *pair, sluice_job *job, int second, size_t most);
void pair_close(struct pair *pair);

/* Gives the first rank's number to all ranks. Collective. */
int pair_agree(struct pair *pair, double *value);

/* Puts `bytes` of the outgoing half at the start of the other's incoming half. */
int pair_put(struct pair *pair, size_t bytes, int notify);
/* Waits for one more notify of the other rank. */
int pair_wait(struct pair *pair);

/* Marks a message of `bytes` bytes by its first and last byte; stamps are 1, 2 .. 255, 1, ... */
void stamp_write(uint8_t *message, size_t bytes, uint64_t round);
/* Polls memory until it shows the stamp. If nothing comes, checks whether the job has failed.
 * Returns 0 or SLUICE_E*. */
int stamp_poll(struct pair *pair, const uint8_t *message, size_t bytes, uint64_t round);
#endif
