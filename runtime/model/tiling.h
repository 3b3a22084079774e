/* SPDX-License-Identifier: BSD-3-Clause
 * Records which coordinates of a vector have arrived, in ranges of any order. Called by
 * worker/push.c. Pure. */
#ifndef RUNTIME_TILING_H
#define RUNTIME_TILING_H
#include <stddef.h>
#include <stdint.h>

/* A set of ranges. Must be zeroed before the first use. The memory grows with the number of
 * separate ranges, and is reused. */
struct tiling {
	struct tile {
		uint64_t begin, end;
	} * tiles; /* ascending; adjacent ranges are merged */
	size_t n, room;
};

/* Adds [begin, end), where begin < end. Returns 0 or SLUICE_ENOMEM. If the range overlaps an
 * earlier one, returns SLUICE_EINVAL without a message, and sets *taken_out to the first coordinate
 * that is in both. On failure, nothing changes. */
int tiling_add(struct tiling *t, uint64_t begin, uint64_t end, uint64_t *taken_out);
int tiling_covers(const struct tiling *t, uint64_t begin, uint64_t end);
/* Returns the lowest coordinate that no range covers. */
uint64_t tiling_gap(const struct tiling *t);
void tiling_clear(struct tiling *t);
void tiling_free(struct tiling *t);
#endif
