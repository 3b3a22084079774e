/* SPDX-License-Identifier: BSD-3-Clause
 * Which coordinates of a vector are there already, when it arrives in ranges of any order. Called
 * by step.c. Pure. */
#ifndef RUNTIME_TILING_H
#define RUNTIME_TILING_H
#include <stddef.h>
#include <stdint.h>

/* Zeroed before the first use. Memory grows with the number of separate pieces, and is kept. */
struct tiling {
	struct tile {
		uint64_t begin, end;
	} * tiles; /* ascending; adjacent ones are one */
	size_t n, room;
};

/* Adds [begin, end), begin < end. 0; SLUICE_EINVAL where it overlaps what is there (*taken_out: the
 * first such coordinate; no sentence set), SLUICE_ENOMEM; nothing changes then. */
int tiling_add(struct tiling *t, uint64_t begin, uint64_t end, uint64_t *taken_out);
int tiling_covers(const struct tiling *t, uint64_t begin, uint64_t end);
/* The lowest coordinate that is not there. */
uint64_t tiling_gap(const struct tiling *t);
void tiling_clear(struct tiling *t);
void tiling_free(struct tiling *t);
#endif
